//! What a simulated drive promises, and that it keeps no more than that.

use std::collections::BTreeSet;
use std::time::Duration;

use array::Env;
use block::{BlockDevice, BlockError, WriteFlags};
use proptest::prelude::*;
use ring::{Buf, Data, Region};

use super::page::{SECTOR_BYTES, SECTORS};
use super::*;
use crate::executor::{Ended, run};

const PAGES: u64 = 16;

fn drive(env: &SimEnv) -> Drive {
    Drive::new(env, 0, PAGES * PAGE_BYTES as u64)
}

fn filled(byte: u8, pages: u64) -> Data {
    let mut buf = Buf::alloc(pages as usize * PAGE_BYTES).unwrap();
    buf.fill(byte);
    buf.freeze()
}

async fn write(disk: &SimDisk, page: u64, pages: u64, byte: u8, flags: WriteFlags) {
    disk.write(page * PAGE_BYTES as u64, filled(byte, pages), flags).await.unwrap();
}

/// The first byte of each sector.
async fn sectors(disk: &SimDisk) -> Vec<u8> {
    let data = disk.read(0, PAGES as usize * PAGE_BYTES).await.unwrap().to_buf().unwrap();
    data.chunks(SECTOR_BYTES)
        .inspect(|sector| assert!(sector.iter().all(|byte| byte == &sector[0]), "a torn sector"))
        .map(|sector| sector[0])
        .collect()
}

#[derive(Debug, Clone)]
enum Action {
    Write {
        page: u64,
        pages: u64,
        durable: bool,
    },
    Unmap {
        page: u64,
        pages: u64,
    },
    Flush,
    /// Begins and is never waited for.
    Forget {
        page: u64,
        pages: u64,
        durable: bool,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let range = || (0..PAGES, 1..=PAGES).prop_map(|(page, pages)| (page, pages.min(PAGES - page)));
    prop_oneof![
        4 => (range(), any::<bool>())
            .prop_map(|((page, pages), durable)| Action::Write { page, pages, durable }),
        1 => range().prop_map(|(page, pages)| Action::Unmap { page, pages }),
        2 => Just(Action::Flush),
        2 => (range(), any::<bool>())
            .prop_map(|((page, pages), durable)| Action::Forget { page, pages, durable }),
    ]
}

/// What each sector may hold: now, and after a loss of power.
struct Expected {
    now: Vec<BTreeSet<u8>>,
    later: Vec<BTreeSet<u8>>,
}

impl Expected {
    fn range(page: u64, pages: u64) -> std::ops::Range<usize> {
        page as usize * SECTORS..(page + pages) as usize * SECTORS
    }

    fn completed(&mut self, page: u64, pages: u64, byte: u8, durable: bool, open: &[Open]) {
        for sector in Self::range(page, pages) {
            // What is in flight may arrive before or after.
            let racing = open.iter().filter(|open| open.range().contains(&sector));
            let racing: BTreeSet<u8> = racing.map(|open| open.byte).collect();
            self.now[sector] = [byte].into_iter().chain(racing.iter().copied()).collect();
            if durable {
                self.later[sector].clear();
            }
            self.later[sector].extend(&self.now[sector]);
        }
    }
}

struct Open {
    page: u64,
    pages: u64,
    byte: u8,
}

impl Open {
    fn range(&self) -> std::ops::Range<usize> {
        Expected::range(self.page, self.pages)
    }
}

/// Does it all in order and returns what may be read.
async fn perform(env: &SimEnv, disk: &SimDisk, actions: &[Action]) -> Expected {
    let zero = || vec![BTreeSet::from([0]); PAGES as usize * SECTORS];
    let mut expected = Expected { now: zero(), later: zero() };
    let mut open = Vec::new();
    for (number, action) in actions.iter().enumerate() {
        let byte = number as u8 + 1;
        match *action {
            Action::Write { page, pages, durable } => {
                let flags = WriteFlags { durable, atomic: false };
                write(disk, page, pages, byte, flags).await;
                expected.completed(page, pages, byte, durable, &open);
            }
            Action::Unmap { page, pages } => {
                let (at, len) = (page * PAGE_BYTES as u64, pages * PAGE_BYTES as u64);
                disk.unmap(at, len).await.unwrap();
                expected.completed(page, pages, 0, false, &open);
            }
            Action::Flush => {
                disk.flush().await.unwrap();
                expected.later.clone_from(&expected.now);
            }
            Action::Forget { page, pages, durable } => {
                let flags = WriteFlags { durable, atomic: false };
                drop(disk.write(page * PAGE_BYTES as u64, filled(byte, pages), flags));
                open.push(Open { page, pages, byte });
                for sector in Expected::range(page, pages) {
                    expected.now[sector].insert(byte);
                    expected.later[sector].insert(byte);
                }
            }
        }
        for (sector, found) in sectors(disk).await.iter().enumerate() {
            let allowed = &expected.now[sector];
            assert!(allowed.contains(found), "{env:?} sector {sector}: {found} not in {allowed:?}");
        }
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_cut_leaves_each_sector_as_it_was_at_some_time_since_the_last_flush(
        seed: u64,
        actions in prop::collection::vec(action(), 1..20),
    ) {
        let env = SimEnv::new(seed, false);
        let drive = drive(&env);
        let disk = drive.plug();
        let (Ended::Done(expected), _) = env.boot(None, perform(&env, &disk, &actions)) else {
            unreachable!("no cut was asked for")
        };
        drive.unplug();
        let (Ended::Done(found), _) = env.boot(None, async {
            let found = sectors(&drive.plug()).await;
            assert_eq!(disk.read(0, 4096).await.unwrap_err(), BlockError::Medium { at: 0 });
            found
        }) else {
            unreachable!("no cut was asked for")
        };
        for (sector, byte) in found.iter().enumerate() {
            let allowed = &expected.later[sector];
            prop_assert!(allowed.contains(byte), "sector {sector}: {byte} not in {allowed:?}");
        }
        prop_assert_eq!(drive.damaged(), 0);
    }

    #[test]
    fn the_end_of_the_process_loses_nothing_that_was_answered(
        seed: u64,
        actions in prop::collection::vec(action(), 1..20),
    ) {
        let env = SimEnv::new(seed, false);
        let drive = drive(&env);
        let disk = drive.plug();
        let (Ended::Done(expected), _) = env.boot(None, perform(&env, &disk, &actions)) else {
            unreachable!("no cut was asked for")
        };
        drive.release();
        env.boot(None, async {
            for (sector, byte) in sectors(&drive.plug()).await.iter().enumerate() {
                assert!(expected.now[sector].contains(byte), "sector {sector}: {byte}");
            }
        });
    }
}

/// A page is written without a flush, then the power goes: what is left of its sectors.
fn after_cut(seed: u64, flags: WriteFlags, flush: bool, wait: bool) -> Vec<u8> {
    let env = SimEnv::new(seed, false);
    let drive = drive(&env);
    let disk = drive.plug();
    env.boot(None, async {
        let written = disk.write(0, filled(1, 2), flags);
        if wait {
            written.await.unwrap();
        }
        if flush {
            disk.flush().await.unwrap();
        }
    });
    drive.unplug();
    let (Ended::Done(found), _) = env.boot(None, async { sectors(&drive.plug()).await }) else {
        unreachable!("no cut was asked for")
    };
    found[..2 * SECTORS].to_vec()
}

#[test]
fn every_way_of_losing_a_write_is_met_and_a_flush_ends_them_all() {
    let outcomes = |flags, flush, wait| {
        (0..300).map(|seed| after_cut(seed, flags, flush, wait)).collect::<BTreeSet<_>>()
    };
    for (flags, wait) in [(WriteFlags::VOLATILE, true), (WriteFlags::DURABLE, false)] {
        let all = outcomes(flags, false, wait);
        assert!(all.contains(&vec![0; 16]) && all.contains(&vec![1; 16]));
        let torn = |list: &&Vec<u8>| list.contains(&0) && list.contains(&1);
        assert!(all.iter().filter(torn).count() > 20, "prefixes, suffixes and mixtures");
    }
    assert_eq!(outcomes(WriteFlags::VOLATILE, true, true), [vec![1; 16]].into());
    assert_eq!(outcomes(WriteFlags::DURABLE, false, true), [vec![1; 16]].into());
}

/// Boots a drive whose pages 0 to 7 hold their number plus one, durably.
fn with_drive<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(SimEnv, Drive) -> F) {
    run(seed, |env| async move {
        let drive = drive(&env);
        let disk = drive.plug();
        for page in 0..8 {
            write(&disk, page, 1, page as u8 + 1, WriteFlags::DURABLE).await;
        }
        test(env, drive).await;
    });
}

#[test]
fn an_unreadable_page_comes_back_when_it_is_written() {
    with_drive(1, |_, drive| async move {
        let disk = drive.plug();
        assert!(drive.latent_error());
        assert!(drive.damaged() > 0);
        let whole = PAGES as usize * PAGE_BYTES;
        assert!(matches!(disk.read(0, whole).await, Err(BlockError::Medium { .. })));
        write(&disk, 0, PAGES, 9, WriteFlags::DURABLE).await;
        assert_eq!(sectors(&disk).await, vec![9; whole / SECTOR_BYTES]);
        assert_eq!(drive.damaged(), 0);
    });
}

#[test]
fn a_flipped_bit_is_one_bit_and_is_forgiven() {
    with_drive(2, |_, drive| async move {
        let disk = drive.plug();
        let whole = PAGES as usize * PAGE_BYTES;
        let before = disk.read(0, whole).await.unwrap().to_buf().unwrap();
        assert!(drive.flip_bit());
        let after = disk.read(0, whole).await.unwrap().to_buf().unwrap();
        let bits: u32 = before.iter().zip(&after[..]).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!((bits, drive.damaged()), (1, 1));
        drive.forgive();
        assert_eq!(drive.damaged(), 0);
        assert_eq!(disk.read(0, whole).await.unwrap().to_buf().unwrap()[..], before[..]);
    });
}

#[test]
fn a_lost_write_leaves_the_old_contents_until_the_next_write() {
    for flags in [WriteFlags::VOLATILE, WriteFlags::DURABLE] {
        with_drive(3, |_, drive| async move {
            let disk = drive.plug();
            drive.lose_write();
            drive.disarm();
            write(&disk, 2, 1, 3, flags).await;
            assert_eq!(drive.damaged(), 0);
            drive.lose_write();
            write(&disk, 2, 1, 0xee, flags).await;
            assert_eq!(sectors(&disk).await[2 * SECTORS], 3);
            assert_eq!(drive.damaged(), 1);
            write(&disk, 2, 1, 0xdd, flags).await;
            disk.flush().await.unwrap();
            assert_eq!(sectors(&disk).await[2 * SECTORS], 0xdd, "only one write is lost");
            assert_eq!(drive.damaged(), 0);
        });
    }
}

#[test]
fn a_misdirected_write_damages_two_places() {
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        for flags in [WriteFlags::VOLATILE, WriteFlags::DURABLE] {
            let seen = &mut seen;
            with_drive(seed, |_, drive| async move {
                let disk = drive.plug();
                drive.misdirect_write();
                write(&disk, 2, 1, 0xee, flags).await;
                disk.flush().await.unwrap();
                let found = sectors(&disk).await;
                let astray = found.iter().position(|&byte| byte == 0xee).unwrap() / SECTORS;
                assert_eq!(found[2 * SECTORS], if astray == 2 { 0xee } else { 3 });
                assert_eq!(drive.damaged(), if astray == 2 { 0 } else { 2 });
                seen.insert(astray);
                drive.forgive();
                let found = sectors(&disk).await;
                assert_eq!(found[2 * SECTORS], 0xee);
                assert_eq!(found.iter().filter(|&&byte| byte == 0xee).count(), SECTORS);
            });
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn a_lost_write_that_the_power_would_have_taken_anyway_is_no_damage() {
    let damaged = |flags| {
        let env = SimEnv::new(4, false);
        let drive = drive(&env);
        let disk = drive.plug();
        env.boot(None, async {
            write(&disk, 0, 8, 1, WriteFlags::DURABLE).await;
            drive.lose_write();
            write(&disk, 3, 1, 0xee, flags).await;
        });
        drive.unplug();
        drive.damaged()
    };
    assert_eq!(damaged(WriteFlags::DURABLE), 1);
    assert!(damaged(WriteFlags::VOLATILE) <= 1);
}

#[test]
fn conditions_fail_what_they_should_and_nothing_later() {
    with_drive(5, |env, drive| async move {
        let disk = drive.plug();
        let medium = |at| Err(BlockError::Medium { at });
        drive.set_condition(Condition { unreachable: true, ..Condition::default() });
        assert_eq!(disk.write(4096, filled(7, 1), WriteFlags::DURABLE).await, medium(4096));
        assert_eq!(disk.flush().await, medium(0));
        assert!(disk.read(0, 4096).await.is_err());
        drive.set_condition(Condition { full: true, ..Condition::default() });
        let at = 9 * PAGE_BYTES as u64;
        let full = disk.write(at, filled(7, 1), WriteFlags::VOLATILE).await;
        assert_eq!(full, Err(BlockError::NoSpace));
        write(&disk, 0, 8, 7, WriteFlags::VOLATILE).await;
        drive.set_condition(Condition { failing_writes: 1, ..Condition::default() });
        assert_eq!(disk.write(0, filled(8, 1), WriteFlags::VOLATILE).await, medium(0));
        write(&disk, 0, 1, 9, WriteFlags::VOLATILE).await;
        assert_eq!(drive.condition(), Condition::default(), "one failing write was ordered");
        drive.set_condition(Condition { slow: true, ..Condition::default() });
        let begun = env.now();
        write(&disk, 0, 1, 9, WriteFlags::VOLATILE).await;
        assert!(env.now() - begun >= Duration::from_millis(1));
        assert_eq!(sectors(&disk).await[0], 9);
    });
}

#[test]
fn a_drive_that_was_unplugged_needs_a_new_handle() {
    with_drive(6, |_, drive| async move {
        let old = drive.plug();
        let racing = old.write(0, filled(0xaa, 1), WriteFlags::DURABLE);
        drive.unplug();
        let answered = racing.await;
        assert!(old.read(0, 4096).await.is_err());
        let new = drive.plug();
        assert_eq!(sectors(&new).await[SECTORS], 2, "what was durable is there");
        if answered.is_ok() {
            assert_eq!(sectors(&new).await[0], 0xaa);
        }
        assert_eq!((drive.number(), drive.name().as_str()), (0, "disk0.0"));
        drive.wipe();
        assert_eq!(drive.name(), "disk0.1", "it is another one");
        assert!(new.read(0, 4096).await.is_err());
        assert!(sectors(&drive.plug()).await.iter().all(|&byte| byte == 0));
    });
}

#[test]
fn memory_that_changes_during_a_write_may_be_written_either_way() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let seen = &mut seen;
        with_drive(seed, |_, drive| async move {
            let disk = drive.plug();
            let region = Region::new(PAGE_BYTES).unwrap();
            region.write(0, &[1; PAGE_BYTES]);
            let written = disk.write(0, region.slice(0, PAGE_BYTES), WriteFlags::DURABLE);
            region.write(0, &[2; PAGE_BYTES]);
            written.await.unwrap();
            seen.insert(sectors(&disk).await[0]);
        });
    }
    assert_eq!(seen, [1, 2].into());
}

#[test]
fn reads_beside_a_write_may_be_a_mixture() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let seen = &mut seen;
        with_drive(seed, |_, drive| async move {
            let disk = drive.plug();
            let written = disk.write(0, filled(9, 1), WriteFlags::DURABLE);
            seen.insert(sectors(&disk).await[..SECTORS].to_vec());
            written.await.unwrap();
            assert_eq!(sectors(&disk).await[..SECTORS], [9; SECTORS]);
        });
    }
    assert!(seen.iter().any(|sectors| sectors.contains(&1) && sectors.contains(&9)), "{seen:?}");
}

#[test]
#[should_panic(expected = "blocks of 4 KiB")]
fn an_array_must_not_ask_for_less_than_a_block() {
    with_drive(7, |_, drive| async move {
        drop(drive.plug().read(512, 512));
    });
}
