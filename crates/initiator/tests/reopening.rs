//! A unit that is lent to one user at a time: each opening of it is a target of its own, and ends the one before.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use common::{
    Load, Proxy, bytes, config, credentials, data, disk_options, on_core, portal, ram, serve,
    session_options,
};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use initiator::{AttachError, Disk, DiskOptions, Opened, Opener, SessionOptions, TargetAddress};
use iscsi::chap::{Credentials, InitiatorChap};
use iscsi::text::IscsiName;
use ring::wait::Bell;
use target::{Access, AccessRule, Server, TargetError, TargetSpec, UnitSpec};

const VOLATILE: WriteFlags = WriteFlags::VOLATILE;

/// Longer than a test: no reset ends a doubt that the opening should.
const NEVER: Duration = Duration::from_secs(300);

fn user() -> Credentials {
    credentials("user", "0123456789abcdef")
}

/// Who lends the unit.
#[derive(Debug)]
struct Lender {
    server: Server,
    device: Arc<dyn BlockDevice>,
    /// The target of the last opening.
    target: RefCell<Option<String>>,
    asked: Cell<u32>,
    opened: Cell<u32>,
    /// It answers.
    answers: Cell<bool>,
    bell: Bell,
    /// The network to the next opening.
    through: Cell<Option<SocketAddr>>,
}

impl Lender {
    fn new(device: Arc<dyn BlockDevice>) -> Rc<Self> {
        let server = serve(config(ram(1)));
        Rc::new(Self {
            server,
            device,
            target: RefCell::default(),
            asked: Cell::new(0),
            opened: Cell::new(0),
            answers: Cell::new(true),
            bell: Bell::default(),
            through: Cell::new(None),
        })
    }

    fn answer(&self, answers: bool) {
        self.answers.set(answers);
        self.bell.ring();
    }

    /// Ends the opening that there is.
    async fn end(&self) {
        let Some(target) = self.target.take() else { return };
        let (done, ended) = ring::oneshot();
        let targets = self.server.targets();
        self.server.first_core().run(move || {
            ring::spawn(async move { done.send(targets.remove(&target, Duration::ZERO).await) });
        });
        ended.await.unwrap().unwrap();
    }

    async fn open(&self) -> Result<Opened, TargetError> {
        self.asked.set(self.asked.get() + 1);
        self.bell.until(|| self.answers.get()).await;
        self.end().await;
        self.opened.set(self.opened.get() + 1);
        let iqn = format!("iqn.2026-11.dev.drystone:opening-{}", self.opened.get());
        let unit = UnitSpec {
            device: self.device.clone(),
            referrals: None,
            serial: "LENT".to_owned(),
            write_cache: false,
            read_only: false,
            name: "lent".to_owned(),
        };
        let access = Access {
            rules: vec![AccessRule::user("user")],
            users: vec![user()],
            mutual: None,
            shared: false,
        };
        let spec =
            TargetSpec { iqn: iqn.clone(), alias: None, units: vec![unit], access: Some(access) };
        self.server.targets().add(spec)?;
        *self.target.borrow_mut() = Some(iqn.clone());
        let at = self.through.get().unwrap_or(self.server.portals()[0]);
        let address = TargetAddress::new(portal(at), IscsiName::parse(&iqn).unwrap());
        Ok(Opened { address, chap: InitiatorChap::new(user(), None).unwrap() })
    }
}

/// One who borrows it.
#[derive(Debug)]
struct Borrower {
    lender: Rc<Lender>,
    works: Cell<bool>,
    why: RefCell<Vec<String>>,
}

impl Borrower {
    fn has_heard(&self, words: &str) -> bool {
        self.why.borrow().iter().any(|why| why.contains(words))
    }
}

impl Opener for Borrower {
    fn open(&self) -> LocalBoxFuture<'_, Result<Opened, Box<dyn Error + Send + Sync>>> {
        async { Ok(self.lender.open().await?) }.boxed_local()
    }

    fn heard(&self, works: bool) {
        self.works.set(works);
    }

    fn failed(&self, why: &dyn fmt::Display) {
        self.why.borrow_mut().push(why.to_string());
    }
}

fn options(limit: Duration) -> DiskOptions {
    let mut options = disk_options();
    options.router.limit = limit;
    options.router.reinstate_wait = NEVER;
    options
}

async fn borrow(lender: &Rc<Lender>, limit: Duration) -> (Disk, Rc<Borrower>) {
    let disk = loop {
        let Opened { address, chap } = lender.open().await.unwrap();
        let session = SessionOptions { chap: Some(chap), ..session_options() };
        let options = DiskOptions { session, ..options(limit) };
        match Disk::attach(&[address], options).await {
            Ok(disk) => break disk,
            // Somebody else has opened it meanwhile, as where two do on a machine that is slow.
            Err(AttachError::Login(_) | AttachError::Command(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let (lender, works) = (lender.clone(), Cell::new(true));
    let borrower = Rc::new(Borrower { lender, works, why: RefCell::default() });
    disk.keep_open(session_options(), borrower.clone());
    (disk, borrower)
}

async fn until(happened: impl Fn() -> bool) {
    while !happened() {
        ring::sleep(Duration::from_millis(1)).await;
    }
}

/// Only the answer to a question says that the opening before is over: until then that is as good as ever.
#[test]
fn a_session_that_comes_back_while_an_opening_is_asked_for_is_used() {
    let lender = Lender::new(ram(1));
    let proxy = Proxy::to(lender.server.portals()[0]);
    on_core(async move {
        lender.through.set(Some(proxy.address));
        let (disk, _borrower) = borrow(&lender, Duration::from_secs(20)).await;
        lender.answer(false);
        proxy.cut();
        until(|| lender.asked.get() == 2).await;
        proxy.open();
        assert_eq!(disk.write(0, data(&[7; 512]), VOLATILE).await, Ok(()));
        assert_eq!((lender.asked.get(), lender.opened.get()), (2, 1));
    });
}

/// It is at the disk while its network falls silent, and the opening ends: it is over then, and is sent through the next one.
#[test]
fn what_was_sent_through_an_opening_that_is_over_is_sent_through_the_next_one() {
    let faulty = FaultyDisk::new(ram(1));
    let lender = Lender::new(Arc::new(faulty.clone()));
    let proxy = Proxy::to(lender.server.portals()[0]);
    on_core(async move {
        lender.through.set(Some(proxy.address));
        let (disk, borrower) = borrow(&lender, Duration::from_secs(15)).await;
        lender.answer(false);
        proxy.cut();
        until(|| lender.asked.get() == 2).await;
        proxy.open();
        assert_eq!(disk.write(0, data(&[7; 512]), VOLATILE).await, Ok(()));
        faulty.inject(Rule::always(Operation::Write, Fault::HoldAnswer).times(1));
        let write = disk.write(512, data(&[8; 512]), VOLATILE);
        until(|| faulty.held() == 1).await;
        proxy.freeze();
        lender.through.set(None);
        lender.answer(true);
        faulty.release();
        assert_eq!(write.await, Ok(()));
        assert_eq!(lender.opened.get(), 2);
        assert_eq!(bytes(&disk.read(0, 1024).await.unwrap())[511..513], [7, 8]);
        until(|| borrower.works.get()).await;
    });
}

/// The session to one that is over would try to log in for ever.
#[test]
fn a_disk_has_one_path_however_often_it_is_opened() {
    let lender = Lender::new(ram(1));
    on_core(async move {
        let (disk, _borrower) = borrow(&lender, Duration::from_secs(40)).await;
        for byte in 1..4 {
            lender.end().await;
            assert_eq!(disk.write(0, data(&[byte; 512]), VOLATILE).await, Ok(()));
            assert_eq!(disk.paths().await.len(), 1);
        }
        assert_eq!(lender.opened.get(), 4);
        until(|| lender.server.sessions() == 1).await;
    });
}

/// As when the server restarts again and again: each time what was on its way is in doubt.
#[test]
fn openings_end_under_verified_load() {
    let faulty = FaultyDisk::new(ram(1));
    let lender = Lender::new(Arc::new(faulty.clone()));
    on_core(async move {
        let slow = Fault::Delay(Duration::from_millis(5));
        faulty.inject(Rule::always(Operation::Write, slow));
        let (disk, borrower) = borrow(&lender, Duration::from_secs(40)).await;
        let disk = Arc::new(disk);
        let load = Load::start(&disk);
        for opened in 2..6 {
            load.progress(50).await;
            lender.end().await;
            until(|| lender.opened.get() >= opened).await;
        }
        load.progress(50).await;
        load.end().await;
        assert_eq!(disk.paths().await.len(), 1);
        until(|| lender.server.sessions() == 1 && borrower.works.get()).await;
    });
}

/// Each ends what the other one has opened: not as fast as they can, and both say why.
#[test]
fn two_who_open_one_unit_take_their_time() {
    /// By then the pauses are as long as they become.
    const BEFORE: Duration = Duration::from_secs(5);
    const LOOK: Duration = Duration::from_secs(5);
    let lender = Lender::new(ram(1));
    on_core(async move {
        let (_one, first) = borrow(&lender, Duration::from_secs(40)).await;
        let (_other, second) = borrow(&lender, Duration::from_secs(40)).await;
        ring::sleep(BEFORE).await;
        let before = lender.opened.get();
        ring::sleep(LOOK).await;
        let opened = lender.opened.get() - before;
        assert!((1..=12).contains(&opened), "{opened} openings in {LOOK:?}");
        for borrower in [first, second] {
            let why = borrower.why.borrow().clone();
            assert!(borrower.has_heard("somebody else opens it"), "{why:?}");
        }
    });
}

/// There is a session, and what is behind it is not used.
#[test]
fn it_is_told_why_a_disk_with_a_session_does_not_work() {
    let faulty = FaultyDisk::new(ram(1));
    let lender = Lender::new(Arc::new(faulty.clone()));
    on_core(async move {
        let (disk, borrower) = borrow(&lender, Duration::from_secs(1)).await;
        faulty.resize(1024);
        let target = lender.target.borrow().clone().unwrap();
        lender.server.targets().resized(&target);
        // It meets the attention.
        let _ = disk.read(0, 512).await;
        until(|| borrower.has_heard("smaller")).await;
        assert!(!borrower.works.get());
        assert_eq!(lender.asked.get(), 1, "another opening would not make it larger");
    });
}

/// What was sent may be done; what was not may be asked for again.
#[test]
fn a_change_that_was_sent_and_given_up_is_in_doubt() {
    let faulty = FaultyDisk::new(ram(1));
    let lender = Lender::new(Arc::new(faulty.clone()));
    on_core(async move {
        let (disk, _borrower) = borrow(&lender, Duration::from_secs(3)).await;
        faulty.inject(Rule::always(Operation::Write, Fault::HoldAnswer).times(1));
        let sent = disk.write(0, data(&[1; 512]), VOLATILE);
        until(|| faulty.held() == 1).await;
        lender.answer(false);
        let ended = lender.clone();
        ring::spawn(async move { ended.end().await });
        assert_eq!(sent.await, Err(BlockError::InDoubt));
        let not_sent = disk.write(512, data(&[2; 512]), VOLATILE).await;
        assert_eq!(not_sent, Err(BlockError::Unreachable));
        assert_eq!(disk.read(0, 512).await.map(drop), Err(BlockError::Unreachable));
        faulty.release();
        lender.answer(true);
        assert_eq!(bytes(&disk.read(0, 1024).await.unwrap())[511..513], [1, 0]);
    });
}
