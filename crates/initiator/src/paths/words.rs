//! What a [`Router`] is told, and what it asks for.

use std::ops::Range;
use std::time::Duration;

use scsi::alua::AccessState;

use super::PathId;
#[cfg(doc)]
use super::Router;

/// What matters of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The bytes of the disk that it changes; `None` if it changes nothing.
    pub changes: Option<Range<u64>>,
    /// How much data it moves.
    pub len_bytes: u32,
    /// The first byte of the disk that it is about, if it is about any.
    pub at: Option<u64>,
}

/// How a try of a command went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The command has its answer, good or bad.
    Done,
    /// Nothing was sent, for the path does not work.
    NotSent,
    /// It was sent, and the path was lost.
    InDoubt {
        /// The number of the loss, which [`Router::fenced`] will name.
        loss: u64,
    },
    /// It took too long, and has ended without an answer.
    Aborted,
    /// A read that has no answer on a path that has gone silent: it is not waited for.
    Abandoned,
    /// Later on any path: BUSY, TASK SET FULL, becoming ready, no memory.
    Later {
        /// After this.
        pause: Duration,
    },
    /// At once on any path, but not for ever: an aborted command, a failure without a reason.
    Again,
    /// At once on any path, and however often: a unit attention, a task that somebody else ended.
    /// Every session has attentions of its own, so their number says nothing.
    Repeat,
    /// On another path at once, else later: the unit is not ready here.
    NotReady {
        /// Where no other path is left, after this.
        pause: Duration,
    },
    /// At once, on another path if there is one: the blocks are not reached through this one.
    Elsewhere,
    /// Not through this path: its ALUA state has changed.
    Inaccessible {
        /// Its state.
        access: AccessState,
    },
}

/// Why a command fails without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No path worked, or the command did not get through, for too long.
    #[error("no path to the disk has worked within the time limit")]
    Unreachable,
    /// The target asked for it again and again.
    #[error("the target asked for the command again too often")]
    TooManyRetries,
}

/// A command of a [`Router`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpId {
    /// A small number, free for another command once this one is over.
    pub slot: usize,
    pub(super) serial: u64,
}

/// What the caller has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send the command on the path, and tell [`Router::tried`] how it went.
    Send {
        /// The command.
        op: OpId,
        /// The path.
        path: PathId,
    },
    /// Send a read on a second path as well, and tell [`Router::tried_beside`] how that went. The first
    /// answer counts; what is left then is a straggler ([`Router::straggler_over`]).
    Hedge {
        /// The command.
        op: OpId,
        /// The second path.
        path: PathId,
    },
    /// The command has failed and is over.
    Fail {
        /// The command.
        op: OpId,
        /// Why.
        failure: Failure,
    },
    /// Make sure through `via` that nothing can come any more of what is in doubt
    /// ([`Router::doubts`]), by resetting the unit; then call [`Router::fenced`] for each, and
    /// [`Router::fence_ended`] in any case. No other is asked for before that.
    Fence {
        /// The path to act through.
        via: PathId,
    },
}
