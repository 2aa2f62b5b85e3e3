//! `sessions-per-core`: one, three and sixteen sessions on one and on two cores of the target.

use super::ExperimentError;
use super::bed::{Bed, Run, iops};
use super::server::Export;
use crate::report::{Finding, Report};

const CORES: [u32; 2] = [1, 2];
const SESSIONS: [u32; 3] = [1, 3, 16];

fn workload(seconds: f64) -> String {
    format!(
        "sd=vol,threads=32\nwd=read,sd=vol,rdpct=100\n\
         rd=read,wd=read,iorate=max,forxfersize=(4k,64k),elapsed={seconds},warmup=1,interval=1\n"
    )
}

pub(super) fn run(bed: &Bed<'_>) -> Result<Report, ExperimentError> {
    let mut runs = Vec::new();
    for cores in CORES {
        let server = Export::of("ram:256M").cores(cores).serve(bed)?;
        for sessions in SESSIONS {
            runs.push(
                bed.measure(&Run {
                    label: format!("{cores} cores, {sessions} sessions"),
                    workload: workload(bed.options.seconds),
                    on: vec![server.url(0)],
                    namespace: None,
                    options: [
                        "--sessions",
                        &sessions.to_string(),
                        "--target-pid",
                        &server.pid().to_string(),
                    ]
                    .map(str::to_owned)
                    .to_vec(),
                })?,
            );
        }
    }
    let steps: Vec<_> = runs.iter().flat_map(|run| run.steps.clone()).collect();
    let finding = |size: &str| {
        let of = |cores: u32, sessions: u32| {
            iops(&steps, &format!("{cores} cores, {sessions} sessions: read xfersize={size}"))
        };
        let ratios = CORES.map(|cores| of(cores, 3) / of(cores, 1).max(1.0));
        Finding {
            what: format!("three sessions against one, random reads of {size}, 32 under way"),
            paper: "three sessions that are spread over cores do better than one with small blocks"
                .to_owned(),
            ours: format!(
                "{:.2} times on one core of the target, {:.2} times on two; sixteen: {:.2} and {:.2} times. \
                 The lab itself uses one core, which is often the limit",
                ratios[0],
                ratios[1],
                of(1, 16) / of(1, 1).max(1.0),
                of(2, 16) / of(2, 1).max(1.0)
            ),
            met: None,
        }
    };
    let findings = vec![finding("4k"), finding("64k")];
    Ok(bed.conclude("Sessions and cores", runs, findings, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::vdbench;

    #[test]
    fn the_names_of_the_steps_are_those_that_are_looked_for() {
        let script = vdbench::parse(&workload(1.0)).unwrap();
        let names: Vec<&str> = script.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["read xfersize=4k", "read xfersize=64k"]);
    }
}
