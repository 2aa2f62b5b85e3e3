//! `switch-failure`: a moderate verified load over two paths, one of which is cut, four times.

use std::time::Duration;

use super::ExperimentError;
use super::bed::{Bed, Run};
use super::networks::Networks;
use super::server::Export;
use crate::report::{Finding, Report};

const CUTS: u32 = 4;
/// The longest stall that is allowed.
const STALL_S_MAX: f64 = 2.0;

/// Each cut and each time between takes `pause`.
fn workload(pause: Duration) -> String {
    let seconds = pause.as_secs_f64() * f64::from(2 * CUTS + 1);
    format!(
        "sd=vol,threads=16\nwd=oltp,sd=vol,xfersize=8k,rdpct=67\n\
         rd=load,wd=oltp,iorate=1000,elapsed={seconds},interval=0.5\n"
    )
}

pub(super) fn run(bed: &Bed<'_>) -> Result<Report, ExperimentError> {
    let networks = Networks::make()?;
    let target = Export { portals: Networks::portals(), ..Export::of("ram:64M") };
    let server = Export { namespace: Some(&networks.target), ..target }.serve(bed)?;
    let pause = Duration::from_secs_f64(bed.options.seconds);
    let mut running = bed.begin(&Run {
        label: "two paths".to_owned(),
        workload: workload(pause),
        on: vec![server.url(0)],
        namespace: Some(&networks.host),
        options: [
            "--sessions",
            "2",
            "--stall",
            "300",
            "--validate-after",
            "--target-pid",
            &server.pid().to_string(),
        ]
        .map(str::to_owned)
        .to_vec(),
    })?;
    running.wait_for_load()?;
    for cut in 0..CUTS {
        bed.wait(pause)?;
        let path = (cut % 2) as u8;
        (bed.say)(&format!("path {path} is cut"));
        networks.set(path, false)?;
        bed.wait(pause)?;
        (bed.say)(&format!("path {path} comes back"));
        networks.set(path, true)?;
    }
    let report = running.finish()?;
    let findings = findings(&report, pause);
    Ok(bed.conclude("A switch that is powered down four times", vec![report], findings, Vec::new()))
}

/// Shorter cuts may be over before anybody has noticed.
const CUT_S_MIN: f64 = 4.0;

/// What is said where no cut cost a session: it has proved nothing.
fn unproved(losses: u64, pause: Duration) -> String {
    let seconds = pause.as_secs_f64();
    match losses {
        0 if seconds < CUT_S_MIN => format!(
            ": the cuts of {seconds} s were over before a path was given up, and prove nothing; take --seconds {CUT_S_MIN}"
        ),
        0 => ": no cut reached the sessions, so that nothing is proved".to_owned(),
        _ => String::new(),
    }
}

fn findings(report: &Report, pause: Duration) -> Vec<Finding> {
    let pauses =
        report.steps.iter().map(|step| (step.longest_pause_s, step.longest_pause_frozen_s));
    let (longest, frozen) = pauses.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    let frozen = match frozen > 0.0 {
        true => format!(", of which the lab itself did not run for {frozen:.3} s"),
        false => String::new(),
    };
    let losses: u64 =
        report.steps.iter().flat_map(|step| &step.paths).map(|path| path.losses).sum();
    let (errors, wrong) = (report.error_count(), report.mismatch_count());
    let compared: u64 = report.steps.iter().map(|step| step.validation.compared_bytes).sum();
    vec![
        Finding {
            what: "errors that reach the workload, of four cuts".to_owned(),
            paper: "no disk timeouts and no read or write errors".to_owned(),
            ours: format!(
                "{errors} errors, {wrong} wrong blocks in {:.1} MB compared; sessions were lost {losses} times{}",
                compared as f64 / 1e6,
                unproved(losses, pause)
            ),
            // Cuts that cost no session have proved nothing.
            met: Some(errors == 0 && wrong == 0 && losses > 0),
        },
        Finding {
            what: format!(
                "the longest time in which the volume finished nothing, below {STALL_S_MAX} s"
            ),
            paper: "not told".to_owned(),
            ours: format!("{longest:.3} s{frozen}"),
            met: Some(longest < STALL_S_MAX),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Rate, vdbench};

    #[test]
    fn cuts_that_prove_nothing_say_why() {
        let script = vdbench::parse(&workload(Duration::from_secs(1))).unwrap();
        let report = Report::new("t", &script, Vec::new());
        let found = findings(&report, Duration::from_secs(1)).remove(0);
        assert_eq!(found.met, Some(false));
        assert!(
            found.ours.ends_with(
                "lost 0 times: the cuts of 1 s were over before a path was given up, and prove nothing; \
                 take --seconds 4"
            ),
            "{}",
            found.ours
        );
        let long = findings(&report, Duration::from_secs(9)).remove(0);
        assert!(long.ours.contains("no cut reached the sessions"), "{}", long.ours);
    }

    #[test]
    fn the_load_lasts_until_the_last_path_is_back() {
        let script = vdbench::parse(&workload(Duration::from_secs(4))).unwrap();
        assert_eq!(script.steps[0].elapsed, Duration::from_secs(36));
        assert_eq!(script.steps[0].rate, Rate::Iops(1000.0));
    }
}
