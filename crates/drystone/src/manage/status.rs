//! `drystone status`: whether all is well, and if not, what to do first.

mod group;
mod hosts;
mod registrations;

use super::Desk;
use super::array::{about, cache_line, health};
use crate::Failure;
use crate::advice::access::{for_everybody, for_nobody};
use crate::advice::purge;
use crate::advice::slices::{Left, unreachable};
use crate::advice::transits::Undecided;
use crate::cli::manage::MemberArgs;
use crate::print::units;
use anyhow::bail;
use api::types::{
    Array, CacheMemory, ChapUsers, Destination, Disk, DiskFigures, DiskState, Group, Hosts, Job,
    LevelSpace, RunOutcome, Schedule, Slice, Transit, Volume, VolumeState,
};
use serde::Serialize;
use std::fmt::Write;
use std::thread;
use std::time::Duration;

/// The word of `array show` for an array that nothing is wrong with.
const HEALTHY: &str = "healthy";

/// How long a disk that answers nothing is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// How a member does, on one screen.
#[derive(Debug, Serialize)]
struct Status {
    health: String,
    /// What an operator should look at first; `None` when all is well.
    first: Option<String>,
    /// The rest, one sentence each.
    also: Vec<String>,
    disks: u32,
    disks_online: u32,
    used_bytes: u64,
    size_bytes: u64,
    volumes: usize,
    volumes_online: usize,
    /// Volumes that are served, and that no host may use yet.
    volumes_for_nobody: Vec<String>,
    /// The read cache.
    cache_memory: CacheMemory,
    /// The group that it is in.
    group: Option<Group>,
    jobs: Vec<Job>,
}

/// Asks, prints, and fails when something is not well: so that scripts need not read.
pub(crate) fn run(args: &MemberArgs) -> Result<(), Failure> {
    Ok(show(&Desk::new(args)?.of_one_member())?)
}

fn show(desk: &Desk) -> anyhow::Result<()> {
    let info = desk.ask(|member| member.array())?;
    let disks = desk.ask(|member| member.disks())?;
    let volumes = desk.ask(|member| member.volumes())?;
    let jobs = desk.ask(|member| member.jobs())?;
    // Settings that cannot be read are told of by the volumes that nobody may use then.
    let schedules = desk.client.schedules().unwrap_or_default();
    let destinations = desk.client.destinations().unwrap_or_default();
    let users = desk.client.chap_users();
    let transits = desk.client.transits().unwrap_or_default();
    let slices = desk.client.slices().unwrap_or_default();
    let logs = desk.ask(|member| member.interface())?.logs_not_written;
    let silent = if info.stalls.is_empty() { Vec::new() } else { silent(desk)? };
    let waiting = schedules.iter().filter_map(waits).collect();
    let (group, of_group) = group::ask(desk);
    let logs = logs.iter().map(not_written).collect();
    let transits = transits.iter().filter_map(undecided).collect();
    let users = silent_users(users.ok());
    let slices = slices.iter().filter_map(left).collect();
    let beside: Vec<String> = [transits, slices, of_group, logs, users, waiting].concat();
    let settings = (&schedules[..], &destinations[..]);
    let status = Status::of(&info, &disks, &volumes, settings, (&silent, beside), jobs);
    let status = Status { group, ..status };
    desk.show(&status, |status| Ok(status.text()))?;
    match &status.first {
        None => Ok(()),
        Some(_) if status.health == HEALTHY => bail!("not all is well beside the array"),
        Some(_) => bail!("not all is well: {}", status.health),
    }
}

impl Status {
    fn of(
        info: &Array,
        disks: &[Disk],
        volumes: &[Volume],
        (schedules, destinations): (&[Schedule], &[Destination]),
        (silent, beside): (&[String], Vec<String>),
        jobs: Vec<Job>,
    ) -> Status {
        let health = health(info, disks, volumes);
        let mut of_array = problems(info, disks, volumes, silent);
        if of_array.is_empty() && health != HEALTHY {
            of_array.push(health.clone());
        }
        let beside = open_to_all(volumes)
            .into_iter()
            .chain(hosts::naming_nothing(volumes))
            .chain(hosts::protected(volumes))
            .chain(registrations::low(volumes))
            .chain(volumes.iter().flat_map(unreachable))
            .chain(beside)
            .chain(destinations.iter().filter_map(not_told));
        let beside = schedules.iter().filter_map(failed).chain(beside);
        let mut problems = of_array.into_iter().chain(beside);
        let first = problems.next();
        let kept = volumes.iter().filter(|volume| volume.state != VolumeState::Deleted);
        let is_served = |volume: &&Volume| {
            let is_open = [VolumeState::Online, VolumeState::Degraded].contains(&volume.state);
            is_open && volume.not_served.is_none()
        };
        Status {
            first,
            also: problems.collect(),
            disks: info.disks,
            disks_online: info.disks_online,
            used_bytes: info.used_bytes,
            size_bytes: info.size_bytes,
            volumes: kept.clone().count(),
            volumes_online: kept.clone().filter(is_served).count(),
            volumes_for_nobody: kept
                .filter(is_served)
                .filter(|volume| volume.hosts == Hosts::Nobody)
                .map(|volume| volume.name.clone())
                .collect(),
            cache_memory: info.cache_memory,
            group: None,
            health,
            jobs,
        }
    }

    fn text(&self) -> String {
        let mut text = match &self.first {
            None => "all is well\n".to_owned(),
            Some(first) if self.health == HEALTHY => {
                format!("the array is healthy, but not all is well\nfirst:   {first}\n")
            }
            Some(first) => format!("{}\nfirst:   {first}\n", self.health),
        };
        let also = self.also.iter().map(|problem| ("also:", problem.clone()));
        let (used, size) = (units::bytes(self.used_bytes), units::bytes(self.size_bytes));
        let facts = [
            ("disks", format!("{} of {} online", self.disks_online, self.disks)),
            ("volumes", format!("{} of {} served", self.volumes_online, self.volumes)),
            ("space", format!("{used} of {size} in use")),
        ];
        let work = self.jobs.iter().map(|job| {
            let (done, total) = (units::bytes(job.done_bytes), units::bytes(job.total_bytes));
            ("work", format!("{} {}: {done} of {total}", job.kind.word(), job.subject))
        });
        let nobody: Vec<&str> = self.volumes_for_nobody.iter().map(String::as_str).collect();
        let nobody = (!nobody.is_empty()).then(|| ("hosts", for_nobody(&nobody)));
        let cache = cache_line(&self.cache_memory).map(|line| ("cache", line));
        let group = self.group.as_ref().map(|group| ("group", group::line(group)));
        let beside = cache.into_iter().chain(group).chain(nobody);
        for (label, fact) in also.chain(facts).chain(beside).chain(work) {
            // A string takes all that is written to it.
            _ = writeln!(text, "{label:<7}  {fact}");
        }
        text
    }
}

/// What is not well, the most urgent first; what ends by itself last.
fn problems(info: &Array, disks: &[Disk], volumes: &[Volume], silent: &[String]) -> Vec<String> {
    let of_volumes = |state| {
        let those = volumes.iter().filter(move |volume| volume.state == state);
        let word = if state == VolumeState::Lost { "lost" } else { "degraded" };
        those.map(move |v| format!("volume {} is {word}: {}", v.name, v.reason))
    };
    let of_disks = |states: &'static [DiskState]| {
        disks.iter().filter(|disk| states.contains(&disk.state)).map(about)
    };
    let not_served = volumes.iter().filter_map(|volume| {
        let why = volume.not_served.as_ref()?;
        Some(format!("volume {} cannot be served: {why}", volume.name))
    });
    // What is said of disks is in the warnings too, in other words.
    let is_of_disk = |text: &String| {
        let mut words = disks.iter().map(|disk| format!("disk {}: {}", disk.name, disk.reason));
        words.any(|words| words == *text)
    };
    let is_stop = |text: &String| info.stopped.as_ref() == Some(text);
    let warnings = info.warnings.iter().filter(|text| !is_stop(text) && !is_of_disk(text));
    // Whatever else is wrong is of that.
    let stopped = info.stopped.iter().cloned();
    stopped
        .chain(silent.iter().cloned())
        .chain(info.stalls.iter().cloned())
        .chain(of_disks(&[DiskState::Missing, DiskState::Failed]))
        .chain(of_volumes(VolumeState::Lost))
        .chain(not_served)
        .chain(of_disks(&[DiskState::Suspect]))
        .chain(warnings.cloned())
        .chain(held_by_deleted(info, volumes))
        .chain(of_volumes(VolumeState::Degraded))
        .chain(of_disks(&[DiskState::Resyncing, DiskState::Retiring]))
        .collect()
}

/// What deleted volumes hold of space that runs short.
fn held_by_deleted(info: &Array, volumes: &[Volume]) -> Option<String> {
    let is_short = |space: &&LevelSpace| {
        let percent = space.used_bytes * 100 / (space.used_bytes + space.free_bytes).max(1);
        info.warn_percents.iter().any(|level| percent >= u64::from(*level))
    };
    let short: Vec<_> = info.free_by_level.iter().filter(is_short).collect();
    let holds = |volume: &&Volume| {
        let is_short = short.iter().any(|space| space.raid == volume.raid);
        volume.state == VolumeState::Deleted && volume.used_bytes > 0 && is_short
    };
    let held: Vec<_> = volumes.iter().filter(holds).collect();
    let name = match &held[..] {
        [] => return None,
        [one] => Some(one.name.as_str()),
        _ => None,
    };
    let bytes = held.iter().map(|volume| volume.used_bytes).sum();
    Some(format!("{} are held by deleted volumes: {}", units::bytes(bytes), purge(name)))
}

/// What is wrong with the last run of a schedule. One that was missed is not: the next is as planned.
fn failed(schedule: &Schedule) -> Option<String> {
    let Schedule { name, last, paused: false, .. } = schedule else { return None };
    let of_some = match last.as_ref()?.outcome {
        RunOutcome::Failed => "no snapshot",
        RunOutcome::InPart => "snapshots of some of its volumes only",
        RunOutcome::Taken | RunOutcome::Missed => return None,
    };
    Some(format!(
        "schedule {name} took {of_some} at its last run: 'drystone events --object {name}' says why"
    ))
}

/// A schedule that waits longer than from one run to the next: it goes by runs of a time at which the clock of the member was
/// ahead. That of this machine says nothing about it.
fn waits(schedule: &Schedule) -> Option<String> {
    let Schedule { name, next_unix_seconds: Some(next), waits: true, .. } = schedule else {
        return None;
    };
    Some(format!(
        "schedule {name} takes no snapshot before {}, as the clock was ahead when it last ran: take those that you need with \
         'drystone snapshot create'",
        units::time(*next)
    ))
}

/// Why events do not reach a destination that is not paused.
fn not_told(destination: &Destination) -> Option<String> {
    let Destination { name, paused: false, usable, failing, .. } = destination else { return None };
    match (usable, failing) {
        (false, _) => Some(format!(
            "events do not go on to {name}, as its secrets cannot be opened: give them again with 'drystone notify set {name}' and all of where it goes, such as '--webhook URL --secret-file FILE'"
        )),
        (true, Some(why)) => Some(format!(
            "events do not reach {name}: {why}; try it with 'drystone notify test {name}'"
        )),
        (true, None) => None,
    }
}

/// Volumes that any host may use.
fn open_to_all(volumes: &[Volume]) -> Option<String> {
    let open = volumes
        .iter()
        .filter(|volume| volume.hosts == Hosts::Everybody && volume.state != VolumeState::Deleted);
    let open: Vec<&str> = open.map(|volume| volume.name.as_str()).collect();
    (!open.is_empty()).then(|| for_everybody(&open))
}

/// A volume that stays with nobody until an operator settles its move.
fn undecided(transit: &Transit) -> Option<String> {
    let Undecided { found, advice } = Undecided::of(transit)?;
    Some(format!("{found}; {advice}"))
}

/// A part of a volume that only an operator ends.
fn left(slice: &Slice) -> Option<String> {
    let Left { found, advice } = Left::of(slice)?;
    Some(format!("{found}; {advice}"))
}

/// What to do about a log that cannot be written.
fn not_written(fault: &String) -> String {
    format!("{fault}: make room in that directory, or make it writable")
}

/// Whose secrets cannot be opened any more, as the key that they were stored with is not there.
fn silent_users(users: Option<ChapUsers>) -> Vec<String> {
    let Some(ChapUsers { users, mutual }) = users else { return Vec::new() };
    let unusable: Vec<&str> =
        users.iter().filter(|user| !user.usable).map(|user| user.user.as_str()).collect();
    let hosts = (!unusable.is_empty()).then(|| {
        format!(
            "hosts that log in as {} are kept out, as the secrets cannot be opened: give them again with 'drystone \
             chap set USER'",
            unusable.join(", ")
        )
    });
    let volumes = mutual.filter(|user| !user.usable).map(|user| {
        format!(
            "volumes cannot prove that they are '{name}', as that secret cannot be opened: give it again with \
             'drystone chap mutual set {name}'",
            name = user.user,
        )
    });
    hosts.into_iter().chain(volumes).collect()
}

/// While something stands still: the disks that answer nothing of what they were asked.
fn silent(desk: &Desk) -> anyhow::Result<Vec<String>> {
    let before = desk.ask(|member| member.figures())?.disks;
    thread::sleep(LOOK);
    Ok(that_answer_nothing(&before, &desk.ask(|member| member.figures())?.disks))
}

fn that_answer_nothing(before: &[DiskFigures], after: &[DiskFigures]) -> Vec<String> {
    let answers = |disk: &DiskFigures| [&disk.reads, &disk.writes, &disk.flushes].map(Clone::clone);
    let is_silent = |disk: &&DiskFigures| {
        let earlier = before.iter().find(|earlier| earlier.id == disk.id);
        earlier.is_some_and(|earlier| earlier.waiting > 0 && answers(earlier) == answers(disk))
    };
    let say = |disk: &DiskFigures| {
        format!(
            "disk {name} answers nothing, and {} at it: if that lasts, 'drystone disk fail {name}' lets the others go on",
            match disk.waiting {
                1 => "one request waits".to_owned(),
                count => format!("{count} requests wait"),
            },
            name = disk.name,
        )
    };
    after.iter().filter(is_silent).map(say).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Nothing is wrong beside the array.
    const NONE: (&[String], Vec<String>) = (&[], Vec::new());

    fn schedule(outcome: &str, paused: bool) -> Schedule {
        let json = json!({
            "name": "nightly", "volumes": [], "when": {"every": {"seconds": 60}}, "keep": 1,
            "paused": paused, "created_unix_seconds": 1, "next_unix_seconds": null, "snapshots": 0,
            "last": {"planned_unix_seconds": 60, "outcome": outcome},
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_schedule_that_fails_is_not_well() {
        let of = |schedule| {
            let disks = [disk("a", "online", "")];
            Status::of(&info(&[]), &disks, &[], (&[schedule], &[]), NONE, Vec::new())
        };
        for well in [schedule("taken", false), schedule("missed", false), schedule("failed", true)]
        {
            assert_eq!(of(well).first, None);
        }
        let wanted = "the array is healthy, but not all is well\nfirst:   schedule nightly took no snapshot at its last run: ";
        assert!(of(schedule("failed", false)).text().starts_with(wanted));
        let part = of(schedule("in-part", false)).first.expect("a sentence");
        assert!(part.contains("took snapshots of some of its volumes only"), "{part}");
    }

    #[test]
    fn a_schedule_that_waits_for_a_clock_that_was_ahead_is_not_well() {
        // Whatever the clock of this machine says.
        let of = |next: u64, waits: bool| {
            let next_unix_seconds = Some(next);
            super::waits(&Schedule { next_unix_seconds, waits, ..schedule("taken", false) })
        };
        assert_eq!((of(1, false), of(u64::MAX >> 20, false)), (None, None));
        let said = of(1_080_000, true).expect("it waits for most of a day");
        assert!(said.starts_with("schedule nightly takes no snapshot before 1970-01-13"), "{said}");
    }

    #[test]
    fn a_volume_that_an_operator_has_to_settle_is_not_well_and_one_that_waits_says_so_itself() {
        let of = |state: &str| {
            let json = json!({
                "id": "0".repeat(32), "volume": "vm", "way": "leaves", "other": "right",
                "state": state, "why": "it is so", "member": "left",
            });
            super::undecided(&serde_json::from_value(json).unwrap())
        };
        assert_eq!((of("waits"), of("under-way")), (None, None));
        let said = of("undecided").expect("it is not well");
        assert!(said.contains(" any more: it is so; look whether "), "{said}");
        assert!(said.ends_with("'drystone volume settle vm --discard --on left'"), "{said}");
    }

    #[test]
    fn a_destination_that_fails_is_not_well_unless_it_is_paused() {
        let of = |failing: Option<&str>, usable: bool, paused: bool| {
            let to = json!({"syslog": {"server": "log.example.com"}});
            let json = json!({
                "name": "ops", "to": to, "severity": "warning", "fold_seconds": 300,
                "paused": paused, "usable": usable, "delivered": 1, "failed": 3, "given_up": 0,
                "last_unix_seconds": 1, "failing": failing,
            });
            let destination: Destination = serde_json::from_value(json).unwrap();
            Status::of(&info(&[]), &[], &[], (&[], &[destination]), NONE, Vec::new()).first
        };
        assert_eq!((of(None, true, false), of(Some("it hangs"), true, true)), (None, None));
        let wanted = "events do not reach ops: it hangs; try it with 'drystone notify test ops'";
        assert_eq!(of(Some("it hangs"), true, false).as_deref(), Some(wanted));
        assert!(of(None, false, false).unwrap().contains("secrets cannot be opened"));
    }

    fn info(warnings: &[&str]) -> Array {
        let json = json!({
            "id": "", "raid": "raid5", "size_bytes": 4096, "used_bytes": 1024, "free_bytes": 3072,
            "spare_bytes": 0, "chunk_bytes": 1, "disks": 2, "disks_online": 1, "journal_bytes": 0,
            "journal_used_bytes": 0, "checkpoint": 1, "generation": 1,
            "scrubbed_unix_seconds": 100, "warnings": warnings, "rebuild_share_percent": 50,
            "scrub_days": 30, "warn_percents": [80],
            "free_by_level": [], "promised_bytes": 0, "stalls": [],
        });
        serde_json::from_value(json).unwrap()
    }

    fn disk(name: &str, state: &str, reason: &str) -> Disk {
        let json = json!({
            "id": 0, "name": name, "role": "data", "state": state, "reason": reason,
            "size_bytes": 0, "used_bytes": 0, "errors_read": 0, "errors_write": 0,
            "healed_blocks": 0,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn all_is_well_in_a_few_lines() {
        let status =
            Status::of(&info(&[]), &[disk("a", "online", "")], &[], (&[], &[]), NONE, Vec::new());
        let wanted = "all is well\ndisks    1 of 2 online\nvolumes  0 of 0 served\n\
                      space    1 KiB of 4 KiB in use\n";
        assert_eq!((status.text().as_str(), status.first), (wanted, None));
    }

    pub(super) fn volume(name: &str, state: &str, used_bytes: u64) -> Volume {
        serde_json::from_value(json!({
            "id": 1, "name": name, "size_bytes": 4096, "used_bytes": used_bytes, "raid": "raid5", "thick": false,
            "block_bytes": 4096, "cache": "durable", "read_ahead_bytes": 0, "state": state, "reason": "",
            "created_unix_seconds": 1, "reserved_bytes": 0, "origin": null, "snapshots": 0,
            "iqn": "iqn.x:vm",
            "sessions": 0, "not_served": null, "shared": false, "hosts": "everybody",
        }))
        .unwrap()
    }

    #[test]
    fn what_deleted_volumes_hold_is_told_once_space_runs_short() {
        let with = |used_bytes: u64, volumes: &[Volume]| {
            let mut info = info(&[]);
            info.free_by_level = vec![LevelSpace {
                raid: volumes[0].raid,
                free_bytes: 100 - used_bytes,
                used_bytes,
            }];
            held_by_deleted(&info, volumes)
        };
        let (old, older) = (volume("old", "deleted", 5 << 30), volume("older", "deleted", 1 << 30));
        let kept = [volume("vm", "online", 7), volume("empty", "deleted", 0)];
        assert_eq!((with(79, std::slice::from_ref(&old)), with(80, &kept)), (None, None));
        let one = "5 GiB are held by deleted volumes: 'drystone volume purge old' gives them back";
        assert_eq!(with(80, std::slice::from_ref(&old)).as_deref(), Some(one));
        let all = "6 GiB are held by deleted volumes: 'drystone volume purge NAME' gives them back";
        assert_eq!(with(99, &[old, older]).as_deref(), Some(all));
    }

    #[test]
    fn who_gets_in_and_what_is_not_kept_is_told_of_a_healthy_array() {
        let volume = volume("vm", "online", 0);
        let logs = vec![not_written(&"the audit log cannot be written".to_owned())];
        let status = Status::of(&info(&[]), &[], &[volume], (&[], &[]), (&[], logs), Vec::new());
        let first = status.first.as_deref().unwrap();
        assert!(first.starts_with("any host that reaches the member may use vm: "), "{first}");
        assert_eq!(status.also.len(), 1);
        assert!(status.also[0].starts_with("the audit log cannot be written: make room"));
        assert!(
            status.text().starts_with("the array is healthy, but not all is well\nfirst:   any")
        );
    }

    #[test]
    fn what_is_most_urgent_comes_first_and_each_thing_once() {
        let disks = [
            disk("a", "resyncing", "it is given what it missed"),
            disk("b", "missing", "it was pulled; connect it again"),
        ];
        let warnings = ["disk b: it was pulled; connect it again", "90 % is in use"];
        let status = Status::of(&info(&warnings), &disks, &[], (&[], &[]), NONE, Vec::new());
        assert_eq!(
            status.first.as_deref(),
            Some("disk b is missing: it was pulled; connect it again")
        );
        let also = ["90 % is in use", "disk a is resyncing: it is given what it missed"];
        assert_eq!(status.also, also);
        assert!(status.text().starts_with("degraded: 2 disks are not online\nfirst:   disk b"));
    }

    #[test]
    fn an_array_that_has_stopped_is_said_before_what_comes_of_that() {
        let disks = [disk("a", "missing", "it does not take its label; connect it again")];
        let stop = "the array has stopped, nothing on it is served: no space is left where a lies";
        let mut info = info(&["90 % is in use", stop]);
        let of = |info: &Array| Status::of(info, &disks, &[], (&[], &[]), NONE, Vec::new());
        info.stopped = Some(stop.to_owned());
        let status = of(&info);
        assert_eq!(status.first.as_deref(), Some(stop));
        assert_eq!(status.also.len(), 2, "{:?}", status.also);
        // What it says is for people: it is no sign.
        info.stopped = None;
        assert!(of(&info).first.is_some_and(|first| first.starts_with("disk a is missing")));
    }

    #[test]
    fn a_disk_that_answers_nothing_while_something_waits_is_named() {
        let figures = |answered: u64, waiting: u64| -> DiskFigures {
            let work = |count: u64| json!({"latency": {"counts": [count], "sum_us": 0}, "bytes": 0, "errors": 0, "aborted": 0});
            let json = json!({"id": 3, "name": "sdd", "waiting": waiting, "reads": work(1), "writes": work(answered),
                "flushes": work(0)});
            serde_json::from_value(json).unwrap()
        };
        let look = |before, after| that_answer_nothing(&[before], &[after]);
        assert_eq!(look(figures(5, 2), figures(6, 2)), [""; 0], "it answers");
        assert_eq!(look(figures(5, 0), figures(5, 1)), [""; 0], "it was asked only now");
        let said = look(figures(5, 2), figures(5, 34)).remove(0);
        assert!(
            said.starts_with("disk sdd answers nothing, and 34 requests wait at it: "),
            "{said}"
        );
        let mut stalled = info(&[]);
        stalled.stalls = vec!["the checkpoint waits".to_owned()];
        let silent = (&[said.clone()][..], Vec::new());
        let status = Status::of(&stalled, &[], &[], (&[], &[]), silent, Vec::new());
        assert_eq!((status.first, status.also.len()), (Some(said), 1));
    }

    #[test]
    fn users_whose_secrets_are_lost_are_named() {
        let users: ChapUsers = serde_json::from_value(json!({
            "users": [{"user": "bob", "usable": false}, {"user": "eve", "usable": true}],
            "mutual": {"user": "san", "usable": false},
        }))
        .unwrap();
        let said = silent_users(Some(users));
        assert!(said[0].starts_with("hosts that log in as bob are kept out, "), "{said:?}");
        assert!(said[1].starts_with("volumes cannot prove that they are 'san', "), "{said:?}");
        assert_eq!(said.len(), 2);
    }
}
