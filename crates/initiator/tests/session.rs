//! Sessions against our own target: login, redirection, discovery, task management, recovery.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use common::{
    Proxy, TARGET, address, bytes, config, credentials, data, door, on_core, portal, ram, serve,
    session_options,
};
use initiator::{CommandError, LoginError, Request, Session, Transfer, discover};
use iscsi::chap::InitiatorChap;
use scsi::{Sense, Status};
use target::{Access, Config, RemoteTarget, Server};

const TEST_UNIT_READY: [u8; 16] = [0; 16];

fn request(cdb: [u8; 16], transfer: Transfer) -> Request {
    Request { lun: 0, cdb, transfer, timeout: Duration::from_secs(5) }
}

/// Takes the unit attentions that follow a login.
async fn settle(session: &Session) {
    for _ in 0..10 {
        let reply = session.execute(request(TEST_UNIT_READY, Transfer::None)).await.unwrap();
        if reply.is_good() {
            return;
        }
    }
    panic!("the unit has too much to tell");
}

fn write_10(lba: u8, blocks: u8) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[5], cdb[8]) = (0x2a, lba, blocks);
    cdb
}

#[test]
fn logs_in_runs_commands_and_logs_out() {
    let server = serve(config(ram(1)));
    on_core(async move {
        let session =
            Session::open(&address(server.portals()[0]), session_options()).await.unwrap();
        assert!(session.is_up());
        settle(&session).await;
        let mut inquiry = [0; 16];
        (inquiry[0], inquiry[4]) = (0x12, 96);
        let reply = session.execute(request(inquiry, Transfer::In(96))).await.unwrap();
        assert_eq!(&reply.data.as_slice().unwrap()[8..16], b"DRYSTONE");
        let mut unknown = [0; 16];
        unknown[0] = 0xff;
        let reply = session.execute(request(unknown, Transfer::None)).await.unwrap();
        assert_eq!(reply.status, Status::CheckCondition);
        assert_eq!(reply.sense, Some(Sense::invalid_opcode()));
        session.logout().await;
        assert!(!session.is_up());
        let gone = session.execute(request(TEST_UNIT_READY, Transfer::None)).await;
        assert_eq!(gone.unwrap_err(), CommandError::Closed);
    });
}

#[test]
fn chap_right_wrong_and_mutual() {
    let mut config = config(ram(1));
    let (host, target) = (("ann", "host-secret-123"), ("bob", "target-secret-1"));
    let user = credentials(host.0, host.1);
    config.access = Access::uniform(Vec::new(), Some(user), Some(credentials(target.0, target.1)));
    let server = serve(config);
    on_core(async move {
        let open = async |chap: Option<InitiatorChap>| {
            let mut options = session_options();
            options.chap = chap;
            Session::open(&address(server.portals()[0]), options).await
        };
        let chap = |user, secret, target: Option<(&str, &str)>| {
            let target = target.map(|(user, secret)| credentials(user, secret));
            Some(InitiatorChap::new(credentials(user, secret), target).unwrap())
        };
        assert!(open(chap(host.0, host.1, None)).await.is_ok());
        assert!(open(chap(host.0, host.1, Some(target))).await.is_ok());
        let is_final = |result: Result<Session, LoginError>| result.is_err_and(|e| e.is_final());
        assert!(is_final(open(None).await));
        assert!(is_final(open(chap(host.0, "wrong-secret-123", None)).await));
        assert!(is_final(open(chap("eve", host.1, None)).await));
        let impostor = open(chap(host.0, host.1, Some(("bob", "another-secret-1")))).await;
        assert!(is_final(impostor), "the target must prove itself");
    });
}

#[test]
fn redirections_are_followed_but_not_for_ever() {
    let disk = ram(1);
    let here = serve(config(disk));
    let (redirecting, to) = door(here.portals()[0]);
    on_core(async move {
        let group = address(redirecting.portals()[0]);
        let session = Session::open(&group, session_options()).await.unwrap();
        assert_eq!((here.sessions(), redirecting.sessions()), (1, 0));
        settle(&session).await;
        // In a circle.
        to.set(redirecting.portals()[0]);
        let lost = Session::open(&group, session_options()).await;
        assert!(matches!(lost, Err(LoginError::TooManyRedirections { .. })), "{lost:?}");
    });
}

/// Members of a group tell where the targets of others are, and may have old news.
#[test]
fn a_target_of_another_member_is_found_by_asking_any() {
    let none = || serve(Config { targets: Vec::new(), ..config(ram(1)) });
    let (here, asked, third) = (serve(config(ram(1))), none(), none());
    let believes = |server: &Server, other: &Server| {
        let portals = Arc::from(other.portals());
        let there = RemoteTarget { portals, portal_group: 0, shown_to: None };
        server.targets().set_elsewhere(BTreeMap::from([(TARGET.to_owned(), there)]));
    };
    on_core(async move {
        let any = address(asked.portals()[0]);
        believes(&asked, &here);
        let session = Session::open(&any, session_options()).await.unwrap();
        assert_eq!((here.sessions(), asked.sessions()), (1, 0));
        settle(&session).await;
        session.logout().await;
        believes(&asked, &third);
        let lost = Session::open(&any, session_options()).await.unwrap_err();
        assert!(lost.to_string().contains("target not found"), "{lost}");
        assert!(!lost.is_final(), "it may come");
        believes(&third, &asked);
        let lost = Session::open(&any, session_options()).await.unwrap_err();
        assert!(matches!(lost, LoginError::TooManyRedirections { .. }), "{lost}");
        believes(&third, &here);
        let session = Session::open(&any, session_options()).await.unwrap();
        settle(&session).await;
        assert_eq!((asked.sessions(), third.sessions()), (0, 0));
    });
}

#[test]
fn discovery_finds_targets_and_their_portals() {
    let mut config = config(ram(1));
    config.portals.push(([127, 0, 0, 1], 0).into());
    let server = serve(config);
    on_core(async move {
        let found = discover(&portal(server.portals()[0]), &session_options()).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name.as_str(), TARGET);
        let mut ports: Vec<u16> = found[0].addresses.iter().map(|portal| portal.port).collect();
        ports.sort_unstable();
        let mut expected: Vec<u16> = server.portals().iter().map(SocketAddr::port).collect();
        expected.sort_unstable();
        assert_eq!(ports, expected);
        // The same is told within a session, beside its commands, and again and again.
        let session =
            Session::open(&address(server.portals()[0]), session_options()).await.unwrap();
        for _ in 0..3 {
            let mut told: Vec<u16> =
                session.portals().await.unwrap().iter().map(|portal| portal.port).collect();
            told.sort_unstable();
            assert_eq!(told, expected);
            settle(&session).await;
        }
        drop(server);
        assert!(session.portals().await.is_err());
    });
}

#[test]
fn nobody_there_and_nobody_of_this_name() {
    let server = serve(config(ram(1)));
    on_core(async move {
        let mut wrong = address(server.portals()[0]);
        wrong.name = "iqn.2026-11.dev.drystone:other".parse().unwrap();
        let missing = Session::open(&wrong, session_options()).await.unwrap_err();
        assert!(missing.to_string().contains("target not found"), "{missing}");
        assert!(!missing.is_final(), "it may come");
        let nobody = ([127, 0, 0, 1], 1).into();
        let error = Session::open(&address(nobody), session_options()).await.unwrap_err();
        assert!(matches!(error, LoginError::Connect { .. }) && !error.is_final(), "{error}");
    });
}

#[test]
fn a_command_whose_time_is_up_is_aborted() {
    let disk = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(disk.clone())));
    on_core(async move {
        let session =
            Session::open(&address(server.portals()[0]), session_options()).await.unwrap();
        settle(&session).await;
        disk.inject(
            Rule::always(Operation::Write, Fault::Delay(Duration::from_millis(600))).times(1),
        );
        let slow = Request {
            timeout: Duration::from_millis(200),
            ..request(write_10(0, 1), Transfer::Out(data(&[1; 512])))
        };
        assert_eq!(session.execute(slow).await.unwrap_err(), CommandError::Aborted);
        let next = session.execute(request(TEST_UNIT_READY, Transfer::None)).await.unwrap();
        assert!(next.is_good(), "the session goes on: {next:?}");
        assert_eq!(session.losses(), 0);
    });
}

#[test]
fn a_reset_ends_commands_and_is_told() {
    let disk = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(disk.clone())));
    on_core(async move {
        let session =
            Session::open(&address(server.portals()[0]), session_options()).await.unwrap();
        settle(&session).await;
        let slow = Fault::Delay(Duration::from_millis(300));
        disk.inject(Rule::always(Operation::Write, slow).times(1));
        let write = session.execute(request(write_10(0, 1), Transfer::Out(data(&[1; 512]))));
        session.reset_unit(0).await.unwrap();
        assert_eq!(write.await.unwrap_err(), CommandError::Ended);
        let reply = session.execute(request(TEST_UNIT_READY, Transfer::None)).await.unwrap();
        let sense = reply.sense.expect("the reset is told");
        assert_eq!(sense.key, scsi::SenseKey::UnitAttention);
        session.abort_task_set(0).await.unwrap();
        settle(&session).await;
    });
}

#[test]
fn a_lost_connection_leaves_what_was_sent_in_doubt_until_the_next_login() {
    let disk = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(disk.clone())));
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let session = Session::open(&address(proxy.address), session_options()).await.unwrap();
        settle(&session).await;
        disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let write = session.execute(request(write_10(0, 1), Transfer::Out(data(&[1; 512]))));
        while disk.held() == 0 {
            ring::sleep(Duration::from_millis(5)).await;
        }
        proxy.cut();
        assert_eq!(write.await.unwrap_err(), CommandError::InDoubt { loss: 1 });
        assert_eq!((session.losses(), session.fenced()), (1, 0));
        let not_now = session.execute(request(TEST_UNIT_READY, Transfer::None)).await;
        assert_eq!(not_now.unwrap_err(), CommandError::NotSent);
        proxy.open();
        // The target does not let the new session in while the old one's write runs.
        ring::sleep(Duration::from_millis(2500)).await;
        assert_eq!(session.fenced(), 0, "the write can happen yet");
        disk.release();
        session.until_fenced(1).await.unwrap();
        while !session.is_up() {
            session.changed().await;
        }
        settle(&session).await;
    });
}

#[test]
fn a_silent_target_is_noticed() {
    let server = serve(config(ram(1)));
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let session = Session::open(&address(proxy.address), session_options()).await.unwrap();
        settle(&session).await;
        // Pings go both ways and are answered: an idle session stays.
        ring::sleep(Duration::from_millis(2500)).await;
        assert_eq!(session.losses(), 0);
        proxy.freeze();
        while session.losses() == 0 {
            session.changed().await;
        }
        assert!(session.last_trouble().contains("NOP-Out"), "{}", session.last_trouble());
    });
}

/// Writes that wait in the host's own socket when their session ends must not leave it when the
/// network is whole again: they would come back over newer ones.
#[test]
fn a_lost_session_throws_its_queue_away() {
    let server = serve(config(ram(16)));
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let session = Session::open(&address(proxy.address), session_options()).await.unwrap();
        settle(&session).await;
        proxy.freeze();
        let before = proxy.carried_bytes();
        let mebibyte = data(&vec![1; 1 << 20]);
        for n in 0..8 {
            let mut cdb = write_10(0, 0);
            (cdb[4], cdb[7]) = (n * 8, 8); // 2048 blocks each
            drop(session.execute(request(cdb, Transfer::Out(mebibyte.clone()))));
        }
        while session.losses() == 0 {
            session.changed().await;
        }
        proxy.open();
        ring::sleep(Duration::from_millis(300)).await;
        let left = proxy.carried_bytes() - before;
        assert!(left < 512 << 10, "{left} bytes of the lost session reached the target");
    });
}

#[test]
fn a_target_that_talks_nonsense_is_left() {
    let server = serve(config(ram(1)));
    let proxy = Proxy::to(server.portals()[0]);
    on_core(async move {
        let session = Session::open(&address(proxy.address), session_options()).await.unwrap();
        settle(&session).await;
        proxy.spoil();
        let lost = session.execute(request(TEST_UNIT_READY, Transfer::None)).await;
        assert_eq!(lost.unwrap_err(), CommandError::InDoubt { loss: 1 });
        proxy.open();
        session.until_fenced(1).await.unwrap();
    });
}

/// Commands go over all connections, each with its data and its answer on the one it was sent on.
#[test]
fn a_session_has_several_connections() {
    let server = serve(config(ram(4)));
    on_core(async move {
        let mut options = session_options();
        options.connections = 4;
        options.queue_depth = 32;
        let session = Session::open(&address(server.portals()[0]), options.clone()).await.unwrap();
        assert_eq!((session.connections(), server.sessions()), (4, 1));
        settle(&session).await;
        // Long enough for R2T and for data that is received straight into its place.
        const BYTES: usize = 256 << 10;
        let block = |n: usize| data(&vec![n as u8 + 1; BYTES]);
        let at = |opcode, n: usize| {
            let mut cdb = [0; 16];
            cdb[0] = opcode;
            cdb[2..10].copy_from_slice(&((n * BYTES / 512) as u64).to_be_bytes());
            cdb[10..14].copy_from_slice(&((BYTES / 512) as u32).to_be_bytes());
            cdb
        };
        let writes: Vec<_> = (0..16)
            .map(|n| session.execute(request(at(0x8a, n), Transfer::Out(block(n)))))
            .collect();
        for write in writes {
            assert!(write.await.unwrap().is_good());
        }
        let read = |n| session.execute(request(at(0x88, n), Transfer::In(BYTES as u32)));
        let reads: Vec<_> = (0..16).map(read).collect();
        for (n, read) in reads.into_iter().enumerate() {
            let found = read.await.unwrap();
            assert!(found.is_good() && bytes(&found.data) == bytes(&block(n)), "read {n}");
        }
        // A reset is waited for on all of them.
        session.reset_unit(0).await.unwrap();
        settle(&session).await;
        session.logout().await;
        assert_eq!(session.connections(), 0);

        // More than the target takes are not had.
        options.connections = 64;
        let session = Session::open(&address(server.portals()[0]), options).await.unwrap();
        assert!((2..=32).contains(&session.connections()), "{}", session.connections());
    });
}
