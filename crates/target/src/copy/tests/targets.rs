//! Several targets: units 0 and 1 are of the first, unit 2 and up of the second.

use std::pin::pin;

use block::testing::{Fault, Operation, Rule};

use super::stopping::{Held, wait_until, waits};
use super::tokens::{populate_list, token, write_list};
use super::*;

/// EXTENDED COPY of `blocks` blocks between two units, sent to the first of them.
async fn copy(bench: &Bench, key: NexusKey, (from, to): (usize, usize), blocks: u16) -> Sense {
    let request = Request { key, ..bench.request(from, 0) };
    let units = [&*bench.units[from], &*bench.units[to]];
    let list = super::xcopy::list(1, &units, &[((0, 0), (1, 0), blocks)]);
    match extended::copy(&request, &bench.units, &list).await {
        Ok(()) => Sense::new(SenseKey::NoSense, AdditionalSense::NO_ADDITIONAL_SENSE),
        failed => sense_of(failed),
    }
}

fn not_reachable() -> Sense {
    scsi::copy::segment_failure(0, AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE)
}

/// One initiator port, one ISID, two targets: they are two I_T nexuses.
#[test]
fn the_end_of_a_session_leaves_copies_of_the_same_port_to_another_target_alone() {
    on_core(|| async {
        let held = Held::start().await; // from unit 0 to unit 1, sent to unit 2
        let (copies, units, key) = (&held.bench.copies, &held.bench.units, nexus(0));
        let mut first = pin!(copies.nexus_lost(&units[..2], &key));
        assert!(!waits(&mut first).await, "it was not sent to this target");
        let mut second = pin!(copies.nexus_lost(&units[2..], &key));
        assert!(waits(&mut second).await);
        assert_eq!(sense_of(held.release().await).key, SenseKey::CopyAborted);
        second.await;
    });
}

#[test]
fn a_record_outlives_the_session_of_the_same_port_with_another_target() {
    on_core(|| async {
        let bench = Bench::new(&[512; 3]);
        assert_eq!(copy(&bench, nexus(0), (2, 0), 8).await.key, SenseKey::NoSense);
        let status = Command::ReceiveCopyStatus { list_id: 1, allocation_bytes: 12 };
        bench.copies.nexus_lost(&bench.units[..2], &nexus(0)).await;
        assert_eq!(parameters(bench.ask(2, 0, status))[4], 0x01);
        assert_eq!(copy(&bench, nexus(0), (2, 0), 8).await.key, SenseKey::NoSense);
        bench.copies.nexus_lost(&bench.units[2..], &nexus(0)).await;
        assert!(matches!(bench.ask(2, 0, status), Outcome::Check(_)));
    });
}

#[test]
fn a_preempted_host_writes_nothing_more_through_another_target() {
    on_core(|| async {
        let held = Held::start().await;
        let (copies, units) = (&held.bench.copies, &held.bench.units);
        let preempt = |of: &NexusKey| copies.preempt(&units[..2], &units[1], of);
        let stranger = NexusKey::new("iqn.2026-11.dev.drystone:stranger", [0; 6], 1);
        assert!(preempt(&stranger).is_empty(), "another initiator's");
        // It came in with another ISID there.
        let mut ends = pin!(preempt(&nexus(5)).wait());
        assert!(waits(&mut ends).await);
        assert_eq!(sense_of(held.release().await).key, SenseKey::CopyAborted);
        ends.await;
    });
}

/// A target gets rules of its own: what hosts of another one had sent to read and write there ends.
#[test]
fn copies_of_hosts_that_are_kept_out_end() {
    on_core(|| async {
        let held = Held::start().await; // from unit 0 to unit 1, sent to unit 2
        let (copies, units) = (&held.bench.copies, &held.bench.units);
        assert!(copies.keep_out(&units[2..]).is_empty(), "its own hosts are let in");
        let mut ends = pin!(copies.keep_out(&units[..2]).wait());
        assert!(waits(&mut ends).await);
        assert_eq!(sense_of(held.release().await).key, SenseKey::CopyAborted);
        ends.await;
    });
}

/// What is fenced is the destination: a disk that hangs elsewhere is no reason to wait.
#[test]
fn a_source_that_hangs_keeps_no_fence_of_the_destination_waiting() {
    on_core(|| async {
        let bench = Rc::new(Bench::new(&[512; 3]));
        bench.fill(0, 0, 2 * MIB, 1).await;
        let ended = Rc::new(Cell::new(None));
        for round in 0..3_u8 {
            bench.disks[0].inject(Rule::always(Operation::Read, Fault::Hang).at(MIB..MIB + 1));
            let (copying, end) = (bench.clone(), ended.clone());
            ring::spawn(async move {
                end.set(Some(copy(&copying, nexus(0), (0, 2), 4096).await));
            });
            wait_until(|| bench.disks[0].held() == 1).await;
            // The first chunk is written beside that read.
            ring::sleep(Duration::from_millis(20)).await;
            let (copies, units) = (&bench.copies, &bench.units);
            match round {
                0 => copies.preempt(&units[2..], &units[2], &nexus(5)).wait().await,
                1 => copies.reset(&units[2]).await,
                _ => copies.retire(&units[2..]).wait().await,
            }
            let before = bench.read(2, 0, 2 * MIB).await;
            let key = nexus(0);
            let mut lost = pin!(copies.nexus_lost(&units[..2], &key));
            assert!(waits(&mut lost).await, "its session waits for all of it");
            bench.disks[0].release();
            lost.await;
            bench.disks[0].heal();
            assert!(bench.read(2, 0, 2 * MIB).await == before, "round {round}: a late write");
            assert!(before[MIB as usize..].iter().all(|&byte| byte == 0));
            wait_until(|| {
                let sense: Option<Sense> = ended.take();
                sense.is_some_and(|sense| sense.key == SenseKey::CopyAborted)
            })
            .await;
        }
    });
}

#[test]
fn a_unit_that_goes_ends_the_copies_of_others_and_lets_none_begin() {
    on_core(|| async {
        let held = Held::start().await;
        let (copies, bench) = (&held.bench.copies, &held.bench);
        let token = token(bench, 1, &[(4096, 8)]);
        let mut gone = pin!(copies.retire(&bench.units[..2]).wait());
        assert!(waits(&mut gone).await, "the chunk under way is at the disk");
        // One that found the units before they went.
        assert_eq!(copy(bench, nexus(3), (2, 1), 8).await, not_reachable());
        assert_eq!(copy(bench, nexus(3), (1, 2), 8).await, not_reachable());
        let list = write_list(0, 0, &token, &[(0, 8)]);
        let used = offload::write(bench.request(2, 0), &bench.units, 2, &list).await;
        let unknown = illegal(AdditionalSense::INVALID_TOKEN_UNKNOWN);
        assert_eq!(sense_of(used), unknown, "its tokens went with it");
        assert_eq!(sense_of(held.release().await).key, SenseKey::CopyAborted);
        gone.await;
        assert_eq!(bench.copies.places.taken(), 0);
        assert_eq!(copy(bench, nexus(3), (2, 2), 0).await.key, SenseKey::NoSense);
    });
}

#[test]
fn a_token_write_in_the_background_ends_with_the_unit_it_reads() {
    on_core(|| async {
        let bench = Bench::new(&[512; 3]);
        bench.fill(0, 0, 2 * MIB, 1).await;
        let token = token(&bench, 0, &[(0, 4096)]);
        bench.disks[2].inject(Rule::always(Operation::Write, Fault::Hang).at(0..1));
        let list = write_list(0x01, 0, &token, &[(0, 4096)]);
        assert!(offload::write(bench.request(2, 1), &bench.units, 2, &list).await.is_ok());
        wait_until(|| bench.disks[2].held() == 1).await;
        // The read ahead is through; what hangs is at a unit that stays.
        ring::sleep(Duration::from_millis(20)).await;
        assert!(bench.copies.retire(&bench.units[..2]).is_empty());
        bench.disks[2].release();
        let asked = Command::ReceiveRodTokenInformation { list_id: 2, allocation_bytes: 99 };
        wait_until(|| parameters(bench.ask(2, 1, asked))[5] == 0x02).await;
        let rest = bench.read(2, MIB, MIB).await;
        assert!(rest.iter().all(|&byte| byte == 0), "no second chunk");
    });
}

#[test]
fn a_token_is_good_where_its_unit_is_reached_and_shown_by_its_own_target() {
    on_core(|| async {
        let bench = Bench::new(&[512; 3]);
        let bytes = bench.fill(0, 0, 4096, 1).await;
        let token = token(&bench, 0, &[(0, 8)]);
        let list = write_list(0, 0, &token, &[(0, 8)]);
        let from = |units: &[Arc<Unit>]| {
            let (request, units, list) = (bench.request(2, 1), units.to_vec(), list.clone());
            async move { offload::write(request, &units, 2, &list).await }
        };
        let unknown = illegal(AdditionalSense::INVALID_TOKEN_UNKNOWN);
        assert_eq!(sense_of(from(&bench.units[2..]).await), unknown);
        assert!(from(&bench.units).await.is_ok());
        assert_eq!(bench.read(2, 0, 4096).await, bytes);
        let all = Command::ReportAllRodTokens { allocation_bytes: 4096 };
        let shown = |unit: usize, units: &[Arc<Unit>]| {
            parameters(results::receive(&bench.request(unit, 0), units, all)).len()
        };
        assert_eq!(shown(1, &bench.units[..2]), 8 + 96);
        assert_eq!(shown(2, &bench.units[2..]), 8, "a token is a secret of who may use its unit");
    });
}

#[test]
fn one_host_leaves_room_for_the_tokens_of_others() {
    on_core(|| async {
        let bench = Bench::new(&[512; 3]);
        let no_room = illegal(AdditionalSense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN);
        let make = |unit: usize, name: &str| {
            let key = NexusKey::new(name, [0; 6], 1);
            let request = Request { key, ..bench.request(unit, 0) };
            offload::populate(&request, 1, &populate_list(300, &[(0, 8)]))
        };
        let made = |unit, name| (0..).take_while(|_| make(unit, name).is_ok()).count();
        assert_eq!(made(0, "greedy"), 128, "half of what one unit has");
        assert_eq!(sense_of(make(0, "greedy")), no_room);
        assert_eq!(made(0, "other"), 64, "half of the rest");
        assert_eq!(made(1, "greedy"), 128, "another unit");
        assert_eq!(bench.copies.places.taken(), 320);
        bench.copies.retire(&bench.units[..1]).wait().await;
        assert_eq!(bench.copies.places.taken(), 128);
    });
}

/// Sixteen copies of one initiator read a disk that hangs. Others copy, and a fence need not wait
/// for those that wait for memory.
#[test]
fn a_disk_that_hangs_takes_the_memory_of_one_initiator_alone() {
    on_core(|| async {
        let bench = Rc::new(Bench::new(&[512; 3]));
        let bytes = bench.fill(1, 0, 2 * MIB, 1).await;
        bench.disks[0].inject(Rule::always(Operation::Read, Fault::Hang));
        let ended = Rc::new(Cell::new(0));
        for n in 0..16 {
            let (copying, end) = (bench.clone(), ended.clone());
            ring::spawn(async move {
                let request = copying.request(1, 0);
                let units = [&*copying.units[1], &*copying.units[0]];
                let list = super::xcopy::list(n, &units, &[((1, 0), (0, 4096), 4096)]);
                let failed = extended::copy(&request, &copying.units, &list).await;
                assert_eq!(sense_of(failed).key, SenseKey::CopyAborted);
                end.set(end.get() + 1);
            });
        }
        wait_until(|| bench.disks[0].held() == 8).await;
        let request = |key| Request { key, ..bench.request(1, 0) };
        let other = NexusKey::new("iqn.2026-11.dev.drystone:other", [0; 6], 1);
        let units = [&*bench.units[1], &*bench.units[2]];
        let list = super::xcopy::list(1, &units, &[((0, 0), (1, 0), 4096)]);
        assert!(extended::copy(&request(other), &bench.units, &list).await.is_ok());
        assert!(bench.read(2, 0, 2 * MIB).await == bytes);

        assert!(bench.copies.preempt(&bench.units, &bench.units[1], &nexus(0)).is_empty());
        wait_until(|| ended.get() == 8).await;
        bench.disks[0].release();
        wait_until(|| ended.get() == 16).await;
    });
}

#[test]
fn one_initiator_leaves_room_for_the_copies_of_others() {
    on_core(|| async {
        let bench = Bench::new(&[512]);
        let mut running = Vec::new();
        let mut began = |name: &str| {
            let key = NexusKey::new(name, [0; 6], 1);
            let start = || bench.copies.start(&key, bench.units.clone());
            let before = running.len();
            running.extend(std::iter::from_fn(|| start().ok()));
            running.len() - before
        };
        assert_eq!(began("greedy"), 512);
        assert_eq!(began("other"), 256);
        let begun = bench.copies.start(&nexus(0), bench.units.clone());
        assert!(begun.is_ok());
        drop(running);
    });
}
