//! How much the kernel may have under way.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Payload of requests that run: beyond this, the kernel's next request waits in the kernel.
const BYTES_MAX: usize = 64 << 20;

/// Counts payload between the thread that reads requests and the core that carries them out.
#[derive(Debug, Default)]
pub(crate) struct Room {
    used_bytes: Mutex<usize>,
    left: Condvar,
}

/// A part of the room, given back on drop.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    fn used(&self) -> MutexGuard<'_, usize> {
        self.used_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until there is room for `bytes`; one request always has room.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Place {
        let full = |used: &mut usize| *used > 0 && *used + bytes > BYTES_MAX;
        let waited = self.left.wait_while(self.used(), full);
        *waited.unwrap_or_else(PoisonError::into_inner) += bytes;
        Place { room: self.clone(), bytes }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.room.used() -= self.bytes;
        self.room.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn what_does_not_fit_waits_for_what_is_inside() {
        let room = Arc::new(Room::default());
        let large = room.take(BYTES_MAX + 1);
        let (sent, received) = mpsc::channel();
        let other = room.clone();
        let waiter = thread::spawn(move || {
            let place = other.take(1);
            sent.send(()).unwrap();
            drop(place);
        });
        assert!(received.recv_timeout(Duration::from_millis(20)).is_err());
        drop(large);
        received.recv_timeout(Duration::from_secs(10)).unwrap();
        waiter.join().unwrap();
        assert_eq!(*room.used(), 0);
    }
}
