//! Settings that cannot be read for a while: nobody gets in, nobody is sent away for good, and they are read again.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use block::WriteFlags;
use ring::Buf;

use super::{COME_BACK, NO_SUCH_TARGET, NOT_LET_IN, host, let_in, wait_until};
use crate::events::Kind;
use crate::settings::hidden;
use crate::testing::{Host, Rig};

const PREFIX: &str = "iqn.2026-11.com.example:san";

/// Where the volume of the settings has the head of its database.
const HEAD_AT: u64 = 8192;
const HEAD_BYTES: usize = 4096;

/// Writes over the head of the settings, and returns what it was.
fn overwrite(rig: &Rig, with: Vec<u8>) -> Vec<u8> {
    rig.with(async move |member| {
        let device = member.array().device(hidden::NAME).expect("there are settings");
        let read = device.read(HEAD_AT, HEAD_BYTES).await.expect("it reads");
        let mut before = vec![0; HEAD_BYTES];
        read.copy_to(0, &mut before);
        let mut buf = Buf::alloc(HEAD_BYTES).expect("memory");
        buf.copy_from_slice(&with);
        device.write(HEAD_AT, buf.freeze(), WriteFlags::DURABLE).await.expect("it is written");
        before
    })
}

/// A member whose targets have a name that was chosen at another start, and whose settings cannot be read; and what is
/// missing of them.
fn begin(home: &Path, data: &Path) -> (Rig, SocketAddr, Vec<u8>) {
    let rig = Rig::start_as(home, data, Some(PREFIX));
    rig.create("a");
    let_in(&rig, "a", "good");
    rig.with(async |member| member.settings().close().await);
    let head = overwrite(&rig, vec![0xff; HEAD_BYTES]);
    drop(rig);
    let (rig, portal) = Rig::start_for_all(home, data, None);
    (rig, portal, head)
}

#[test]
fn settings_that_cannot_be_read_are_read_again_and_hosts_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal, head) = begin(dir.path(), &dir.path().join("data"));
    let fault = || rig.with(async |member| member.settings().fault());
    assert!(fault().is_some());
    let usual = rig.with(async |member| member.serving().names().prefix().to_owned());
    let refusal = |name: &str, target: &str| Host::log_in(portal, &host(name), target).err();
    let good = || refusal("good", &format!("{PREFIX}:a"));
    let is_closed = || {
        // Whatever the name of the target: nobody knows how it begins.
        for target in [format!("{PREFIX}:a"), format!("{usual}:a"), format!("{PREFIX}:none")] {
            for name in ["good", "bad"] {
                assert_eq!(refusal(name, &target), COME_BACK, "{name} at {target}");
            }
        }
    };
    is_closed();
    rig.watch();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        is_closed();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(fault().is_some());
    overwrite(&rig, head);
    // Nothing about volumes or disks changes: it is tried again all the same.
    let mut refused = good();
    wait_until("the settings are read again", || {
        assert!(refused.is_none() || refused == COME_BACK, "{refused:?}");
        refused = good();
        refused.is_none()
    });
    assert_eq!(refusal("bad", &format!("{PREFIX}:a")), NOT_LET_IN);
    // In a moment all names are known.
    wait_until("they are known", || {
        refusal("good", &format!("{PREFIX}:none")) == NO_SUCH_TARGET
            && refusal("good", &format!("{usual}:a")) == NO_SUCH_TARGET
    });
    let told = (rig.told(Kind::SettingsUnavailable).len(), rig.told(Kind::SettingsAvailable).len());
    assert_eq!(told, (1, 1), "it is told once");
    rig.stop();
}

/// The same where they fail while hosts are connected.
#[test]
fn settings_that_fail_end_sessions_and_hosts_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (rig, portal) = Rig::start_for_all(dir.path(), &dir.path().join("data"), Some(PREFIX));
    rig.create("a");
    let_in(&rig, "a", "good");
    let target = format!("{PREFIX}:a");
    let mut good = Host::log_in(portal, &host("good"), &target).expect("it is let in");
    rig.with(async |member| {
        member.settings().fail().await;
        member.serving().apply_access().await;
    });
    assert_eq!(good.test(), None, "nobody is in");
    for target in [&target, &format!("{PREFIX}:another")] {
        for name in ["good", "bad"] {
            let refusal = Host::log_in(portal, &host(name), target).err();
            assert_eq!(refusal, COME_BACK, "{name} at {target}");
        }
    }
    rig.watch();
    wait_until("it is let in again", || Host::log_in(portal, &host("good"), &target).is_ok());
    assert_eq!(Host::log_in(portal, &host("bad"), &target).err(), NOT_LET_IN);
    rig.stop();
}
