//! The copy manager (SPC-4 §5.17, SBC-4 §4.28): copies between logical units of this server, or
//! within one, without the data going over the network. There is one for all targets; a host reaches
//! the units of those that let in the same hosts as the one it is logged in to.
//!
//! What the commands mean is the business of [`scsi::copy`]. Here it is done: [`extended`] is
//! EXTENDED COPY(LID1), [`offload`] the token commands of Windows (ODX), [`results`] tells what
//! became of either, [`transfer`] moves the data through the
//! memory that [`slots`] count, and [`manager`] keeps what outlives a command.
//!
//! **Tokens.** A token stands for blocks, not for a copy of them: there are no snapshots. Yet whoever
//! uses one expects the data of the time it was made. So each change to such a block, by whatever
//! command, revokes the token before the block changes, and a copy looks at its token again after
//! each read and before the data goes on: what arrives is the data of that time, or an error that
//! sends the host back to reading and writing itself. See
//! [`UnitTokens::changed`](crate::tokens::UnitTokens::changed).

mod extended;
mod job;
mod manager;
mod offload;
mod results;
mod slots;
#[cfg(test)]
mod tests;
mod transfer;

use std::net::IpAddr;
use std::sync::Arc;

use scsi::copy::{CopyAction, CopyId};
use scsi::nexus::NexusKey;

use crate::unit::Unit;

pub(crate) use extended::copy as extended_copy;
pub(crate) use manager::CopyManager;
pub(crate) use offload::{populate as populate_token, write as write_using_token};
pub(crate) use results::receive as receive_results;

/// Who wants something copied, and to which unit the command was sent.
pub(crate) struct Request {
    pub(crate) copies: Arc<CopyManager>,
    pub(crate) unit: Arc<Unit>,
    pub(crate) key: NexusKey,
    /// Where it comes from.
    pub(crate) host: IpAddr,
    /// The command was aborted: nothing more is copied, and nobody waits for an answer.
    pub(crate) aborted: Box<dyn Fn() -> bool>,
}

impl Request {
    fn copy_id(&self, action: CopyAction, list_id: u32) -> CopyId {
        CopyId { nexus: self.key.clone(), action, list_id }
    }
}
