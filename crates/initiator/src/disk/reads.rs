//! A command that changes nothing: on one path, or on two at once when the first is slow.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use block::BlockError;
use ring::wait::Answer;

use super::core::{Command, Core, Step};
use super::judge::failure_of;
use crate::paths::{Failure, OpId, PathId, Verdict};
use crate::session::{CommandError, Pending, Reply};

/// One copy of it.
type Copy = Option<(PathId, Pending)>;

/// What comes next.
enum Next {
    Step(Step),
    First(PathId, Result<Reply, CommandError>),
    Beside(PathId, Result<Reply, CommandError>),
}

impl Core {
    /// Runs a read to its end, as [`Core::run`] does with all commands.
    pub(super) async fn run_read(
        self: &Rc<Self>,
        op: OpId,
        steps: &Answer<Step>,
        command: &Command,
    ) -> Result<Reply, BlockError> {
        let (mut first, mut beside): (Copy, Copy) = (None, None);
        loop {
            let next = poll_fn(|cx| poll_read(steps, &mut first, &mut beside, cx)).await;
            if self.is_closed() {
                return Err(failure_of(Failure::Unreachable));
            }
            let (is_first, path, result) = match next {
                Next::Step(Step::Send(path)) => {
                    first = Some((path, self.begin(path, op, command)));
                    continue;
                }
                Next::Step(Step::Beside(path)) => {
                    beside = Some((path, self.begin(path, op, command)));
                    continue;
                }
                Next::Step(Step::Fail(failure)) => return Err(self.failed(failure)),
                Next::First(path, result) => (true, path, result),
                Next::Beside(path, result) => (false, path, result),
            };
            let verdict = self.hear_answer(path, &result).verdict;
            self.tell(|router, now| match is_first {
                true => router.tried(op, verdict, now),
                false => router.tried_beside(op, verdict, now),
            });
            if verdict == Verdict::Done {
                if let Some((path, pending)) = first.or(beside) {
                    ring::spawn(self.clone().let_straggle(path, pending));
                }
                return Ok(result.expect("only an answer is done"));
            }
            if is_first {
                // The router goes on with the other copy, too.
                first = beside.take();
            }
        }
    }

    /// The path counts as busy with a copy that nobody waits for, until that is over.
    async fn let_straggle(self: Rc<Self>, path: PathId, pending: Pending) {
        // Whatever it says: the path's keeper hears of trouble by itself.
        let _ = pending.await;
        if !self.is_closed() {
            self.tell(|router, now| router.straggler_over(path, now));
        }
    }
}

fn poll_read(
    steps: &Answer<Step>,
    first: &mut Copy,
    beside: &mut Copy,
    cx: &mut Context<'_>,
) -> Poll<Next> {
    // What the router has decided it counts as begun, so that comes first: after a pause of the
    // whole process the answer and the time for another copy are there at once.
    if let Poll::Ready(step) = steps.poll_take(cx) {
        return Poll::Ready(Next::Step(step));
    }
    if let Some((path, result)) = poll_copy(first, cx) {
        return Poll::Ready(Next::First(path, result));
    }
    if let Some((path, result)) = poll_copy(beside, cx) {
        return Poll::Ready(Next::Beside(path, result));
    }
    Poll::Pending
}

/// The answer of a copy, which is over with it.
fn poll_copy(
    copy: &mut Copy,
    cx: &mut Context<'_>,
) -> Option<(PathId, Result<Reply, CommandError>)> {
    let (path, pending) = copy.as_mut()?;
    let path = *path;
    let Poll::Ready(result) = Pin::new(pending).poll(cx) else { return None };
    *copy = None;
    Some((path, result))
}
