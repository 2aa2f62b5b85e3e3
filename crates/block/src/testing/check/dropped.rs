//! Futures that are dropped before their end, as when a host aborts a task.

use std::ops::Range;
use std::time::Duration;

use ring::Buf;

use super::join::poll_and_drop;
use super::work::{OLD, Work};
use super::{Suite, blocks_are_of, data};
use crate::WriteFlags;

const VOLATILE: WriteFlags = WriteFlags::VOLATILE;

/// What memory holds that is somebody else's by now.
const OTHER: u8 = 0x55;
/// Long enough for whatever is under way on a fast device to touch memory that it should not.
const AFTERMATH: Duration = Duration::from_millis(1);

const BLOCKS_MAX: usize = 16;

/// When it is dropped.
#[derive(Debug, Clone, Copy)]
enum Dropped {
    Unpolled,
    PolledOnce,
    Later,
}

impl Dropped {
    const ALL: [Self; 3] = [Self::Unpolled, Self::PolledOnce, Self::Later];
}

impl Suite {
    /// All of it happens in the first half of the device, where each operation has blocks of its own:
    /// what was dropped may be done late.
    pub(super) async fn dropped(&mut self) {
        let half = self.model.len() / 2 / self.block();
        let blocks = BLOCKS_MAX.min((half - 1) / (Work::COUNT * Dropped::ALL.len()));
        let mut first = 1;
        for work in Work::of(&self.geometry) {
            for dropped in Dropped::ALL {
                let range = first * self.block()..(first + blocks) * self.block();
                self.drop_one(range, work, dropped).await;
                first += blocks;
            }
        }
        let rest = half * self.block()..self.model.len();
        self.same(rest, "after operations elsewhere were dropped").await;
        assert_eq!(self.device.geometry(), self.geometry, "after operations were dropped");
        assert_eq!(self.device.flush().await, Ok(()), "a flush after operations were dropped");
    }

    async fn drop_one(&mut self, range: Range<usize>, work: Work, dropped: Dropped) {
        let (at, len) = (range.start as u64, range.len());
        let (old, new) = (vec![OLD; len], vec![work.new_byte(); len]);
        let what = format!("{work:?} was dropped: {dropped:?}");
        assert_eq!(self.device.write(at, data(&old), VOLATILE).await, Ok(()), "before {what}");
        let mut future = work.begin(&*self.device, at, len, false);
        match dropped {
            Dropped::Unpolled => drop(future),
            Dropped::PolledOnce => poll_and_drop(future).await,
            Dropped::Later => {
                // It may have ended by then.
                let _ = ring::timeout(Duration::from_micros(50), &mut future).await;
                drop(future);
            }
        }
        // Memory that the operation may have had: what is under way must not write to it, nor write
        // what is in it.
        let others: Vec<Buf> = (0..4).filter_map(|_| other_memory(len)).collect();
        for _ in 0..2 {
            let found = self.read_range(&range).await;
            blocks_are_of(&found, &[&old, &new], self.block(), &what);
            assert!(!work.is_atomic() || found == old || found == new, "half done, {what}");
            ring::sleep(AFTERMATH).await;
        }
        let is_touched = others.iter().any(|buf| buf.iter().any(|byte| *byte != OTHER));
        assert!(!is_touched, "memory of somebody else was written to, {what}");
        // Nothing is held for ever.
        let flags = WriteFlags { durable: false, atomic: self.has_atomics() };
        let written = self.device.write(at, data(&vec![0x66; len]), flags).await;
        assert_eq!(written, Ok(()), "a write after {what}");
    }
}

fn other_memory(len: usize) -> Option<Buf> {
    let mut buf = Buf::alloc(len)?;
    buf.fill(OTHER);
    Some(buf)
}
