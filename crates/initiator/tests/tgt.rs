//! Interoperation with Debian's tgtd, which `scripts/setup.sh test` installs.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockDevice, Compared, ExtentState, WriteFlags};
use common::{address, bytes, credentials, data, disk_options, on_core, session_options};
use initiator::{Disk, Session, discover};
use iscsi::chap::InitiatorChap;
use iscsi::params::DigestPolicy;

/// A tgtd of our own: its port and its control number are this process's.
struct Tgt {
    daemon: Child,
    control: String,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Tgt {
    /// Fails where tgtd is not installed, or may not run: a test that cannot run has not passed.
    fn start() -> Self {
        let is_there = Path::new("/usr/sbin/tgtd").exists();
        assert!(is_there, "there is no /usr/sbin/tgtd: run scripts/setup.sh test");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // tgtd's control numbers end at 32767.
        let control = (1024 + port % 30_000).to_string();
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk");
        std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let daemon = Command::new("/usr/sbin/tgtd")
            .args(["-f", "-C", &control, "--iscsi", &format!("portal=127.0.0.1:{port}")])
            .env("TGT_IPC_SOCKET", dir.path().join("ipc"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("tgtd can be started");
        let tgt = Self { daemon, control, port, _dir: dir };
        let since = Instant::now();
        while !tgt.admin(&["--mode", "sys", "--op", "show"]) {
            assert!(since.elapsed() < Duration::from_secs(30), "tgtd does not answer tgtadm");
            std::thread::sleep(Duration::from_millis(50));
        }
        let name = ["--mode", "target", "--op", "new", "--tid", "1", "-T", common::TARGET];
        assert!(tgt.admin(&name));
        let image = image.to_str().unwrap();
        assert!(tgt.admin(&[
            "--mode",
            "logicalunit",
            "--op",
            "new",
            "--tid",
            "1",
            "--lun",
            "1",
            "-b",
            image,
        ]));
        let params = ["--mode", "logicalunit", "--op", "update", "--tid", "1", "--lun", "1"];
        assert!(tgt.admin(&[&params[..], &["--params", "thin_provisioning=1"]].concat()));
        assert!(tgt.admin(&["--mode", "target", "--op", "bind", "--tid", "1", "-I", "ALL"]));
        tgt
    }

    fn admin(&self, args: &[&str]) -> bool {
        let mut command = Command::new("/usr/sbin/tgtadm");
        command.args(["-C", &self.control, "--lld", "iscsi"]).args(args);
        command.env("TGT_IPC_SOCKET", self._dir.path().join("ipc"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn address(&self) -> initiator::TargetAddress {
        let mut address = address(([127, 0, 0, 1], self.port).into());
        address.lun = 1;
        address
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        drop(self.daemon.kill());
        drop(self.daemon.wait());
    }
}

async fn write_and_read(disk: &Arc<Disk>) {
    for (n, len) in [512, 4096, 8192, 65_536, 300_000 / 512 * 512, 2 << 20].into_iter().enumerate()
    {
        let new: Vec<u8> = (0..len).map(|byte| (byte / 3 + n) as u8).collect();
        let at = (n as u64) * 4096;
        disk.write(at, data(&new), WriteFlags::DURABLE).await.unwrap();
        assert!(bytes(&disk.read(at, len).await.unwrap()) == new, "{len} bytes");
    }
    disk.flush().await.unwrap();
    disk.write_zeroes(4096, 1 << 20, true, WriteFlags::VOLATILE).await.unwrap();
    assert!(bytes(&disk.read(4096, 1 << 20).await.unwrap()).iter().all(|&byte| byte == 0));
    let extent = disk.extent(0).await.unwrap();
    assert!(extent.len_bytes > 0 && extent.state != ExtentState::Anchored, "{extent:?}");
    let zero = data(&[0; 512]);
    let swapped = disk.compare_and_write(4096, zero.clone(), data(&[7; 512]), WriteFlags::VOLATILE);
    assert!(matches!(swapped.await, Ok(Compared::Equal) | Err(block::BlockError::Unsupported)));
}

#[test]
fn tgtd_reads_and_writes_with_and_without_digests_and_asking() {
    let tgt = Tgt::start();
    for key in ["HeaderDigest", "DataDigest"] {
        let allow =
            ["--mode", "target", "--op", "update", "--tid", "1", "-n", key, "-v", "CRC32C,None"];
        assert!(tgt.admin(&allow));
    }
    on_core(async move {
        for (digest, initial_r2t, immediate_data) in [
            (DigestPolicy::Refuse, false, true),
            (DigestPolicy::Prefer, true, false),
            (DigestPolicy::Require, false, false),
        ] {
            let mut options = disk_options();
            let limits = &mut options.session.limits;
            (limits.header_digest, limits.data_digest) = (digest, digest);
            (limits.initial_r2t, limits.immediate_data) = (initial_r2t, immediate_data);
            limits.max_burst_len_bytes = 16_384;
            limits.first_burst_len_bytes = 8192;
            let disk = Arc::new(Disk::attach(&[tgt.address()], options).await.unwrap());
            assert_eq!(disk.geometry().size_bytes(), 8 << 20);
            write_and_read(&disk).await;
        }
    });
}

#[test]
fn tgtd_is_discovered_and_pinged_and_resets() {
    let tgt = Tgt::start();
    on_core(async move {
        let found = discover(&tgt.address().portal, &session_options()).await.unwrap();
        assert_eq!(found[0].name.as_str(), common::TARGET);
        assert_eq!(found[0].addresses[0].port, tgt.port);
        let session = Session::open(&tgt.address(), session_options()).await.unwrap();
        ring::sleep(Duration::from_millis(1500)).await;
        assert_eq!(session.losses(), 0, "{}", session.last_trouble());
        session.reset_unit(scsi::param::encode_lun(1).unwrap()).await.unwrap();
        session.logout().await;
    });
}

#[test]
fn tgtd_asks_for_chap() {
    let tgt = Tgt::start();
    let (user, secret) = ("ann", "secret-of-ann-1");
    let account = ["--mode", "account", "--op", "new", "--user", user, "--password", secret];
    assert!(tgt.admin(&account));
    let bind = ["--mode", "account", "--op", "bind", "--tid", "1", "--user", user];
    assert!(tgt.admin(&bind));
    on_core(async move {
        let open = async |secret: &str| {
            let mut options = session_options();
            let chap = InitiatorChap::new(credentials(user, secret), None).unwrap();
            options.chap = Some(chap);
            Session::open(&tgt.address(), options).await
        };
        let right = open(secret).await;
        assert!(right.is_ok(), "{right:?}");
        assert!(open("another-secret-1").await.is_err());
        let without = Session::open(&tgt.address(), session_options()).await;
        assert!(without.is_err());
    });
}
