//! A spread volume is a device like any other.

use super::*;

use std::time::Duration;

use crate::testing::{check_device, check_durable_faults, check_read_only};

fn over(slices: Vec<Arc<dyn BlockDevice>>, dealing: Dealing, size_bytes: u64) -> Arc<SpreadDisk> {
    let blocks = size_bytes / u64::from(slices[0].geometry().block_bytes);
    Arc::new(SpreadDisk::new(slices, dealing, blocks).unwrap())
}

#[test]
fn passes_the_device_suite_with_all_kinds_of_patterns() {
    let size_bytes = 3 * MIB + 3 * BLOCK;
    for (seed, slices, pattern) in [
        (1, 1, &[0][..]),
        (2, 2, &[0, 1]),
        (3, 3, &[2, 0, 1]),
        (4, 3, &[1, 1]),
        (5, 4, &[0, 0, 0, 1, 3, 0, 0, 1]),
    ] {
        let slices = || (0..slices).map(|_| ram(4 * MIB)).collect::<Vec<_>>();
        on_a_core(check_device(over(slices(), dealing(MIB, pattern), size_bytes), seed));
        // Nearly all is over a border then, and over several.
        on_a_core(check_device(over(slices(), dealing(8 << 10, pattern), size_bytes), seed));
    }
}

#[test]
fn passes_the_device_suite_with_blocks_of_4096_bytes() {
    let slice = || Arc::new(RamDisk::new(4096, 1024).unwrap()) as Arc<dyn BlockDevice>;
    let disk = over(vec![slice(), slice()], dealing(16 << 10, &[0, 1, 1]), 4 * MIB);
    on_a_core(check_device(disk, 6));
}

#[test]
fn passes_the_device_suite_over_slices_that_take_their_time() {
    for (seed, page_bytes) in [(7, MIB), (8, 16 << 10)] {
        let slow = |micros| {
            let slow = FaultyDisk::new(ram(2 * MIB));
            let fault = Fault::Delay(Duration::from_micros(micros));
            slow.inject(Rule {
                operations: Vec::new(),
                bytes: 0..u64::MAX,
                times: u32::MAX,
                fault,
            });
            Arc::new(slow) as Arc<dyn BlockDevice>
        };
        let slices = vec![ram(2 * MIB), slow(20), slow(50)];
        on_a_core(check_device(over(slices, dealing(page_bytes, &[0, 1, 2]), 2 * MIB), seed));
    }
}

/// One device in the place of all slices, so that addresses are the same below: each of its faults meets both sides.
#[test]
fn faults_below_are_told_and_all_that_is_answered_is_durable_below() {
    for (seed, page_bytes) in [(9, MIB), (10, 4 << 10), (11, 1 << 10)] {
        let below = Arc::new(FaultyDisk::new(ram(2 * MIB)));
        let slices = vec![below.clone() as Arc<dyn BlockDevice>, below.clone()];
        let disk = over(slices, dealing(page_bytes, &[0, 1]), 2 * MIB);
        on_a_core(check_durable_faults(below, disk, seed));
    }
}

#[test]
fn passes_the_read_only_suite() {
    let slice = || Arc::new(RamDisk::new_read_only(512, 4096).unwrap()) as Arc<dyn BlockDevice>;
    on_a_core(check_read_only(over(vec![slice(), slice()], dealing(MIB, &[0, 1]), 2 * MIB)));
}

/// One slice that can only be read makes the whole such a volume.
#[test]
fn a_slice_without_writes_makes_a_volume_without_writes() {
    let slice = Arc::new(RamDisk::new_read_only(512, 4096).unwrap()) as Arc<dyn BlockDevice>;
    let slices = vec![ram(2 * MIB), slice];
    on_a_core(check_read_only(over(slices, dealing(MIB, &[0, 1]), 2 * MIB)));
}
