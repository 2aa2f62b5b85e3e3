//! What is due, and what the steps make of a schedule.

use super::*;

/// 2026-11-27 00:00:00 UTC.
const MIDNIGHT: u64 = 1_795_737_600;
const HOUR: u64 = 3600;

fn plan(timing: Timing) -> Plan {
    let volumes = vec![ScheduledVolume { id: 1, name: "a".into() }];
    Plan { volumes, timing, keep: 3, paused: false }
}

fn hourly(now: u64) -> Schedule {
    Schedule::new(plan(Timing::Every { seconds: HOUR }), now)
}

fn begun(planned: u64) -> Begun {
    Begun { planned_unix_seconds: planned, name: "n".into(), volumes: vec![1] }
}

fn run(planned: u64, snapshot: u32) -> Run {
    Run { planned_unix_seconds: planned, snapshots: vec![Own { volume: 1, snapshot }] }
}

#[test]
fn a_moment_is_run_once_and_not_before_the_schedule_was_made() {
    let mut hourly = hourly(MIDNIGHT + 10);
    assert_eq!(hourly.due(MIDNIGHT + 20), Due::At(MIDNIGHT + HOUR), "it was made after midnight");
    let planned = MIDNIGHT + HOUR;
    assert_eq!(hourly.due(planned + 5), Due::Run { planned, missed: 0 });
    hourly.step(Step::Begin(begun(planned)));
    assert_eq!(hourly.due(planned + 6), Due::At(planned + HOUR), "also if the process ends now");
    hourly.step(Step::End { run: run(planned, 7), in_part: false });
    assert_eq!(hourly.begun(), None);
    assert_eq!(hourly.last().map(|last| last.outcome), Some(Outcome::Taken));
    assert_eq!(hourly.own(1).collect::<Vec<_>>(), [Own { volume: 1, snapshot: 7 }]);
    assert_eq!(hourly.own(2).count(), 0);
    hourly.step(Step::Forget(vec![Own { volume: 1, snapshot: 7 }]));
    assert_eq!(hourly.own_count(), 0);
}

#[test]
fn what_has_passed_is_missed_once_and_a_late_run_is_no_burst() {
    let mut hourly = hourly(MIDNIGHT);
    let planned = MIDNIGHT + 5 * HOUR;
    let late = planned + EVERY_SECONDS_MIN;
    assert_eq!(hourly.due(late - 1), Due::Run { planned, missed: 4 });
    assert_eq!(hourly.due(late), Due::Missed { planned, missed: 5 });
    hourly.step(Step::Miss { planned });
    assert_eq!(hourly.due(late), Due::At(planned + HOUR));
    assert_eq!(hourly.last().map(|last| last.outcome), Some(Outcome::Missed));
}

#[test]
fn a_clock_that_is_set_back_repeats_nothing_and_one_that_was_wrong_does_not_stop_a_schedule() {
    let mut hourly = hourly(MIDNIGHT);
    let planned = MIDNIGHT + 5 * HOUR;
    hourly.step(Step::Begin(begun(planned)));
    hourly.step(Step::End { run: run(planned, 7), in_part: false });
    let next = Due::At(planned + HOUR);
    for back in [1, HOUR, 5 * HOUR] {
        assert_eq!(hourly.due(planned - back), next, "{back} seconds back");
    }
    let before = planned - 10 * 24 * HOUR;
    assert_eq!(hourly.due(before), Due::SetBack { from: planned });
    hourly.step(Step::SetBack { now: before });
    assert_eq!(hourly.due(before), Due::At(before + HOUR));
    assert_eq!(hourly.due(planned), next, "what is there is not taken again");
}

#[test]
fn a_pause_is_not_missed_and_neither_is_what_another_rule_would_have_done() {
    let mut hourly = hourly(MIDNIGHT);
    let set = |paused| PlanChange { paused: Some(paused), ..PlanChange::default() };
    hourly.change(set(true), MIDNIGHT).unwrap();
    assert_eq!(hourly.due(MIDNIGHT + 9 * HOUR), Due::Never);
    let now = MIDNIGHT + 9 * HOUR + 100;
    hourly.change(set(false), now).unwrap();
    assert_eq!(hourly.due(now), Due::At(MIDNIGHT + 10 * HOUR));
    let timing = Some(Timing::Every { seconds: 60 });
    let later = now + 30 * 60;
    hourly.change(PlanChange { timing, ..PlanChange::default() }, later).unwrap();
    assert_eq!(hourly.due(later), Due::At(later - later % 60 + 60));
    let none = PlanChange { keep: Some(0), ..PlanChange::default() };
    assert_eq!(hourly.change(none, later), Err(ScheduleError::Keep(0)));
    assert_eq!(hourly.plan.keep, 3);
}

#[test]
fn what_a_crash_leaves_is_known_for_what_it_is() {
    let planned = MIDNIGHT + HOUR;
    let mut adopted = hourly(MIDNIGHT);
    adopted.step(Step::Begin(begun(planned)));
    let mut abandoned = adopted.clone();
    adopted.step(Step::Adopt(run(planned, 7)));
    assert_eq!((adopted.own_count(), adopted.begun()), (1, None));
    abandoned.step(Step::Abandon);
    assert_eq!((abandoned.own_count(), abandoned.begun()), (0, None));
    assert_eq!(abandoned.last().map(|last| last.outcome), Some(Outcome::Failed));
    for schedule in [adopted, abandoned] {
        assert_eq!(schedule.due(planned + 1), Due::At(planned + HOUR));
        assert_eq!(Schedule::decode(&schedule.encode()).unwrap(), schedule);
    }
}

#[test]
fn names_are_those_of_snapshots_and_of_paths() {
    for good in ["a", "nightly", "db.log_2", &"x".repeat(40)] {
        assert_eq!(check_name(good), Ok(()), "{good}");
    }
    for wrong in ["", ".", "..", "-a", "a b", "a/b", "ä", &"x".repeat(41)] {
        assert!(check_name(wrong).is_err(), "{wrong}");
    }
    let name =
        |taken: &[&str]| snapshot_name("nightly", MIDNIGHT + 3 * HOUR + 61, |n| taken.contains(&n));
    assert_eq!(name(&[]), "nightly-20261127-030101");
    assert_eq!(name(&["nightly-20261127-030101"]), "nightly-20261127-030101-2");
    for of_run in [name(&[]), name(&["nightly-20261127-030101"]), "a-b-20261127-030101".into()] {
        assert!(is_name_of_run(&of_run), "{of_run}");
    }
    for other in ["nightly", "20261127-030101", "at-1795743000", "a-20261127", "a-2026112x-030101"]
    {
        assert!(!is_name_of_run(other), "{other}");
    }
}

#[test]
fn a_schedule_waits_by_the_clock_that_it_runs_by() {
    let mut daily = Schedule::new(plan(Timing::Every { seconds: 24 * HOUR }), MIDNIGHT);
    assert!(!daily.waits(MIDNIGHT) && !daily.waits(MIDNIGHT + 23 * HOUR));
    // It ran while the clock was ahead of midnight by three hours less than a day.
    let planned = MIDNIGHT + 24 * HOUR;
    daily.step(Step::Begin(begun(planned)));
    daily.step(Step::End { run: run(planned, 7), in_part: false });
    assert!(daily.waits(MIDNIGHT + 3 * HOUR) && !daily.waits(planned));
    daily.plan.paused = true;
    assert!(!daily.waits(MIDNIGHT + 3 * HOUR));
}
