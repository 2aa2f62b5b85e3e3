//! What a host is promised whatever targets and networks do: a lost cache is told, attentions are no
//! errors, the limit bounds everything, and a silent path holds nobody up.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, FileOptions, VolatileDisk, WriteFlags};
use common::{
    Proxy, TARGET, address, bytes, config, data, disk_options, on_core, ram, serve, session_options,
};
use initiator::paths::PathState;
use initiator::{Disk, DiskOptions, LossNote, Session};
use target::{Config, Server};

const VOLATILE: WriteFlags = WriteFlags::VOLATILE;

/// A target with a volatile write cache, whose disk survives it.
fn cached(disk: Arc<dyn BlockDevice>) -> Config {
    let mut config = config(disk);
    config.targets[0].units[0].write_cache = true;
    config
}

async fn until_active(disk: &Disk, path: usize) {
    while disk.paths().await[path].status.state != PathState::Active {
        ring::sleep(Duration::from_millis(10)).await;
    }
}

/// The same target at the same portal, as after a loss of power: it knows nothing of before.
fn restart(server: &mut Option<Server>, config: Config) {
    let portal = server.as_ref().unwrap().portals()[0];
    drop(server.take());
    *server = Some(serve(Config { portals: vec![portal], ..config }));
}

#[test]
fn a_restart_with_a_volatile_cache_fails_the_next_flush_once() {
    let medium = ram(1);
    let mut server = Some(serve(cached(medium.clone())));
    let portal = server.as_ref().unwrap().portals()[0];
    on_core(async move {
        let disk = Disk::attach(&[address(portal)], disk_options()).await.unwrap();
        assert_eq!(disk.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        assert_eq!(disk.flush().await, Ok(()));
        restart(&mut server, cached(medium.clone()));
        assert_eq!(disk.flush().await, Ok(()), "all was durable");
        assert_eq!(disk.write(0, data(&[2; 512]), VOLATILE).await, Ok(()));
        restart(&mut server, cached(medium.clone()));
        assert!(disk.read(0, 512).await.is_ok(), "the restart itself is no error");
        assert_eq!(disk.flush().await, Err(BlockError::LostWrites));
        assert_eq!(disk.flush().await, Ok(()), "it is told once");
        // A durable write answers for itself alone.
        let durable = WriteFlags { durable: true, ..VOLATILE };
        assert_eq!(disk.write(0, data(&[3; 512]), durable).await, Ok(()));
        restart(&mut server, cached(medium));
        assert_eq!(disk.flush().await, Ok(()));
    });
}

/// A process is killed, and another one takes its users over: they have their lost cache told as well.
#[test]
fn who_takes_users_over_answers_for_what_they_have_written() {
    let medium = ram(1);
    let mut server = Some(serve(cached(medium.clone())));
    let portal = server.as_ref().unwrap().portals()[0];
    on_core(async move {
        // The same port of this host, as the notes of the runtime directory see to: another one would
        // be told of every start that it has not heard of.
        let mut options = disk_options();
        options.session.isid = Some([0x80, 1, 2, 3, 0, 1]);
        let attach = async || Disk::attach(&[address(portal)], options.clone()).await.unwrap();
        let first = attach().await;
        assert_eq!(first.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        drop(first);
        let second = attach().await;
        second.take_over(false).await;
        restart(&mut server, cached(medium.clone()));
        assert_eq!(second.flush().await, Err(BlockError::LostWrites), "it was there all the time");
        assert_eq!(second.write(0, data(&[2; 512]), VOLATILE).await, Ok(()));
        drop(second);
        restart(&mut server, cached(medium.clone()));
        let third = attach().await;
        third.take_over(false).await;
        assert_eq!(third.flush().await, Err(BlockError::LostWrites), "it came too late");
        assert_eq!(third.flush().await, Ok(()));
        assert_eq!(third.write(0, data(&[3; 512]), VOLATILE).await, Ok(()));
        drop(third);
        let fourth = attach().await;
        fourth.take_over(false).await;
        assert_eq!(fourth.flush().await, Ok(()), "nothing was lost");
        restart(&mut server, cached(medium.clone()));
        let users_of_its_own = attach().await;
        assert_eq!(users_of_its_own.flush().await, Ok(()));
    });
}

/// The target restarts when the next process has logged in, and has not yet taken the users over.
#[test]
fn a_restart_between_the_login_and_the_taking_over_is_told() {
    let medium = ram(1);
    let mut server = Some(serve(cached(medium.clone())));
    let portal = server.as_ref().unwrap().portals()[0];
    on_core(async move {
        let mut options = disk_options();
        options.session.isid = Some([0x80, 1, 2, 3, 0, 1]);
        let attach = async || Disk::attach(&[address(portal)], options.clone()).await.unwrap();
        let first = attach().await;
        assert_eq!(first.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        drop(first);
        let second = attach().await;
        restart(&mut server, cached(medium.clone()));
        assert!(second.read(0, 512).await.is_ok(), "it has logged in again");
        second.take_over(false).await;
        assert_eq!(second.flush().await, Err(BlockError::LostWrites));
        assert_eq!(second.flush().await, Ok(()));
    });
}

/// What is kept beside a device whose users may outlive the process.
#[derive(Debug, Clone, Default)]
struct Noted(Arc<AtomicBool>);

impl LossNote for Noted {
    fn lost(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn told(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A process hears of the loss, and is killed before a flush could say so; then one whose flush has said
/// so, perhaps to nobody.
#[test]
fn a_loss_that_was_heard_of_is_told_by_whoever_takes_users_over() {
    let medium = ram(1);
    let mut server = Some(serve(cached(medium.clone())));
    let portal = server.as_ref().unwrap().portals()[0];
    on_core(async move {
        let mut options = disk_options();
        options.session.isid = Some([0x80, 1, 2, 3, 0, 1]);
        let noted = Noted::default();
        let is_noted = || noted.0.load(Ordering::Relaxed);
        let attach = async || {
            let disk = Disk::attach(&[address(portal)], options.clone()).await.unwrap();
            disk.keep_losses(Box::new(noted.clone())).await;
            disk
        };
        let first = attach().await;
        assert_eq!(first.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        assert!(!is_noted());
        restart(&mut server, cached(medium.clone()));
        first.read(0, 512).await.unwrap();
        drop(first);
        assert!(is_noted(), "a read has heard of it");
        for _ in 0..2 {
            let next = attach().await;
            next.take_over(is_noted()).await;
            assert_eq!(next.flush().await, Err(BlockError::LostWrites));
            assert!(is_noted(), "nobody may have had the answer");
            drop(next);
        }
        let last = attach().await;
        last.take_over(is_noted()).await;
        assert_eq!(last.flush().await, Err(BlockError::LostWrites));
        assert_eq!(last.flush().await, Ok(()));
        assert!(!is_noted());
    });
}

/// It asks for a logout first, and what was answered is durable by then.
#[test]
fn a_stop_in_order_with_a_volatile_cache_loses_nothing() {
    let medium = ram(1);
    let server = serve(cached(medium.clone()));
    let portal = server.portals()[0];
    on_core(async move {
        let disk = Disk::attach(&[address(portal)], disk_options()).await.unwrap();
        assert_eq!(disk.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        ring::blocking(move || server.shutdown(Duration::from_secs(10))).await.unwrap();
        let _server = serve(Config { portals: vec![portal], ..cached(medium) });
        assert!(disk.read(0, 512).await.is_ok());
        assert_eq!(disk.flush().await, Ok(()));
    });
}

#[test]
fn a_restart_without_a_volatile_cache_loses_nothing() {
    let medium = ram(1);
    let mut server = Some(serve(config(medium.clone())));
    let portal = server.as_ref().unwrap().portals()[0];
    on_core(async move {
        let disk = Disk::attach(&[address(portal)], disk_options()).await.unwrap();
        assert_eq!(disk.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        restart(&mut server, config(medium));
        assert_eq!(disk.flush().await, Ok(()));
    });
}

/// A disk whose cache is lost with its power, behind a target that says so, and its file.
fn forgetful() -> (Arc<dyn BlockDevice>, std::path::PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let options = FileOptions {
        block_bytes: 512,
        read_only: false,
        size_bytes: Some(1 << 20),
        write_through: false,
        direct: false,
    };
    (Arc::new(VolatileDisk::open(&path, &options).unwrap()), path, dir)
}

/// What the disk says of a flush and of FUA is what it does: the bytes are in the file.
#[test]
fn a_flush_and_a_durable_write_reach_the_medium() {
    let (medium, path, _dir) = forgetful();
    let server = serve(cached(medium));
    let portal = server.portals()[0];
    on_core(async move {
        let disk = Disk::attach(&[address(portal)], disk_options()).await.unwrap();
        let holds = |at: usize, byte: u8| {
            std::fs::read(&path).unwrap()[at..at + 65536].iter().all(|found| *found == byte)
        };
        assert_eq!(disk.write(0, data(&[1; 65536]), VOLATILE).await, Ok(()));
        assert!(!holds(0, 1), "the cache is volatile");
        assert_eq!(disk.flush().await, Ok(()));
        assert!(holds(0, 1));
        assert_eq!(disk.write(65536, data(&[2; 65536]), VOLATILE).await, Ok(()));
        let durable = WriteFlags { durable: true, ..VOLATILE };
        assert_eq!(disk.write(131_072, data(&[3; 65536]), durable).await, Ok(()));
        assert!(holds(131_072, 3));
    });
}

/// A trim is a wish. To write zeroes instead would fill what was to be emptied.
#[test]
fn a_trim_that_gives_no_space_back_writes_nothing() {
    let (medium, _path, _dir) = forgetful();
    let faulty = FaultyDisk::new(medium);
    let server = serve(config(Arc::new(faulty.clone())));
    let portal = server.portals()[0];
    on_core(async move {
        let disk = Disk::attach(&[address(portal)], disk_options()).await.unwrap();
        assert!(!disk.geometry().thin);
        assert_eq!(disk.write(0, data(&[1; 4096]), VOLATILE).await, Ok(()));
        for operation in [Operation::Write, Operation::WriteZeroes, Operation::Unmap] {
            faulty.inject(Rule::always(operation, Fault::Fail(BlockError::NoSpace)));
        }
        assert_eq!(disk.unmap(0, 1 << 20).await, Ok(()));
        assert_eq!(bytes(&disk.read(0, 4096).await.unwrap()), [1; 4096]);
        let zeroes = disk.write_zeroes(0, 4096, true, VOLATILE).await;
        assert_eq!(zeroes, Err(BlockError::NoSpace), "this is no wish");
    });
}

/// One of two paths comes and goes: the other one proves that the target has been there all along.
#[test]
fn a_path_that_returns_is_no_restart() {
    let server = serve(cached(ram(1)));
    let (one, two) = (Proxy::to(server.portals()[0]), Proxy::to(server.portals()[0]));
    on_core(async move {
        let paths = [address(one.address), address(two.address)];
        let disk = Disk::attach(&paths, disk_options()).await.unwrap();
        assert_eq!(disk.write(0, data(&[1; 512]), VOLATILE).await, Ok(()));
        one.cut();
        assert_eq!(disk.write(512, data(&[1; 512]), VOLATILE).await, Ok(()));
        while disk.paths().await[0].status.losses == 0 {
            ring::sleep(Duration::from_millis(10)).await;
        }
        one.open();
        until_active(&disk, 0).await;
        assert_eq!(disk.flush().await, Ok(()));
    });
}

/// The unit says that it may be another one, here that it has become smaller: nothing more is written
/// before it has been looked at, and then nothing at all.
#[test]
fn a_disk_that_may_be_another_one_is_not_written() {
    let medium = ram(2);
    let faulty = FaultyDisk::new(medium.clone());
    let server = serve(config(Arc::new(faulty.clone())));
    let portal = server.portals()[0];
    on_core(async move {
        let mut options = disk_options();
        options.router.limit = Duration::from_secs(2);
        let disk = Disk::attach(&[address(portal)], options).await.unwrap();
        faulty.resize(2048);
        server.targets().resized(TARGET);
        ring::sleep(Duration::from_millis(100)).await;
        for at in [0, 512, 1024] {
            let write = disk.write(at, data(&[1; 512]), VOLATILE).await;
            assert_eq!(write, Err(BlockError::Unreachable));
        }
        assert_eq!(bytes(&medium.read(0, 2048).await.unwrap()), [0; 2048]);
        assert!(disk.paths().await[0].trouble.contains("smaller"));
    });
}

/// A disk that has grown is used as a whole, and from then on it may not be smaller than that.
#[test]
fn a_disk_that_has_grown_is_as_large_as_it_is() {
    const OLD: u64 = 2048;
    const NEW: u64 = 4096;
    let medium = ram(2);
    let faulty = FaultyDisk::new(medium.clone());
    faulty.resize(OLD);
    let server = serve(config(Arc::new(faulty.clone())));
    let portal = server.portals()[0];
    on_core(async move {
        let mut options = disk_options();
        options.router.limit = Duration::from_secs(2);
        let disk = Disk::attach(&[address(portal), address(portal)], options).await.unwrap();
        let (end, block) = (OLD * 512, || data(&[7; 512]));
        assert_eq!(disk.geometry().blocks, OLD);
        let beyond = disk.write(end, block(), VOLATILE).await;
        assert!(matches!(beyond, Err(BlockError::OutOfRange { .. })));
        faulty.resize(NEW);
        server.targets().resized(TARGET);
        while disk.geometry().blocks != NEW {
            assert!(disk.read(0, 512).await.is_ok());
        }
        assert_eq!(disk.write(end, block(), VOLATILE).await, Ok(()));
        assert_eq!(bytes(&medium.read(end, 512).await.unwrap()), [7; 512]);
        faulty.resize(OLD);
        server.targets().resized(TARGET);
        ring::sleep(Duration::from_millis(100)).await;
        let write = disk.write(0, block(), VOLATILE).await;
        assert_eq!(write, Err(BlockError::Unreachable), "it is not the disk that it was");
        assert_eq!(bytes(&medium.read(0, 512).await.unwrap()), [0; 512]);
    });
}

/// Each session has an attention of its own, and a command may meet all of them.
#[test]
fn twenty_attentions_are_no_error() {
    let server = serve(config(ram(1)));
    let portal = server.portals()[0];
    on_core(async move {
        let disk = Disk::attach(&vec![address(portal); 20], disk_options()).await.unwrap();
        let other = Session::open(&address(portal), session_options()).await.unwrap();
        for _ in 0..5 {
            other.reset_unit(0).await.unwrap();
            assert!(disk.read(0, 512).await.is_ok());
        }
        assert_eq!(server.sessions(), 21);
    });
}

/// A reset by another host ends commands without an answer, as far as the target has none for them;
/// nobody waits for their time-out.
#[test]
fn a_reset_by_another_host_stalls_nobody() {
    let faulty = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(faulty.clone())));
    let portal = server.portals()[0];
    on_core(async move {
        let disk = Disk::attach(&vec![address(portal); 3], disk_options()).await.unwrap();
        let other = Session::open(&address(portal), session_options()).await.unwrap();
        let slow = Fault::Delay(Duration::from_millis(300));
        faulty.inject(Rule::always(Operation::Read, slow).times(8));
        let since = Instant::now();
        let reads: Vec<_> = (0..8).map(|n| disk.read(n * 512, 512)).collect();
        ring::sleep(Duration::from_millis(50)).await;
        other.reset_unit(0).await.unwrap();
        // Something must meet the attention, as on a disk in use.
        for _ in 0..6 {
            assert!(disk.read(0, 512).await.is_ok());
        }
        for read in reads {
            assert!(read.await.is_ok());
        }
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        let paths = disk.paths().await;
        assert!(paths.iter().all(|path| path.status.state == PathState::Active), "{paths:?}");
    });
}

/// A unit that never answers one command, while it answers everything else.
#[test]
fn the_limit_bounds_a_command_that_hangs() {
    let faulty = FaultyDisk::new(ram(1));
    let server = serve(config(Arc::new(faulty.clone())));
    let portal = server.portals()[0];
    on_core(async move {
        let mut options = disk_options();
        options.router.limit = Duration::from_secs(3);
        let disk = Disk::attach(&[address(portal)], options).await.unwrap();
        faulty.inject(Rule::always(Operation::Read, Fault::Hang));
        let since = Instant::now();
        assert_eq!(disk.read(0, 512).await.unwrap_err(), BlockError::Unreachable);
        assert!((2..9).contains(&since.elapsed().as_secs()), "{:?}", since.elapsed());
        faulty.release();
    });
}

/// With default times: a path on which nothing comes any more holds reads up for two seconds at
/// most. Writes wait until it is certain that it is lost.
#[test]
fn reads_leave_a_silent_path_within_two_seconds() {
    let server = serve(config(ram(1)));
    let (one, two) = (Proxy::to(server.portals()[0]), Proxy::to(server.portals()[0]));
    on_core(async move {
        let mut options =
            DiskOptions::new(initiator::SessionOptions::new(session_options().initiator_name));
        // `hedging` is about reads that are faster than that.
        options.router.hedge_after = None;
        let paths = [address(one.address), address(two.address)];
        let disk = Disk::attach(&paths, options).await.unwrap();
        assert_eq!(disk.write(0, data(&[7; 8192]), VOLATILE).await, Ok(()));
        ring::sleep(Duration::from_secs(4)).await; // the watches have gone to rest
        one.freeze();
        let since = Instant::now();
        let reads: Vec<_> = (0..8).map(|n| disk.read(n * 512, 512)).collect();
        for read in reads {
            assert_eq!(bytes(&read.await.unwrap()), [7; 512]);
        }
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        assert_eq!(disk.paths().await[0].status.state, PathState::Silent);
        let since = Instant::now();
        for n in 0..8 {
            assert!(disk.read(n * 512, 512).await.is_ok());
        }
        assert!(since.elapsed() < Duration::from_millis(500), "a silent path is not tried");
        one.open();
        until_active(&disk, 0).await;
    });
}
