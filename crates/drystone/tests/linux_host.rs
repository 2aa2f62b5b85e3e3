//! The real Linux, in a virtual machine with two paths to this one. Its initiator logs in to a server
//! of ours and does what an operator does, while paths and the server fail: `tests/vm/linux_host/`; and to a member
//! with access lists: `tests/vm/access/`. Its
//! target, LIO, serves `drystone attach`: `tests/vm/lio/`. Its driver ublk makes a block device of what
//! `drystone attach` serves in the guest: `tests/vm/ublk/`. And its systemd attaches a volume at boot:
//! `tests/vm/boot/`, and runs the member of the Debian package: `tests/vm/member/`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// For the job within the guest: it takes less than two minutes on two idle cores.
const LIMIT_S: u32 = 600;

/// The status of `run.sh` when there was no guest to run the job.
const NO_GUEST: i32 = 125;

fn vm(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vm").join(path)
}

/// What to say of a run that ended with `status`.
fn verdict(status: Option<i32>) -> Result<(), &'static str> {
    match status {
        Some(0) => Ok(()),
        Some(NO_GUEST) => {
            Err("the virtual machine could not be run. It needs root, /dev/net/tun, \
             the right to make network namespaces, and the packages of `scripts/setup.sh test`; \
             what it missed stands above")
        }
        Some(124) => Err("the guest ran out of time"),
        Some(_) => Err("a step failed: see FAILED above"),
        None => Err("run.sh was killed"),
    }
}

/// Two guests at once would need the time of four.
static ONE_GUEST: Mutex<()> = Mutex::new(());

/// Runs a job of `tests/vm/` to its end.
#[allow(clippy::print_stdout, reason = "what the guest says belongs into the test's output")]
fn run_job(job: &str, limit_s: u32) {
    let _alone = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
    let log = tempfile::tempdir().expect("a temporary directory can be made");
    let output = Command::new(vm("run.sh"))
        .args(["--limit", &limit_s.to_string(), "--log"])
        .arg(log.path())
        .arg(vm(job))
        .env("DRYSTONE_BIN", common::binary())
        .stdin(Stdio::null())
        .output()
        .expect("run.sh can be started");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if let Err(what) = verdict(output.status.code()) {
        for name in ["server.log", "console.log"] {
            if let Ok(text) = fs::read(log.path().join(name)) {
                println!("--- {name} ---\n{}", String::from_utf8_lossy(&text));
            }
        }
        panic!("{what}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn linux_uses_a_disk_from_discovery_to_a_crash_of_the_server() {
    run_job("linux_host", LIMIT_S);
}

#[test]
fn linux_gets_in_where_access_lists_say_so_and_nowhere_else() {
    run_job("access", LIMIT_S);
}

#[test]
fn a_disk_of_lio_is_attached_over_two_paths() {
    run_job("lio", LIMIT_S);
}

#[test]
fn a_volume_is_a_block_device_of_the_kernel() {
    run_job("ublk", LIMIT_S);
}

#[test]
fn systemd_mounts_a_volume_at_boot_and_takes_it_down_in_order() {
    run_job("boot", LIMIT_S);
}

#[test]
fn systemd_runs_the_member_of_the_package_from_its_boot_to_a_purge() {
    run_job("member", LIMIT_S);
}

#[test]
fn a_machine_that_cannot_run_the_guest_is_told_what_it_needs() {
    assert_eq!(verdict(Some(0)), Ok(()));
    let told = verdict(Some(NO_GUEST)).expect_err("a test that cannot run has not passed");
    for need in ["root", "/dev/net/tun", "namespaces", "setup.sh"] {
        assert!(told.contains(need), "{told}");
    }
}
