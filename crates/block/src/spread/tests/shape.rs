//! What slices make a volume, how it grows, and where it has space.

use super::*;

use crate::testing::check_device;
use crate::{Geometry, NullDisk};

fn refused(
    slices: Vec<Arc<dyn BlockDevice>>,
    pattern: &[u8],
    size_bytes: u64,
) -> Result<(), SpreadError> {
    let dealing = Dealing::new(MIB, pattern.to_vec())?;
    SpreadDisk::new(slices, dealing, size_bytes / BLOCK).map(drop)
}

#[test]
fn what_does_not_fit_is_refused() {
    let slices = |count: usize| (0..count).map(|_| ram(2 * MIB)).collect::<Vec<_>>();
    assert_eq!(refused(slices(16), &[15, 0], 2 * MIB), Ok(()));
    assert_eq!(refused(slices(17), &[0], 2 * MIB), Err(SpreadError::Slices { slices: 17 }));
    assert_eq!(refused(Vec::new(), &[0], 2 * MIB), Err(SpreadError::Slices { slices: 0 }));
    let none = SpreadError::NoSuchSlice { slice: 2, slices: 2 };
    assert_eq!(refused(slices(2), &[0, 2, 1], 2 * MIB), Err(none));
    assert_eq!(refused(slices(1), &[], MIB), Err(SpreadError::Pattern { entries: 0 }));
    assert_eq!(refused(slices(1), &[0; 1024], MIB), Ok(()));
    let long = SpreadError::Pattern { entries: 1025 };
    assert_eq!(refused(slices(1), &[0; 1025], MIB), Err(long));
    for page_bytes in [0, 512 << 10, MIB + 512, 3 * MIB] {
        let page = Dealing::new(page_bytes, vec![0]);
        assert_eq!(page, Err(SpreadError::Page { page_bytes }));
    }
    let small = SpreadError::SmallSlice { slice: 1, found: 4096, blocks: 4097 };
    let mixed = vec![ram(3 * MIB), ram(2 * MIB)];
    assert_eq!(refused(mixed, &[0], 2 * MIB + BLOCK), Err(small), "though it has no page");
    let other = SpreadError::OtherBlocks { slice: 1, found: 4096, block_bytes: 512 };
    let mixed = vec![ram(2 * MIB), Arc::new(RamDisk::new(4096, 4096).unwrap())];
    assert_eq!(refused(mixed, &[0], 2 * MIB), Err(other));
}

/// A device of any shape, of which nobody asks anything else.
#[derive(Debug)]
struct Shaped(Geometry, NullDisk);

impl BlockDevice for Shaped {
    fn geometry(&self) -> Geometry {
        self.0
    }
    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.1.read(at, len)
    }
    fn write_now(&self, at: u64, data: &[u8], flags: WriteFlags) -> Option<Result<(), BlockError>> {
        self.1.write_now(at, data, flags)
    }
    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.1.write(at, data, flags)
    }
    fn flush(&self) -> IoFuture<()> {
        self.1.flush()
    }
    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.1.unmap(at, len)
    }
    fn write_zeroes(&self, at: u64, len: u64, unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.1.write_zeroes(at, len, unmap, flags)
    }
    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        self.1.compare_and_write(at, compare, write, flags)
    }
    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.1.or_write(at, data, flags)
    }
    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.1.extent(at)
    }
}

#[test]
fn its_shape_is_what_all_slices_can_do() {
    let plain = Geometry::new(512, 1 << 16);
    let shape = |slices: &[Geometry]| {
        let device = |shape: &Geometry| {
            let null = NullDisk::new(shape.block_bytes, shape.blocks);
            Arc::new(Shaped(*shape, null)) as Arc<dyn BlockDevice>
        };
        let slices = slices.iter().map(device).collect();
        SpreadDisk::new(slices, dealing(MIB, &[0]), 1 << 15).unwrap().geometry()
    };
    assert_eq!(shape(&[plain, plain]), Geometry { blocks: 1 << 15, ..plain });
    let coarse = Geometry {
        blocks: 1 << 20,
        physical_block_bytes: 4096,
        transfer_granularity_bytes: 64 << 10,
        unmap_granularity_bytes: 64 << 10,
        unmap_alignment_bytes: 512,
        atomic_bytes_max: 255 * 512,
        optimal_transfer_bytes: 4 << 20,
        rotational: true,
        thin: false,
        ..plain
    };
    let both = Geometry { blocks: 1 << 15, optimal_transfer_bytes: 1 << 20, ..coarse };
    assert_eq!(shape(&[plain, coarse]), both);
    assert_eq!(shape(&[coarse, plain]), both);
    let without = Geometry { atomic_bytes_max: 0, read_only: true, ..plain };
    let long = Geometry { atomic_bytes_max: 8 << 20, ..plain };
    assert_eq!(shape(&[plain, without]).atomic_bytes_max, 0);
    assert!(shape(&[plain, without]).read_only);
    assert_eq!(shape(&[long, long]).atomic_bytes_max, crate::ATOMIC_BYTES_MAX);
}

/// Where a slice has no atomic operations, the volume has none, and nobody holds anything.
#[test]
fn without_atomic_operations_borders_are_for_everybody() {
    let without = Geometry { atomic_bytes_max: 0, ..Geometry::new(512, 1 << 12) };
    let slice = || Arc::new(Shaped(without, NullDisk::new(512, 1 << 12))) as Arc<dyn BlockDevice>;
    let disk = SpreadDisk::new(vec![slice(), slice()], dealing(MIB, &[0, 1]), 1 << 12).unwrap();
    assert!(!disk.slices.is_near_border(MIB, BLOCK));
    let refused = disk.or_write(MIB - BLOCK, Data::from(&[0; 1024][..]), VOLATILE).into_ready();
    assert!(matches!(refused, Ok(Err(BlockError::Unsupported))), "{refused:?}");
}

#[test]
fn it_grows_with_its_slices_and_not_before() {
    let size_bytes = 2 * MIB + 2 * BLOCK;
    let slices: Vec<_> = (0..2).map(|_| Arc::new(FaultyDisk::new(ram(4 * MIB)))).collect();
    slices.iter().for_each(|slice| slice.resize(size_bytes / BLOCK));
    let devices = slices.iter().map(|slice| Arc::clone(slice) as Arc<dyn BlockDevice>);
    let disk =
        SpreadDisk::new(devices.collect(), dealing(MIB, &[0, 1]), size_bytes / BLOCK).unwrap();
    let disk = Arc::new(disk);
    let blocks = 4 * MIB / BLOCK;
    on_a_core(async move {
        disk.write(size_bytes - 2 * BLOCK, summed(2 * BLOCK, 1), VOLATILE).await.unwrap();
        slices[0].resize(blocks);
        let small = SpreadError::SmallSlice { slice: 1, found: size_bytes / BLOCK, blocks };
        assert_eq!(disk.grow(blocks), Err(small));
        assert_eq!(disk.geometry().size_bytes(), size_bytes, "nothing is changed");
        assert!(disk.read(size_bytes, 512).await.is_err());
        slices[1].resize(blocks);
        assert_eq!(disk.grow(blocks), Ok(()));
        assert_eq!(disk.geometry().blocks, blocks);
        assert_eq!(disk.grow(blocks), Ok(()), "asked for once more");
        assert_eq!(
            disk.grow(blocks - 1),
            Err(SpreadError::Shrinks { now: blocks, blocks: blocks - 1 })
        );
        assert!(read(&*disk, 2 * MIB, 2 * BLOCK).await == bytes_of(&summed(2 * BLOCK, 1)));
        assert!(read(&*disk, size_bytes, 2 * MIB - 2 * BLOCK).await.iter().all(|byte| *byte == 0));
        check_device(disk, 12).await;
    });
}

/// A slice says of the pages that others have that it holds nothing there.
#[test]
fn extents_end_where_the_slice_changes() {
    on_a_core(async {
        let faulty = Faulty::new(2, dealing(MIB, &[0, 0, 1]), 6 * MIB);
        let disk = &faulty.disk;
        disk.write(2 * MIB, equal(MIB, 1), VOLATILE).await.unwrap();
        disk.write(5 * MIB, equal(BLOCK, 1), VOLATILE).await.unwrap();
        let mut found = Vec::new();
        let mut at = 0;
        while at < 6 * MIB {
            let Extent { len_bytes, state } = disk.extent(at).await.unwrap();
            found.push((len_bytes, state == ExtentState::Mapped));
            at += len_bytes;
        }
        let rest = MIB - 4096;
        assert_eq!(
            found,
            [(2 * MIB, false), (MIB, true), (2 * MIB, false), (4096, true), (rest, false)]
        );
        assert_eq!(disk.extent(MIB + BLOCK).await.unwrap().len_bytes, MIB - BLOCK);
    });
}

#[test]
fn pages_are_dealt_by_the_pattern_over_and_over() {
    let dealt = |pattern: &[u8], at: u64, len: u64| {
        let dealing = dealing(MIB, pattern);
        let pieces = dealing.pieces(at, len);
        pieces.map(|piece| (piece.slice, piece.at / BLOCK, piece.len / BLOCK)).collect::<Vec<_>>()
    };
    let page = MIB / BLOCK;
    assert_eq!(dealt(&[3], BLOCK, 9 * MIB), [(3, 1, 9 * page)]);
    assert_eq!(dealt(&[1, 1], BLOCK, 9 * MIB), [(1, 1, 9 * page)]);
    let in_turns = [(1, page - 1, 1), (0, page, page), (1, 2 * page, 1)];
    assert_eq!(dealt(&[1, 0], MIB - BLOCK, MIB + 2 * BLOCK), in_turns);
    // The last page of one round and the first one of the next are neighbours on one slice.
    let weighted =
        [(0, 0, 2 * page), (2, 2 * page, page), (0, 3 * page, 3 * page), (2, 6 * page, 1)];
    assert_eq!(dealt(&[0, 0, 2, 0], 0, 6 * MIB + BLOCK), weighted);
    assert_eq!(dealt(&[0, 1], 1 << 50, MIB), [(0, (1 << 50) / BLOCK, page)]);
    assert_eq!(dealt(&[0, 1], MIB, 0), []);
}
