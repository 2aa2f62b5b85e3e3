//! The FreeBSD project's older user-space target, Debian's `istgt`.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};

use super::{Adapter, Running, Service, Site, log_tail, wait_for};
use crate::initiator::Url;
use crate::machine::{Child, Pinned, in_path};

const NODE_BASE: &str = "iqn.2026-11.dev.drystone.bench";

/// Its control port, which it insists on, is this far above the one that it serves.
const CONTROL_PORT_STEP: u16 = 500;

/// istgt with a file as its disk.
#[derive(Debug)]
pub(crate) struct Istgt;

struct RunningIstgt {
    child: Child,
    url: Url,
}

impl Running for RunningIstgt {
    fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn service(&self) -> Service {
        Service::Iscsi(self.url.clone())
    }
}

/// Its configuration. 255 sessions are its limit, and command queuing is off unless QueueDepth
/// says otherwise; both are set to what serves it best.
fn configuration(site: &Site, directory: &str) -> String {
    format!(
        "[Global]
  NodeBase \"{NODE_BASE}\"
  PidFile {directory}/istgt.pid
  AuthFile {directory}/auth.conf
  MediaDirectory {directory}
  LogFacility \"local7\"
  Timeout 30
  NopInInterval 20
  DiscoveryAuthMethod Auto
  MaxSessions 255
  MaxConnections 4
  MaxR2T 32
  MaxOutstandingR2T 16
  DefaultTime2Wait 2
  DefaultTime2Retain 60
  FirstBurstLength 262144
  MaxBurstLength 1048576
  MaxRecvDataSegmentLength 262144
  InitialR2T Yes
  ImmediateData Yes
  DataPDUInOrder Yes
  DataSequenceInOrder Yes
  ErrorRecoveryLevel 0
[UnitControl]
  AuthMethod None
  AuthGroup AuthGroup1
  Portal UC1 127.0.0.1:{control}
  Netmask 127.0.0.0/8
[PortalGroup1]
  Portal DA1 {portal}
[InitiatorGroup1]
  InitiatorName \"ALL\"
  Netmask 127.0.0.0/8
[LogicalUnit1]
  TargetName disk
  TargetAlias \"bench\"
  Mapping PortalGroup1 InitiatorGroup1
  AuthMethod Auto
  AuthGroup AuthGroup1
  UseDigest Auto
  UnitType Disk
  QueueDepth 255
  LUN0 Storage {directory}/disk {mib}MB
",
        portal = site.portal(),
        control = site.port + CONTROL_PORT_STEP,
        mib = site.disk_bytes >> 20,
    )
}

impl Adapter for Istgt {
    fn name(&self) -> &str {
        "istgt"
    }

    fn describe(&self) -> String {
        "istgt 0.4, a file on tmpfs, QueueDepth 255".into()
    }

    fn missing(&self) -> Option<String> {
        in_path("istgt").is_none().then(|| "istgt is not installed: apt-get install istgt".into())
    }

    fn start(&self, site: &Site, stop: &AtomicBool) -> Result<Box<dyn Running>> {
        site.make_disk()?;
        let directory = site.directory.to_str().context("the disks' path is not UTF-8")?;
        fs::write(site.directory.join("istgt.conf"), configuration(site, directory))?;
        let auth = "[AuthGroup1]\n  Comment \"none\"\n  Auth \"nobody\" \"nothing-at-all\"\n";
        fs::write(site.directory.join("auth.conf"), auth)?;
        let log = site.directory.join("istgt.log");
        let mut command = Command::new(in_path("istgt").context("istgt is not installed")?);
        command
            .args(["-D", "-c", &format!("{directory}/istgt.conf")])
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        let child = {
            let _pinned = Pinned::to_core(site.core)?;
            Child::start(&mut command, "istgt")?
        };
        let url = Url {
            host: "127.0.0.1".into(),
            port: site.port,
            iqn: format!("{NODE_BASE}:disk"),
            lun: 0,
        };
        let mut running = RunningIstgt { child, url };
        wait_for("istgt", stop, || {
            let ended = running.child.ended()?.is_some();
            ensure!(!ended, "istgt ended at once: {}", log_tail(&log));
            Ok(crate::plain::server_ready(site.portal()))
        })?;
        Ok(Box::new(running))
    }
}
