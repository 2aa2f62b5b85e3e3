use super::*;

use std::cell::RefCell;
use std::rc::Rc;

use crate::RamDisk;
use crate::testing::{check_device, check_faults};

fn disk() -> FaultyDisk {
    FaultyDisk::new(Arc::new(RamDisk::new(512, 64).unwrap()))
}

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).unwrap();
}

fn block(byte: u8) -> Data {
    let mut buf = ring::Buf::alloc(512).unwrap();
    buf.fill(byte);
    buf.into()
}

async fn first_byte(disk: &FaultyDisk, at: u64) -> Result<u8, BlockError> {
    let mut byte = [0];
    disk.read(at, 512).await?.copy_to(0, &mut byte);
    Ok(byte[0])
}

#[test]
fn passes_the_device_suite_also_where_it_ends_before_the_device_below() {
    let ram = || Arc::new(RamDisk::new(512, 8192).unwrap());
    on_a_core(check_device(Arc::new(FaultyDisk::new(ram())), 41));
    let resized = FaultyDisk::new(ram());
    resized.resize(4099);
    on_a_core(check_device(Arc::new(resized), 42));
}

#[test]
fn passes_on_the_faults_of_the_device_below() {
    let below = Arc::new(FaultyDisk::new(Arc::new(RamDisk::new(512, 4096).unwrap())));
    on_a_core(check_faults(below.clone(), Arc::new(FaultyDisk::new(below)), 43));
}

#[test]
fn errors_hit_their_range_and_operation_only() {
    on_a_core(async {
        let disk = disk();
        let error = BlockError::Medium { at: 1024 };
        disk.inject(Rule::always(Operation::Read, Fault::Fail(error)).at(1024..1536));
        assert_eq!(first_byte(&disk, 512).await, Ok(0));
        assert_eq!(disk.read(512, 1024).await.unwrap_err(), error);
        assert_eq!(disk.write(1024, block(1), WriteFlags::VOLATILE).await, Ok(()));
        disk.heal();
        assert_eq!(first_byte(&disk, 1024).await, Ok(1));
    });
}

#[test]
fn a_write_fault_is_used_up_once_although_write_now_comes_first() {
    on_a_core(async {
        let disk = disk();
        disk.inject(Rule::always(Operation::Write, Fault::Fail(BlockError::NoSpace)).times(1));
        let flags = WriteFlags::VOLATILE;
        assert_eq!(disk.write_now(0, &[1; 512], flags), None);
        assert_eq!(disk.write(0, block(1), flags).await, Err(BlockError::NoSpace));
        assert_eq!(first_byte(&disk, 0).await, Ok(0), "nothing reached the device");
        assert_eq!(disk.write_now(0, &[2; 512], flags), Some(Ok(())));
    });
}

#[test]
fn what_hangs_has_no_effect_until_it_is_released() {
    on_a_core(async {
        let disk = disk();
        disk.inject(Rule::always(Operation::Write, Fault::Hang));
        let writer = disk.clone();
        ring::spawn(async move {
            writer.write(0, block(7), WriteFlags::VOLATILE).await.unwrap();
        });
        ring::sleep(Duration::from_millis(1)).await;
        assert_eq!((disk.held(), first_byte(&disk, 0).await), (1, Ok(0)));
        disk.release();
        ring::sleep(Duration::from_millis(2)).await;
        assert_eq!((disk.held(), first_byte(&disk, 0).await), (0, Ok(7)));
    });
}

#[test]
fn held_answers_come_in_the_order_of_the_releases() {
    on_a_core(async {
        let disk = disk();
        disk.inject(Rule::always(Operation::Write, Fault::HoldAnswer));
        let order = Rc::new(RefCell::new(Vec::new()));
        for n in 0..3u8 {
            let (disk, order) = (disk.clone(), Rc::clone(&order));
            ring::spawn(async move {
                disk.write(u64::from(n) * 512, block(n + 1), WriteFlags::VOLATILE).await.unwrap();
                order.borrow_mut().push(n);
            });
        }
        ring::sleep(Duration::from_millis(1)).await;
        assert_eq!(first_byte(&disk, 1024).await, Ok(3), "effects are there, answers are not");
        for left in (0..3).rev() {
            disk.release_newest();
            ring::sleep(Duration::from_millis(2)).await;
            assert_eq!(disk.held(), left);
        }
        assert_eq!(*order.borrow(), [2, 1, 0]);
    });
}

#[test]
fn delays_delay_and_flushes_can_fail() {
    on_a_core(async {
        let disk = disk();
        disk.inject(Rule::always(Operation::Read, Fault::Delay(Duration::from_millis(3))));
        disk.inject(Rule::always(Operation::Flush, Fault::Fail(BlockError::LostWrites)));
        let start = std::time::Instant::now();
        assert_eq!(first_byte(&disk, 0).await, Ok(0));
        assert!(start.elapsed() >= Duration::from_millis(3));
        assert_eq!(disk.flush().await, Err(BlockError::LostWrites));
    });
}

#[test]
fn an_answer_that_is_lost_is_that_of_something_done() {
    on_a_core(async {
        let disk = disk();
        let lost = BlockError::Unreachable;
        disk.inject(Rule::always(Operation::Write, Fault::LoseAnswer(lost)).times(1));
        let written = disk.write(512, block(7), WriteFlags::VOLATILE).await;
        assert_eq!((written, first_byte(&disk, 512).await), (Err(lost), Ok(7)));
    });
}

#[test]
fn a_plain_write_is_torn_and_an_atomic_one_is_not() {
    on_a_core(async {
        let disk = disk();
        let full = BlockError::NoSpace;
        disk.inject(Rule::always(Operation::Write, Fault::Tear(full)));
        for (atomic, halves) in [(true, [0, 0]), (false, [7, 0])] {
            let flags = WriteFlags { durable: false, atomic };
            let mut buf = ring::Buf::alloc(1024).unwrap();
            buf.fill(7);
            assert_eq!(disk.write(0, buf.freeze(), flags).await, Err(full));
            for (number, byte) in halves.into_iter().enumerate() {
                assert_eq!(first_byte(&disk, 512 * number as u64).await, Ok(byte));
            }
        }
    });
}
