//! Which blocks have I/O under way: none is written while it is written or read, for then nobody
//! could say what it should hold.

use std::cell::{Cell, RefCell};

use ring::wait::Bell;

/// I/Os under way on one disk.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: RefCell<Vec<Claim>>,
    writes: Cell<usize>,
    freed: Bell,
    has_waiters: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    from: u64,
    to: u64,
    is_write: bool,
}

impl Claims {
    /// Claims a range unless another claim stands against it. Reads stand beside reads.
    pub(crate) fn claim(&self, at: u64, len: u32, is_write: bool) -> bool {
        let claim = Claim { from: at, to: at + u64::from(len), is_write };
        let mut held = self.held.borrow_mut();
        let meets = |other: &Claim| {
            (is_write || other.is_write) && other.from < claim.to && claim.from < other.to
        };
        if (is_write || self.writes.get() > 0) && held.iter().any(meets) {
            return false;
        }
        held.push(claim);
        self.writes.set(self.writes.get() + usize::from(is_write));
        true
    }

    /// Gives a claim back.
    pub(crate) fn release(&self, at: u64, len: u32, is_write: bool) {
        let claim = Claim { from: at, to: at + u64::from(len), is_write };
        let mut held = self.held.borrow_mut();
        let found = held.iter().position(|other| *other == claim);
        held.swap_remove(found.expect("what is released was claimed"));
        self.writes.set(self.writes.get() - usize::from(is_write));
        if self.has_waiters.replace(false) {
            self.freed.ring();
        }
    }

    /// Waits until something was released.
    pub(crate) async fn wait(&self) {
        self.has_waiters.set(true);
        self.freed.rung().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_stand_alone_and_reads_beside_reads() {
        let claims = Claims::default();
        assert!(claims.claim(0, 8192, false) && claims.claim(4096, 8192, false));
        assert!(!claims.claim(8192, 4096, true), "it is read");
        assert!(claims.claim(12288, 4096, true));
        assert!(!claims.claim(12288, 4096, false) && !claims.claim(8192, 8192, true));
        claims.release(12288, 4096, true);
        assert!(claims.claim(12288, 4096, false));
        claims.release(4096, 8192, false);
        assert!(claims.claim(8192, 4096, true));
    }
}
