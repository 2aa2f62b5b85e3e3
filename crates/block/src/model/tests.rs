//! The pure model: that it does what data sheets say, and that it behaves like a drive.

use proptest::prelude::*;

use super::*;
use crate::testing::{Load, Pattern, modelled};

mod device;

const READS: Load =
    Load { write: false, durable: false, pattern: Pattern::Random, block_bytes: 4096, depth: 1 };
const STREAM: Load = Load { pattern: Pattern::FromStart, block_bytes: 256 << 10, ..READS };

fn writes(durable: bool, load: Load) -> Load {
    Load { write: true, durable, ..load }
}

fn deep(depth: usize, load: Load) -> Load {
    Load { depth, ..load }
}

/// `found` is at most `percent` away from `wanted`.
fn near(found: f64, wanted: f64, percent: f64) {
    assert!((found / wanted - 1.0).abs() <= percent / 100.0, "{found:.1}, not {wanted:.1}");
}

#[test]
fn spinning_drives_do_the_random_reads_that_they_are_known_for() {
    let iops = |class, depth| modelled(class, &deep(depth, READS)).iops;
    for (class, one, many) in [
        (DriveClass::Sas15k, 175.0..200.0, 400.0..500.0),
        (DriveClass::Sas10k, 125.0..150.0, 300.0..400.0),
        (DriveClass::NlSas, 70.0..90.0, 150.0..200.0),
    ] {
        let (alone, queued) = (iops(class, 1), iops(class, 32));
        assert!(one.contains(&alone), "{class:?} alone: {alone:.0}");
        assert!(many.contains(&queued), "{class:?} queued: {queued:.0}");
        near(iops(class, 128), queued, 5.0);
    }
}

#[test]
fn spinning_drives_stream_as_published_at_both_ends() {
    for (class, outer, inner) in [
        (DriveClass::Sas15k, 204.0, 122.0),
        (DriveClass::Sas10k, 124.0, 67.0),
        (DriveClass::NlSas, 175.0, 83.0),
    ] {
        near(modelled(class, &STREAM).mb_per_s, outer, 2.0);
        near(modelled(class, &Load { pattern: Pattern::AtEnd, ..STREAM }).mb_per_s, inner, 3.0);
        near(modelled(class, &writes(false, STREAM)).mb_per_s, outer, 2.0);
        near(modelled(class, &writes(true, deep(4, STREAM))).mb_per_s, outer, 2.0);
        // Without a cache a lone writer is always too late for the next block: it waits for the
        // rest of a revolution.
        let alone = modelled(class, &writes(true, STREAM)).mb_per_s;
        assert!(alone < outer / 3.0, "{class:?}: {alone}");
    }
}

#[test]
fn small_writes_gain_from_the_cache_of_a_spinning_drive() {
    for class in [DriveClass::Sas15k, DriveClass::Sas10k, DriveClass::NlSas] {
        let durable = modelled(class, &writes(true, READS)).iops;
        let volatile = modelled(class, &writes(false, READS)).iops;
        assert!(durable <= modelled(class, &READS).iops, "writes settle longer");
        assert!(volatile > 2.0 * durable, "{class:?}: {volatile} of {durable}");
        assert!(volatile < 5.0 * durable, "{class:?}: {volatile} of {durable}");
    }
}

#[test]
fn flash_drives_do_what_their_specifications_say() {
    for (class, reads, depth, writes_per_s, read_mb, write_mb) in [
        (DriveClass::SataSsd, 75_000.0, 32, 36_000.0, 500.0, 460.0),
        (DriveClass::Nvme, 279_500.0, 128, 30_500.0, 3_200.0, 600.0),
    ] {
        near(modelled(class, &deep(depth, READS)).iops, reads, 2.0);
        near(modelled(class, &deep(depth, writes(true, READS))).iops, writes_per_s, 2.0);
        near(modelled(class, &deep(16, STREAM)).mb_per_s, read_mb, 2.0);
        near(modelled(class, &deep(16, writes(true, STREAM))).mb_per_s, write_mb, 2.0);
    }
    near(modelled(DriveClass::SataSsd, &READS).latency_us, 110.0, 3.0);
    near(modelled(DriveClass::Nvme, &READS).latency_us, 85.0, 3.0);
}

/// A drive with what is needed to ask it one thing after the other.
struct Bench {
    drive: Drive,
    now: Nanos,
    next: Ticket,
}

impl Bench {
    fn new(class: DriveClass) -> Self {
        Self { drive: Drive::new(class, class.usual_bytes()), now: 0, next: 0 }
    }

    fn give(&mut self, kind: Kind, at: u64, len: u64) -> Ticket {
        self.drive.submit(self.now, self.next, Command { kind, at, len });
        self.next += 1;
        self.next - 1
    }

    /// Runs until `ticket` is answered; all that ended, in order.
    fn until(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let mut done = Vec::new();
        while !done.contains(&ticket) {
            self.now = self.drive.next().expect("it is under way");
            self.drive.advance(self.now, &mut done);
        }
        done
    }

    fn takes_us(&mut self, kind: Kind, at: u64, len: u64) -> u64 {
        let begun = self.now;
        let ticket = self.give(kind, at, len);
        self.until(ticket);
        (self.now - begun) / 1000
    }

    fn rest(&mut self, ms: u64) {
        self.now += ms * 1_000_000;
        self.drive.advance(self.now, &mut Vec::new());
    }
}

const VOLATILE: Kind = Kind::Write { durable: false };
const DURABLE: Kind = Kind::Write { durable: true };

#[test]
fn a_flush_waits_for_what_was_written_before_it_and_for_no_more() {
    let mut bench = Bench::new(DriveClass::Sas15k);
    assert!(bench.takes_us(Kind::Flush, 0, 0) < 300, "nothing is held");
    for block in 0..20 {
        let far = (block * 7919 % 20) << 30;
        assert!(bench.takes_us(VOLATILE, far, 4096) < 1000, "the cache takes it");
    }
    let flush = bench.give(Kind::Flush, 0, 0);
    let later = bench.give(VOLATILE, 200 << 30, 4096);
    let begun = bench.now;
    let done = bench.until(flush);
    assert!(done.contains(&later));
    let ms = (bench.now - begun) / 1_000_000;
    assert!((20..120).contains(&ms), "{ms} ms for about 20 places");
    bench.rest(1000);
    assert!(bench.takes_us(Kind::Flush, 0, 0) < 300, "an idle drive empties its cache");
}

#[test]
fn a_full_cache_makes_writers_wait() {
    let mut bench = Bench::new(DriveClass::NlSas);
    let mut quick = 0;
    while bench.takes_us(VOLATILE, (quick * 7919 % 3000) << 30, 256 << 10) < 2000 {
        quick += 1;
    }
    let held = quick << 18;
    assert!((8 << 20..64 << 20).contains(&held), "{held} bytes went into a cache of 16 MiB");
}

#[test]
fn sequential_reads_find_their_data_read_ahead() {
    let mut bench = Bench::new(DriveClass::Sas10k);
    let first = bench.takes_us(Kind::Read, 50 << 30, 64 << 10);
    assert!(first > 1000);
    bench.rest(20);
    for step in 1..8 {
        let us = bench.takes_us(Kind::Read, (50 << 30) + (step << 16), 64 << 10);
        assert!(us < 500, "step {step} took {us}");
    }
    // Somebody else takes the heads away; what was read stays in memory for a while.
    assert!(bench.takes_us(Kind::Read, 200 << 30, 4096) > 1000);
    assert!(bench.takes_us(Kind::Read, (50 << 30) + (8 << 16), 64 << 10) < 500);
    // But not what is written meanwhile.
    bench.takes_us(DURABLE, (50 << 30) + (9 << 16), 4096);
    assert!(bench.takes_us(Kind::Read, (50 << 30) + (9 << 16), 64 << 10) > 500);
}

#[test]
fn what_a_long_stream_passed_long_ago_is_read_again() {
    let mut bench = Bench::new(DriveClass::Sas10k);
    let (len, mut passes_us) = (256 << 10, Vec::new());
    for _ in 0..3 {
        let begun = bench.now;
        for step in 0..256 {
            bench.takes_us(Kind::Read, step * len, len);
        }
        passes_us.push((bench.now - begun) / 1000);
    }
    for us in passes_us {
        near(us as f64, (256 * len) as f64 / 124.0, 5.0);
    }
}

#[test]
fn the_queue_is_served_in_the_order_of_the_way_but_nobody_starves() {
    let mut bench = Bench::new(DriveClass::Sas15k);
    bench.takes_us(Kind::Read, 0, 4096);
    let far = bench.give(Kind::Read, 290_000_000_000, 4096);
    let near: Vec<_> = (1..20).map(|n| bench.give(Kind::Read, n << 24, 4096)).collect();
    let done = bench.until(far);
    assert!(near.iter().filter(|one| done.contains(one)).count() > 10, "the near ones go first");
    // A stream of near ones that never ends does not keep the far one waiting for ever.
    let far = bench.give(Kind::Read, 150_000_000_000, 4096);
    let (begun, mut done) = (bench.now, Vec::new());
    for n in 0.. {
        if done.contains(&far) {
            break;
        }
        let one = bench.give(Kind::Read, (n * 37 % 1000) << 22, 4096);
        done.extend(bench.until(one));
        assert!(bench.now - begun < 2_000_000_000, "starved");
    }
}

#[test]
fn a_lone_read_waits_for_a_seek_and_a_turn_and_no_more() {
    // In a small place many reads land where the heads read on, or have just been.
    for (class, most_us) in [(DriveClass::Sas15k, 11_000), (DriveClass::NlSas, 26_000)] {
        let mut bench = Bench::new(class);
        let mut random = 1_u64;
        for n in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = ((random >> 33) % (150 << 8)) << 12;
            let us = bench.takes_us(Kind::Read, at, 4096);
            assert!(us < most_us, "{class:?}: read {n} at {at} took {us} us");
            bench.rest(random % 3);
        }
    }
}

#[test]
fn reads_of_flash_wait_for_writes_but_only_a_little() {
    let alone = modelled(DriveClass::Nvme, &READS).latency_us;
    let mut bench = Bench::new(DriveClass::Nvme);
    for n in 0..500 {
        bench.give(DURABLE, (n * 7919) << 20, 4096);
    }
    let mut waited = 0;
    for n in 0..100 {
        waited += bench.takes_us(Kind::Read, (n * 104_729) << 16, 4096);
    }
    let mean = waited as f64 / 100.0;
    assert!(mean > alone * 1.05 && mean < alone * 4.0, "{mean} beside writes, {alone} alone");
}

#[test]
fn a_queue_that_is_full_holds_further_commands_back() {
    let mut bench = Bench::new(DriveClass::SataSsd);
    let all: Vec<_> = (0..64).map(|n| bench.give(Kind::Read, n << 30, 4096)).collect();
    let done = bench.until(all[63]);
    assert_eq!(done.len(), 64);
    assert!(bench.now > 64 * 13_000, "one over its commands per second for each");
}

#[test]
fn space_that_is_given_back_costs_next_to_nothing() {
    for class in DriveClass::ALL {
        let us = Bench::new(class).takes_us(Kind::Trim, 0, class.usual_bytes());
        assert!(us < 500, "{class:?}: {us}");
    }
}

fn any_class() -> impl Strategy<Value = DriveClass> {
    (0..DriveClass::ALL.len()).prop_map(|n| DriveClass::ALL[n])
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Read),
        2 => Just(VOLATILE),
        2 => Just(DURABLE),
        1 => Just(Kind::Flush),
        1 => Just(Kind::Trim),
    ]
}

const SIZE_BYTES: u64 = 1 << 30;

fn any_history() -> impl Strategy<Value = Vec<(u64, Command)>> {
    let command = (any_kind(), 0..SIZE_BYTES >> 12, 1u64..600).prop_map(|(kind, block, blocks)| {
        let at = block << 12;
        Command { kind, at, len: (blocks << 12).min(SIZE_BYTES - at) }
    });
    proptest::collection::vec((0u64..3_000_000, command), 1..150)
}

/// Answers and their times, looking at the drive every `step` or at each of its events.
fn history(class: DriveClass, commands: &[(u64, Command)], step: Option<u64>) -> Vec<Nanos> {
    let mut drive = Drive::new(class, SIZE_BYTES);
    let (mut now, mut ended) = (0, vec![None; commands.len()]);
    let run = |drive: &mut Drive, from: Nanos, to: Nanos, ended: &mut Vec<Option<Nanos>>| {
        let (mut at, mut done) = (from, Vec::new());
        while let Some(next) = drive.next().filter(|next| *next <= to) {
            at = step.map_or(next, |step| at + step).max(next).min(to);
            drive.advance(at, &mut done);
            for ticket in done.drain(..) {
                let slot = &mut ended[ticket as usize];
                assert!(slot.replace(at).is_none(), "answered twice");
            }
        }
        drive.advance(to, &mut done);
        assert!(done.is_empty(), "what ends is told by `next`");
    };
    for (ticket, (pause, command)) in commands.iter().enumerate() {
        run(&mut drive, now, now + pause, &mut ended);
        now += pause;
        drive.submit(now, ticket as Ticket, *command);
    }
    run(&mut drive, now, now + 600_000_000_000, &mut ended);
    assert_eq!(drive.next(), None, "it comes to rest");
    ended.into_iter().map(|at| at.expect("every command is answered")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_command_is_answered_once_and_not_before_it_can_be(
        class in any_class(), commands in any_history()
    ) {
        let ended = history(class, &commands, None);
        let mut given = 0;
        for ((pause, command), ended) in commands.iter().zip(ended) {
            given += pause;
            // No drive here has a link of more than 3.2 GB/s.
            let link_ns = match command.kind {
                Kind::Read | Kind::Write { .. } => command.len * 10 / 32,
                Kind::Flush | Kind::Trim => 0,
            };
            prop_assert!(ended >= given + link_ns, "{command:?} at {given} ended at {ended}");
        }
    }

    #[test]
    fn it_does_not_matter_how_often_one_looks(
        class in any_class(), commands in any_history(), step in 1u64..5_000_000
    ) {
        let exact = history(class, &commands, None);
        let seen = history(class, &commands, Some(step));
        for (exact, seen) in exact.into_iter().zip(seen) {
            prop_assert!(exact <= seen && seen <= exact + step, "{exact}, seen at {seen}");
        }
    }
}
