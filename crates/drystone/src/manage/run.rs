//! `drystone run`, and how other commands wait for runs.

use super::Desk;
use crate::Failure;
use crate::cli::run::{RunArgs, RunCommand};
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::{anyhow, bail};
use api::types::{ArrayWork, Run, RunKind, RunState};
use std::io::{self, IsTerminal, Write};

/// Does what the command line says.
pub(crate) fn run(args: RunArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(match args.command {
        RunCommand::List => {
            let runs = desk.ask(|member| member.runs())?;
            desk.show(&runs, |runs| Ok(list(runs)))
        }
        RunCommand::Cancel { id } => cancel(&desk, id),
    }?)
}

/// Has long work done and waits for its end, which may be that somebody else has cancelled it.
pub(super) fn follow(desk: &Desk, work: ArrayWork) -> anyhow::Result<Run> {
    let ended = desk.follow(|member, progress| {
        member.run(work, |run| tell_begun(run, desk.on_member.as_deref()), progress)
    })?;
    match ended.state {
        RunState::Cancelled => bail!("{}", how_far(&ended)),
        _ => Ok(ended),
    }
}

/// Who looks at it may want to stop: says what that does.
pub(super) fn tell_begun(run: &Run, on_member: Option<&str>) {
    if io::stderr().is_terminal() {
        let (what, id) = (word(run.kind), &run.id);
        let on = on_member.map_or_else(String::new, |name| format!(" --on {name}"));
        // Nobody is kept from the work by a terminal that is gone.
        let _ = writeln!(
            io::stderr(),
            "Ctrl-C leaves the {what} running; 'drystone run cancel {id}{on}' ends it"
        );
    }
}

fn cancel(desk: &Desk, id: Option<String>) -> anyhow::Result<()> {
    let id = match id {
        Some(id) => id,
        None => only_one(desk.ask(|member| member.runs())?)?,
    };
    desk.ask(|member| member.cancel_run(&id))?;
    let ended = desk.follow(|member, progress| member.end_of_run(&id, progress))?;
    desk.show(&ended, |ended| {
        Ok(match ended.state {
            RunState::Cancelled => format!("{}\n", how_far(ended)),
            RunState::Failed => format!(
                "the {} was not cancelled, it has failed: {}\n",
                work(ended),
                ended.problem.as_ref().map_or("", |problem| problem.detail.as_str())
            ),
            _ => format!("the {} went to its end: it could not be left before\n", work(ended)),
        })
    })
}

/// The run that is meant by no name.
fn only_one(runs: Vec<Run>) -> anyhow::Result<String> {
    let goes_on = |run: &Run| run.state == RunState::Running;
    let mut running: Vec<String> = runs.into_iter().filter(goes_on).map(|run| run.id).collect();
    let last = running
        .pop()
        .ok_or_else(|| anyhow!("nothing goes on that was asked for: see 'drystone run list'"))?;
    if running.is_empty() {
        return Ok(last);
    }
    // All of them: a member does only a few at once.
    let others: Vec<String> = running.iter().map(|id| format!("'{id}'")).collect();
    bail!(
        "several go on: say which, {} or '{last}' ('drystone run list' shows what they are)",
        others.join(", ")
    )
}

/// What became of a run that was cancelled.
pub(super) fn how_far(run: &Run) -> String {
    let sum = |bytes: fn(&api::types::Job) -> u64| run.jobs.iter().map(bytes).sum::<u64>();
    let (done, total) = (sum(|job| job.done_bytes), sum(|job| job.total_bytes));
    let far = match (run.kind, done, total) {
        // Of an empty volume there is nothing to be sent.
        (RunKind::Move, 0, _) => {
            "before any data of it was sent, and it stays where it was".to_owned()
        }
        (RunKind::Rebalance, _, 0) => "before it had moved any data".to_owned(),
        (_, _, 0) => "before it had read any data".to_owned(),
        _ => format!("after {} of {}", units::bytes(done), units::bytes(total)),
    };
    format!("the {} was cancelled {far}", work(run))
}

/// What a run does, and of a move to what.
fn work(run: &Run) -> String {
    let word = word(run.kind);
    run.volume.as_ref().map_or_else(|| word.to_owned(), |volume| format!("{word} of '{volume}'"))
}

fn word(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Scrub => "scrub",
        RunKind::Check => "check",
        RunKind::Rebalance => "rebalancing",
        RunKind::Move => "move",
    }
}

fn list(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "nothing was asked for since the member was started\n".to_owned();
    }
    let columns = [
        Text("RUN"),
        Text("WORK"),
        Text("VOLUME"),
        Text("TO"),
        Text("STATE"),
        Text("BEGUN"),
        Text("ENDED"),
        Number("DONE"),
    ];
    let dash = || "-".to_owned();
    let row = |run: &Run| {
        let state = match run.state {
            RunState::Running => "running",
            RunState::Done => "done",
            RunState::Failed => "failed",
            RunState::Cancelled => "cancelled",
        };
        let (done, total) = run
            .jobs
            .iter()
            .fold((0, 0), |(done, total), job| (done + job.done_bytes, total + job.total_bytes));
        let percent = (u128::from(done) * 100).checked_div(u128::from(total));
        [
            run.id.clone(),
            word(run.kind).to_owned(),
            run.volume.clone().unwrap_or_else(dash),
            run.to.clone().unwrap_or_else(dash),
            state.to_owned(),
            units::time(run.begun_unix_seconds),
            run.ended_unix_seconds.map_or_else(dash, units::time),
            percent.map_or_else(dash, |percent| format!("{percent} %")),
        ]
    };
    table(columns, runs.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::types::{Job, JobKind};

    fn run(id: &str, kind: RunKind, state: RunState) -> Run {
        let (begun_unix_seconds, ended_unix_seconds) = (1, None);
        let (jobs, report, problem) = (Vec::new(), None, None);
        Run {
            id: id.into(),
            kind,
            volume: None,
            to: None,
            state,
            begun_unix_seconds,
            ended_unix_seconds,
            jobs,
            report,
            problem,
        }
    }

    #[test]
    fn without_a_name_the_one_that_goes_on_is_meant() {
        let (scrub, moves) = (
            run("a-1", RunKind::Scrub, RunState::Running),
            run("a-2", RunKind::Rebalance, RunState::Running),
        );
        let others = [
            run("a-3", RunKind::Rebalance, RunState::Done),
            run("a-4", RunKind::Scrub, RunState::Done),
        ];
        let of = |first: &[&Run]| {
            only_one(first.iter().copied().chain(&others).cloned().collect())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&[&scrub]), Ok("a-1".to_owned()));
        assert_eq!(of(&[&moves]), Ok("a-2".to_owned()));
        assert!(of(&[]).unwrap_err().starts_with("nothing goes on"));
        assert!(of(&[&scrub, &moves]).unwrap_err().contains("say which, 'a-1' or 'a-2' ("));
        let third = run("a-5", RunKind::Check, RunState::Running);
        let several = of(&[&scrub, &moves, &third]).unwrap_err();
        assert!(several.contains("say which, 'a-1', 'a-2' or 'a-5' ("), "{several}");
    }

    #[test]
    fn one_that_was_cancelled_says_how_far_it_had_come() {
        let cancelled = run("a-1", RunKind::Scrub, RunState::Cancelled);
        assert_eq!(how_far(&cancelled), "the scrub was cancelled before it had read any data");
        let job = Job {
            kind: JobKind::Scrub,
            subject: "array".into(),
            done_bytes: 1 << 20,
            total_bytes: 4 << 20,
            rate_bytes: 0,
            member: None,
        };
        let cancelled = Run { jobs: vec![job], ..cancelled };
        assert_eq!(how_far(&cancelled), "the scrub was cancelled after 1 MiB of 4 MiB");
        assert!(list(&[cancelled]).contains("25 %"));
    }

    #[test]
    fn a_move_says_which_volume_it_was_of_and_where_that_goes() {
        let (volume, to) = (Some("vm".to_owned()), Some("right".to_owned()));
        let cancelled = Run { volume, to, ..run("a-1", RunKind::Move, RunState::Cancelled) };
        let none = "the move of 'vm' was cancelled before any data of it was sent, and it stays where it was";
        assert_eq!(how_far(&cancelled), none, "nothing of it was counted");
        let job = Job {
            kind: JobKind::Move,
            subject: "vm".into(),
            done_bytes: 0,
            total_bytes: 4 << 20,
            rate_bytes: 0,
            member: None,
        };
        let begun = Run { jobs: vec![job.clone()], ..cancelled.clone() };
        assert_eq!(how_far(&begun), none, "it was, and none was sent");
        let half = Run { jobs: vec![Job { done_bytes: 2 << 20, ..job }], ..cancelled };
        assert_eq!(how_far(&half), "the move of 'vm' was cancelled after 2 MiB of 4 MiB");
        let text = list(&[half, run("a-2", RunKind::Scrub, RunState::Done)]);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..5], ["RUN", "WORK", "VOLUME", "TO", "STATE"]);
        assert_eq!(lines[1][..5], ["a-1", "move", "vm", "right", "cancelled"]);
        assert_eq!(lines[2][..5], ["a-2", "scrub", "-", "-", "done"]);
    }
}
