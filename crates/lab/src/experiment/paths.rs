//! `paths`: the six workloads of the multipath test, one policy after the other.

use super::ExperimentError;
use super::bed::{Bed, Run, iops};
use super::networks::Networks;
use super::server::Export;
use crate::report::{Finding, Report};

const POLICIES: [&str; 4] = ["failover", "round-robin", "least-queue-depth", "service-time"];

/// Name, reads in a hundred, and order of each workload.
const WORK: [(&str, u32, &str); 6] = [
    ("read-seq", 100, "sequential"),
    ("read-random", 100, "random"),
    ("mixed-seq", 75, "sequential"),
    ("mixed-random", 75, "random"),
    ("write-seq", 0, "sequential"),
    ("write-random", 0, "random"),
];

fn workload(seconds: f64) -> String {
    let mut text = "sd=vol,threads=64,size=64m\n".to_owned();
    for (name, reads, order) in WORK {
        text += &format!("wd={name},sd=vol,xfersize=32k,rdpct={reads},seekpct={order}\n");
    }
    for (name, ..) in WORK {
        text += &format!("rd={name},wd={name},iorate=max,elapsed={seconds},warmup=1,interval=1\n");
    }
    text
}

pub(super) fn run(bed: &Bed<'_>) -> Result<Report, ExperimentError> {
    let networks = Networks::make()?;
    let target = Export { portals: Networks::portals(), ..Export::of("ram:256M") };
    let server = Export { namespace: Some(&networks.target), ..target }.serve(bed)?;
    let mut runs = Vec::new();
    for policy in POLICIES {
        runs.push(
            bed.measure(&Run {
                label: policy.to_owned(),
                workload: workload(bed.options.seconds),
                on: vec![server.url(0)],
                namespace: Some(&networks.host),
                options: [
                    "--policy",
                    policy,
                    "--sessions",
                    "2",
                    "--target-pid",
                    &server.pid().to_string(),
                ]
                .map(str::to_owned)
                .to_vec(),
            })?,
        );
    }
    let steps: Vec<_> = runs.iter().flat_map(|run| run.steps.clone()).collect();
    let findings = WORK.map(|(name, ..)| {
        let of = |policy: &str| iops(&steps, &format!("{policy}: {name}"));
        let (one, robin, least) = (of("failover"), of("round-robin"), of("least-queue-depth"));
        Finding {
            what: format!("{name}, 32 KiB, 64 under way"),
            paper: "routed paths: 30 to 40 % more IOPS than classic round robin, except for random \
                writes, where it is less"
                .to_owned(),
            ours: format!(
                "one path {one:.0} IOPS; round robin over two {robin:.0}, {:.2} times; least queue \
                 depth {least:.0}, {:.2} times round robin. The target is one member, so that there \
                 is nothing to route",
                robin / one.max(1.0),
                least / robin.max(1.0)
            ),
            met: None,
        }
    });
    let title = "Two paths of 1 Gbit/s, policies side by side";
    Ok(bed.conclude(title, runs, findings.to_vec(), Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::vdbench;

    #[test]
    fn the_workload_reads() {
        let script = vdbench::parse(&workload(2.5)).unwrap();
        assert_eq!(script.steps.len(), WORK.len());
        assert_eq!(script.steps[3].flows[0].read_percent, 75);
    }
}
