//! When a lost write may be sent again, and what is done so that it may: with portal groups that do
//! not end each other's sessions, sessions that move, and predecessors that were killed.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use common::{
    Proxy, address, bytes, config, data, disk_options, on_core, portal, ram, serve, session_options,
};
use initiator::paths::PathState;
use initiator::{
    AttachError, ClaimError, CommandError, Disk, DiskOptions, Hold, Identities, Identity, Leftover,
    PlanOptions, PortalAddress, Request, Session, SessionOptions, TargetAddress, Transfer,
};
use scsi::SenseKey;
use target::{Config, Server};

const VOLATILE: WriteFlags = WriteFlags::VOLATILE;

/// One member of a group: its own portal group, the same unit.
fn member(medium: &FaultyDisk, group: u16) -> Server {
    let mut config = config(Arc::new(medium.clone()));
    config.port_group = group;
    serve(config)
}

/// Without a word from another path for as long as a test takes.
fn patient(reinstate_wait: Duration) -> DiskOptions {
    let mut options = disk_options();
    options.router.policy = "failover".parse().unwrap();
    options.router.reinstate_wait = reinstate_wait;
    options
}

async fn until_held(medium: &FaultyDisk, count: usize) {
    while medium.held() < count {
        ring::sleep(Duration::from_millis(5)).await;
    }
}

/// A session that only listens.
async fn watcher(at: SocketAddr) -> Session {
    let session = Session::open(&address(at), session_options()).await.unwrap();
    resets(&session).await;
    session
}

/// How many resets the unit has told it of; each is told once.
async fn resets(watcher: &Session) -> usize {
    const RESET: u8 = 0x29;
    let mut count = 0;
    loop {
        let transfer = Transfer::None;
        let timeout = Duration::from_secs(5);
        let reply = watcher.execute(Request { lun: 0, cdb: [0; 16], transfer, timeout }).await;
        let Some(sense) = reply.unwrap().sense else { return count };
        let code = sense.additional;
        count += usize::from(sense.key == SenseKey::UnitAttention && code.asc == RESET);
    }
}

/// A login in another portal group ends nothing of the lost session: it is no fence.
#[test]
fn a_login_in_another_portal_group_fences_nothing() {
    let medium = FaultyDisk::new(ram(1));
    let (one, two) = (member(&medium, 1), member(&medium, 2));
    let proxy = Proxy::to(one.portals()[0]);
    on_core(async move {
        let options = patient(Duration::from_secs(30));
        let paths = [address(proxy.address), address(two.portals()[0])];
        let disk = Disk::attach(&paths, options).await.unwrap();
        medium.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let write = disk.write(0, data(&[1; 512]), VOLATILE);
        until_held(&medium, 1).await;
        proxy.cut();
        let mut write = std::pin::pin!(write);
        let early = ring::timeout(Duration::from_secs(3), write.as_mut()).await;
        assert_eq!(early, None, "its first copy may yet be written");
        medium.release();
        proxy.open();
        assert_eq!(write.await, Ok(()));
    });
}

/// Where no login can end the lost session a reset does: one, for all that is lost.
#[test]
fn a_group_that_stays_away_is_fenced_by_one_reset() {
    let medium = FaultyDisk::new(ram(1));
    let (one, two) = (member(&medium, 1), member(&medium, 2));
    let proxy = Proxy::to(one.portals()[0]);
    on_core(async move {
        let watcher = watcher(two.portals()[0]).await;
        let mut options = patient(Duration::from_millis(500));
        options.router.policy = "round-robin:1".parse().unwrap();
        let paths = [address(proxy.address), address(proxy.address), address(two.portals()[0])];
        let disk = Disk::attach(&paths, options).await.unwrap();
        medium.inject(Rule::always(Operation::Write, Fault::Hang).times(3));
        let writes: Vec<_> =
            (0..3).map(|n| disk.write(n * 512, data(&[1; 512]), VOLATILE)).collect();
        until_held(&medium, 3).await;
        proxy.cut();
        let since = Instant::now();
        // The reset ends what hangs at the second member, and waits for it.
        medium.release();
        for write in writes {
            assert_eq!(write.await, Ok(()));
        }
        let took = since.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert_eq!(resets(&watcher).await, 1);
    });
}

/// The session comes back by itself, but somewhere else, so that its login has ended nothing.
#[test]
fn a_session_that_moved_is_fenced_by_a_reset() {
    let medium = FaultyDisk::new(ram(1));
    let (one, two) = (member(&medium, 1), member(&medium, 2));
    let proxy = Proxy::to(one.portals()[0]);
    on_core(async move {
        let watcher = watcher(two.portals()[0]).await;
        let options = patient(Duration::from_secs(30));
        let disk = Disk::attach(&[address(proxy.address)], options).await.unwrap();
        medium.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let write = disk.write(0, data(&[1; 512]), VOLATILE);
        until_held(&medium, 1).await;
        proxy.cut();
        proxy.lead_to(two.portals()[0]);
        proxy.open();
        let since = Instant::now();
        assert_eq!(write.await, Ok(()));
        assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
        assert_eq!(resets(&watcher).await, 1, "before it was sent again");
        medium.release();
    });
}

/// A session does not believe in a fence of what has not happened yet.
#[test]
fn a_loss_to_come_is_not_fenced() {
    let server = serve(config(ram(1)));
    on_core(async move {
        let session =
            Session::open(&address(server.portals()[0]), session_options()).await.unwrap();
        session.set_fenced(3);
        assert_eq!((session.fenced(), session.losses()), (0, 0));
    });
}

/// What a session that is closed had under way may still be done.
#[test]
fn a_closed_session_leaves_its_commands_in_doubt() {
    let medium = FaultyDisk::new(ram(1));
    let server = member(&medium, 1);
    on_core(async move {
        let session =
            Session::open(&address(server.portals()[0]), session_options()).await.unwrap();
        resets(&session).await;
        medium.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x8a, 1);
        let (transfer, timeout) = (Transfer::Out(data(&[2; 512])), Duration::from_secs(60));
        let write = session.execute(Request { lun: 0, cdb, transfer, timeout });
        until_held(&medium, 1).await;
        session.close();
        assert_eq!(write.await.unwrap_err(), CommandError::InDoubt { loss: 1 });
        assert_eq!((session.losses(), session.fenced()), (1, 0));
        medium.release();
    });
}

/// A detached disk leaves its commands where they are: they are not sent once more over paths that
/// have yet to log out.
#[test]
fn a_detach_sends_nothing_twice() {
    let medium = FaultyDisk::new(ram(1));
    let server = member(&medium, 1);
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let paths = [address(proxy.address), address(server.portals()[0])];
        let disk = Disk::attach(&paths, patient(Duration::from_secs(30))).await.unwrap();
        medium.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let write = disk.write(0, data(&[1; 512]), VOLATILE);
        until_held(&medium, 1).await;
        proxy.freeze();
        disk.detach().await;
        assert_eq!(write.await, Err(BlockError::InDoubt));
        let found = medium.read(0, 512).await.unwrap();
        assert_eq!(bytes(&found), [0; 512], "the only copy still hangs");
        medium.release();
    });
}

/// A network that is cut under the only session: it comes back through another portal of its group,
/// and goes home when that is possible.
#[test]
fn a_session_lives_at_another_portal_until_it_can_go_home() {
    let medium = FaultyDisk::new(ram(1));
    let server = member(&medium, 1);
    let (one, two) = (Proxy::to(server.portals()[0]), Proxy::to(server.portals()[0]));
    on_core(async move {
        let mut options = session_options();
        options.alternates = vec![portal(two.address)];
        let session = Session::open(&address(one.address), options).await.unwrap();
        one.cut();
        while session.detour().is_none() {
            session.changed().await;
        }
        assert_eq!(session.detour(), Some(portal(two.address)));
        assert!(session.is_up() && session.fenced() == session.losses());
        assert_eq!(resets(&session).await, 1, "a new nexus");
        one.open();
        while session.detour().is_some() || !session.is_up() {
            session.changed().await;
        }
        assert_eq!(server.sessions(), 1);
    });
}

/// The portal groups of each note.
type Notes = Arc<Mutex<Vec<Vec<u16>>>>;

/// Gives random ISIDs, and one session that was left.
#[derive(Debug)]
struct Left {
    isid: [u8; 6],
    places: Vec<PortalAddress>,
    has_ended: Arc<AtomicBool>,
    next: AtomicU64,
    held: Mutex<Option<()>>,
    /// There is no room for further notes.
    is_full: Arc<AtomicBool>,
    /// The portal groups of each note.
    notes: Notes,
}

#[derive(Debug, Default)]
struct Noted {
    is_full: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
    notes: Notes,
}

impl Hold for Noted {
    fn logged_in(&self, places: &[PortalAddress]) -> io::Result<()> {
        let tag = |place: &PortalAddress| place.group_tag.expect("the target tells it");
        self.notes.lock().unwrap().push(places.iter().map(tag).collect());
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn logged_out(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }
}

impl Identities for Left {
    fn claim(
        &self,
        _volume: &TargetAddress,
        _local: Option<IpAddr>,
    ) -> Result<Identity, ClaimError> {
        let n = self.next.fetch_add(1, Ordering::SeqCst).to_be_bytes();
        let isid = [0x80, 9, 9, 9, n[6], n[7]];
        let (is_full, notes) = (self.is_full.clone(), self.notes.clone());
        let hold = Noted { is_full, notes, ..Noted::default() };
        Ok(Identity { isid, hold: Box::new(hold) })
    }

    fn leftovers(&self, _volume: &TargetAddress) -> Result<Vec<Leftover>, ClaimError> {
        let left = self.held.lock().unwrap().take().map(|()| Leftover {
            isid: self.isid,
            places: self.places.clone(),
            hold: Box::new(Noted { has_ended: self.has_ended.clone(), ..Noted::default() }),
        });
        Ok(left.into_iter().collect())
    }
}

fn left_at(places: &[PortalAddress]) -> (PlanOptions, Arc<AtomicBool>) {
    let has_ended = Arc::new(AtomicBool::new(false));
    let left = Left {
        isid: [0x80, 1, 2, 3, 4, 5],
        places: places.to_vec(),
        has_ended: has_ended.clone(),
        next: AtomicU64::new(0),
        held: Mutex::new(Some(())),
        is_full: Arc::default(),
        notes: Arc::default(),
    };
    (one_session(left), has_ended)
}

fn one_session(identities: Left) -> PlanOptions {
    PlanOptions {
        sessions: Some(1),
        identities: Some(Arc::new(identities)),
        host_ports: Some(vec![[127, 0, 0, 1].into()]),
        ..PlanOptions::default()
    }
}

/// Sessions of which nothing was left, a switch that says that there is no room for notes, and the
/// portal groups of each note.
fn notes(is_full: bool) -> (PlanOptions, Arc<AtomicBool>, Notes) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let is_full = Arc::new(AtomicBool::new(is_full));
    let left = Left {
        isid: [0x80; 6],
        places: Vec::new(),
        has_ended: Arc::default(),
        next: AtomicU64::new(0),
        held: Mutex::new(None),
        is_full: is_full.clone(),
        notes: notes.clone(),
    };
    (one_session(left), is_full, notes)
}

/// Nobody could end what it leaves behind when it is killed.
#[test]
fn a_session_that_cannot_be_noted_attaches_nothing() {
    let server = member(&FaultyDisk::new(ram(1)), 1);
    on_core(async move {
        let (plan, ..) = notes(true);
        let here = address(server.portals()[0]);
        let refused = Disk::attach_planned(&here, disk_options(), plan).await.unwrap_err();
        assert!(matches!(refused, AttachError::NotNoted(_)) && !refused.is_final(), "{refused}");
        while server.sessions() > 0 {
            ring::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// A session that is lost and comes back elsewhere while there is no room writes nothing until there is.
#[test]
fn a_session_that_cannot_be_noted_any_more_writes_nothing() {
    let medium: Arc<dyn BlockDevice> = ram(1);
    let server = serve(config(medium.clone()));
    on_core(async move {
        let (plan, is_full, _) = notes(false);
        let portal = server.portals()[0];
        let disk = Disk::attach_planned(&address(portal), disk_options(), plan).await.unwrap();
        assert_eq!(disk.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        is_full.store(true, Ordering::SeqCst);
        server.shutdown(Duration::ZERO).unwrap();
        while disk.paths().await[0].status.state == PathState::Active {
            ring::sleep(Duration::from_millis(5)).await;
        }
        let _again = serve(Config { portals: vec![portal], port_group: 2, ..config(medium) });
        let mut write = Box::pin(disk.write(0, data(&[2; 512]), VOLATILE));
        let early = ring::timeout(Duration::from_secs(3), write.as_mut()).await;
        assert_eq!(early, None, "nobody would know of it");
        let reports = disk.paths().await;
        assert!(reports[0].trouble.contains("it cannot be noted"), "{:?}", reports[0]);
        is_full.store(false, Ordering::SeqCst);
        assert_eq!(write.await, Ok(()));
        assert_eq!(bytes(&disk.read(0, 512).await.unwrap()), [2; 512]);
    });
}

/// What was written in one portal group is in doubt while the session is in another one: killed then, it
/// leaves something in both.
#[test]
fn a_session_that_moved_is_noted_where_it_was_too() {
    let medium = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(medium.clone())));
    on_core(async move {
        let (plan, _, notes) = notes(false);
        let portal = server.portals()[0];
        let disk = Disk::attach_planned(&address(portal), disk_options(), plan).await.unwrap();
        medium.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let write = disk.write(0, data(&[1; 512]), VOLATILE);
        until_held(&medium, 1).await;
        let held = medium.clone();
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            held.release();
        });
        server.shutdown(Duration::ZERO).unwrap();
        release.join().unwrap();
        let moved =
            Config { portals: vec![portal], port_group: 2, ..config(Arc::new(medium.clone())) };
        let _moved = serve(moved);
        assert_eq!(write.await, Ok(()));
        while notes.lock().unwrap().len() < 3 {
            ring::sleep(Duration::from_millis(5)).await;
        }
        // The plan may have one more for a session in the new group.
        assert_eq!(notes.lock().unwrap()[..3], [vec![1], vec![1, 2], vec![2]]);
    });
}

/// Each group where something was left is looked after: one that is away needs the reset.
#[test]
fn what_was_left_in_two_groups_is_ended_in_both() {
    let medium = FaultyDisk::new(ram(1));
    let server = member(&medium, 1);
    on_core(async move {
        let watcher = watcher(server.portals()[0]).await;
        let here = PortalAddress { group_tag: Some(1), ..portal(server.portals()[0]) };
        let away = PortalAddress { host: "127.0.0.1".into(), port: 1, group_tag: Some(2) };
        let (plan, has_ended) = left_at(&[here, away]);
        let volume = address(server.portals()[0]);
        drop(Disk::attach_planned(&volume, disk_options(), plan).await.unwrap());
        assert_eq!(resets(&watcher).await, 1);
        assert!(has_ended.load(Ordering::SeqCst), "it is noted");
    });
}

/// The target still runs a write of an attachment that was killed. The next one does not write before
/// that is over.
#[test]
fn what_a_killed_attachment_left_is_ended_before_the_first_write() {
    let medium = FaultyDisk::new(ram(1));
    let server = member(&medium, 1);
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let options = SessionOptions { isid: Some([0x80, 1, 2, 3, 4, 5]), ..session_options() };
        let killed = Session::open(&address(server.portals()[0]), options).await.unwrap();
        resets(&killed).await;
        medium.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x8a, 1);
        let (transfer, timeout) = (Transfer::Out(data(&[2; 512])), Duration::from_secs(60));
        drop(killed.execute(Request { lun: 0, cdb, transfer, timeout }));
        until_held(&medium, 1).await;
        drop(killed); // a reset, as after kill -9
        let here = PortalAddress { group_tag: Some(1), ..portal(server.portals()[0]) };
        let (plan, has_ended) = left_at(&[here]);
        let through = address(proxy.address);
        let mut attach = Box::pin(Disk::attach_planned(&through, disk_options(), plan));
        let early = ring::timeout(Duration::from_secs(1), attach.as_mut()).await;
        assert!(early.is_none(), "it waits for the target");
        medium.release();
        let disk = attach.await.unwrap();
        assert!(has_ended.load(Ordering::SeqCst), "it is noted");
        assert_eq!(disk.write(0, data(&[3; 512]), VOLATILE).await, Ok(()));
        assert_eq!(bytes(&disk.read(0, 512).await.unwrap()), [3; 512]);
    });
}

/// One that takes connections and never answers holds up neither the end of what was left, nor the paths
/// that work.
#[test]
fn a_portal_that_says_nothing_is_not_waited_for() {
    let server = member(&FaultyDisk::new(ram(1)), 1);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    on_core(async move {
        let silent_address = silent.local_addr().unwrap();
        let here = PortalAddress { group_tag: Some(1), ..portal(silent_address) };
        let (plan, has_ended) = left_at(&[here]);
        let since = Instant::now();
        let through = address(server.portals()[0]);
        drop(Disk::attach_planned(&through, disk_options(), plan).await.unwrap());
        assert!(has_ended.load(Ordering::SeqCst), "over the other portal of its group");
        let both = [address(silent_address), through];
        let disk = Disk::attach(&both, disk_options()).await.unwrap();
        assert_eq!(disk.write(0, data(&[3; 512]), VOLATILE).await, Ok(()));
        assert!(since.elapsed() < Duration::from_secs(6), "{:?}", since.elapsed());
        assert_ne!(disk.paths().await[0].status.state, PathState::Active);
    });
}

/// The same where the group of the killed session cannot be reached: a reset, before the first write.
#[test]
fn what_was_left_in_a_group_that_is_away_is_ended_by_a_reset() {
    let medium = FaultyDisk::new(ram(1));
    let server = member(&medium, 1);
    on_core(async move {
        let watcher = watcher(server.portals()[0]).await;
        let away = PortalAddress { host: "127.0.0.1".into(), port: 1, group_tag: Some(2) };
        let (plan, has_ended) = left_at(&[away]);
        let here = address(server.portals()[0]);
        let disk = Disk::attach_planned(&here, disk_options(), plan).await.unwrap();
        assert_eq!(resets(&watcher).await, 1);
        assert!(has_ended.load(Ordering::SeqCst), "it is noted");
        assert_eq!(disk.paths().await[0].status.state, PathState::Active);
    });
}
