//! `sessions`: the same load over more and more sessions to 45 volumes.

use super::ExperimentError;
use super::bed::{Bed, Run};
use super::server::Export;
use crate::measure::StepFigures;
use crate::report::{Chart, Finding, Report};

const VOLUMES: usize = 45;
const QUICK_VOLUMES: usize = 4;
/// Of all volumes together; the first is one for each.
const SESSIONS: [usize; 5] = [VOLUMES, 510, 1020, 2048, 4096];
const QUICK_SESSIONS: [usize; 3] = [QUICK_VOLUMES, 16, 64];
/// One address may have a quarter of the connections of a target.
const CONNECTIONS: usize = 4 * 4096 + 256;

/// Name, block size, reads in a hundred, order, and I/Os a second over all, of the paper's three loads.
const WORK: [(&str, &str, u32, &str, u32); 3] = [
    ("oltp", "8k", 67, "random", 3000),
    ("write-seq", "64k", 0, "sequential", 600),
    ("read-seq", "256k", 100, "sequential", 300),
];

/// How long until each session has had an I/O at this rate, and some more. The first on a connection takes up to
/// three times as long as the next: its window opens, and its memory is used for the first time.
fn warmup(seconds: f64, rate: u32, sessions: &[usize]) -> f64 {
    let most = sessions.iter().max().copied().unwrap_or(0);
    (seconds / 4.0).min(1.0).max(1.1 * most as f64 / f64::from(rate))
}

fn workload(seconds: f64, sessions: &[usize]) -> String {
    let counts = sessions;
    let sessions: Vec<_> = sessions.iter().map(usize::to_string).collect();
    let sessions = sessions.join(",");
    let mut text = "sd=vol,threads=8\n".to_owned();
    for (name, size, reads, order, rate) in WORK {
        text += &format!("wd={name},sd=vol,xfersize={size},rdpct={reads},seekpct={order}\n");
        text += &format!(
            "rd={name},wd={name},iorate={rate},elapsed={seconds},warmup={:.2},interval=1,forsessions=({sessions})\n",
            warmup(seconds, rate, counts)
        );
    }
    text
}

pub(super) fn run(bed: &Bed<'_>) -> Result<Report, ExperimentError> {
    let (volumes, sessions) = match bed.options.is_quick {
        true => (QUICK_VOLUMES, &QUICK_SESSIONS[..]),
        false => (VOLUMES, &SESSIONS[..]),
    };
    let target = Export {
        disks: vec!["ram:64M".to_owned(); volumes],
        options: vec!["--max-connections".to_owned(), CONNECTIONS.to_string()],
        ..Export::of("")
    };
    let server = target.serve(bed)?;
    let report = bed.measure(&Run {
        label: format!("{volumes} volumes"),
        workload: workload(bed.options.seconds, sessions),
        on: (0..volumes).map(|lun| server.url(lun)).collect(),
        namespace: None,
        options: ["--target-pid", &server.pid().to_string()].map(str::to_owned).to_vec(),
    })?;
    let found = Found { steps: report.steps.clone(), volumes, sessions };
    let (findings, charts) = (found.findings(), found.charts());
    Ok(bed.conclude("The same load over more sessions", vec![report], findings, charts))
}

/// What was found.
struct Found<'a> {
    steps: Vec<StepFigures>,
    volumes: usize,
    sessions: &'a [usize],
}

impl Found<'_> {
    /// IOPS and mean latency, to those of the fewest sessions.
    fn relative(&self, pattern: &str, sessions: usize) -> (f64, f64) {
        let of = |sessions: usize| {
            let name = format!("{} volumes: {pattern} sessions={sessions}", self.volumes);
            let step = self.steps.iter().find(|step| step.name == name);
            step.map_or((0.0, 0.0), |step| (step.total.iops, step.total.mean_us))
        };
        let ((base, short), (iops, long)) = (of(self.sessions[0]), of(sessions));
        (iops / base.max(1.0), long / short.max(1.0))
    }

    fn findings(&self) -> Vec<Finding> {
        let all = WORK.iter().map(|(pattern, size, ..)| {
            let others = self.sessions[1..].iter().map(|sessions| {
                let (iops, latency) = self.relative(pattern, *sessions);
                format!("{sessions} sessions {iops:.2} and {latency:.2}")
            });
            Finding {
                what: format!(
                    "{pattern}, {size}, a fixed rate: IOPS and mean latency, to those of {} sessions",
                    self.sessions[0]
                ),
                paper: "from 510 to 1,020 connections IOPS and response time stay within 5 %"
                    .to_owned(),
                ours: format!(
                    "{}. Here every session carries I/O; those that the paper added did not",
                    others.collect::<Vec<_>>().join(", ")
                ),
                met: None,
            }
        });
        all.collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let chart = |title: &str, of: &dyn Fn((f64, f64)) -> f64| {
            let line = |(pattern, ..): &(&str, &str, u32, &str, u32)| {
                let point = |sessions: &usize| {
                    (*sessions as f64, of(self.relative(pattern, *sessions)) * 100.0)
                };
                ((*pattern).to_owned(), self.sessions.iter().map(point).collect())
            };
            Chart {
                title: format!("{title}, to that of {} sessions", self.sessions[0]),
                unit: "percent".to_owned(),
                across: "sessions".to_owned(),
                lines: WORK.iter().map(line).collect(),
            }
        };
        vec![chart("IOPS", &|both| both.0), chart("Mean latency", &|both| both.1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Rate, vdbench};

    #[test]
    fn the_same_load_over_all_numbers_of_sessions() {
        let script = vdbench::parse(&workload(1.0, &SESSIONS)).unwrap();
        let of_oltp: Vec<_> =
            script.steps.iter().filter(|step| step.name.starts_with("oltp")).collect();
        let names: Vec<_> = of_oltp.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names[..2], ["oltp sessions=45", "oltp sessions=510"]);
        assert!(of_oltp.iter().all(|step| step.rate == Rate::Iops(3000.0)));
        assert_eq!(script.steps.len(), WORK.len() * SESSIONS.len());
        for step in &script.steps {
            let Rate::Iops(rate) = step.rate else { panic!("{}", step.name) };
            let before = step.warmup.as_secs_f64() * rate;
            assert!(before > 4096.0, "{}: {before} I/Os are no first one for each", step.name);
        }
    }
}
