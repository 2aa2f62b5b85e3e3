//! What an attachment tells about itself, and what two such samples say.

use initiator::PathReport;
use initiator::paths::PathState;
use scsi::alua::AccessState;
use serde::{Deserialize, Serialize};

/// What stays the same while it is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Its process.
    pub(crate) pid: u32,
    /// That of its file, without `.toml`; empty for one of the command line.
    pub(crate) name: String,
    /// Its URL.
    pub(crate) volume: String,
    /// Where it is served: `unix:PATH`, `ADDR:PORT`, a directory or a block device. Empty until it
    /// is.
    pub(crate) place: String,
    /// How paths are chosen.
    pub(crate) policy: String,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// It is tried for the first time.
    Attaching,
    /// The disk can be used.
    Attached,
    /// It was attached, and all that its paths lead to is another disk now.
    Replaced,
    /// What was written is being flushed, and the sessions logged out.
    Detaching,
    /// A process that is gone has left the block device; its users wait.
    Left,
    /// It was tried, and will be again.
    Waiting,
    /// Its file does not read.
    Refused,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Attaching => "attaching",
            Self::Attached => "attached",
            Self::Replaced => "replaced",
            Self::Detaching => "detaching",
            Self::Left => "left",
            Self::Waiting => "waiting",
            Self::Refused => "refused",
        }
    }
}

/// An attachment as a process lists it, one that is only tried as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    pub(crate) state: State,
    /// What is not as it should be; empty if all is.
    pub(crate) trouble: String,
}

/// Everything counted so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) uptime_ns: u64,
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) counts: Counts,
    pub(crate) paths: Vec<PathSample>,
}

/// The counters of the local disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) latency_ns: u64,
    pub(crate) in_flight: u64,
}

impl From<attach::Counts> for Counts {
    fn from(counts: attach::Counts) -> Counts {
        Counts {
            requests: counts.reads + counts.writes + counts.others,
            failed: counts.failed,
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            latency_ns: counts.latency_ns,
            in_flight: counts.in_flight,
        }
    }
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathSample {
    pub(crate) portal: String,
    /// `active`, `probation` or `failed`.
    pub(crate) state: String,
    /// The ALUA state.
    pub(crate) access: String,
    pub(crate) queue_depth: u32,
    pub(crate) commands: u64,
    pub(crate) bytes: u64,
    /// Smoothed time of a command.
    pub(crate) latency_us: u64,
    /// Times that it was lost.
    pub(crate) losses: u64,
    /// Why it is not used; empty if it is.
    pub(crate) trouble: String,
    /// What it leads to is another disk now.
    pub(crate) is_another_disk: bool,
}

impl PathSample {
    pub(crate) fn of(path: &PathReport) -> PathSample {
        let (portal, status) = (&path.address.portal, &path.status);
        let host = if portal.host.contains(':') {
            format!("[{}]", portal.host)
        } else {
            portal.host.clone()
        };
        let state = match status.state {
            PathState::Active => "active",
            PathState::Probation { .. } => "probation",
            PathState::Silent => "silent",
            PathState::Suspended => "suspended",
            PathState::Failed => "failed",
            PathState::Retired => "retired",
        };
        let access = match status.access {
            AccessState::ActiveOptimized => "optimized",
            AccessState::ActiveNonOptimized => "non-optimized",
            AccessState::Standby => "standby",
            AccessState::Unavailable => "unavailable",
            AccessState::Offline => "offline",
            AccessState::Transitioning => "transitioning",
        };
        PathSample {
            portal: format!("{host}:{}", portal.port),
            state: state.to_owned(),
            access: access.to_owned(),
            queue_depth: status.in_flight,
            commands: status.commands,
            bytes: status.bytes,
            latency_us: u64::try_from(status.latency.as_micros()).unwrap_or(u64::MAX),
            losses: status.losses,
            trouble: path.trouble.clone(),
            is_another_disk: path.is_another_disk,
        }
    }
}

/// What is shown: the later sample, and the rates between the two.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    pub(crate) listed: Listed,
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) read_only: bool,
    pub(crate) iops: f64,
    pub(crate) bytes_per_second: f64,
    /// Mean time of a request; nothing when there was none.
    pub(crate) latency_us: Option<f64>,
    pub(crate) queue_depth: u64,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) paths: Vec<ShownPath>,
}

/// One path of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ShownPath {
    #[serde(flatten)]
    pub(crate) now: PathSample,
    pub(crate) iops: f64,
    pub(crate) bytes_per_second: f64,
}

impl Shown {
    /// What happened between `before` and `now`.
    pub(crate) fn between(listed: Listed, before: &Sample, now: Sample) -> Shown {
        let listed = judged(listed, &now.paths);
        let seconds = now.uptime_ns.saturating_sub(before.uptime_ns) as f64 / 1e9;
        let rate = |before: u64, now: u64| {
            if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
        };
        let bytes = |counts: &Counts| counts.read_bytes + counts.written_bytes;
        let requests = now.counts.requests.saturating_sub(before.counts.requests);
        let latency_ns = now.counts.latency_ns.saturating_sub(before.counts.latency_ns);
        let path = |(i, path): (usize, PathSample)| {
            // A path has its place for as long as the disk is attached.
            let before = before.paths.get(i).unwrap_or(&path).clone();
            ShownPath {
                iops: rate(before.commands, path.commands),
                bytes_per_second: rate(before.bytes, path.bytes),
                now: path,
            }
        };
        Shown {
            listed,
            size_bytes: now.size_bytes,
            block_bytes: now.block_bytes,
            read_only: now.read_only,
            iops: rate(before.counts.requests, now.counts.requests),
            bytes_per_second: rate(bytes(&before.counts), bytes(&now.counts)),
            latency_us: (requests > 0).then(|| latency_ns as f64 / 1e3 / requests as f64),
            queue_depth: now.counts.in_flight,
            requests: now.counts.requests,
            failed: now.counts.failed,
            paths: now.paths.into_iter().enumerate().map(path).collect(),
        }
    }
}

/// What is listed as attached, by what its paths say.
fn judged(listed: Listed, paths: &[PathSample]) -> Listed {
    let is_used = |path: &PathSample| path.state != "failed";
    if listed.state != State::Attached || paths.iter().any(is_used) {
        return listed;
    }
    let (state, trouble) = if paths.iter().any(|path| path.is_another_disk) {
        (State::Replaced, "the volume was made anew or has shrunk: detach it, then attach it again")
    } else {
        (State::Attached, "no path works")
    };
    let said = [trouble, &listed.trouble].into_iter().filter(|text| !text.is_empty());
    let trouble = said.collect::<Vec<_>>().join("; ");
    Listed { state, trouble, ..listed }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(seconds: u64) -> Sample {
        let path = |n: u64| PathSample {
            portal: format!("192.0.2.{n}:3260"),
            state: "active".to_owned(),
            access: "optimized".to_owned(),
            queue_depth: 3,
            commands: seconds * 500 * n,
            bytes: seconds * 4096 * n,
            latency_us: 150,
            losses: 0,
            trouble: String::new(),
            is_another_disk: false,
        };
        Sample {
            uptime_ns: seconds * 1_000_000_000,
            size_bytes: 1 << 30,
            block_bytes: 512,
            read_only: false,
            counts: Counts {
                requests: seconds * 1000,
                failed: 1,
                read_bytes: seconds * 1_000_000,
                written_bytes: seconds * 500_000,
                latency_ns: seconds * 1000 * 200_000,
                in_flight: 7,
            },
            paths: vec![path(1), path(2)],
        }
    }

    pub(crate) fn listed() -> Listed {
        Listed { identity: identity(), state: State::Attached, trouble: String::new() }
    }

    pub(crate) fn identity() -> Identity {
        Identity {
            pid: 4711,
            name: String::new(),
            volume: "iscsi://192.0.2.1/iqn.2026-11.com.example:a/0".to_owned(),
            place: "unix:/run/a.sock".to_owned(),
            policy: "least-queue-depth".to_owned(),
        }
    }

    #[test]
    fn rates_are_those_between_the_samples() {
        let shown = Shown::between(listed(), &sample(10), sample(12));
        assert_eq!((shown.iops, shown.bytes_per_second), (1000.0, 1_500_000.0));
        assert_eq!((shown.latency_us, shown.queue_depth), (Some(200.0), 7));
        let iops: Vec<_> = shown.paths.iter().map(|path| path.iops).collect();
        assert_eq!(iops, [500.0, 1000.0]);
    }

    #[test]
    fn nothing_done_has_no_latency_and_no_time_no_rate() {
        let mut same = sample(10);
        same.uptime_ns += 1;
        let shown = Shown::between(listed(), &sample(10), same);
        assert_eq!((shown.iops, shown.latency_us), (0.0, None));
        assert_eq!(Shown::between(listed(), &sample(10), sample(10)).iops, 0.0);
    }

    #[test]
    fn a_disk_without_paths_does_not_look_as_if_all_were_well() {
        let shown = |is_another_disk, failed: usize| {
            let mut now = sample(12);
            for path in now.paths.iter_mut().take(failed) {
                "failed".clone_into(&mut path.state);
                path.is_another_disk = is_another_disk;
            }
            Shown::between(listed(), &sample(10), now).listed
        };
        assert_eq!(shown(true, 1), listed(), "one path still leads to the disk");
        let dead = shown(false, 2);
        assert_eq!((dead.state, &*dead.trouble), (State::Attached, "no path works"));
        let replaced = shown(true, 2);
        assert_eq!(replaced.state.word(), "replaced");
        assert!(replaced.trouble.contains("attach it again"), "{}", replaced.trouble);
        let json = serde_json::to_value(&replaced).unwrap();
        assert_eq!(json["state"], "replaced");
    }

    #[test]
    fn a_sample_survives_the_way_to_another_process() {
        let text = serde_json::to_string(&sample(3)).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample(3));
    }
}
