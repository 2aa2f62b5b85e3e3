//! That nothing that was recorded is lost while there is room, that torn lines are told apart, and that nothing
//! grows without bound.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::files::Files;
use super::fold::Folds;
use super::{
    FILE_BYTES_MAX, FILE_LINES_MAX, Fold, Heard, KEPT_MAX, Log, PartPlace, Record, Recorded, line,
};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    text: String,
    key: Option<String>,
}

impl Recorded for Note {
    const FOLDS_MAX: usize = 3;

    const PARTS: &'static [&'static str] = &["notes", "rare"];

    const YOUNG_SECONDS: u64 = 3600;

    fn part(&self) -> usize {
        usize::from(self.text.starts_with("rare"))
    }

    fn fold(&self) -> Fold {
        self.key.clone().map_or(Fold::Never, Fold::By)
    }

    fn others(&self) -> Option<Self> {
        (self.text != "always").then(|| note("others", "others"))
    }
}

fn note(text: &str, key: &str) -> Note {
    Note { text: text.to_owned(), key: (!key.is_empty()).then(|| key.to_owned()) }
}

fn open(dir: &Path) -> Log<Note> {
    Log::start("notes", dir, Box::new(|_| {})).expect("a thread")
}

fn texts(log: &Log<Note>) -> Vec<(u64, String)> {
    texts_after(log, 0)
}

fn texts_after(log: &Log<Note>, number: u64) -> Vec<(u64, String)> {
    log.after(number).iter().map(|record| (record.number, record.what.text.clone())).collect()
}

fn files(dir: &Path) -> [PathBuf; 2] {
    ["notes.0", "notes.1"].map(|name| dir.join(name))
}

#[test]
fn what_was_recorded_is_there_after_a_restart_and_numbers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let log = open(dir.path());
        let wanted: Vec<(u64, String)> =
            (1..=2 * round).map(|n| (n, format!("note {n}"))).collect();
        assert_eq!(texts(&log), wanted);
        for n in [2 * round + 1, 2 * round + 2] {
            assert!(log.record(note(&format!("note {n}"), ""), 1));
        }
        assert_eq!(log.last_number(), 2 * round + 2);
        log.end();
    }
}

#[test]
fn a_line_that_a_crash_has_torn_is_dropped_wherever_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    log.record(note("whole", ""), 1);
    log.record(note("torn", ""), 1);
    log.end();
    let [file, _] = files(dir.path());
    let bytes = fs::read(&file).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in first..bytes.len() {
        fs::write(&file, &bytes[..cut]).unwrap();
        let log = open(dir.path());
        assert_eq!(texts(&log), [(1, "whole".to_owned())], "cut at {cut}");
        log.record(note("after", ""), 1);
        log.end();
        let log = open(dir.path());
        assert_eq!(texts(&log), [(1, "whole".to_owned()), (2, "after".to_owned())], "cut at {cut}");
        log.end();
    }
}

#[test]
fn a_line_that_has_rotted_takes_none_of_the_others_along() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    for n in 1..=3 {
        log.record(note(&format!("note {n}"), ""), 1);
    }
    log.end();
    let [file, _] = files(dir.path());
    let text = fs::read_to_string(&file).unwrap().replace("note 2", "nope 2");
    fs::write(&file, text + "no line of ours\n").unwrap();
    let log = open(dir.path());
    let numbers: Vec<u64> = log.after(0).iter().map(|record| record.number).collect();
    assert_eq!(numbers, [1, 3]);
    log.record(note("note 4", ""), 1);
    log.end();
    let log = open(dir.path());
    let numbers: Vec<u64> = log.after(0).iter().map(|record| record.number).collect();
    assert_eq!(numbers, [1, 3, 4]);
    log.end();
}

#[test]
fn a_number_that_no_member_counts_to_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let lines = [(1, "one"), (u64::MAX, "forged"), (u64::MAX - 1, "forged too")];
    let lines = lines.map(|(number, text)| {
        line::encode(&Record { number, unix_seconds: 1, count: 1, what: note(text, "") })
    });
    fs::write(&files(dir.path())[0], lines.concat()).unwrap();
    let log = open(dir.path());
    log.record(note("two", ""), 1);
    assert_eq!(texts(&log), [(1, "one".to_owned()), (2, "two".to_owned())]);
    log.end();
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let [file, _] = files(dir.path());
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, mode).unwrap();
    let (opened, is_open) = channel();
    let at = dir.path().to_owned();
    std::thread::spawn(move || {
        let log = open(&at);
        log.record(note("x", ""), 1);
        log.end();
        opened.send(texts(&log)).unwrap();
    });
    let found = is_open.recv_timeout(PATIENCE / 3).expect("it does not hang");
    assert_eq!(found, [(1, "x".to_owned())], "it is kept in memory");
}

#[test]
fn two_files_take_turns_and_neither_memory_nor_disk_grows() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = Files::new(dir.path(), "notes");
    drop(all.read::<Note>());
    let line = |number: u64, text: &str| {
        let what = note(text, "");
        line::encode(&Record { number, unix_seconds: 1, count: 1, what })
    };
    let count = 3 * FILE_LINES_MAX as u64 + 10;
    let lines: Vec<Vec<u8>> = (1..=count).map(|number| line(number, "x")).collect();
    for some in lines.chunks(1000) {
        all.append(some).unwrap();
    }
    let (kept, _) = Files::new(dir.path(), "notes").read::<Note>();
    assert_eq!(kept.last().map(|record| record.number), Some(count));
    assert!((FILE_LINES_MAX..=2 * FILE_LINES_MAX).contains(&kept.len()), "{}", kept.len());
    assert!(kept.is_sorted_by_key(|record| record.number));
    // Long ones count by their bytes.
    let long = "y".repeat(100_000);
    for number in 0..200 {
        all.append(&[line(count + 1 + number, &long)]).unwrap();
    }
    let sizes = files(dir.path()).map(|file| fs::metadata(file).unwrap().len());
    assert!(sizes.iter().all(|size| *size <= FILE_BYTES_MAX), "{sizes:?}");

    let log = open(dir.path());
    for _ in 0..KEPT_MAX + 5 {
        log.record(note("x", ""), 1);
    }
    assert_eq!(log.after(0).len(), KEPT_MAX);
    log.end();
}

#[test]
fn many_records_of_one_part_push_out_none_of_another_and_all_are_read_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    log.record(note("rare 1", ""), 1);
    for _ in 0..2 * KEPT_MAX {
        log.record(note("x", ""), 1);
    }
    log.record(note("rare 2", ""), 1);
    log.record(note("x", ""), 1);
    let check = |log: &Log<Note>| {
        let all = texts(log);
        assert!(all.is_sorted_by_key(|(number, _)| *number));
        let count = 2 * KEPT_MAX as u64;
        assert_eq!(all[0], (1, "rare 1".to_owned()));
        assert_eq!(
            all[all.len() - 2..],
            [(count + 2, "rare 2".to_owned()), (count + 3, "x".to_owned())]
        );
        assert_eq!(texts_after(log, count + 1), all[all.len() - 2..]);
        assert_eq!((log.last_number(), all.len() > FILE_LINES_MAX), (count + 3, true));
    };
    check(&log);
    log.end();
    let log = open(dir.path());
    check(&log);
    log.end();
}

#[test]
fn what_lies_in_the_files_of_another_part_is_found_and_moved_to_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let texts_of_old = ["x", "rare 1", "x", "rare 2"];
    let lines = (1..).zip(texts_of_old).map(|(number, text)| {
        line::encode(&Record { number, unix_seconds: 1, count: 1, what: note(text, "") })
    });
    fs::write(&files(dir.path())[0], lines.collect::<Vec<_>>().concat()).unwrap();
    let log = open(dir.path());
    let found: Vec<String> = texts(&log).into_iter().map(|(_, text)| text).collect();
    assert_eq!(found, texts_of_old);
    // Now the others fill their files twice over.
    for _ in 0..3 * FILE_LINES_MAX {
        log.record(note("x", ""), 1);
    }
    log.end();
    let log = open(dir.path());
    let all = texts(&log);
    assert_eq!(all[..2], [(2, "rare 1".to_owned()), (4, "rare 2".to_owned())]);
    assert_eq!(all.len() - 2, all.iter().filter(|(_, text)| text == "x").count());
    assert_eq!(log.last_number(), 4 + 3 * FILE_LINES_MAX as u64);
    log.end();
}

#[test]
fn a_part_that_cannot_be_written_keeps_no_other_from_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(&files(dir.path())[0]).unwrap();
    let (log, told) = hears(dir.path());
    log.record(note("x", ""), 1);
    assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
    log.record(note("rare", ""), 1);
    log.end();
    assert!(told.try_recv().is_err(), "the other one is written, and this one is not");
    let log = open(dir.path());
    assert_eq!(texts(&log), [(2, "rare".to_owned())]);
    log.end();
}

/// Waits for what is told of the disk.
fn hears(dir: &Path) -> (Log<Note>, Receiver<bool>) {
    let (tell, told) = channel();
    let hears = Box::new(move |heard: Heard<'_>| match heard {
        Heard::NotWritten(_) => tell.send(false).unwrap_or(()),
        Heard::Written => tell.send(true).unwrap_or(()),
        Heard::PushedOut { .. } => {}
    });
    (Log::start("notes", dir, hears).expect("a thread"), told)
}

#[test]
fn where_nothing_can_be_written_memory_keeps_it_and_it_is_written_later() {
    let dir = tempfile::tempdir().unwrap();
    let [file, _] = files(dir.path());
    // A directory stands where the file should be.
    fs::create_dir(&file).unwrap();
    let (log, told) = hears(dir.path());
    let begun = Instant::now();
    for n in 0..10_000 {
        log.record(note(&n.to_string(), ""), 1);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "it waits for no disk");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
    assert_eq!(log.after(0).len(), KEPT_MAX);
    let fault = log.fault().expect("it is told");
    assert!(fault.starts_with("the notes cannot be written to the data directory"), "{fault}");
    fs::remove_dir(&file).unwrap();
    log.record(note("last", ""), 1);
    assert_eq!(told.recv_timeout(PATIENCE), Ok(true), "it is tried again");
    assert!(told.try_recv().is_err(), "each is said once");
    assert_eq!(log.fault(), None);
    log.end();
    let log = open(dir.path());
    assert_eq!(texts(&log).last(), Some(&(10_001, "last".to_owned())));
    log.end();
}

#[test]
fn young_records_that_are_pushed_out_are_told_of_once_a_day_and_old_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    // As many as a file holds, of long ago.
    let old = (1..=FILE_LINES_MAX as u64).map(|number| {
        line::encode(&Record { number, unix_seconds: 1, count: 1, what: note("old", "") })
    });
    fs::write(&files(dir.path())[0], old.collect::<Vec<_>>().concat()).unwrap();
    let (tell, told) = channel();
    let hears = Box::new(move |heard: Heard<'_>| {
        if let Heard::PushedOut { part, age_seconds } = heard {
            tell.send((part, age_seconds < 60)).unwrap_or(());
        }
    });
    let log: Log<Note> = Log::start("notes", dir.path(), hears).unwrap();
    let record = |count: usize| {
        for _ in 0..count / 1024 {
            (0..1024).for_each(|_| _ = log.record(note("new", ""), 1));
            // So that memory never gives up what is not written.
            let last = log.last_number();
            let end = Instant::now() + PATIENCE;
            while log.written() < last {
                assert!(Instant::now() < end, "it is written");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    record(FILE_LINES_MAX + 1024);
    assert!(told.try_recv().is_err(), "what went is old");
    record(4 * FILE_LINES_MAX);
    log.end();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(0, true)]);
}

#[test]
fn repeats_are_counted_and_told_once_a_minute() {
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    let mut folds = Folds::new();
    let rot = || note("rot", "rot");
    let told = (0..30_000).filter_map(|n| folds.take(rot(), 1, at(n / 1000))).count();
    assert_eq!(told, 1);
    assert_eq!(folds.take(note("other", "other"), 1, at(30)), Some(note("other", "other")));
    assert_eq!(folds.due(at(59), false), []);
    assert_eq!(folds.due(at(60), false), [(rot(), 29_999)]);
    assert_eq!(folds.take(rot(), 5, at(61)), None);
    assert_eq!(folds.next(), Some(at(90)));
    assert_eq!(folds.due(at(120), false), [(rot(), 5)]);
    assert_eq!(folds.due(at(180), false), [], "it is over");
    assert_eq!(folds.take(rot(), 1, at(181)), Some(rot()));
    assert_eq!(folds.take(rot(), 1, at(182)), None);
    assert_eq!(folds.due(at(183), true), [(rot(), 1)], "at the end nothing is held back");
}

#[test]
fn more_kinds_of_repeats_than_are_told_apart_are_one() {
    let now = Instant::now();
    let mut folds = Folds::new();
    let each = |n: u64| note("each", &n.to_string());
    let told = (0..10_000).filter_map(|n| folds.take(each(n), 1, now)).count();
    assert_eq!(told, Note::FOLDS_MAX);
    assert_eq!(folds.take(note("always", "a"), 1, now), Some(note("always", "a")));
    assert_eq!(folds.due(now, true), [(note("others", "others"), 10_000 - 3)]);
}

#[test]
fn a_part_is_given_on_by_itself_and_what_it_pushed_out_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let start = PartPlace::of(0);
    log.record(note("first", ""), 1);
    let next = log.next_of(0, start, 9);
    assert_eq!((next.records.len(), next.missing, next.is_all), (1, 0, true));
    let at = next.place;
    let more = 100;
    for n in 0..KEPT_MAX + more {
        log.record(note(&n.to_string(), ""), 1);
        log.record(note("rare", "rare"), 1);
    }
    // The one of the other part is neither missing nor among them.
    let next = log.next_of(0, at, 9);
    assert_eq!((next.records.len(), next.missing, next.is_all), (9, more as u64, false));
    assert_eq!(log.behind(0, at), (KEPT_MAX + more) as u64);
    assert_eq!(next.records[0].number, next.missing_to + 1);
    let rest = log.next_of(0, next.place, usize::MAX);
    assert_eq!((rest.records.len(), rest.missing), (KEPT_MAX - 9, 0));
    assert_eq!((rest.place.number, log.behind(0, rest.place)), (log.last_number(), 0));
    // Of a place of an earlier start the numbers tell.
    let again = log.next_of(0, PartPlace::of(at.number), 9);
    assert_eq!((again.missing, again.missing_to), (more as u64, next.missing_to));
    let rare = log.next_of(1, start, 9);
    assert_eq!((rare.records.len(), rare.missing), (1, 0), "what is gone was of the other");
    log.end();
}
