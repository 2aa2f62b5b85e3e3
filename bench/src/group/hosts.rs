//! What hosts have of a group: logins that are redirected, and reads.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::initiator::{Session, SessionOptions, TargetAddress};
use anyhow::{Context, Result, anyhow, ensure};
use iscsi::text::IscsiName;
use ring::CoreConfig;

use super::bed::{Bed, VOLUME_BYTES, alone, turn};
use super::member::Member;
use super::sheet::{ALONE, Line, Part};
use crate::adapter::Service;
use crate::initiator::{Route, Url, prepare};
use crate::load::Order;
use crate::machine::{CongestionControl, Pinned, PinnedProcesses};
use crate::suite::{Row, Run, measure, row};

/// The name to log in as.
const HOST: &str = "iqn.2026-11.dev.drystone:bench-host";
/// Targets that take turns: a host is sent on for one of them at most 32 times within ten seconds.
const TARGETS: usize = 20;
/// What a redirection may add to a login.
const REDIRECTION_MS_MAX: f64 = 5.0;

const LOGIN: &str = "a login";
const DIRECT: &str = "at the member that has it";
const REDIRECTED: &str = "at another one, redirected";

pub(super) const READS: Row =
    row("4k-read-32", "4 KiB random read, depth 32", 100, Order::Random, 4096, (32, 1));
const READ_BYTES: u64 = 64 << 20;
const IN_GROUP: &str = "in the group";
/// What the IOPS in no group may be of those in a group.
const READS_RATIO_MAX: f64 = 1.1;

/// Logins at the member that has the volume, and at another one.
pub(super) fn login(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    part.note(format!(
        "Our own initiator, {TARGETS} targets in turn; from the connection to the full feature phase, with the \
         redirection followed."
    ));
    let (a, b) = bed.two();
    let names = |member: &Member| -> Result<Vec<String>> {
        let name = |number: usize| format!("login-{}-{number}", member.name);
        (0..TARGETS).map(|number| bed.volume(member, &name(number), VOLUME_BYTES)).collect()
    };
    let (of_b, of_alone) = (names(b)?, names(&bed.alone)?);
    let direct = addresses(b, &of_b)?;
    let redirected = addresses(a, &of_b)?;
    let single = addresses(&bed.alone, &of_alone)?;
    bed.await_told()?;
    for address in &redirected {
        // Those that are not sent on do not count as sent.
        bed.wait_for("logins are redirected", || Ok(log_in(address).is_ok()))?;
    }
    let at = |all: Vec<TargetAddress>| move |round: usize| log_in(&all[round % all.len()]);
    part.lines = bed.turns(
        LOGIN,
        vec![turn(DIRECT, at(direct)), turn(REDIRECTED, at(redirected)), alone(at(single))],
    )?;
    let (found, of) = (part.median(LOGIN, REDIRECTED), part.median(LOGIN, DIRECT));
    let added = found.zip(of).map(|(found, of)| found - of);
    part.at_most("what a redirection adds to a login", added, REDIRECTION_MS_MAX, "ms");
    Ok(())
}

/// Targets of these names, to be asked for at this member.
fn addresses(member: &Member, iqns: &[String]) -> Result<Vec<TargetAddress>> {
    let address = |iqn: &String| {
        let text = format!("iscsi://{}/{iqn}/0", member.portal);
        text.parse::<TargetAddress>().with_context(|| text.clone())
    };
    iqns.iter().map(address).collect()
}

/// How long one login takes; then it logs out.
fn log_in(address: &TargetAddress) -> Result<Duration> {
    let address = address.clone();
    let options = SessionOptions::new(IscsiName::parse(HOST).expect("the name is well formed"));
    ring::block_on(&CoreConfig::default(), async move {
        let begun = Instant::now();
        let session = Session::open(&address, options).await;
        let took = begun.elapsed();
        let session = session.map_err(|error| anyhow!("cannot log in: {error}"))?;
        session.logout().await;
        Ok(took)
    })?
}

/// Small reads of one volume on each side, which are in the read cache.
pub(super) fn reads(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    // Lives to the end of this function: dropping it restores the system's setting.
    let congestion = CongestionControl::set("cubic");
    let (rounds, seconds): (usize, u64) = if bed.settings.quick { (2, 1) } else { (5, 2) };
    part.note(format!(
        "A volume of {} MiB on each side, written over iSCSI first, which is in the read cache as a whole. All servers \
         on core {}, the lean client on core {}; {rounds} rounds of {seconds} s; TCP congestion control {}.",
        READ_BYTES >> 20,
        bed.settings.server_core,
        bed.settings.client_core,
        congestion.sentence()
    ));
    let sides = [(IN_GROUP, &bed.group[0]), (ALONE, &bed.alone)];
    let _servers = pinned(bed)?;
    let [in_group, in_none] = sides.map(|(_, member)| readable(bed, member));
    let urls = [in_group?, in_none?];
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for turn in 0..sides.len() {
            bed.check()?;
            let index = (round + turn) % sides.len();
            let (name, member) = sides[index];
            let plan = READS.plan(READ_BYTES, Duration::from_secs(1), Duration::from_secs(seconds));
            let service = Service::Iscsi(urls[index].clone());
            let core = bed.settings.client_core;
            let run = measure(&service, member.pid()?, &plan, core, bed.stop)?;
            ensure!(run.errors == 0, "{} reads failed {name}", run.errors);
            eprintln!("{:>34} {name:<28} {:>9.0} IOPS", READS.title, run.iops);
            runs[index].push(run);
        }
    }
    part.lines = lines(&sides.map(|(name, _)| name), &runs);
    judge(part);
    Ok(())
}

/// All servers and their etcds on one core, for as long as this lives.
pub(super) fn pinned(bed: &Bed<'_>) -> Result<PinnedProcesses> {
    let mut pids = Vec::new();
    for member in bed.group.iter().chain([&bed.alone]) {
        pids.push(member.pid()?);
        pids.extend(member.etcds());
    }
    PinnedProcesses::to_core(pids, bed.settings.server_core)
}

/// Makes a volume that is read, and writes it: where it is.
fn readable(bed: &Bed<'_>, member: &Member) -> Result<Url> {
    let iqn = bed.volume(member, &format!("reads-{}", member.name), READ_BYTES)?;
    written(bed, (member.portal, READ_BYTES), iqn)
}

/// Writes the first bytes of this target, which are read: where it is.
pub(super) fn written(
    bed: &Bed<'_>,
    (portal, bytes): (SocketAddr, u64),
    iqn: String,
) -> Result<Url> {
    let url = Url { host: portal.ip().to_string(), port: portal.port(), iqn, lun: 0 };
    let _pinned = Pinned::to_core(bed.settings.client_core)?;
    prepare(&Route { url: url.clone(), congestion: None }, bytes, bed.stop)?;
    Ok(url)
}

/// A figure of a run: what it is called, and its unit.
type Figure = (&'static str, &'static str, fn(&Run) -> Option<f64>);

const IOPS: &str = "reads a second";
const FIGURES: [Figure; 4] = [
    (IOPS, "IOPS", |run| Some(run.iops)),
    ("median of a read", "us", |run| run.latency_us_p50),
    ("p99 of a read", "us", |run| run.latency_us_p99),
    ("processor time of a read", "us", |run| Some(run.target_cpu_us_per_io)),
];

/// Each figure of both sides, a value for each round.
pub(super) fn lines(sides: &[&str; 2], runs: &[Vec<Run>; 2]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (work, unit, figure) in FIGURES {
        for (name, runs) in sides.iter().zip(runs) {
            let values = runs.iter().filter_map(figure).collect();
            lines.push(Line { values, ..Line::new(work, name, unit) });
        }
    }
    lines
}

/// Notes whether a group costs hosts no more than it may.
pub(super) fn judge(part: &mut Part) {
    let (in_none, in_group) = (part.median(IOPS, ALONE), part.median(IOPS, IN_GROUP));
    let ratio = in_none.zip(in_group).map(|(in_none, in_group)| in_none / in_group);
    part.at_most("IOPS in no group to those in a group", ratio, READS_RATIO_MAX, "times");
}
