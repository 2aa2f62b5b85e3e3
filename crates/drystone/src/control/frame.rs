//! What comes back over the control socket.

use array::api::JobInfo;
use serde::{Deserialize, Serialize};

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Frame<T> {
    /// It goes on.
    Progress(Vec<JobInfo>),
    /// It is done; nothing follows.
    Done(T),
    /// It was refused or failed, and why, in one sentence; nothing follows.
    Failed(String),
}
