//! A SCSI command as the caller gives it, and what becomes of it.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ring::Data;
use scsi::referrals::Segment;
use scsi::{Sense, Status};

use super::task::Task;

/// The data of a command.
#[derive(Debug, Clone)]
pub enum Transfer {
    /// None.
    None,
    /// At most so many bytes from the target.
    In(u32),
    /// These bytes to the target. They must not change until the command is over.
    Out(Data),
}

/// A SCSI command.
#[derive(Debug, Clone)]
pub struct Request {
    /// The logical unit, as it stands in the PDU (SAM-5 4.7).
    pub lun: u64,
    /// The CDB, with zeroes behind a short one.
    pub cdb: [u8; 16],
    /// Its data.
    pub transfer: Transfer,
    /// After so much time the command is aborted.
    pub timeout: Duration,
}

/// The target's answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// How the command ended; a status that no standard knows counts as BUSY.
    pub status: Status,
    /// Why, with [`Status::CheckCondition`].
    pub sense: Option<Sense>,
    /// Where else the blocks are reached, as the sense data tells; mostly empty.
    pub referrals: Vec<Segment>,
    /// What was read, without what the target left out.
    pub data: Data,
}

impl Reply {
    /// GOOD, or CONDITION MET.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.status, Status::Good | Status::ConditionMet)
    }
}

/// Why there is no answer. What the target may have done tells whether, and when, the command may
/// be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Nothing of it was sent.
    #[error("there is no connection to the target")]
    NotSent,
    /// Its time was up before the target had room for it; nothing of it was sent.
    #[error("the target had no room for the command in time")]
    Crowded,
    /// It was sent, then the connection broke: the target may have done it, or may do it still,
    /// until the nexus' loss of this number is over ([`crate::Session::until_fenced`]).
    #[error("the connection broke before the answer came")]
    InDoubt {
        /// The number of the loss.
        loss: u64,
    },
    /// It took too long. The target has confirmed that it is over, done or not.
    #[error("the command was aborted after its time was up")]
    Aborted,
    /// A task management function of ours has ended it, done or not.
    #[error("the command was ended by task management")]
    Ended,
    /// A read whose answer is not waited for any more ([`crate::Session::is_silent`]).
    #[error("the command is not waited for: the target is silent")]
    Abandoned,
    /// The target failed below SCSI (RFC 7143 11.4.3); the command is over.
    #[error("the target failed without a SCSI status")]
    TargetFailure,
    /// No memory for its data; nothing was sent.
    #[error("out of I/O buffers")]
    NoMemory,
    /// The session was closed; nothing was sent.
    #[error("the session is closed")]
    Closed,
}

/// The future of a command that was given to a session. Dropping it does not stop the command.
#[derive(Debug)]
#[must_use = "the answer comes through this"]
pub struct Pending(State);

#[derive(Debug)]
enum State {
    /// With the error, until that was taken.
    Over(Option<CommandError>),
    Task(Rc<Task>),
}

impl Pending {
    pub(super) fn failed(error: CommandError) -> Self {
        Self(State::Over(Some(error)))
    }

    /// That of a command for which there was no session.
    pub(crate) fn not_sent() -> Self {
        Self::failed(CommandError::NotSent)
    }

    pub(super) fn of(task: Rc<Task>) -> Self {
        Self(State::Task(task))
    }
}

impl Future for Pending {
    type Output = Result<Reply, CommandError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut self.0 {
            State::Over(error) => Err(error.take().expect("not polled after its end")),
            State::Task(task) => ready!(task.answer.poll_take(cx)),
        };
        if let State::Task(task) = std::mem::replace(&mut self.0, State::Over(None)) {
            Task::recycle(task);
        }
        Poll::Ready(answer)
    }
}
