//! A disk is replaced, added or retired while hosts work, and the member is killed before that is over, also several times
//! and while it starts: the work goes on, or was never begun; the data directory names the disks that the array has; and
//! nothing is lost.

use crate::array::{self, Crash, DISKS, SETTLE_TIME, Volume};
use crate::common::member::{Home, Member, text};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Set to run another number of rounds.
const ROUNDS: &str = "DRYSTONE_DISK_ROUNDS";
const ROUNDS_DEFAULT: usize = 2;
/// When the member is asked for the work.
const ASKED_MS: Range<u64> = 0..200;
/// How long it lives: from the beginning of the load, or of its answer, and after the crashes that follow.
const LIFE_MS: Range<u64> = 0..700;
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long one lives that is killed while it starts.
const START_MS: Range<u64> = 0..800;
/// Crashes of one piece of work, at most.
const CRASHES_MAX: usize = 4;

/// What an operator asks for.
struct Work {
    words: Vec<String>,
    comes: Option<String>,
    goes: Option<String>,
    /// The member has answered, or it was seen that the work has begun.
    has_begun: bool,
    /// It was cut off, before it was answered, between the new disk and the order to the old one to leave: both stay.
    has_only_come: bool,
}

/// Disks by their names, and how they are.
type Disks = BTreeMap<String, String>;

fn disks(member: &Member<'_>) -> Disks {
    let listed = member.json(&["disk", "list"]);
    let word = |disk: &serde_json::Value, key: &str| disk[key].as_str().expect("a word").to_owned();
    let all = listed.as_array().expect("a list").iter();
    all.map(|disk| (word(disk, "name"), word(disk, "state"))).collect()
}

/// The disks that the next start looks for.
fn remembered(home: &Home) -> BTreeSet<String> {
    let list = fs::read_to_string(home.path("data/disks")).expect("it is there");
    list.lines().filter_map(|line| line.strip_prefix("file:")).map(str::to_owned).collect()
}

impl Work {
    /// Something to do with the oldest disk, or with a new one.
    fn choose(home: &Home, before: &Disks, number: usize) -> Work {
        let oldest = before.keys().min_by_key(|name| (name.len(), *name)).expect("a disk").clone();
        let new = format!("disk-{}", DISKS + number);
        let (path, new) = (text(&home.path(&new)), Crash::Process.disk(home, &new));
        let is_more = before.len() > DISKS;
        let (words, comes, goes): (Vec<&str>, _, _) = match (fastrand::bool(), is_more) {
            (true, _) => {
                (vec!["disk", "replace", &oldest, &new, "--no-wait"], Some(path), Some(&oldest))
            }
            (false, false) => (vec!["disk", "add", &new], Some(path), None),
            (false, true) => {
                (vec!["disk", "retire", &oldest, "--yes", "--no-wait"], None, Some(&oldest))
            }
        };
        let words = words.into_iter().map(str::to_owned).collect();
        Work { words, comes, goes: goes.cloned(), has_begun: false, has_only_come: false }
    }

    /// The disks of the array when it is done.
    fn after(&self, before: &Disks) -> BTreeSet<String> {
        let stay = before.keys().filter(|name| Some(*name) != self.goes.as_ref());
        stay.chain(&self.comes).cloned().collect()
    }

    /// Judges the disks after a crash: those of before and none other, with the work not begun, or under way, or done.
    /// Says whether it is under way.
    fn judge(
        &mut self,
        before: &Disks,
        found: &Disks,
        noted: &BTreeSet<String>,
    ) -> Result<bool, String> {
        let fault = |what: &str| {
            Err(format!(
                "{what}: {:?}; before {before:?}, found {found:?}, noted {noted:?}",
                self.words
            ))
        };
        let after = self.after(before);
        if let Some(gone) =
            after.iter().find(|name| before.contains_key(*name) && !found.contains_key(*name))
        {
            return fault(&format!("{gone} is gone"));
        }
        if found.keys().any(|name| !before.contains_key(name) && !after.contains(name)) {
            return fault("there is another disk");
        }
        let has_come = self.comes.as_ref().is_none_or(|name| found.contains_key(name));
        let leaves = self.goes.as_ref().and_then(|name| found.get(name));
        let is_leaving = leaves.is_none_or(|state| state == "retiring");
        let is_replaced = self.comes.is_some() && self.goes.is_some();
        if is_replaced && is_leaving && !has_come {
            return fault("a disk leaves that no other has replaced");
        }
        let others = found.iter().filter(|(name, _)| Some(*name) != self.goes.as_ref());
        // Who has not got the newest label when the crash comes gets what it may lack.
        let is_in_use = |state: &str| ["online", "resyncing"].contains(&state);
        if let Some((name, state)) = others.into_iter().find(|(_, state)| !is_in_use(state)) {
            return fault(&format!("{name} is {state}"));
        }
        let has_begun = has_come && is_leaving;
        let has_only_come = is_replaced && has_come && !is_leaving;
        if self.has_begun && !has_begun || self.has_only_come && !has_only_come {
            return fault("it was begun, and is not");
        }
        if !found.keys().all(|name| noted.contains(name)) {
            return fault("the data directory does not name all disks of the array");
        }
        let is_known = |name: &String| after.contains(name) || before.contains_key(name);
        if !noted.iter().all(is_known) {
            return fault("the data directory names a disk of nobody");
        }
        (self.has_begun, self.has_only_come) = (has_begun, has_only_come);
        Ok(has_begun && leaves.is_some())
    }
}

/// What came of one piece of work.
#[derive(Debug, Default)]
struct Counts {
    crashes: usize,
    /// Crashes after which it was under way.
    under_way: usize,
    begun: usize,
    has_only_come: usize,
    done: BTreeMap<String, usize>,
}

/// Asks for something and kills the member until it is over, or often enough.
fn cut(home: &Home, volumes: &mut [Volume], number: usize, counts: &mut Counts) {
    let member = home.start(&[]);
    let before = disks(&member);
    assert!(before.values().all(|state| state == "online"), "{before:?}");
    let mut work = Work::choose(home, &before, number);
    let words: Vec<&str> = work.words.iter().map(String::as_str).collect();
    let is_answered = AtomicBool::new(false);
    let is_awaited = fastrand::u8(..3) > 0;
    let life = || {
        let end = Instant::now() + ANSWER_TIME;
        while is_awaited && !is_answered.load(Ordering::Relaxed) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        array::sleep(LIFE_MS);
    };
    array::load(member, volumes, life, |home| {
        array::sleep(ASKED_MS);
        let (code, _, said) = home.ask(&words);
        is_answered.store(code == 0, Ordering::Relaxed);
        // The crash came before it was heard, or before it was answered.
        assert!(code == 0 || !said.contains("disk-"), "{words:?}: {said}");
    });
    work.has_begun = is_answered.into_inner();
    let most = fastrand::usize(1..=CRASHES_MAX);
    for crash in 1..=most {
        counts.crashes += 1;
        if fastrand::bool() {
            counts.crashes += 1;
            home.start_and_kill(&[], Duration::from_millis(fastrand::u64(START_MS)));
        }
        let member = home.start(&[]);
        // A disk may have to be given first what it missed, or leave between two questions.
        let end = Instant::now() + SETTLE_TIME;
        let is_under_way = loop {
            match work.judge(&before, &disks(&member), &remembered(home)) {
                Ok(is_under_way) => break is_under_way,
                Err(fault) => {
                    assert!(Instant::now() < end, "{fault}\n{}", member.log());
                    thread::sleep(Duration::from_millis(100));
                }
            }
        };
        if let Err(what) = array::verify(&member, volumes) {
            panic!("after {crash} crashes of {:?}: {what}", work.words);
        }
        counts.under_way += usize::from(is_under_way);
        if crash == most || !is_under_way {
            settle(&member, &work, &before);
            break;
        }
        array::load(member, volumes, || array::sleep(LIFE_MS), |_| {});
    }
    counts.begun += usize::from(work.has_begun);
    counts.has_only_come += usize::from(work.has_only_come);
    *counts.done.entry(work.words[1].clone()).or_default() += 1;
}

/// The work ends, or was not begun; then the data directory names the disks of the array and no others.
fn settle(member: &Member<'_>, work: &Work, before: &Disks) {
    let came = work.comes.iter().filter(|_| work.has_only_come);
    let wanted = match work.has_begun {
        true => work.after(before),
        false => before.keys().chain(came).cloned().collect(),
    };
    let end = Instant::now() + SETTLE_TIME;
    loop {
        let (found, noted) = (disks(member), remembered(member.home));
        let is_online = found.values().all(|state| state == "online");
        if is_online && found.keys().eq(&wanted) && noted == wanted {
            break;
        }
        let all = format!("{found:?}, noted {noted:?}, and not {wanted:?}");
        assert!(Instant::now() < end, "{:?} does not end: {all}", work.words);
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(member.json(&["array", "check"])["problems"], json!([]), "{:?}", work.words);
}

#[test]
fn disks_that_come_and_go_are_where_they_were_or_on_their_way_after_kill_9() {
    let rounds = std::env::var(ROUNDS).map_or(ROUNDS_DEFAULT, |text| text.parse().expect(ROUNDS));
    let mut home = Crash::Process.home();
    let mut volumes = Crash::Process.volumes();
    let member = home.start(&[]);
    array::create(&member, &volumes);
    // Slow enough for crashes to come before the end.
    member.run(&["array", "set", "--rebuild-share", "1"]);
    member.stop();
    // From now on it looks for those that it remembers.
    home.forget();
    let mut counts = Counts::default();
    for round in 0..rounds {
        cut(&home, &mut volumes, round, &mut counts);
    }
    println!("{rounds} times disks were changed: {counts:?}");
}
