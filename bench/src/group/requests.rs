//! What operators ask for: volumes and policies, here and on another member.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::bed::{Bed, FAR, LIST, NEAR, VOLUME_BYTES, alone, timed, turn};
use super::http::Ask;
use super::member::Member;
use super::sheet::{ALONE, Line, Part};

/// Who takes part.
const HERE: &str = "on the member that is asked";
const ELSEWHERE: &str = "on another member";
const GATHERED: &str = "of three members";
/// The policy that is changed, and where.
const POLICY: &str = "hosts";
const POLICY_PATH: &str = "/v1/policies/hosts";
const RECORDS_PATH: &str = "/v1/policies/hosts/records";
/// How long a list may take.
const LIST_MS_MAX: f64 = 200.0;
/// How long another member may take until it has a change of what is set for all.
const FOLLOW_MAX: Duration = Duration::from_secs(10);

/// New volumes. Each is placed by the group, in a pool of one member.
pub(super) fn create(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    part.note("Thin volumes of 16 MiB, served at once; few others are there. The group chooses the member by a pool.");
    let (a, _) = bed.two();
    let placed = |pool: &'static str, on: &'static str| {
        move |round: usize| -> Result<Duration> {
            let name = format!("{pool}-{round}");
            let new = json!({"name": name, "size_bytes": VOLUME_BYTES, "pool": pool});
            let (took, reply) = timed(a, &Ask::post("/v1/volumes", &new))?;
            let by = reply.header("drystone-member");
            ensure!(by == Some(on), "'{name}' was made by {by:?}, not by {on}");
            Ok(took)
        }
    };
    let single = |round: usize| -> Result<Duration> {
        let new = json!({"name": format!("single-{round}"), "size_bytes": VOLUME_BYTES});
        Ok(timed(&bed.alone, &Ask::post("/v1/volumes", &new))?.0)
    };
    part.lines = bed.turns(
        "a new volume",
        vec![turn(HERE, placed(NEAR, "a")), turn(ELSEWHERE, placed(FAR, "b")), alone(single)],
    )?;
    Ok(())
}

/// Records of hosts that are added to a policy, and when another member has them.
pub(super) fn policy(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    part.note("Each change adds a host to one policy. Another member is asked without a pause until it has it.");
    let ([a, _, c], new) = (&bed.group, json!({"name": POLICY}));
    for member in [a, &bed.alone] {
        member.ask(&Ask::post("/v1/policies", &new))?;
    }
    let mut group = Line::new("a host more in a policy", "in the group", "ms");
    let mut single = Line::new("a host more in a policy", ALONE, "ms");
    let mut follows = Line::new("until another member has it", "in the group", "ms");
    for round in 0..=bed.settings.rounds {
        bed.check()?;
        let begun = Instant::now();
        let answered = add_host(a, round)?;
        let had = until_has(c, round + 1, begun)?;
        let once = add_host(&bed.alone, round)?;
        if round > 0 {
            for (line, took) in [(&mut group, answered), (&mut single, once), (&mut follows, had)] {
                line.values.push(took.as_secs_f64() * 1e3);
            }
        }
    }
    part.lines = vec![group, single, follows];
    Ok(())
}

fn add_host(member: &Member, number: usize) -> Result<Duration> {
    let record = json!({"iqn": format!("iqn.2026-11.com.example:host-{number}")});
    Ok(timed(member, &Ask::post(RECORDS_PATH, &record))?.0)
}

/// How long after `begun` this member has so many hosts in the policy.
fn until_has(member: &Member, hosts: usize, begun: Instant) -> Result<Duration> {
    loop {
        // At first it may not even have the policy.
        let has = member.ask(&Ask::get(POLICY_PATH)).and_then(|reply| reply.json());
        let has = has.map(|policy| policy["records"].as_array().map_or(0, Vec::len));
        if matches!(has, Ok(count) if count >= hosts) {
            return Ok(begun.elapsed());
        }
        let name = member.name;
        ensure!(begun.elapsed() < FOLLOW_MAX, "{name} has no {hosts} hosts yet: {has:?}");
    }
}

/// The list of all volumes, of three members and of one.
pub(super) fn list(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let (total, single) = bed.furnish()?;
    part.note(format!("{total} volumes, a third on each member; {single} on the one in no group."));
    let listed = |member: &Member, wanted: usize| -> Result<Duration> {
        let (took, reply) = timed(member, &Ask::get(LIST))?;
        let missing = reply.header("drystone-members-missing");
        ensure!(missing.is_none(), "it is without those of {missing:?}");
        let found = reply.count()?;
        ensure!(found == wanted, "{found} volumes are listed, not {wanted}");
        Ok(took)
    };
    let (a, _) = bed.two();
    part.lines = bed.turns(
        "all volumes",
        vec![turn(GATHERED, |_| listed(a, total)), alone(|_| listed(&bed.alone, single))],
    )?;
    let found = part.median("all volumes", GATHERED);
    let title = format!("the list of {total} volumes of the group");
    part.at_most(&title, found, LIST_MS_MAX, "ms");
    Ok(())
}

/// One volume.
pub(super) fn show(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    bed.furnish()?;
    let (a, b) = bed.two();
    let shown = |asked: &Member, owner: &Member| -> Result<String> {
        let all = owner.ask(&Ask::get(LIST).of_it_alone())?.json()?;
        let name = all[0]["name"].as_str().context("the list names no volume")?;
        let path = format!("/v1/volumes/{name}");
        let answer = asked.ask(&Ask::get(&path))?.json()?;
        ensure!(answer["name"] == name, "{answer} is not '{name}'");
        Ok(path)
    };
    let (here, there, single) = (shown(a, a)?, shown(a, b)?, shown(&bed.alone, &bed.alone)?);
    part.lines = bed.turns(
        "one volume",
        vec![
            turn(HERE, |_| Ok(timed(a, &Ask::get(&here))?.0)),
            turn(ELSEWHERE, |_| Ok(timed(a, &Ask::get(&there))?.0)),
            alone(|_| Ok(timed(&bed.alone, &Ask::get(&single))?.0)),
        ],
    )?;
    Ok(())
}
