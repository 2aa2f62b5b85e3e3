//! Copies between volumes that are targets of their own, as those of `drystone up` are: who may, and
//! how they are fenced.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use block::BlockDevice;
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use iscsi::pdu::{LogoutReason, RESERVED_TAG, TaskFunction, TaskResult};
use target::{Access, AccessRule};

use crate::common::{
    A_MOMENT, Cdb, Command, Connection, IQN, Login, Rig, access, config, faulty, on_core, pattern,
    reserve_list, reserve_out, target_of, wait_until,
};
use crate::copies::write_using_token;
use crate::copies::{IMMED, MIB, cdb, copy_between, fill, information, naa, token};

const SECOND: &str = "iqn.2026-11.dev.drystone:second";
const BLOCKS: u16 = 4 * 2048;
const NOT_REACHABLE: (u8, u8, u8) = (0xa, 0x0d, 0x02);
const COPY_FAILED: (u8, u8, u8) = (0xa, 0x0d, 0x01);
const REVOKED: (u8, u8, u8) = (5, 0x23, 0x06);
const UNKNOWN_TOKEN: (u8, u8, u8) = (5, 0x23, 0x04);
const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const PREEMPT_AND_ABORT: u8 = 5;
const EXCLUSIVE_ACCESS: u8 = 3;

/// Two volumes on two cores, each a target of its own.
struct Volumes {
    rig: Rig,
    second: FaultyDisk,
}

impl Volumes {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(access: Option<Access>) -> Self {
        let ((_, first), (second, device)) = (faulty(), faulty());
        let mut config = config([first]);
        config.cores = 2;
        config.targets.push(target_of(SECOND, [device]));
        config.targets[1].access = access;
        Self { rig: Rig::start(config), second }
    }

    /// `name` at a target, with its port number `port`.
    fn host(&self, name: &str, target: &str, port: u8) -> Connection {
        let isid = [0x80, 0, 0, 1, 0, port];
        let login = Login { target: Some(target.to_owned()), isid, ..Login::new(name) };
        let mut host = login.connect(self.rig.portal()).unwrap();
        host.take_attentions(0);
        host
    }

    /// A host with a session at each of the targets, by one port. Volume 0 is filled.
    fn both(&self, data: &[u8]) -> (Connection, Connection) {
        let mut first = self.host("host", IQN, 0);
        fill(&mut first, data);
        (first, self.host("host", SECOND, 0))
    }

    /// A copy of volume 0 to the second one that hangs at its second mebibyte.
    fn long_copy(&self, first: &mut Connection, naa: &[u8]) -> u32 {
        let second = MIB as u64..MIB as u64 + 1;
        self.second.inject(Rule::always(Operation::Write, Fault::Hang).at(second));
        let copy = first.issue(&copy_between(naa, (0xffff, 0), BLOCKS));
        wait_until("the copy hangs", || self.second.held() == 1);
        copy
    }

    /// What is on the second volume, not asked by way of the server.
    fn bytes(&self) -> Vec<u8> {
        let disk = self.second.clone();
        on_core(self.rig.server(), move |_| async move {
            let data = disk.read(0, 4 * MIB).await.unwrap();
            let mut bytes = vec![0; data.len()];
            data.copy_to(0, &mut bytes);
            bytes
        })
    }

    /// The answer is there: no byte changes any more, and the chunk under way was the last one.
    fn expect_still(&self, data: &[u8]) {
        self.second.heal();
        let at_once = self.bytes();
        std::thread::sleep(A_MOMENT);
        assert!(self.bytes() == at_once, "a late write");
        assert!(at_once[..2 * MIB] == data[..2 * MIB], "the chunk under way is whole");
        assert!(at_once[2 * MIB..].iter().all(|&byte| byte == 0), "nothing follows it");
    }
}

fn reserve(host: &mut Connection, action: u8, list: &[u8]) {
    host.run(&Command::new(reserve_out(action, EXCLUSIVE_ACCESS)).writing(list)).good();
}

fn all(host: &mut Connection) -> Vec<u8> {
    (0..4).flat_map(|n| host.run(&Command::read(n * 2048, 2048)).good()).collect()
}

fn report_all() -> Cdb {
    cdb(&[0x84, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0])
}

#[test]
fn extended_copy_goes_to_a_volume_that_is_another_target_and_back() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 1);
    let (mut first, mut second) = volumes.both(&data);
    let names = [naa(&mut first, 0), naa(&mut second, 0)];
    first.run(&copy_between(&names[1], (0xffff, 0), BLOCKS)).good();
    assert!(all(&mut second) == data);
    let other = pattern(4 * MIB, 2);
    fill(&mut second, &other);
    first.run(&copy_between(&names[1], (0, 0xffff), BLOCKS)).good();
    assert!(all(&mut first) == other, "fetched by the one that is written");
    fill(&mut first, &data);
    second.run(&copy_between(&names[0], (0, 0xffff), BLOCKS)).good();
    assert!(all(&mut second) == data);
}

#[test]
fn a_token_of_one_volume_is_good_on_another() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 3);
    let (mut first, mut second) = volumes.both(&data);
    let token = token(&mut first, 0, BLOCKS.into());
    second.run(&write_using_token(IMMED, &token, BLOCKS.into())).good();
    while information(&mut second, 0, 2).0 == 0x12 {}
    assert_eq!(information(&mut second, 0, 2).0, 0x01);
    assert!(all(&mut second) == data);
    let shown = |host: &mut Connection| host.run(&Command::new(report_all()).reading(1024)).good();
    assert_eq!(shown(&mut first).len(), 8 + 96);
    assert_eq!(shown(&mut second).len(), 8, "that of another target is not shown");
    first.run(&Command::write(1, &data[..512])).good();
    let again = second.run(&write_using_token(0, &token, BLOCKS.into()));
    assert_eq!(again.check(), REVOKED, "by a write to the other volume");
}

#[test]
fn a_target_with_rules_of_its_own_is_not_reached_from_others() {
    let friend = AccessRule::initiator("iqn.2026-11.example:host");
    let volumes = Volumes::with(Some(Access::uniform(vec![friend], None, None)));
    let data = pattern(4 * MIB, 4);
    let (mut first, mut second) = volumes.both(&data);
    let names = [naa(&mut first, 0), naa(&mut second, 0)];
    let copy = first.run(&copy_between(&names[1], (0xffff, 0), 8));
    assert_eq!(copy.check(), NOT_REACHABLE);
    let copy = second.run(&copy_between(&names[0], (0, 0xffff), 8));
    assert_eq!(copy.check(), NOT_REACHABLE);
    let token = token(&mut first, 0, 8);
    assert_eq!(second.run(&write_using_token(0, &token, 8)).check(), UNKNOWN_TOKEN);
    assert_eq!(first.run(&write_using_token(0, &token, 8)).check(), REVOKED, "known to its own");
}

#[test]
fn a_reservation_of_the_destination_keeps_copies_from_another_target_out() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 5);
    let (mut first, mut second) = volumes.both(&data);
    let names = [naa(&mut first, 0), naa(&mut second, 0)];
    let token = token(&mut first, 0, BLOCKS.into());
    let mut owner = volumes.host("owner", SECOND, 0);
    reserve(&mut owner, REGISTER, &reserve_list(0, 0xaaaa, false));
    reserve(&mut owner, RESERVE, &reserve_list(0xaaaa, 0, false));
    let copy = first.run(&copy_between(&names[1], (0xffff, 0), BLOCKS));
    assert_eq!(copy.check(), COPY_FAILED);
    let copy = first.run(&copy_between(&names[1], (0, 0xffff), BLOCKS));
    assert_eq!(copy.check(), COPY_FAILED, "it may not read either");
    let write = second.run(&write_using_token(0, &token, BLOCKS.into()));
    assert_eq!(write.status, 0x18, "RESERVATION CONFLICT");
    assert!(volumes.bytes().iter().all(|&byte| byte == 0), "nothing was written");
    assert!(all(&mut first) == data);
    owner.run(&write_using_token(0, &token, BLOCKS.into())).good();
    assert!(all(&mut owner) == data);
}

/// The victim came to the first target by another port than the one that is preempted.
#[test]
fn preempt_and_abort_waits_for_copies_that_the_victim_sent_to_another_target() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 6);
    let (mut first, mut second) = volumes.both(&data);
    let name = naa(&mut second, 0);
    let mut victim = volumes.host("host", SECOND, 9);
    let mut owner = volumes.host("owner", SECOND, 0);
    reserve(&mut victim, REGISTER, &reserve_list(0, 0xaaaa, false));
    reserve(&mut owner, REGISTER, &reserve_list(0, 0xbbbb, false));
    let copy = volumes.long_copy(&mut first, &name);
    let list = reserve_list(0xbbbb, 0xaaaa, false);
    let preempt = Command::new(reserve_out(PREEMPT_AND_ABORT, EXCLUSIVE_ACCESS));
    let preempt = owner.issue(&preempt.writing(&list).immediate_data());
    owner.expect_silence(A_MOMENT);
    volumes.second.release();
    owner.finish(preempt).good();
    volumes.expect_still(&data);
    assert_eq!(first.finish(copy).check(), COPY_FAILED);
}

#[test]
fn a_reset_of_the_destination_waits_for_copies_sent_to_another_target() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 7);
    let (mut first, mut second) = volumes.both(&data);
    let name = naa(&mut second, 0);
    let mut other = volumes.host("other", SECOND, 0);
    for function in [TaskFunction::LOGICAL_UNIT_RESET, TaskFunction::TARGET_WARM_RESET] {
        let copy = volumes.long_copy(&mut first, &name);
        let reset = other.manage(function, 0, RESERVED_TAG, 0);
        other.expect_alive();
        volumes.second.release();
        assert_eq!(other.managed(reset), TaskResult::COMPLETE);
        volumes.expect_still(&data);
        assert_eq!(first.finish(copy).check(), COPY_FAILED);
    }
}

#[test]
fn a_session_that_ends_leaves_copies_sent_to_another_target_alone() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 8);
    let (mut first, mut second) = volumes.both(&data);
    let name = naa(&mut second, 0);
    let copy = volumes.long_copy(&mut first, &name);
    second.logout(LogoutReason::CLOSE_SESSION, 0);
    wait_until("the session is gone", || volumes.rig.server().sessions() == 1);
    volumes.second.release();
    volumes.second.heal();
    first.finish(copy).good();
    assert!(volumes.bytes() == data);
}

/// Who must go does not stay for as long as a copy takes that must not go on either.
#[test]
fn who_is_not_let_in_any_more_goes_before_copies_of_others_have_ended() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 10);
    let (mut first, mut second) = volumes.both(&data);
    let name = naa(&mut second, 0);
    let copy = volumes.long_copy(&mut first, &name);
    let begun = Instant::now();
    let (done, changed) = mpsc::channel();
    let (server, targets) = (volumes.rig.server(), volumes.rig.server().targets());
    server.first_core().run(move || {
        ring::spawn(async move {
            done.send(targets.set_access(SECOND, Some(access([]))).await).unwrap();
        });
    });
    second.expect_closed();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(changed.try_recv().is_err(), "it waits for the copy");
    volumes.second.release();
    assert_eq!(changed.recv().unwrap().unwrap(), 1);
    volumes.expect_still(&data);
    assert_eq!(first.finish(copy).check(), COPY_FAILED);
}

#[test]
fn a_volume_that_goes_offline_waits_for_copies_of_others_and_is_not_written_afterwards() {
    let volumes = Volumes::new();
    let data = pattern(4 * MIB, 9);
    let (mut first, mut second) = volumes.both(&data);
    let name = naa(&mut second, 0);
    let token_of_second = token(&mut second, 0, 8);
    let copy = volumes.long_copy(&mut first, &name);
    second.close();
    let (disk, targets) = (volumes.second.clone(), volumes.rig.server().targets());
    std::thread::spawn(move || {
        wait_until("it is taken away", || targets.list().len() == 1);
        std::thread::sleep(Duration::from_millis(200));
        disk.release();
    });
    on_core(volumes.rig.server(), |targets| async move {
        targets.set_offline(SECOND, Duration::ZERO).await
    })
    .unwrap();
    volumes.expect_still(&data);
    assert_eq!(first.finish(copy).check(), COPY_FAILED);
    let again = copy_between(&name, (0xffff, 0), BLOCKS);
    assert_eq!(first.run(&again).check(), NOT_REACHABLE);
    assert_eq!(first.run(&write_using_token(0, &token_of_second, 8)).check(), UNKNOWN_TOKEN);

    // It comes back, and is reached again. Its tokens are of the past.
    let back = target_of(SECOND, [Arc::new(volumes.second.clone()) as Arc<dyn BlockDevice>]);
    volumes.rig.server().targets().add(back).unwrap();
    assert_eq!(first.run(&write_using_token(0, &token_of_second, 8)).check(), UNKNOWN_TOKEN);
    first.run(&again).good();
    assert!(volumes.bytes() == data);
}
