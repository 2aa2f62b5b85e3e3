//! How much one connection may have under way.

use std::cell::Cell;

use ring::wait::Bell;

/// Requests of one connection from their header to their sent reply.
pub(crate) const REQUESTS_MAX: usize = 256;

/// Payload of them all. A single request may be larger and then is alone.
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// Counts requests and their payloads. Invariant: at most [`REQUESTS_MAX`] are inside, and their
/// payloads are at most [`BYTES_MAX`], or there is one.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    requests: Cell<usize>,
    bytes: Cell<usize>,
    left: Bell,
}

/// What a request takes up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

impl Charge {
    pub(crate) fn of(payload_bytes: usize) -> Charge {
        Charge { requests: 1, bytes: payload_bytes }
    }

    pub(crate) fn add(&mut self, other: Charge) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

impl Gate {
    fn has_room(&self, charge: Charge) -> bool {
        let requests = self.requests.get();
        requests == 0 || (requests < REQUESTS_MAX && self.bytes.get() + charge.bytes <= BYTES_MAX)
    }

    /// Lets a request in, once there is room.
    pub(crate) async fn enter(&self, charge: Charge) {
        self.left.until(|| self.has_room(charge)).await;
        self.requests.set(self.requests.get() + charge.requests);
        self.bytes.set(self.bytes.get() + charge.bytes);
    }

    /// Lets requests out.
    pub(crate) fn leave(&self, charge: Charge) {
        self.requests.set(self.requests.get() - charge.requests);
        self.bytes.set(self.bytes.get() - charge.bytes);
        self.left.ring();
    }

    /// Waits until nothing is inside.
    pub(crate) async fn empty(&self) {
        self.left.until(|| self.requests.get() == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{CoreConfig, block_on, timeout};
    use std::time::Duration;

    #[test]
    fn it_holds_back_by_number_and_by_bytes_but_never_the_only_one() {
        block_on(&CoreConfig::default(), async {
            let soon = Duration::from_millis(1);
            let gate = Gate::default();
            let (large, small) = (Charge::of(BYTES_MAX + 1), Charge::of(0));
            gate.enter(large).await;
            assert!(timeout(soon, gate.enter(Charge::of(1))).await.is_none());
            gate.leave(large);
            for _ in 0..REQUESTS_MAX {
                assert!(timeout(soon, gate.enter(small)).await.is_some());
            }
            assert!(timeout(soon, gate.enter(small)).await.is_none());
            assert!(timeout(soon, gate.empty()).await.is_none());
            gate.leave(Charge { requests: REQUESTS_MAX, bytes: 0 });
            assert!(timeout(soon, gate.empty()).await.is_some());
        })
        .unwrap();
    }
}
