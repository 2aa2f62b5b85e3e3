//! Copies that do not come to their end, and copies that go on without their command.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use block::testing::{Fault, Operation, Rule};

use super::tokens::{information, token, write_list};
use super::*;

/// How a copy from unit 0 to unit 1 that was held at its second chunk ended.
pub(super) struct Held {
    pub(super) bench: Rc<Bench>,
    aborted: Rc<Cell<bool>>,
    ended: Rc<Cell<Option<Result<(), Outcome>>>>,
}

impl Held {
    /// An EXTENDED COPY of 4 MiB that host 0 sent to unit 2, the third one.
    pub(super) async fn start() -> Self {
        let bench = Rc::new(Bench::new(&[512, 512, 512]));
        bench.fill(0, 0, 4 * MIB, 1).await;
        bench.disks[1].inject(Rule::always(Operation::Write, Fault::Hang).at(MIB..MIB + 1));
        let held = Self { bench, aborted: Rc::default(), ended: Rc::default() };
        let (bench, ended) = (held.bench.clone(), held.ended.clone());
        let request = bench.abortable(2, 0, held.aborted.clone());
        ring::spawn(async move {
            let units = [&*bench.units[0], &*bench.units[1]];
            let list = super::xcopy::list(1, &units, &[((0, 0), (1, 0), 8192)]);
            ended.set(Some(extended::copy(&request, &bench.units, &list).await));
        });
        wait_until(|| held.bench.disks[1].held() == 1).await;
        held
    }

    /// Lets the disk go on and waits for the end: the chunk under way is written, no other.
    pub(super) async fn release(&self) -> Result<(), Outcome> {
        self.bench.disks[1].release();
        let ended = Cell::new(None);
        wait_until(|| {
            ended.set(self.ended.take());
            let over = ended.take();
            let is_over = over.is_some();
            ended.set(over);
            is_over
        })
        .await;
        assert!(self.bench.read(1, 0, 2 * MIB).await == self.bench.read(0, 0, 2 * MIB).await);
        let rest = self.bench.read(1, 2 * MIB, 2 * MIB).await;
        assert!(rest.iter().all(|&byte| byte == 0));
        ended.take().unwrap()
    }

    fn status(&self) -> Outcome {
        let command = Command::ReceiveCopyStatus { list_id: 1, allocation_bytes: 12 };
        self.bench.ask(2, 0, command)
    }
}

pub(super) async fn wait_until(condition: impl Fn() -> bool) {
    let all = ring::timeout(Duration::from_secs(10), async {
        while !condition() {
            ring::sleep(Duration::from_micros(100)).await;
        }
    });
    all.await.expect("it happens soon");
}

/// Whether a future waits, after it was polled once.
pub(super) async fn waits(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[test]
fn an_aborted_command_stops_within_a_chunk() {
    on_core(|| async {
        let held = Held::start().await;
        let progress = parameters(held.status());
        assert_eq!((progress[4], &progress[8..]), (0x00, &[0, 0x10, 0, 0][..]), "under way");
        held.aborted.set(true);
        assert!(matches!(held.release().await, Err(Outcome::Aborted)));
        let status = parameters(held.status());
        assert_eq!((status[4], &status[8..]), (0x02, &[0, 0x20, 0, 0][..]));
    });
}

#[test]
fn a_preempted_host_writes_nothing_more_through_another_unit() {
    on_core(|| async {
        let held = Held::start().await;
        let copies = held.bench.copies.clone();
        let units = &held.bench.units;
        let mut other = pin!(copies.preempt(units, &units[1], &nexus(3)).wait());
        assert!(!waits(&mut other).await, "another host's copies");
        let mut preempted = pin!(copies.preempt(units, &units[1], &nexus(0)).wait());
        assert!(waits(&mut preempted).await);
        let sense = sense_of(held.release().await);
        assert_eq!(sense.key, SenseKey::CopyAborted);
        preempted.await;
    });
}

#[test]
fn a_reset_of_the_destination_waits_for_the_copy_to_end() {
    on_core(|| async {
        let held = Held::start().await;
        let (copies, units) = (&held.bench.copies, &held.bench.units);
        let mut reset = pin!(copies.reset(&units[1]));
        assert!(waits(&mut reset).await);
        assert_eq!(sense_of(held.release().await).key, SenseKey::CopyAborted);
        reset.await;
        assert_eq!(parameters(held.status())[4], 0x02, "the unit it was sent to was not reset");
        copies.reset(&units[2]).await;
        assert!(matches!(held.status(), Outcome::Check(_)), "now it was");
    });
}

#[test]
fn a_list_identifier_is_taken_while_its_copy_runs() {
    on_core(|| async {
        let held = Held::start().await;
        let bench = held.bench.clone();
        let list = super::xcopy::list(1, &[&bench.units[0]], &[((0, 0), (0, 9), 1)]);
        let again = extended::copy(&bench.request(2, 0), &bench.units, &list).await;
        assert_eq!(sense_of(again), illegal(AdditionalSense::OPERATION_IN_PROGRESS));
        let other = extended::copy(&bench.request(2, 1), &bench.units, &list).await;
        assert!(other.is_ok(), "of another host");
        assert!(bench.read(0, 0, 512).await == bench.read(0, 9 * 512, 512).await);
        held.aborted.set(true);
        bench.disks[1].release();
        wait_until(|| held.ended.take().is_some()).await;
    });
}

#[test]
fn an_immediate_write_goes_on_after_its_answer() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let bytes = bench.fill(0, 0, 2 * MIB, 1).await;
        let token = token(&bench, 0, &[(0, 4096)]);
        bench.disks[1].inject(Rule::always(Operation::Write, Fault::Hang).at(0..1));
        let list = write_list(0x01, 0, &token, &[(0, 4096)]);
        let aborted = Rc::new(Cell::new(false));
        let request = bench.abortable(1, 0, aborted.clone());
        assert!(offload::write(request, &bench.units, 2, &list).await.is_ok());
        aborted.set(true); // the task is over
        assert_eq!(information(&bench, 1, 2).0[5], 0x12, "in progress, in the background");
        wait_until(|| bench.disks[1].held() == 1).await;
        bench.disks[1].release();
        wait_until(|| information(&bench, 1, 2).0[5] != 0x12).await;
        assert_eq!(information(&bench, 1, 2).0[5], 0x01);
        assert!(bench.read(1, 0, 2 * MIB).await == bytes);
    });
}

#[test]
fn the_end_of_a_session_ends_its_background_copies_and_keeps_its_tokens() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        bench.fill(0, 0, 2 * MIB, 1).await;
        let token = token(&bench, 0, &[(0, 4096)]);
        bench.disks[1].inject(Rule::always(Operation::Write, Fault::Hang).at(0..1));
        let list = write_list(0x01, 0, &token, &[(0, 4096)]);
        let request = bench.request(1, 0);
        assert!(offload::write(request, &bench.units, 2, &list).await.is_ok());
        wait_until(|| bench.disks[1].held() == 1).await;
        let key = nexus(0);
        let mut lost = pin!(bench.copies.nexus_lost(&bench.units, &key));
        assert!(waits(&mut lost).await);
        bench.disks[1].release();
        lost.await;
        let rest = bench.read(1, MIB, MIB).await;
        assert!(rest.iter().all(|&byte| byte == 0), "no second chunk");
        let asked = Command::ReceiveRodTokenInformation { list_id: 2, allocation_bytes: 99 };
        assert!(matches!(bench.ask(1, 0, asked), Outcome::Check(_)));
        bench.disks[1].heal();
        let list = write_list(0, 0, &token, &[(0, 4096)]);
        let other = bench.request(1, 1);
        assert!(offload::write(other, &bench.units, 2, &list).await.is_ok());
    });
}

/// Whoever stops a copy on one core while it begins at a unit on another one either finds the unit
/// at work, or nothing begins.
#[test]
fn a_copy_that_is_stopped_begins_at_no_unit() {
    on_core(|| async {
        let bench = Bench::new(&[512; 2]);
        let (copies, units) = (&bench.copies, &bench.units);
        let Ok(job) = copies.start(&nexus(0), units.clone()) else { panic!("there is room") };
        let works = [job.begin_at(&units[1]), job.begin_at(&units[1])];
        assert!(works.iter().all(Option::is_some), "it reads and writes there");
        let stopped = copies.stop_at(&units[1]);
        assert!(copies.stop_at(&units[0]).is_empty());
        assert!(units.iter().all(|unit| job.begin_at(unit).is_none()));
        let mut idle = pin!(stopped.wait());
        for work in works {
            assert!(waits(&mut idle).await);
            drop(work);
        }
        assert!(!waits(&mut idle).await);
    });
}
