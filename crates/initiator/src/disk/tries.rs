//! One try of a command, on one path.

use std::time::Duration;

use scsi::Status;

use super::cdb::{self, Blocks};
use super::core::{Command, Core};
use super::judge::{is_miscompare, judge};
use crate::paths::{OpId, PathId, Verdict};
use crate::session::{CommandError, Pending, Reply, Session, Transfer};

/// The least time of a command, however little is left of its limit.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

impl Core {
    /// Gives the command to the path's session.
    pub(super) fn begin(&self, path: PathId, op: OpId, command: &Command) -> Pending {
        let Some(session) = self.path(path).trusted_session() else { return Pending::not_sent() };
        let mut request = self.request(command.cdb, command.transfer.clone());
        request.timeout = request.timeout.min(self.time_for(path, op));
        session.execute(request)
    }

    /// What does not end in time has to be aborted within the limit, too.
    fn time_for(&self, path: PathId, op: OpId) -> Duration {
        let left = self.router.borrow().time_left(op, self.now());
        let abort = self.path(path).options.abort_timeout;
        left.saturating_sub(abort).max(left / 2).max(TIMEOUT_MIN)
    }

    pub(super) async fn try_once(
        &self,
        path: PathId,
        (op, command): (OpId, &Command),
        was_sent: bool,
    ) -> Result<Reply, CommandError> {
        let session = self.path(path).trusted_session().ok_or(CommandError::NotSent)?;
        let left = self.time_for(path, op);
        let reply = self.begin(path, op, command).await?;
        let is_open = was_sent && is_miscompare(&reply) && self.is_sole_writer;
        match (command.resolve, &command.transfer) {
            (Some(blocks), Transfer::Out(data)) if is_open => {
                let limit = ring::timeout(left, self.resolve(&session, blocks, data, reply));
                limit.await.unwrap_or(Err(CommandError::TargetFailure))
            }
            _ => Ok(reply),
        }
    }

    /// A repeated COMPARE AND WRITE does not find what it compares with. If the medium holds what it
    /// was to write, its first copy has written that: hosts compare and write locks and heartbeats,
    /// which nobody else would write byte by byte the same. Its range is still closed to changes of
    /// our own. While nobody can tell what the medium holds, nothing is said of the comparison.
    async fn resolve(
        &self,
        session: &Session,
        blocks: Blocks,
        data: &ring::Data,
        reply: Reply,
    ) -> Result<Reply, CommandError> {
        let half = data.len() / 2;
        let len = u32::try_from(half).expect("a compare is short");
        let mut wanted = vec![0; half];
        data.copy_to(half, &mut wanted);
        loop {
            let found = session.execute(self.request(cdb::read(blocks), Transfer::In(len))).await;
            match (judge(&found).verdict, found) {
                (Verdict::Done, Ok(found)) if found.is_good() => {
                    let is_ours = found.data.as_slice() == Some(&wanted[..]);
                    let (status, data) = (Status::Good, ring::Data::default());
                    return Ok(if is_ours {
                        Reply { status, sense: None, data, ..reply }
                    } else {
                        reply
                    });
                }
                (Verdict::Repeat, Ok(_)) => {}
                (_, Err(error)) => return Err(error),
                _ => return Err(CommandError::TargetFailure),
            }
        }
    }
}
