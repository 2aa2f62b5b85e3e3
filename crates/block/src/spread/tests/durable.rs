//! What was answered survives the loss of what slices hold in their caches.

use super::*;

use std::fs;

use crate::{FileOptions, VolatileDisk};

const SIZE_BYTES: u64 = 4 * MIB;

/// As the next process finds the files of slices that lost what was not flushed.
fn as_stored(dir: &std::path::Path, dealing: &Dealing, slices: usize) -> Vec<u8> {
    let files: Vec<_> =
        (0..slices).map(|slice| fs::read(dir.join(slice.to_string())).unwrap()).collect();
    let pieces = dealing.pieces(0, SIZE_BYTES);
    pieces.flat_map(|at| files[at.slice][at.at as usize..at.end() as usize].to_vec()).collect()
}

#[test]
fn nothing_that_was_answered_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let options = FileOptions {
        block_bytes: BLOCK_BYTES,
        read_only: false,
        size_bytes: Some(SIZE_BYTES),
        write_through: false,
        direct: false,
    };
    let slice = |slice: usize| {
        let path = dir.path().join(slice.to_string());
        Arc::new(VolatileDisk::open(&path, &options).unwrap()) as Arc<dyn BlockDevice>
    };
    let dealing = dealing(MIB, &[0, 1, 2]);
    let slices = vec![slice(0), slice(1), slice(2)];
    let disk = SpreadDisk::new(slices, dealing.clone(), SIZE_BYTES / BLOCK).unwrap();
    let path = dir.path().to_owned();
    on_a_core(async move {
        let mut wanted = vec![0; SIZE_BYTES as usize];
        let whole = equal(SIZE_BYTES, 0x5a);
        disk.write(0, whole.clone(), VOLATILE).await.unwrap();
        wanted.fill(0x5a);
        assert!(as_stored(&path, &dealing, 3) == wanted, "a write over all borders");
        // Within a page, and over each border.
        for at in [64 << 10, MIB - (32 << 10), 2 * MIB - (32 << 10), 3 * MIB - (32 << 10)] {
            let len = 64 << 10;
            let place = at as usize..(at + len) as usize;
            let mut stored = |bytes: Vec<u8>, after: &str| {
                wanted[place.clone()].copy_from_slice(&bytes);
                assert!(as_stored(&path, &dealing, 3) == wanted, "{after} at {at}");
            };
            disk.write(at, summed(len, 1), VOLATILE).await.unwrap();
            stored(bytes_of(&summed(len, 1)), "a write");
            disk.unmap(at, len).await.unwrap();
            stored(vec![0; len as usize], "an unmap");
            disk.write(at, summed(len, 2), ATOMIC).await.unwrap();
            stored(bytes_of(&summed(len, 2)), "an atomic write");
            disk.write_zeroes(at, len, true, VOLATILE).await.unwrap();
            stored(vec![0; len as usize], "zeroes");
            disk.or_write(at, summed(len, 3), VOLATILE).await.unwrap();
            stored(bytes_of(&summed(len, 3)), "an or-write");
            let (old, new) = (summed(len, 3), summed(len, 4));
            let compared = disk.compare_and_write(at, old, new, VOLATILE).await;
            assert_eq!(compared, Ok(Compared::Equal));
            stored(bytes_of(&summed(len, 4)), "a compare-and-write");
            let bytes = bytes_of(&summed(len, 5));
            if let Some(written) = disk.write_now(at, &bytes, VOLATILE) {
                assert_eq!(written, Ok(()));
                stored(bytes, "a write without a future");
            }
            assert_eq!(disk.flush().await, Ok(()));
        }
    });
}

/// What was given back is not answered before the slices that had some of it have flushed, and not after a flush that
/// failed. Those that had nothing of it are not asked.
#[test]
fn an_unmap_ends_with_the_flushes_of_its_slices() {
    on_a_core(async {
        let faulty = Faulty::new(3, dealing(MIB, &[0, 1, 2]), 6 * MIB);
        for (at, len, slice) in [(MIB, BLOCK, 1), (3 * MIB - BLOCK, 2 * BLOCK, 2), (0, 2 * MIB, 0)]
        {
            let fault = Fault::Fail(BlockError::Medium { at: 0 });
            faulty.slices[slice].inject(Rule::always(Operation::Flush, fault).times(1));
            let failed = faulty.disk.unmap(at, len).await;
            assert_eq!(failed, Err(BlockError::Medium { at }), "a place of the unmap");
            faulty.slices[slice].inject(Rule::always(Operation::Flush, Fault::Hang).times(1));
            let mut held = faulty.disk.unmap(at, len);
            assert!(is_waiting(&mut held).await, "an unmap at {at} that is not durable");
            faulty.slices[slice].release();
            held.await.unwrap();
        }
        let gone = Fault::Fail(BlockError::Unreachable);
        faulty.slices[2].inject(Rule::always(Operation::Flush, gone));
        assert_eq!(faulty.disk.unmap(0, 2 * MIB).await, Ok(()), "nothing of slice 2");
        assert_eq!(faulty.disk.unmap(0, 6 * MIB).await, Err(BlockError::Unreachable));
        assert_eq!(faulty.disk.flush().await, Ok(()), "there is nothing to flush");
    });
}
