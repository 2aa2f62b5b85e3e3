//! SYNCHRONIZE CACHE and PRE-FETCH (SBC-4 §5.14, §5.31).

use std::rc::Rc;

use crate::outcome::{Doing, Outcome, failed};
use crate::session::Task;

/// Makes all earlier writes durable. IMMED would allow an answer before that is done (SBC-4
/// 5.31); there is none, since an early GOOD promises what a power cut can still take back.
pub(super) async fn synchronize(task: &Rc<Task>) -> Outcome {
    let unit = &task.place.unit;
    match unit.device.flush().await {
        Ok(()) => Outcome::Good { moved: 0 },
        Err(error) => failed(unit, error, Doing::Writing),
    }
}

/// PRE-FETCH. There is no cache of our own that the blocks could be said to fit into, so the
/// answer is GOOD and not CONDITION MET, which would promise that all of them are held.
pub(super) fn pre_fetch() -> Outcome {
    Outcome::Good { moved: 0 }
}
