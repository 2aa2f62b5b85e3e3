//! Commands that cost a core much and their hosts next to nothing: beside them the others go on.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::testing::{Fault, Operation, Rule};

use crate::common::{
    A_MOMENT, Command, Connection, Login, Rig, config, disk_of, faulty, pattern, ram,
    sanitize_overwrites, test_unit_ready, verify_same, wait_until, write_same,
};

/// How long each side of the comparison is looked at, and what a busy machine may add to one command.
const TIME: Duration = Duration::from_secs(1);
const NOISE: Duration = Duration::from_millis(400);

/// Writes and reads of a good host: the slowest of those that end within the time.
fn slowest(good: &mut Connection) -> Duration {
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    for round in 0.. {
        let data = [0, 1, 2, 3].map(|part| pattern(64 << 10, round * 4 + part));
        let since = Instant::now();
        for (at, data) in (0..).step_by(128).zip(&data) {
            good.run(&Command::write(at, data)).good();
            assert!(&good.run(&Command::read(at, 128)).good() == data);
        }
        slowest = slowest.max(since.elapsed());
        if begun.elapsed() > TIME {
            break;
        }
    }
    slowest
}

/// Sixteen addresses send as many of these as their windows allow, to another unit of the same core.
#[track_caller]
fn beside(heavy: &Command) {
    let rig = Rig::start(config([ram(), ram()]));
    let mut good = rig.ready("good");
    let usual = slowest(&mut good);
    let heavy = heavy.clone().on(1);
    let ready = |index: u8| {
        let login = Login::new(&format!("heavy{index}")).from(10 + index);
        let mut host = login.connect(rig.portal()).unwrap();
        host.take_attentions(1);
        host
    };
    let mut hosts: Vec<_> = (0..16).map(ready).collect();
    for host in &mut hosts {
        for _ in 0..100 {
            host.issue(&heavy);
        }
    }
    let beside = slowest(&mut good);
    drop(hosts);
    assert!(beside < 2 * usual + NOISE, "{beside:?} instead of {usual:?}");
}

/// A host that asks for a thousand of them at one place and leaves would keep the disk busy with itself for
/// minutes, and everybody out of its way.
#[test]
fn long_work_at_one_unit_goes_step_by_step_and_ends_with_its_host() {
    let (disk, device) = faulty();
    let rig = Rig::start(config([device]));
    disk.inject(Rule::always(Operation::WriteZeroes, Fault::Hang));
    let mut hosts: Vec<_> = ["a", "b"].map(|name| rig.ready(name)).into();
    for host in &mut hosts {
        for _ in 0..50 {
            host.issue(&write_same(0, 32_768, &[0; 512]));
        }
    }
    wait_until("the first step is at the disk", || disk.held() == 1);
    std::thread::sleep(A_MOMENT);
    assert_eq!(disk.held(), 1, "one step at a time");
    hosts.clear();
    // One more may have begun before it was seen that they have gone.
    let begun = Cell::new(0);
    wait_until("their sessions are over", || {
        begun.set(begun.get() + disk.held());
        disk.release();
        std::thread::sleep(A_MOMENT);
        rig.server().sessions() == 0
    });
    let begun = begun.get();
    assert!(begun <= 3, "{begun} steps for hosts that have gone");
    disk.heal();
    rig.ready("c").run(&write_same(0, 32_768, &[0; 512])).good();
}

#[test]
fn verify_of_many_blocks_holds_no_neighbour_up() {
    beside(&verify_same(0, 16_384, &[0; 512]));
}

#[test]
fn write_same_of_many_blocks_holds_no_neighbour_up() {
    beside(&write_same(0, 32_768, &pattern(512, 1)));
}

/// One host has many units overwritten, as often as a SANITIZE can.
#[test]
fn sanitize_of_many_units_holds_no_neighbour_up() {
    const UNITS: u8 = 200;
    let small = (0..UNITS).map(|_| disk_of(512, 2048));
    let rig = Rig::start(config([ram()].into_iter().chain(small)));
    let mut good = rig.ready("good");
    let usual = slowest(&mut good);
    let mut host = Login::new("heavy").from(10).connect(rig.portal()).unwrap();
    for lun in 1..=UNITS {
        host.take_attentions(lun.into());
    }
    let begin = |host: &mut Connection, lun: u8| {
        host.run(&sanitize_overwrites(31, 0xaa).on(lun.into())).status == 0
    };
    assert!((1..=UNITS).all(|lun| begin(&mut host, lun)));
    let is_over = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        // What has come to its end begins again.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                (1..=UNITS).for_each(|lun| _ = begin(&mut host, lun));
            }
        });
        let beside = slowest(&mut good);
        is_over.store(true, Ordering::Relaxed);
        beside
    });
    let goes_on = |lun: u8| {
        let ready = host.run(&Command::new(test_unit_ready()).on(lun.into()));
        ready.status != 0 && ready.check() == (0x02, 0x04, 0x1b)
    };
    assert!((1..=UNITS).any(goes_on), "it was over too soon");
    assert!(beside < 2 * usual + NOISE, "{beside:?} instead of {usual:?}");
}

/// They come to an end, and tell what is true.
#[test]
fn what_is_done_in_pieces_is_done() {
    let rig = Rig::start(config([ram(), ram()]));
    let mut host = rig.ready("host");
    let block = pattern(512, 7);
    host.run(&write_same(0, 32_768, &block)).good();
    for lba in [0, 16_384] {
        host.run(&verify_same(lba, 16_384, &block)).good();
    }
    let mut other = block.clone();
    other[3] ^= 1;
    host.run(&Command::write(32_767, &other)).good();
    host.run(&verify_same(16_384, 16_383, &block)).good();
    let (key, asc, _) = host.run(&verify_same(16_384, 16_384, &block)).check();
    assert_eq!((key, asc), (0x0e, 0x1d));
    assert!(host.run(&Command::read(32_766, 1)).good() == block);
}
