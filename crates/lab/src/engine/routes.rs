//! What each path did. Sessions come and go while a step runs; what they did is kept by where they lead.

use std::collections::HashMap;
use std::time::Duration;

use initiator::PathReport;
use initiator::paths::{PathId, PathState};

use crate::measure::PathFigures;

/// All paths of a step, each by its volume and portal.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// Counters of each session when it was looked at last.
    sessions: HashMap<(usize, PathId), Counters>,
    routes: Vec<Route>,
}

/// A session as it is now.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    volume: usize,
    id: PathId,
    path: String,
    state: &'static str,
    latency: Duration,
    counters: Counters,
}

impl Seen {
    /// What a report says of a session of a volume.
    pub(super) fn of(volume: usize, report: &PathReport) -> Self {
        let status = &report.status;
        Self {
            volume,
            id: report.id,
            path: report.address.to_string(),
            state: word(status.state),
            latency: status.latency,
            counters: Counters {
                commands: status.commands,
                bytes: status.bytes,
                losses: status.losses,
                retries: status.retries,
            },
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    commands: u64,
    bytes: u64,
    losses: u64,
    retries: u64,
}

#[derive(Debug)]
struct Route {
    volume: usize,
    path: String,
    done: Counters,
    /// Commands since the last look.
    recent: u64,
    states: Vec<&'static str>,
    latency: Duration,
}

impl Routes {
    /// From here on it counts.
    pub(super) fn begin(&mut self, seen: &[Seen]) {
        self.look(seen, 1.0);
        for route in &mut self.routes {
            route.done = Counters::default();
        }
    }

    /// Adds what was done since the last look; gives commands a second of each path.
    pub(super) fn look(&mut self, seen: &[Seen], seconds: f64) -> Vec<f64> {
        for route in &mut self.routes {
            route.recent = 0;
            route.states.clear();
        }
        for Seen { volume, id, path, state, latency, counters: now } in seen {
            let before = self.sessions.insert((*volume, *id), *now).unwrap_or_default();
            let route = self.route(*volume, path);
            let commands = now.commands.saturating_sub(before.commands);
            route.recent += commands;
            route.done.commands += commands;
            route.done.bytes += now.bytes.saturating_sub(before.bytes);
            route.done.losses += now.losses.saturating_sub(before.losses);
            route.done.retries += now.retries.saturating_sub(before.retries);
            route.states.push(state);
            route.latency = *latency;
        }
        self.routes.iter().map(|route| route.recent as f64 / seconds.max(1e-9)).collect()
    }

    fn route(&mut self, volume: usize, path: &str) -> &mut Route {
        let found =
            self.routes.iter().position(|route| route.volume == volume && route.path == path);
        let index = found.unwrap_or_else(|| {
            let (done, states) = (Counters::default(), Vec::new());
            let (path, latency) = (path.to_owned(), Duration::ZERO);
            self.routes.push(Route { volume, path, done, recent: 0, states, latency });
            self.routes.len() - 1
        });
        &mut self.routes[index]
    }

    /// What each path did in `measured`.
    pub(super) fn figures(
        &self,
        measured: Duration,
        name_of: impl Fn(usize) -> String,
    ) -> Vec<PathFigures> {
        let seconds = measured.as_secs_f64().max(1e-9);
        let of = |route: &Route| PathFigures {
            volume: name_of(route.volume),
            path: route.path.clone(),
            state: shown(&route.states),
            iops: route.done.commands as f64 / seconds,
            mb_per_s: route.done.bytes as f64 / seconds / 1e6,
            latency_us: route.latency.as_secs_f64() * 1e6,
            losses: route.done.losses,
            retries: route.done.retries,
        };
        self.routes.iter().map(of).collect()
    }
}

/// The state of the only session of a path, or how many are in each: `448 active, 52 probation`.
fn shown(states: &[&str]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for state in states {
        match counts.iter_mut().find(|(known, _)| known == state) {
            Some((_, count)) => *count += 1,
            None => counts.push((state, 1)),
        }
    }
    match states {
        [] => "gone".to_owned(),
        [one] => (*one).to_owned(),
        _ => {
            let parts = counts.iter().map(|(state, count)| format!("{count} {state}"));
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}

fn word(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::Probation { .. } => "probation",
        PathState::Silent => "silent",
        PathState::Suspended => "suspended",
        PathState::Failed => "failed",
        PathState::Retired => "retired",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(id: usize, portal: u8, commands: u64, losses: u64) -> Seen {
        let counters = Counters { commands, bytes: commands * 10, losses, retries: losses * 3 };
        let path = format!("iscsi://198.18.{portal}.2/a");
        let (state, latency) = ("active", Duration::ZERO);
        Seen { volume: 0, id: PathId(id), path, state, latency, counters }
    }

    #[test]
    fn states_of_many_sessions_are_counted() {
        assert_eq!(shown(&[]), "gone");
        assert_eq!(shown(&["failed"]), "failed");
        let many = [vec!["active"; 448], vec!["failed"; 3], vec!["active"]].concat();
        assert_eq!(shown(&many), "449 active, 3 failed");
    }

    /// A session that is replaced begins at zero; another one takes its place in the list.
    #[test]
    fn what_a_session_did_is_not_counted_for_another() {
        let mut routes = Routes::default();
        routes.begin(&[report(1, 0, 5000, 1), report(2, 1, 7000, 0)]);
        assert_eq!(routes.look(&[report(1, 0, 5100, 1), report(2, 1, 7000, 0)], 1.0), [100.0, 0.0]);
        // The first has gone, and a new one leads to the same portal.
        assert_eq!(routes.look(&[report(2, 1, 7050, 1), report(3, 0, 20, 0)], 1.0), [20.0, 50.0]);
        let found = routes.figures(Duration::from_secs(2), |_| "v".to_owned());
        let rates: Vec<(f64, u64, u64)> =
            found.iter().map(|path| (path.iops, path.losses, path.retries)).collect();
        assert_eq!(rates, [(60.0, 0, 0), (25.0, 1, 3)]);
    }
}
