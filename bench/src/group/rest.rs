//! What a group costs with nobody asking, and when a member starts.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::bed::Bed;
use super::member::Member;
use super::sheet::{ALONE, Line, Part};
use crate::machine::{Sample, sample};

/// How long nobody asks, and how long before that what was begun may end.
const REST: Duration = Duration::from_secs(30);
const REST_QUICK: Duration = Duration::from_secs(10);
const SETTLE: Duration = Duration::from_secs(5);
/// What counts as next to nothing, in percent of a core: a member gives signs of life and hears those of others.
const REST_PERCENT_MAX: f64 = 1.0;
const REST_WORK: &str = "processor time at rest";
/// Starts of each side, and how long one may take.
const STARTS: usize = 3;
const START_MS_MAX: f64 = 5000.0;
const START_WORK: &str = "start until it serves";
const PRESENT_WORK: &str = "start until others see it";
const IN_GROUP: &str = "in the group";

/// Processor time of each member and each etcd while nobody asks.
pub(super) fn rest(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let (total, single) = bed.furnish()?;
    let length = if bed.settings.quick { REST_QUICK } else { REST };
    part.note(format!(
        "{} s with nobody asking, one reading; {total} volumes in the group, {single} on the member in none. For the \
         etcds there is no mark.",
        length.as_secs()
    ));
    bed.pause(SETTLE)?;
    let watched = watched(bed)?;
    let before = samples(&watched)?;
    bed.pause(length)?;
    let after = samples(&watched)?;
    for ((name, _), (before, after)) in watched.iter().zip(before.iter().zip(&after)) {
        let values = vec![percent(before, after)];
        part.lines.push(Line { values, ..Line::new(REST_WORK, name, "% of a core") });
    }
    for member in &bed.group {
        let found = part.median(REST_WORK, &named(member));
        let title = format!("processor time of {} at rest", named(member));
        part.at_most(&title, found, REST_PERCENT_MAX, "% of a core");
    }
    Ok(())
}

fn named(member: &Member) -> String {
    format!("member {}", member.name)
}

/// All processes, by what they are called.
fn watched(bed: &Bed<'_>) -> Result<Vec<(String, u32)>> {
    let mut all = Vec::new();
    for member in &bed.group {
        all.push((named(member), member.pid()?));
        let etcds = member.etcds();
        ensure!(etcds.len() == 1, "member {} has {} etcds", member.name, etcds.len());
        all.extend(etcds.iter().map(|pid| (format!("etcd of {}", member.name), *pid)));
    }
    all.push((ALONE.to_owned(), bed.alone.pid()?));
    Ok(all)
}

fn samples(watched: &[(String, u32)]) -> Result<Vec<Sample>> {
    watched.iter().map(|(name, pid)| sample(*pid).with_context(|| name.clone())).collect()
}

/// How full a core was between two samples.
pub(super) fn percent(before: &Sample, after: &Sample) -> f64 {
    let wall = after.at.saturating_duration_since(before.at).as_secs_f64();
    after.cpu.saturating_sub(before.cpu).as_secs_f64() / wall.max(f64::MIN_POSITIVE) * 100.0
}

/// Starts of a member with many volumes. It stops in order before each.
pub(super) fn start(bed: &mut Bed<'_>, part: &mut Part) -> Result<()> {
    bed.furnish()?;
    let wanted = bed.settings.volumes;
    bed.fill_up(&bed.group[1], wanted)?;
    bed.await_told()?;
    part.note(format!(
        "{wanted} volumes on the member that is started, on both sides. It is seen when member a has it as present."
    ));
    let mut lines = [(START_WORK, IN_GROUP), (START_WORK, ALONE), (PRESENT_WORK, IN_GROUP)]
        .map(|(work, entrant)| Line::new(work, entrant, "ms"));
    for _ in 0..STARTS {
        bed.check()?;
        bed.group[1].end(bed.stop)?;
        bed.wait_for("b is away", || Ok(is_b(&bed.told(&bed.group[0])?, "away")))?;
        let begun = Instant::now();
        let served = bed.group[1].start(bed.stop)?;
        bed.wait_for("b is present", || Ok(is_b(&bed.told(&bed.group[0])?, "present")))?;
        let seen = begun.elapsed();
        bed.alone.end(bed.stop)?;
        let single = bed.alone.start(bed.stop)?;
        for (line, took) in lines.iter_mut().zip([served, single, seen]) {
            line.values.push(took.as_secs_f64() * 1e3);
        }
    }
    let slowest = lines[0].most();
    part.lines = lines.into();
    let title = format!("the slowest start of a member with {wanted} volumes");
    part.at_most(&title, slowest, START_MS_MAX, "ms");
    Ok(())
}

/// Whether the second member is so, as another one tells.
pub(super) fn is_b(members: &Value, state: &str) -> bool {
    let mut all = members.as_array().into_iter().flatten();
    all.any(|member| member["name"] == "b" && member["state"] == state)
}
