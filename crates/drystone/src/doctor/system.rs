//! The kernel, its limits, its clock, and what a group needs beside.

use super::Finding;
use crate::os::{congestion, memory};
use crate::print::units;
use crate::serve;
use group::cluster::find_etcd;
use group::words::counted;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;
use std::thread;
use target::StartError;

/// The oldest kernel with all that the engine uses.
const KERNEL_MIN: (u32, u32) = (6, 1);
/// The oldest with block devices from user space (`drystone attach --ublk`).
const KERNEL_UBLK: (u32, u32) = (6, 5);

/// Enough for all connections that a member takes unless told otherwise, and for disks.
const FILES_WANTED: u64 = 16_384;

/// Where daemons that set the clock leave a sign.
const CLOCK_SIGNS: [&str; 5] = [
    "/run/systemd/timesync/synchronized",
    "/run/chrony/chronyd.pid",
    "/run/ntpd.pid",
    "/run/ntpsec/ntpd.pid",
    "/run/openntpd.sock",
];

pub(super) fn look(is_in_group: bool) -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let mut findings = vec![kernel(release), io_uring(), files(), clock(&CLOCK_SIGNS)];
    findings.extend(address_space());
    findings.push(congestion_control());
    findings.push(etcd(find_etcd().as_deref(), is_in_group));
    findings
}

fn kernel(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        let advice = "use Linux 6.1 or newer";
        return Finding::warning("kernel", format!("'{release}' is not known"), advice);
    };
    let found = format!("Linux {release}");
    match (major, minor) {
        version if version < KERNEL_MIN => {
            Finding::error("kernel", found, "use Linux 6.1 or newer")
        }
        version if version < KERNEL_UBLK => Finding::good(
            "kernel",
            format!(
                "{found}, without block devices from user space (drystone attach --ublk), which need 6.5"
            ),
        ),
        _ => Finding::good("kernel", found),
    }
}

/// Tries it as the engine will.
fn io_uring() -> Finding {
    match ring::block_on(&ring::CoreConfig::default(), async {}) {
        Ok(()) => Finding::good("io_uring", "it can be used"),
        Err(error) => {
            let explained = serve::explain(&StartError::Engine(error));
            Finding::error("io_uring", "it cannot be used", explained.to_string())
        }
    }
}

fn files() -> Finding {
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < FILES_WANTED => Finding::warning(
            "open files",
            format!("at most {limit}, and each connection of a host is one"),
            "raise the limit: LimitNOFILE=65536 in the unit, or ulimit -n 65536",
        ),
        Some(limit) => Finding::good("open files", format!("up to {limit}")),
        None => Finding::good("open files", "without a limit"),
    }
}

fn address_space() -> Option<Finding> {
    let cores = thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(1));
    let (limit, needed) = memory::check(cores).err()?;
    Some(Finding::error(
        "address space",
        format!(
            "limited to {}, and {} take {}",
            units::bytes(limit),
            counted(cores.into(), "core"),
            units::bytes(needed)
        ),
        "raise it (ulimit -v unlimited), or write fewer --cores",
    ))
}

/// Schedules, events and the names of snapshots go by it.
fn clock(signs: &[&str]) -> Finding {
    match signs.iter().find(|sign| Path::new(sign).exists()) {
        Some(sign) => Finding::good("clock", format!("it is being set ({sign})")),
        None => Finding::warning(
            "clock",
            "nobody is known to set it, and events and snapshots are named by it",
            "install chrony, or run 'timedatectl set-ntp true'",
        ),
    }
}

fn congestion_control() -> Finding {
    const ABOUT: &str = "TCP";
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let default = default.unwrap_or_default().trim().to_owned();
    match congestion::probe("cubic") {
        Ok(()) => Finding::good(
            ABOUT,
            format!("data connections use cubic, whatever the system's default is ({default})"),
        ),
        Err(_) if default == "bbr" => Finding::warning(
            ABOUT,
            "cubic cannot be set and the default is bbr, which paces and costs a multiple in CPU",
            "run 'modprobe tcp_cubic', or set net.ipv4.tcp_congestion_control",
        ),
        Err(_) => Finding::good(ABOUT, format!("data connections use {default}")),
    }
}

/// Members of a group run the store that they share.
fn etcd(found: Option<&Path>, is_in_group: bool) -> Finding {
    const ABOUT: &str = "etcd";
    match found {
        Some(path) => Finding::good(ABOUT, format!("{}, for a group of members", path.display())),
        None if is_in_group => Finding::warning(
            ABOUT,
            "it is not installed, and this member may have to run a part of the store of its group",
            "run 'apt install etcd-server', then 'systemctl disable --now etcd', as the package starts one of its own",
        ),
        None => Finding::good(
            ABOUT,
            "it is not installed, and only a group of several members needs it (apt install etcd-server)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_their_numbers() {
        let severity = |release: &str| kernel(release).severity;
        assert_eq!(severity("5.10.0-28-amd64"), Severity::Error);
        assert_eq!(severity("6.0.19"), Severity::Error);
        assert_eq!(severity("6.1.0-18-amd64"), Severity::Good);
        assert_eq!(severity("6.12.1+"), Severity::Good);
        assert_eq!(severity("unknown"), Severity::Warning);
        assert!(kernel("6.1.0").found.contains("6.5") && !kernel("6.10.1").found.contains("6.5"));
    }

    #[test]
    fn etcd_is_missed_by_members_of_a_group_alone() {
        let of = |found: Option<&str>, is_in_group| etcd(found.map(Path::new), is_in_group);
        assert_eq!(of(None, true).severity, Severity::Warning);
        assert!(of(None, true).advice.unwrap().contains("apt install etcd-server"));
        assert_eq!(of(None, false).severity, Severity::Good);
        let found = of(Some("/usr/bin/etcd"), true);
        assert_eq!(found.severity, Severity::Good);
        assert!(found.found.starts_with("/usr/bin/etcd"), "{}", found.found);
    }

    #[test]
    fn a_clock_that_nobody_sets_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let sign = dir.path().join("synchronized");
        let signs = [sign.to_str().unwrap()];
        assert_eq!(clock(&signs).severity, Severity::Warning);
        fs::write(&sign, "").unwrap();
        assert_eq!(clock(&signs).severity, Severity::Good);
    }
}
