//! `raid-levels`: RAID levels and numbers of drives, against one and many clients with a volume each.

use super::ExperimentError;
use super::bed::{Bed, Run, iops};
use super::server::Member;
use crate::measure::StepFigures;
use crate::report::{Chart, Finding, Report};

/// Simulated, in memory, as those of the paper's server.
const DRIVE: &str = "sim:sas15k:2G";
/// Many of them lie between each other, so that no drive holds one in its own cache.
const VOLUME: &str = "32M";
/// The lone set of the paper.
const SET: usize = 10;
/// The level whose drives are counted.
const WIDE: &str = "raid10";

/// Name, reads in a hundred, and order of each pattern: 4 KiB, 8 under way for each client. Reads first,
/// while everything lies as it was written.
const WORK: [(&str, u32, &str); 5] = [
    ("read-seq", 100, "sequential"),
    ("read-random", 100, "random"),
    ("write-seq", 0, "sequential"),
    ("mixed-random", 70, "random"),
    ("write-random", 0, "random"),
];

/// What is varied.
struct Plan {
    levels: &'static [&'static str],
    clients: &'static [u32],
    drives: &'static [usize],
}

const WHOLE: Plan = Plan {
    levels: &["raid0", "raid1", "raid10", "raid5", "raid6"],
    clients: &[1, 5, 15, 30, 45],
    drives: &[6, SET, 30, 45],
};
const QUICK: Plan =
    Plan { levels: &["raid0", "raid10", "raid5"], clients: &[1, 4], drives: &[6, SET] };

impl Plan {
    fn most(&self) -> u32 {
        *self.clients.last().expect("some clients")
    }
}

fn workload(seconds: f64, clients: &[u32], has_depths: bool) -> String {
    let clients: Vec<String> = clients.iter().map(u32::to_string).collect();
    let clients = clients.join(",");
    let mut text = "sd=vol,threads=8\n".to_owned();
    for (name, reads, order) in WORK {
        text += &format!("wd={name},sd=vol,xfersize=4k,rdpct={reads},seekpct={order}\n");
    }
    let time = format!("elapsed={seconds},warmup={},interval=1", (seconds / 4.0).min(1.0));
    if has_depths {
        text += &format!(
            "rd=depth,wd=read-random,iorate=max,{time},forclients=(1),forthreads=(8,32)\n"
        );
    }
    for (name, ..) in WORK {
        text += &format!("rd={name},wd={name},iorate=max,{time},forclients=({clients})\n");
    }
    text
}

/// What runs on an array of so many drives are called.
fn label(level: &str, drives: usize) -> String {
    format!("{level} on {drives} drives")
}

pub(super) fn run(bed: &Bed<'_>) -> Result<Report, ExperimentError> {
    let plan = if bed.options.is_quick { QUICK } else { WHOLE };
    let mut runs = Vec::new();
    for level in plan.levels {
        runs.push(measure(bed, level, SET, plan.clients)?);
    }
    let ends = [plan.clients[0], plan.most()];
    for drives in plan.drives.iter().filter(|drives| **drives != SET) {
        runs.push(measure(bed, WIDE, *drives, &ends)?);
    }
    let steps: Vec<_> = runs.iter().flat_map(|run| run.steps.clone()).collect();
    let found = Found { steps: &steps, plan: &plan };
    let (findings, charts) = (found.findings(), found.charts());
    Ok(bed.conclude("RAID levels, drives and clients", runs, findings, charts))
}

/// An array of its own, with as many volumes as there will be clients.
fn measure(
    bed: &Bed<'_>,
    level: &str,
    drives: usize,
    clients: &[u32],
) -> Result<Report, ExperimentError> {
    let label = label(level, drives);
    (bed.say)(&format!("{label}: volumes are made and written"));
    let member = Member::start(bed, &label.replace(' ', "-"), (drives, DRIVE), level)?;
    for client in 1..=*clients.last().expect("some clients") {
        member.create(&format!("client{client}"), VOLUME)?;
    }
    let on = member.url("client*");
    bed.fill(&on, VOLUME)?;
    let pid = member.server.pid().to_string();
    bed.measure(&Run {
        label,
        workload: workload(bed.options.seconds, clients, level == WIDE && drives == SET),
        on: vec![on],
        namespace: None,
        options: ["--sessions", "1", "--no-validation", "--target-pid", &pid]
            .map(str::to_owned)
            .to_vec(),
    })
}

/// What all runs found.
struct Found<'a> {
    steps: &'a [StepFigures],
    plan: &'a Plan,
}

impl Found<'_> {
    fn iops(&self, level: &str, drives: usize, pattern: &str, clients: u32) -> f64 {
        iops(self.steps, &format!("{}: {pattern} clients={clients}", label(level, drives)))
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<_> =
            [1, self.plan.most()].into_iter().map(|clients| self.levels(clients)).collect();
        findings.extend([self.drives(), self.depth()]);
        findings
    }

    fn levels(&self, clients: u32) -> Finding {
        let base = self.plan.levels[0];
        let of = |pattern: &str| {
            let striped = self.iops(base, SET, pattern, clients);
            let others = self.plan.levels[1..].iter().map(|level| {
                let share = self.iops(level, SET, pattern, clients) / striped.max(1.0);
                format!("{level} {share:.2}")
            });
            let others: Vec<_> = others.collect();
            format!("{pattern} {striped:.0} IOPS ({})", others.join(", "))
        };
        let ours: Vec<_> = WORK.iter().map(|(pattern, ..)| of(pattern)).collect();
        Finding {
            what: format!(
                "the levels on {SET} drives, {clients} client(s): {base}, and the others to it"
            ),
            paper: "behind 1 Gbit/s, caches off: all levels are comparable, RAID 0 the best"
                .to_owned(),
            ours: format!(
                "{}. No network hides the drives here, and small writes pay for copies and parity, \
                 and for a journal on the same drives",
                ours.join("; ")
            ),
            met: None,
        }
    }

    fn drives(&self) -> Finding {
        let most = self.plan.most();
        let of = |(pattern, clients): (&str, u32)| {
            let set = self.iops(WIDE, SET, pattern, clients);
            let others = self.plan.drives.iter().map(|drives| {
                let ratio = self.iops(WIDE, *drives, pattern, clients) / set.max(1.0);
                format!("{drives} drives {ratio:.2}")
            });
            format!("{pattern}, {clients} client(s): {}", others.collect::<Vec<_>>().join(", "))
        };
        let asked = [("read-random", 1), ("read-random", most), ("write-random", most)];
        Finding {
            what: format!("{WIDE} over more drives, to one set of {SET}"),
            paper: "the more drives a volume lies on, the better".to_owned(),
            ours: format!(
                "{}. One client has 8 I/Os under way, which keep 8 drives busy at most",
                asked.map(of).join("; ")
            ),
            met: None,
        }
    }

    fn depth(&self) -> Finding {
        let of = |depth: u32| {
            let name = format!("{}: depth clients=1 threads={depth}", label(WIDE, SET));
            let step = self.steps.iter().find(|step| step.name == name);
            step.map_or((0.0, 0.0), |step| (step.total.iops, step.total.mean_us))
        };
        let ((few, short), (many, long)) = (of(8), of(32));
        Finding {
            what: "32 random reads under way instead of 8, one client".to_owned(),
            paper: "10 to 15 % more IOPS, at three to four times the latency".to_owned(),
            ours: format!(
                "{:.2} times the IOPS at {:.2} times the latency. These drives choose among what \
                 waits for them; behind 1 Gbit/s the network was the limit",
                many / few.max(1.0),
                long / short.max(1.0)
            ),
            met: None,
        }
    }

    fn charts(&self) -> Vec<Chart> {
        let plan = self.plan;
        let over_clients = |(pattern, ..): &(&str, u32, &str)| {
            let line = |level: &&str| {
                let point =
                    |clients: &u32| (f64::from(*clients), self.iops(level, SET, pattern, *clients));
                ((*level).to_owned(), plan.clients.iter().map(point).collect())
            };
            Chart {
                title: format!("{pattern}, 4 KiB, {SET} drives"),
                unit: "IOPS".to_owned(),
                across: "clients".to_owned(),
                lines: plan.levels.iter().map(line).collect(),
            }
        };
        let over_drives = |(pattern, ..): &(&str, u32, &str)| {
            let point =
                |drives: &usize| (*drives as f64, self.iops(WIDE, *drives, pattern, plan.most()));
            ((*pattern).to_owned(), plan.drives.iter().map(point).collect())
        };
        let random = WORK.iter().filter(|(.., order)| *order == "random");
        let drives = Chart {
            title: format!("{WIDE}, random I/O of {} clients", plan.most()),
            unit: "IOPS".to_owned(),
            across: "drives".to_owned(),
            lines: random.map(over_drives).collect(),
        };
        WORK.iter().map(over_clients).chain([drives]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::vdbench;

    #[test]
    fn the_steps_are_those_that_are_looked_for() {
        let script = vdbench::parse(&workload(1.0, QUICK.clients, true)).unwrap();
        let names: Vec<_> = script.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names.len(), 2 + WORK.len() * 2);
        for wanted in ["depth clients=1 threads=8", "read-seq clients=1", "write-random clients=4"]
        {
            assert!(names.contains(&wanted), "{wanted} in {names:?}");
        }
    }

    #[test]
    fn both_plans_have_the_set_and_one_client() {
        for plan in [WHOLE, QUICK] {
            assert!(plan.drives.contains(&SET) && plan.levels.contains(&WIDE));
            assert!(plan.clients[0] == 1 && plan.most() > 1);
        }
    }
}
