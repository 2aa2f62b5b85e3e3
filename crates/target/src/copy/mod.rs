//! The copy manager.
use crate::ffp::Outcome;
use crate::task::Task;
use std::rc::Rc;
#[derive(Debug, Default)]
pub(crate) struct CopyManager;
pub(crate) async fn run(_task: &Rc<Task>) -> Outcome {
    Outcome::Check(scsi::Sense::invalid_opcode())
}
