//! Futures that are dropped while a slice works.

use super::*;

const AT: u64 = MIB - 4 * BLOCK;
const LEN: u64 = 8 * BLOCK;

/// The slice may still write: nobody may find the border free before it has.
#[test]
fn a_change_that_is_dropped_holds_its_border_until_it_is_over() {
    on_a_core(async {
        for crossing in [false, true] {
            let faulty = Faulty::of_two();
            let (disk, slice) = (&faulty.disk, &faulty.slices[1]);
            slice.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
            let at = if crossing { MIB - BLOCK } else { MIB };
            let mut plain = disk.write(at, equal(2 * BLOCK, 7), VOLATILE);
            assert!(polled(&mut plain).await.is_none());
            drop(plain);
            let mut atomic = disk.write(AT, summed(LEN, 2), ATOMIC);
            assert!(is_waiting(&mut atomic).await, "the write that was dropped is not over");
            slice.release();
            atomic.await.unwrap();
            // Whatever was dropped is done by now, and not later.
            assert!(read(&**disk, AT, LEN).await == bytes_of(&summed(LEN, 2)));
        }
    });
}

/// An atomic operation has begun when its first side is changed, and is seen by nobody before its last one is.
#[test]
fn an_atomic_operation_that_is_dropped_runs_to_its_end() {
    on_a_core(async {
        let faulty = Faulty::of_two();
        let (disk, slice) = (&faulty.disk, &faulty.slices[1]);
        disk.write(AT, summed(LEN, 1), VOLATILE).await.unwrap();
        slice.inject(Rule::always(Operation::Write, Fault::HoldAnswer).times(1));
        let mut atomic = disk.compare_and_write(AT, summed(LEN, 1), summed(LEN, 2), VOLATILE);
        assert!(polled(&mut atomic).await.is_none());
        until_held(slice, 1).await;
        drop(atomic);
        let mut seen = disk.read(AT, LEN as usize);
        assert!(is_waiting(&mut seen).await, "half of what was dropped can be read");
        slice.release();
        assert!(bytes_of(&seen.await.unwrap()) == bytes_of(&summed(LEN, 2)));
    });
}

/// Nobody misses what was to be read: the border is free at once.
#[test]
fn a_read_that_is_dropped_holds_nothing() {
    on_a_core(async {
        let faulty = Faulty::of_two();
        let (disk, slice) = (&faulty.disk, &faulty.slices[1]);
        slice.inject(Rule::always(Operation::Read, Fault::Hang).times(1));
        let mut dropped = disk.read(AT, LEN as usize);
        assert!(polled(&mut dropped).await.is_none());
        let mut atomic = disk.write(AT, summed(LEN, 2), ATOMIC);
        assert!(is_waiting(&mut atomic).await, "somebody reads there");
        drop(dropped);
        atomic.await.unwrap();
        assert!(read(&**disk, AT, LEN).await == bytes_of(&summed(LEN, 2)));
    });
}
