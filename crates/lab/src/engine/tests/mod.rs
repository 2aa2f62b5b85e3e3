//! The engine against devices whose behaviour is known: rates, latencies, and disks that lie.

mod ends;
mod lying;
mod timed;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, NullDisk, RamDisk};
use ring::CoreConfig;

use super::*;
use crate::check::Seen;
use crate::measure::StepFigures;
use crate::workload::{Script, fio, vdbench};
use lying::{Lie, LyingDisk};
use timed::TimedDisk;

const KEY: u64 = 0x1234_5678;

fn ram(bytes: u64) -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(512, bytes / 512).unwrap())
}

fn volume(name: &str, device: Arc<dyn BlockDevice>) -> Volume {
    let len = device.geometry().size_bytes();
    let (name, target) = (name.to_owned(), "test".to_owned());
    Volume {
        name,
        target,
        device,
        disk: None,
        at: 0,
        len,
        range: None,
        hit_bytes: 1 << 20,
        threads: 8,
        durable: false,
    }
}

fn options() -> RunOptions {
    RunOptions { drain_max: Duration::from_secs(5), ..RunOptions::new(KEY) }
}

fn silent() -> Listener {
    Rc::new(|_| ())
}

/// Runs a script on devices, one for each of its storages.
fn run_on(
    script: Script,
    devices: Vec<Arc<dyn BlockDevice>>,
    options: RunOptions,
) -> Vec<StepFigures> {
    ring::block_on(&CoreConfig::default(), async move {
        let volumes = script.storage.iter().zip(devices).map(|(storage, device)| Volume {
            threads: storage.threads,
            range: storage.range,
            durable: storage.open.durable,
            ..volume(&storage.name, device)
        });
        let bench = Bench::new(volumes.collect(), &script, options).unwrap();
        run(&bench, &script, &[], &silent()).await.unwrap()
    })
    .unwrap()
}

fn parameters(text: &str) -> Script {
    vdbench::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn job(text: &str) -> Script {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    fio::parse(&words).unwrap_or_else(|error| panic!("{error}"))
}

fn assert_near(found: f64, expected: f64, part: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= part, "{what}: {found} for {expected}");
}

#[test]
fn a_rate_is_met_within_two_percent() {
    let script = parameters(
        "sd=s1,lun=x\nsd=s2,lun=y\nwd=a,sd=s1,skew=75\nwd=b,sd=s2\n\
         rd=r,wd=*,iorate=(400,4000),elapsed=2,warmup=0.3,interval=0.5\n",
    );
    let null = || Arc::new(NullDisk::new(512, 1 << 20)) as Arc<dyn BlockDevice>;
    for step in run_on(script, vec![null(), null()], options()) {
        let asked = step.asked_iops.unwrap();
        assert_near(step.total.iops, asked, 0.02, "IOPS");
        assert_near(step.volumes[0].total.iops, asked * 0.75, 0.02, "IOPS of the first");
        assert_eq!(step.intervals.len(), 4);
        assert_near(step.seconds, 2.0, 0.001, "seconds");
        let parts: u64 = step.intervals.iter().map(|interval| interval.total.ios).sum();
        assert!(
            step.total.ios.abs_diff(parts) <= 2,
            "{parts} in the intervals, {}",
            step.total.ios
        );
    }
}

/// The last I/O is due long before the end: the time that is measured does not end with it.
#[test]
fn a_low_rate_is_met_too() {
    let script = parameters("sd=s,lun=x\nwd=w,sd=s\nrd=r,wd=w,iorate=2,elapsed=2,warmup=0.25\n");
    let step = run_on(script, vec![ram(1 << 20)], options()).remove(0);
    assert_near(step.seconds, 2.0, 0.001, "seconds");
    assert_eq!(step.total.ios, 4);
}

#[test]
fn latencies_are_those_that_the_disk_took() {
    for (reads, threads) in [(100, 1), (50, 4)] {
        let disk = Arc::new(TimedDisk::new(ram(1 << 20), Duration::from_millis(3)));
        let script = parameters(&format!(
            "sd=s,lun=x\nwd=w,sd=s,rdpct={reads}\nrd=r,wd=w,elapsed=1.5,threads={threads}\n"
        ));
        let step = run_on(script, vec![disk.clone()], options()).remove(0);
        let took = disk.took();
        assert!(took.len() as u64 >= step.total.ios, "it did no less than was counted");
        let at = |q: f64| took[((took.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e6;
        let mean = took.iter().sum::<Duration>().as_secs_f64() * 1e6 / took.len() as f64;
        assert_near(step.total.mean_us, mean, 0.02, "mean");
        // The disk also knows the I/Os that ended after the step: ranks differ by a few of some hundred.
        for (found, q) in [(step.total.p50_us, 0.5), (step.total.p90_us, 0.9)] {
            let (low, high) = (at(q - 0.02) * 0.98, at(q + 0.02) * 1.02);
            assert!((low..=high).contains(&found), "{found} is not between {low} and {high}");
        }
        assert_near(step.mean_queue_depth, f64::from(threads), 0.02, "queue depth");
        let sum = step.read.ios + step.write.ios;
        assert_eq!((sum, step.validation.mismatch_count), (step.total.ios, 0));
    }
}

/// The disk stands still for half a second at 1,000 a second: whoever only times what it was asked sees
/// four slow I/Os.
#[test]
fn who_waits_for_its_turn_counts_as_waiting() {
    let disk = Arc::new(TimedDisk::new(ram(1 << 20), Duration::ZERO));
    disk.pause_at(700, Duration::from_millis(500));
    let script = parameters(
        "sd=s,lun=x,threads=4\nwd=w,sd=s\nrd=r,wd=w,iorate=1000,elapsed=1.8,interval=1,warmup=0.2\n",
    );
    let step = run_on(script, vec![disk], options()).remove(0);
    // Of 1,800 I/Os 500 were due in the pause; 180 of these waited longer than 320 ms.
    // On a busy machine the wait for the disk comes on top.
    assert_near(step.total.p90_us, 320_000.0, 0.25, "p90");
    assert_near(step.total.max_us, 500_000.0, 0.1, "max");
    assert_eq!(step.stalls.len(), 1, "{:?}", step.stalls);
    assert_near(step.stalls[0].seconds, 0.5, 0.1, "the stall");
    assert_near(step.stalls[0].at_s, 0.5, 0.1, "its begin, from the end of the warm-up");
}

#[test]
fn skew_holds_between_disks_of_different_speed() {
    let slow = Arc::new(TimedDisk::new(ram(1 << 20), Duration::from_millis(2)));
    let script = parameters(
        "sd=s1,lun=x\nsd=s2,lun=y\nwd=a,sd=s1,skew=50\nwd=b,sd=s2,skew=50\nrd=r,wd=*,elapsed=1\n",
    );
    let step = run_on(script, vec![slow, ram(1 << 20)], options()).remove(0);
    let [first, second] = &step.volumes[..] else { panic!() };
    assert!(first.total.ios > 1000, "{}", first.total.ios);
    assert!(first.total.ios.abs_diff(second.total.ios) < 200, "{step:?}");
}

/// All threads of the first disk could wait with the workload that is ahead, and nobody would be left
/// for the one that is behind.
#[test]
fn shares_of_one_disk_do_not_stop_each_other() {
    let slow = || Arc::new(TimedDisk::new(ram(1 << 20), Duration::from_micros(500)));
    let script = parameters(
        "sd=s1,lun=x,threads=4\nsd=s2,lun=y,threads=4\nwd=a,sd=(s1,s2)\nwd=b,sd=s1,skew=20,rdpct=0\n\
         rd=r,wd=(a,b),elapsed=1.5\n",
    );
    let step = run_on(script, vec![slow(), slow()], options()).remove(0);
    assert!(step.total.ios > 1000, "{} I/Os", step.total.ios);
    let writes = step.write.ios as f64 / step.total.ios as f64;
    assert_near(writes, 0.2, 0.1, "the share of the second");
}

#[test]
fn an_honest_disk_is_never_accused() {
    let text = "sd=s1,lun=x,threads=16\nsd=s2,lun=y,range=(50,150)\n\
        wd=a,sd=s1,xfersize=(4k,50,16k,50),rdpct=40,seekpct=70,rhpct=30,whpct=50\n\
        wd=b,sd=s*,xfersize=4k,rdpct=50,hotband=(0,10)\n\
        wd=c,sd=s2,xfersize=8k,rdpct=0,seekpct=sequential\n\
        rd=r,wd=*,elapsed=0.5,forthreads=(1,32)\n";
    let options = RunOptions { validate_after: true, ..options() };
    let steps = run_on(parameters(text), vec![ram(4 << 20), ram(4 << 20)], options);
    assert_eq!(steps.len(), 3);
    for step in &steps {
        assert_eq!(step.validation.mismatch_count, 0, "{:?}", step.validation);
        assert!(step.validation.is_on && step.error_count == 0);
    }
    assert!(steps[1].validation.compared_bytes > 1 << 20);
    let swept = &steps[2];
    assert_eq!(swept.name, "validate-after");
    assert!(swept.validation.unknown_bytes == 0 && swept.validation.compared_bytes > 1 << 20);
}

fn write_all(bytes: &str) -> Script {
    job(&format!("--name=w --rw=write --bs=512 --iodepth=16 --size={bytes}"))
}

/// The one that is lost is found, by its address, with what it should be and what is there.
#[test]
fn one_lost_write_in_a_hundred_thousand_is_found() {
    let disk = Arc::new(LyingDisk::new(ram(64 << 20), Lie::LoseWrite(100_000)));
    let options = RunOptions { validate_after: true, ..options() };
    let steps = run_on(write_all("64m"), vec![disk.clone()], options);
    assert_eq!(disk.writes(), 131_072);
    let [found] = &steps[1].validation.mismatches[..] else { panic!("{:?}", steps[1].validation) };
    assert_eq!(Some(found.at_bytes), disk.lied_at());
    assert_eq!((found.lba, &found.seen), (found.at_bytes / 512, &Seen::Zeroes));
    assert!(found.expected > 0 && found.written_unix_ns > 0, "{found}");
    assert_eq!(steps[1].validation.mismatch_count, 1);
}

#[test]
fn two_swapped_blocks_are_found() {
    let (one, other) = (512 * 700, 512 * 1300);
    let disk = Arc::new(LyingDisk::new(ram(1 << 20), Lie::Swap(one, other)));
    let options = RunOptions { validate_after: true, ..options() };
    let steps = run_on(write_all("1m"), vec![disk], options);
    let found: Vec<(u64, u64)> = steps[1]
        .validation
        .mismatches
        .iter()
        .map(|found| match found.seen {
            Seen::Elsewhere { at_bytes, .. } => (found.at_bytes, at_bytes),
            ref seen => panic!("{seen}"),
        })
        .collect();
    assert_eq!(found, [(one, other), (other, one)]);
}

/// As a failover to a copy that is behind: what was written after the copy was made is old again.
#[test]
fn old_data_after_a_failover_is_found_while_it_runs() {
    let disk =
        Arc::new(LyingDisk::new(ram(1 << 20), Lie::Rewind { copied_at: 3000, back_at: 6000 }));
    let script = parameters("sd=s,lun=x,threads=8\nwd=w,sd=s,rdpct=50\nrd=r,wd=w,elapsed=5\n");
    let options = RunOptions { mismatches_max: 1, ..options() };
    let step = run_on(script, vec![disk], options).remove(0);
    assert!(step.seconds < 4.0, "it ends at the first: {} s", step.seconds);
    let found = &step.validation.mismatches[0];
    let Seen::Old { sequence, written_unix_ns } = found.seen else { panic!("{found}") };
    assert!(sequence < found.expected && written_unix_ns > 0, "{found}");
}

#[test]
fn a_journal_finds_after_a_crash_what_was_lost_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Some(directory.path().join("journal"));
    let disk = Arc::new(LyingDisk::new(ram(1 << 20), Lie::LoseWrite(1500)));
    let first = RunOptions { journal: journal.clone(), ..options() };
    let steps = run_on(write_all("1m"), vec![disk.clone()], first);
    assert_eq!(steps[0].validation.mismatch_count, 0, "nothing was read yet");
    let second = RunOptions { journal, validate_before: true, key: 1, ..options() };
    let script = job("--name=r --rw=read --bs=512 --size=1m");
    let steps = run_on(script, vec![disk.clone()], second);
    assert_eq!(steps[0].name, "validate-before");
    let [found] = &steps[0].validation.mismatches[..] else { panic!("{:?}", steps[0].validation) };
    assert_eq!(Some(found.at_bytes), disk.lied_at());
    assert_eq!(steps[1].validation.mismatch_count, 1, "the read of the step finds it too");
    assert_eq!((steps[0].validation.again_count, steps[1].validation.again_count), (0, 1));
}

/// A connection is given up, and its write is done behind the next one to the same block: the target did nothing
/// wrong, and the data is not what was written last. Both runs say so.
#[test]
fn a_write_that_was_given_up_and_came_late_is_no_wrong_data() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Some(directory.path().join("journal"));
    let disk = Arc::new(LyingDisk::new(ram(4096), Lie::DoLate(7)));
    let first = RunOptions { validate_after: true, journal: journal.clone(), ..options() };
    let script = job("--name=w --rw=write --bs=4k --size=4k --loops=8");
    let steps = run_on(script, vec![disk.clone()], first);
    assert_eq!((disk.writes(), steps[0].error_count), (8, 1), "{:?}", steps[0].errors);
    let second = RunOptions { validate_before: true, journal, ..options() };
    let script = job("--name=r --rw=read --bs=4k --size=4k");
    for step in [&steps[1], &run_on(script, vec![disk], second)[0]] {
        assert_eq!((step.validation.mismatch_count, step.error_count), (0, 1), "{}", step.name);
        let told = &step.errors[0].error;
        assert!(told.contains("expected write 8, "), "{told}");
        assert!(told.contains("seen write 7, which had been given up and came late"), "{told}");
    }
}

/// Read again and again, the one block that is wrong is one.
#[test]
fn a_block_that_is_found_wrong_twice_is_one_wrong_block() {
    let disk = Arc::new(LyingDisk::new(ram(64 << 10), Lie::LoseWrite(100)));
    let text = "sd=s,lun=x,size=64k,threads=1\nwd=w,sd=s,xfersize=512,rdpct=0,seekpct=sequential\n\
        wd=r,sd=s,xfersize=512,seekpct=sequential\n\
        rd=fill,wd=w,iorate=128,elapsed=1\nrd=look,wd=r,iorate=2000,elapsed=0.5\n";
    let options = RunOptions { mismatches_max: 2, validate_after: true, ..options() };
    let steps = run_on(parameters(text), vec![disk], options);
    let counts: Vec<(u64, u64, usize)> = steps
        .iter()
        .map(|step| &step.validation)
        .map(|found| (found.mismatch_count, found.again_count, found.mismatches.len()))
        .collect();
    assert_eq!(counts, [(0, 0, 0), (1, 0, 1), (1, 1, 1)]);
    assert!(steps[1].total.ios > 900, "one wrong block is not two: it goes on");
}

/// Nobody lets the lab run for a while: the disk answered in time, and it is said.
#[test]
fn a_freeze_of_the_lab_is_not_charged_to_the_target_without_a_word() {
    let script = parameters("sd=s,lun=x,threads=2\nwd=w,sd=s\nrd=r,wd=w,elapsed=1.5\n");
    let step = ring::block_on(&CoreConfig::default(), async move {
        let disk = Arc::new(TimedDisk::new(ram(1 << 20), Duration::from_millis(2)));
        let bench = Bench::new(vec![volume("s", disk)], &script, options()).unwrap();
        ring::spawn(async {
            ring::sleep(Duration::from_millis(400)).await;
            std::thread::sleep(Duration::from_millis(700));
        });
        run(&bench, &script, &[], &silent()).await.unwrap().remove(0)
    });
    let step = step.unwrap();
    let longest = step.freezes.iter().map(|freeze| freeze.seconds).fold(0.0, f64::max);
    assert!((0.6..1.1).contains(&longest), "{:?}", step.freezes);
    let [stall] = &step.stalls[..] else { panic!("{:?}", step.stalls) };
    assert!(stall.frozen_s > 0.6 && stall.frozen_s <= stall.seconds, "{stall:?}");
    assert_eq!(step.longest_pause_frozen_s, stall.frozen_s);
    assert!(stall.to_string().contains("of which the lab itself did not run for"), "{stall}");
    let cpu = step.freezes.iter().map(|freeze| freeze.cpu_s).sum::<f64>();
    assert!(cpu < 0.3, "it slept: {cpu} s");
}

#[test]
fn a_part_of_the_disk_ends_a_job() {
    let script = job("--rw=readwrite --bs=4k --iodepth=4 --size=10% --loops=3 --numjobs=2");
    let step = run_on(script, vec![ram(4 << 20)], options()).remove(0);
    let part = (4 << 20) / 10 / 4096 * 4096;
    assert_eq!(step.total.ios, 2 * 3 * part / 4096, "both streams, three times");
}

#[test]
fn errors_are_told_and_it_goes_on() {
    let disk = FaultyDisk::new(ram(1 << 20));
    let error = BlockError::Medium { at: 4096 };
    disk.inject(Rule::always(Operation::Write, Fault::Fail(error)).times(3));
    let script = parameters("sd=s,lun=x,threads=2\nwd=w,sd=s,rdpct=0\nrd=r,wd=w,elapsed=0.5\n");
    let step = run_on(script, vec![Arc::new(disk)], options()).remove(0);
    assert_eq!((step.error_count, step.errors.len()), (3, 3));
    assert_eq!(step.errors[0].error, "medium error at byte 4096");
    assert!(step.total.ios > 100 && step.validation.mismatch_count == 0);
}

#[test]
fn what_hangs_is_given_up_and_said() {
    let disk = FaultyDisk::new(ram(1 << 20));
    disk.inject(Rule::always(Operation::Read, Fault::Hang).times(1));
    let script = parameters("sd=s,lun=x,threads=2\nwd=w,sd=s\nrd=r,wd=w,elapsed=0.3\n");
    let options = RunOptions { drain_max: Duration::from_millis(200), ..options() };
    let step = run_on(script, vec![Arc::new(disk)], options).remove(0);
    assert_eq!(step.errors[0].error, "it did not come back within 0.2 s after the step");
    assert!(step.total.ios > 100);
}

/// A write without an answer may be there or not: neither is wrong data.
#[test]
fn a_write_that_was_done_and_never_answered_is_no_wrong_data() {
    let disk = Arc::new(LyingDisk::new(ram(64 << 10), Lie::Mute(1500)));
    let script = parameters("sd=s,lun=x,threads=2\nwd=w,sd=s,rdpct=0\nrd=r,wd=w,elapsed=0.5\n");
    let drain_max = Duration::from_millis(200);
    let options = RunOptions { validate_after: true, drain_max, ..options() };
    let steps = run_on(script, vec![disk.clone()], options);
    let writes = steps[0].errors.iter().filter(|error| error.operation == "write").count();
    assert_eq!((writes, steps[0].error_count), (2, 2), "{:?}", steps[0].errors);
    assert!(disk.writes() == 1501 && steps[1].validation.compared_bytes == 64 << 10);
    assert_eq!(steps[1].validation.mismatches, []);
}

#[test]
fn a_flush_that_hangs_keeps_what_was_measured() {
    let disk = Arc::new(LyingDisk::new(ram(64 << 10), Lie::Mute(u64::MAX)));
    let script =
        parameters("sd=s,lun=x,threads=2\nwd=w,sd=s,rdpct=0\nrd=r,wd=w,iorate=500,elapsed=0.3\n");
    let options = RunOptions { drain_max: Duration::from_millis(200), ..options() };
    let step = run_on(script, vec![disk], options).remove(0);
    assert_eq!(step.errors[0].operation, "flush");
    assert!(step.total.ios > 50);
}

#[test]
fn a_disk_that_is_gone_is_not_read_back_to_the_end() {
    let disk = Arc::new(FaultyDisk::new(ram(8 << 20)));
    let error = BlockError::Medium { at: 0 };
    disk.inject(Rule::always(Operation::Read, Fault::Fail(error)));
    let options = RunOptions { validate_after: true, mismatches_max: 3, ..options() };
    let steps = run_on(write_all("8m"), vec![disk], options);
    assert_eq!(steps[1].error_count, 3, "32 reads are not tried");
}

#[test]
fn what_nobody_noted_cannot_be_validated() {
    let directory = tempfile::tempdir().unwrap();
    for journal in [None, Some(directory.path().join("mistyped"))] {
        let options = RunOptions { journal, validate_before: true, ..options() };
        let script = job("--name=r --rw=read --bs=512 --size=1m");
        let refused = Bench::new(vec![volume("s", ram(1 << 20))], &script, options);
        let Err(refused) = refused.map(|_| ()) else { panic!("nothing to validate") };
        assert!(refused.to_string().contains("knows of no write"), "{refused}");
    }
    assert!(!directory.path().join("mistyped").exists(), "nothing is made");
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let script = parameters("sd=s,lun=x\nwd=w,sd=s\nrd=r,wd=w,elapsed=60\nrd=q,wd=w\n");
    let options = options();
    let stop = options.stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        stop.store(true, Ordering::Relaxed);
    });
    let steps = run_on(script, vec![ram(1 << 20)], options);
    assert_eq!(steps.len(), 1);
    assert!(steps[0].was_stopped && steps[0].total.ios > 100);
    assert!(steps[0].seconds < 10.0);
}

#[test]
fn steps_that_are_done_are_not_run_again() {
    let script =
        parameters("sd=s,lun=x\nwd=w,sd=s\nrd=r,wd=w,elapsed=0.2,iorate=curve,curve=(50)\n");
    let first = run_on(script.clone(), vec![ram(1 << 20)], options());
    let begun = Rc::new(RefCell::new(Vec::new()));
    let noted = begun.clone();
    let done = first[..1].to_vec();
    let expected = done[0].total.iops * 0.5;
    let steps = ring::block_on(&CoreConfig::default(), async move {
        let bench = Bench::new(vec![volume("s", ram(1 << 20))], &script, options()).unwrap();
        let listener: Listener = Rc::new(move |event| {
            if let Event::Begun(index, count, _) = event {
                noted.borrow_mut().push((*index, *count));
            }
        });
        run(&bench, &script, &done, &listener).await.unwrap()
    });
    let steps = steps.unwrap();
    assert_eq!(steps[0], first[0]);
    assert_near(steps[1].asked_iops.unwrap(), expected, 1e-9, "half of what was measured before");
}

#[test]
fn what_cannot_run_is_refused_before_it_begins() {
    let refused = |text: &str, device: Arc<dyn BlockDevice>| {
        let script = parameters(text);
        let outcome = ring::block_on(&CoreConfig::default(), async move {
            Bench::new(vec![volume("s", device)], &script, options()).map(drop)
        });
        outcome.unwrap().unwrap_err().to_string()
    };
    let read_only = Arc::new(RamDisk::new_read_only(512, 8192).unwrap());
    let writes = "sd=s,lun=x\nwd=w,sd=s,rdpct=0\nrd=r,wd=w\n";
    assert_eq!(refused(writes, read_only), "s is read-only, and the workload writes");
    let large = Arc::new(RamDisk::new(4096, 1024).unwrap());
    let small = "sd=s,lun=x\nwd=w,sd=s,xfersize=512\nrd=r,wd=w\n";
    assert_eq!(refused(small, large), "s has blocks of 4096 bytes, of which 512 are no multiple");
}
