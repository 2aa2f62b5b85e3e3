use super::*;
use block::RamDisk;
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use proptest::prelude::*;
use ring::{Buf, CoreConfig, block_on, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

const SIZE_BYTES: usize = 3 << 20;

fn ram(block_bytes: u32) -> Arc<dyn BlockDevice> {
    let blocks = SIZE_BYTES as u64 / u64::from(block_bytes);
    Arc::new(RamDisk::new(block_bytes, blocks).unwrap())
}

fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    block_on(&CoreConfig::default(), main).unwrap()
}

fn data(bytes: &[u8]) -> Data {
    let mut buf = Buf::alloc(bytes.len()).unwrap();
    buf.copy_from_slice(bytes);
    buf.freeze()
}

async fn read(disk: &Disk, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in disk.read(at, len).await.unwrap() {
        bytes.extend_from_slice(&part.to_buf().unwrap());
    }
    bytes
}

/// A change of the disk, and of the bytes that it is compared with.
#[derive(Debug, Clone)]
enum Change {
    Write { at: usize, len: usize, fill: u8, durable: bool },
    Zero { at: usize, len: usize, may_unmap: bool },
}

impl Change {
    fn any() -> impl Strategy<Value = Change> {
        // Short ones for the edges, long ones for the pieces.
        let len = prop_oneof![3 => 0_usize..2_000, 1 => 0_usize..2_500_000];
        let range = (0..SIZE_BYTES, len).prop_map(|(at, len)| (at, len.min(SIZE_BYTES - at)));
        prop_oneof![
            (range.clone(), 1_u8.., any::<bool>())
                .prop_map(|((at, len), fill, durable)| Change::Write { at, len, fill, durable }),
            (range, any::<bool>()).prop_map(|((at, len), may_unmap)| Change::Zero {
                at,
                len,
                may_unmap
            }),
        ]
    }

    async fn apply(&self, disk: &Disk, model: &mut [u8]) {
        match *self {
            Change::Write { at, len, fill, durable } => {
                let bytes: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i as u8)).collect();
                model[at..at + len].copy_from_slice(&bytes);
                let flags = WriteFlags { durable, atomic: false };
                disk.write(at as u64, data(&bytes), flags).await.unwrap();
            }
            Change::Zero { at, len, may_unmap } => {
                model[at..at + len].fill(0);
                let how = Zeroing { may_unmap, fast: false };
                let flags = WriteFlags::VOLATILE;
                disk.write_zeroes(at as u64, len as u64, how, flags).await.unwrap();
            }
        }
    }
}

/// A device that knows neither compare-and-write nor zeroes.
fn plain(inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    let device = FaultyDisk::new(inner);
    for operation in [Operation::ReadModifyWrite, Operation::WriteZeroes, Operation::Extent] {
        device.inject(Rule::always(operation, Fault::Fail(BlockError::Unsupported)));
    }
    Arc::new(device)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_bytes_read_back_as_they_were_written(
        changes in prop::collection::vec(Change::any(), 1..12),
        large_blocks in any::<bool>(),
        bare in any::<bool>(),
        at in 0..SIZE_BYTES,
        len in 0..SIZE_BYTES,
    ) {
        run(async move {
            let device = ram(if large_blocks { 4096 } else { 512 });
            let disk = Disk::new(if bare { plain(device) } else { device });
            let mut model = vec![0; SIZE_BYTES];
            for change in &changes {
                change.apply(&disk, &mut model).await;
            }
            let len = len.min(SIZE_BYTES - at);
            assert!(read(&disk, at as u64, len).await == model[at..at + len], "{changes:?}");
            assert!(read(&disk, 0, SIZE_BYTES).await == model, "{changes:?}");
        });
    }
}

#[test]
fn writes_to_parts_of_one_block_at_the_same_time_all_last() {
    run(async {
        let disk = Rc::new(Disk::new(ram(4096)));
        let left = Rc::new(Cell::new(64));
        for i in 0..64_u8 {
            let (disk, left) = (disk.clone(), left.clone());
            spawn(async move {
                let at = u64::from(i) * 64;
                disk.write(at, data(&[i + 1; 64]), WriteFlags::VOLATILE).await.unwrap();
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            ring::sleep(Duration::from_millis(1)).await;
        }
        let wanted: Vec<u8> = (0..64_u8).flat_map(|i| [i + 1; 64]).collect();
        assert_eq!(read(&disk, 0, 4096).await, wanted);
    });
}

#[test]
fn what_another_path_writes_to_the_block_meanwhile_is_kept() {
    run(async {
        let ram = ram(512);
        let slow = Arc::new(FaultyDisk::new(ram.clone()));
        // The other path writes after the block was read and before it is written back.
        let delay = Fault::Delay(Duration::from_millis(20));
        slow.inject(Rule::always(Operation::ReadModifyWrite, delay).times(1));
        let disk = Disk::new(slow);
        spawn(async move {
            ring::sleep(Duration::from_millis(5)).await;
            ram.write(0, data(&[7; 512]), WriteFlags::VOLATILE).await.unwrap();
        });
        disk.write(100, data(&[1; 10]), WriteFlags::VOLATILE).await.unwrap();
        let mut wanted = [7; 512];
        wanted[100..110].fill(1);
        assert_eq!(read(&disk, 0, 512).await, wanted);
    });
}

#[test]
fn fast_zeroes_are_fast_or_refused() {
    run(async {
        let zero = |disk: Disk, may_unmap| async move {
            let how = Zeroing { may_unmap, fast: true };
            disk.write_zeroes(0, 8192, how, WriteFlags::VOLATILE).await
        };
        assert_eq!(zero(Disk::new(ram(512)), true).await, Ok(()));
        assert_eq!(zero(Disk::new(ram(512)), false).await, Err(BlockError::Unsupported));
        assert_eq!(zero(Disk::new(plain(ram(512))), true).await, Err(BlockError::Unsupported));
    });
}

#[test]
fn errors_come_through_and_nothing_leaves_the_disk() {
    run(async {
        let faulty = Arc::new(FaultyDisk::new(ram(512)));
        let fault = Fault::Fail(BlockError::Medium { at: 1 << 20 });
        faulty.inject(Rule::always(Operation::Write, fault).at(1 << 20..2 << 20));
        let disk = Disk::new(faulty);
        let all = Buf::zeroed(SIZE_BYTES).unwrap().freeze();
        let failed = disk.write(0, all, WriteFlags::VOLATILE).await;
        assert_eq!(failed, Err(BlockError::Medium { at: 1 << 20 }));
        let end = disk.size_bytes();
        for at in [end - 1, end, u64::MAX - 1] {
            let read = disk.read(at, 2).await.map(drop);
            assert!(matches!(read, Err(BlockError::OutOfRange { .. })), "{at}: {read:?}");
            let written = disk.write(at, data(&[1, 1]), WriteFlags::VOLATILE).await;
            assert!(matches!(written, Err(BlockError::OutOfRange { .. })), "{at}: {written:?}");
        }
    });
}

#[test]
fn trims_keep_to_whole_blocks_and_extents_tell_of_them() {
    run(async {
        let disk = Disk::new(ram(4096));
        let ones = data(&vec![1; 64 << 10]);
        disk.write(0, ones, WriteFlags::VOLATILE).await.unwrap();
        disk.trim(4095, 8194, true).await.unwrap();
        assert_eq!(read(&disk, 4095, 1).await, [1]);
        assert_eq!(read(&disk, 4096, 8192).await, vec![0; 8192]);
        assert_eq!(read(&disk, 12288, 1).await, [1]);
        let (mapped, hole) = (ExtentState::Mapped, ExtentState::Deallocated);
        let states = |extents: &[Extent]| -> Vec<(u64, ExtentState)> {
            extents.iter().map(|e| (e.len_bytes, e.state)).collect()
        };
        let found = disk.extents(1, (64 << 10) + 99, 9).await.unwrap();
        let wanted = [(4095, mapped), (8192, hole), ((64 << 10) - 12288, mapped), (100, hole)];
        assert_eq!(states(&found), wanted);
        let found = disk.extents(4096, 1 << 20, 1).await.unwrap();
        assert_eq!(states(&found), [(8192, hole)]);
        let bare = Disk::new(plain(ram(4096)));
        assert_eq!(states(&bare.extents(1, 99, 9).await.unwrap()), [(99, mapped)]);
    });
}

/// What a flush that failed at the end has lost depends on it.
#[test]
fn a_disk_is_dirty_from_a_change_to_the_next_whole_flush() {
    run(async {
        let device = FaultyDisk::new(ram(512));
        let disk = Rc::new(Disk::new(Arc::new(device.clone())));
        read(&disk, 0, 512).await;
        assert!(!disk.is_dirty());
        disk.write(5, data(&[1; 7]), WriteFlags::VOLATILE).await.unwrap();
        assert!(disk.is_dirty());
        device.inject(Rule::always(Operation::Flush, Fault::Fail(BlockError::Busy)).times(1));
        assert_eq!(disk.flush().await, Err(BlockError::Busy));
        assert!(disk.is_dirty());
        disk.flush().await.unwrap();
        assert!(!disk.is_dirty());
        // A flush covers what was answered before it, not what is still under way.
        device.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let (writer, is_over) = (disk.clone(), Rc::new(Cell::new(false)));
        let over = is_over.clone();
        spawn(async move {
            writer.write(0, data(&[2; 512]), WriteFlags::VOLATILE).await.unwrap();
            over.set(true);
        });
        while device.held() == 0 {
            ring::sleep(std::time::Duration::from_millis(1)).await;
        }
        disk.flush().await.unwrap();
        device.release();
        while !is_over.get() {
            ring::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert!(disk.is_dirty());
        disk.trim(0, 512, true).await.unwrap();
        assert!(!disk.is_dirty(), "a durable change flushes all");
    });
}

/// One hears it from the device, by a flush or by a trim that flushes; the others are to hear it too.
#[test]
fn each_user_hears_of_each_loss_once() {
    run(async {
        let faulty = Arc::new(FaultyDisk::new(ram(512)));
        let disk = Disk::new(faulty.clone());
        let lose = || {
            let once = Rule::always(Operation::Flush, Fault::Fail(BlockError::LostWrites));
            faulty.inject(once.times(1));
        };
        let users = [disk.user(), disk.user()];
        lose();
        let told = Err(BlockError::LostWrites);
        assert_eq!(disk.trim(0, 4096, true).await, told);
        for user in &users {
            assert_eq!(disk.flush_for(user).await, told);
            assert_eq!(disk.flush_for(user).await, Ok(()));
        }
        assert_eq!(disk.flush_for(&disk.user()).await, Ok(()), "he came later");
        // What is under way may follow writes that are lost, whoever is told first.
        let late = Fault::Delay(Duration::from_millis(20));
        faulty.inject(Rule::always(Operation::Flush, late).times(1));
        let mut under_way = Box::pin(disk.flush_for(&users[0]));
        assert!(under_way.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        lose();
        assert_eq!(disk.flush_for(&users[0]).await, told);
        assert_eq!(under_way.await, told);
        assert_eq!(disk.flush_for(&users[0]).await, Ok(()));
        faulty.inject(Rule::always(Operation::Flush, Fault::Fail(BlockError::Busy)).times(1));
        assert_eq!(disk.flush_for(&users[1]).await, Err(BlockError::Busy), "that is no loss");
        assert_eq!(disk.flush_for(&users[1]).await, told);
    });
}
