//! The engine allocates nothing for each I/O, with data validation on and off.

use std::rc::Rc;
use std::sync::Arc;

use block::{BlockDevice, RamDisk};
use lab::engine::{Bench, Listener, RunOptions, Volume};
use lab::workload::fio;
use ring::CoreConfig;
use ring::testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// I/Os, and allocations while they were done.
fn counts(validate: bool, mebibytes: u32) -> (u64, u64) {
    let words = format!("--rw=randrw --bs=4k --iodepth=32 --size=8m --loops={}", mebibytes / 8);
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let script = fio::parse(&words).expect("works");
    let run = async move {
        let device: Arc<dyn BlockDevice> =
            Arc::new(RamDisk::new(512, (8 << 20) / 512).expect("works"));
        let volume = Volume {
            name: "v".to_owned(),
            target: "ram".to_owned(),
            device,
            disk: None,
            at: 0,
            len: 8 << 20,
            range: None,
            hit_bytes: 1 << 20,
            threads: 32,
            durable: false,
        };
        let options = RunOptions { validate, ..RunOptions::new(3) };
        let bench = Bench::new(vec![volume], &script, options).expect("works");
        let listener: Listener = Rc::new(|_| ());
        let before = allocations();
        let steps = lab::engine::run(&bench, &script, &[], &listener).await.expect("works");
        assert_eq!((steps[0].error_count, steps[0].validation.mismatch_count), (0, 0));
        (steps[0].total.ios, allocations() - before)
    };
    ring::block_on(&CoreConfig::default(), run).expect("works")
}

#[test]
fn no_allocation_for_each_io() {
    for validate in [false, true] {
        let (few, base) = counts(validate, 32);
        let (many, more) = counts(validate, 320);
        assert!(many > few + 50_000, "{few} and {many} I/Os");
        // What is left are intervals and the table of times, not one for each I/O.
        let extra = more.saturating_sub(base);
        assert!(extra < 500, "{extra} more allocations for {} more I/Os", many - few);
    }
}
