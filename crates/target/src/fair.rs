//! One at a time, from any core, and the addresses have turns: for what costs its host next to nothing and a
//! disk much, where it would be in its own way if many did it at once.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::OneshotSender;

use crate::share;

/// Whoever waits at one address stands in the order of asking. Who is gone is passed over.
#[derive(Debug, Default)]
pub(crate) struct FairTurns(Arc<Mutex<Queue>>);

/// Invariant: nobody waits while it is free, and no address is there without somebody who waits.
#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    waiting: VecDeque<(IpAddr, VecDeque<OneshotSender<FairTurn>>)>,
}

impl Queue {
    fn enter(&mut self, address: IpAddr, give: OneshotSender<FairTurn>) {
        match self.waiting.iter_mut().find(|(other, _)| *other == address) {
            Some((_, turns)) => turns.push_back(give),
            None => self.waiting.push_back((address, VecDeque::from([give]))),
        }
    }

    /// The next one. Its address goes to the end.
    fn leave(&mut self) -> Option<OneshotSender<FairTurn>> {
        let (address, mut turns) = self.waiting.pop_front()?;
        let give = turns.pop_front();
        debug_assert!(give.is_some(), "somebody waits at each address");
        if !turns.is_empty() {
            self.waiting.push_back((address, turns));
        }
        give
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // Nothing panics while it is locked, and each change is one step.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FairTurns {
    /// Waits for the turn of a host at this address.
    pub(crate) async fn take(&self, address: IpAddr) -> FairTurn {
        let turn = {
            let mut queue = lock(&self.0);
            if !queue.is_taken {
                queue.is_taken = true;
                return FairTurn(self.0.clone());
            }
            let (give, turn) = ring::oneshot();
            queue.enter(share::network(address), give);
            turn
        };
        turn.await.expect("a turn is handed on, not dropped")
    }
}

/// The turn of somebody. It is handed to the next when it goes, and passed on by who is gone.
#[derive(Debug)]
pub(crate) struct FairTurn(Arc<Mutex<Queue>>);

impl Drop for FairTurn {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        debug_assert!(queue.is_taken, "this is what was taken");
        match queue.leave() {
            Some(next) => {
                drop(queue);
                next.send(FairTurn(self.0.clone()));
            }
            None => queue.is_taken = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn addresses_have_turns_and_those_who_are_gone_are_passed_over() {
        let turns = FairTurns::default();
        let [a, b] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let first = turns.take(a).now_or_never().expect("it is free");
        let mut second = pin!(turns.take(a));
        let mut gone = Box::pin(turns.take(a));
        let mut third = pin!(turns.take(a));
        let mut other = pin!(turns.take(b));
        assert!(second.as_mut().now_or_never().is_none() && gone.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        drop(first);
        assert!(other.as_mut().now_or_never().is_none(), "it came later");
        let second = second.now_or_never().expect("its turn");
        drop(second);
        assert!(third.as_mut().now_or_never().is_none(), "the other address is next");
        let other = other.now_or_never().expect("its turn");
        drop(gone);
        drop(other);
        drop(third.now_or_never().expect("its turn"));
        assert!(turns.take(b).now_or_never().is_some(), "free again");
    }
}
