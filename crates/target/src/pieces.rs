//! Fair shares of a core's time for work that costs its host next to nothing.
//!
//! A VERIFY of 8 MiB is 48 bytes on the wire. So work like that is done in pieces, of which one begins in
//! each turn of the core, whoever wants it: between two of them everybody else's commands are run. The
//! addresses have turns, since names cost nothing, and those who wait at one stand in the order of asking.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;

use ring::wait::{Event, FairQueue};

use crate::mutants::{self, Mutant};
use crate::share;

/// Invariant: nobody waits unless pieces are being dealt out.
#[derive(Default)]
struct Pieces {
    is_dealing: Cell<bool>,
    waiting: RefCell<FairQueue<IpAddr, Rc<Event>>>,
}

thread_local! {
    static PIECES: Pieces = Pieces::default();
}

/// Waits until a host at this address may begin the next piece of its work.
pub(crate) async fn next(address: IpAddr) {
    if mutants::is(Mutant::NoPieces) {
        return;
    }
    if let Some(deal) = Deal::begin() {
        ring::spawn(deal.run());
    } else {
        let turn = Rc::new(Event::default());
        let address = share::network(address);
        PIECES.with(|pieces| pieces.waiting.borrow_mut().enter(address, turn.clone()));
        turn.wait().await;
    }
}

/// Deals pieces out. There is one on a core, as long as somebody wants any.
struct Deal;

impl Deal {
    fn begin() -> Option<Self> {
        let was_dealing = PIECES.with(|pieces| pieces.is_dealing.replace(true));
        (!was_dealing).then(|| Self)
    }

    async fn run(self) {
        loop {
            ring::turn_end().await;
            let Some(turn) = PIECES.with(|pieces| pieces.waiting.borrow_mut().leave()) else {
                return;
            };
            turn.set();
        }
    }
}

impl Drop for Deal {
    fn drop(&mut self) {
        // At the end of a core nobody wants anything any more.
        let _ended = PIECES.try_with(|pieces| pieces.is_dealing.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_turns_and_one_piece_begins_in_each_turn() {
        let test = async {
            let log = Rc::new(RefCell::new(Vec::new()));
            let [a, b] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
            next(a).await;
            for (who, address) in [("a1", a), ("a2", a), ("a3", a), ("b1", b)] {
                let log = log.clone();
                ring::spawn(async move {
                    next(address).await;
                    log.borrow_mut().push(who);
                });
            }
            let mut before = 0;
            while before < 4 {
                ring::turn_end().await;
                let begun = log.borrow().len();
                assert!(begun <= before + 1, "one at a time");
                before = begun;
            }
            assert_eq!(*log.borrow(), ["a1", "b1", "a2", "a3"]);
            // Nobody waits any more: the next one begins at once, and others are dealt theirs again.
            next(b).await;
            next(b).await;
        };
        ring::block_on(&ring::CoreConfig::default(), test).unwrap();
    }
}
