//! What happens by itself: what changes about the array becomes events, volumes whose disks are lost are not
//! served until they are back, hosts are warned when space runs short, scrubs begin when they are
//! due.

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use array::api::{ArrayInfo, DiskState, JobKind, VolumeState};

use super::Member;
use super::jobs::tell_of_scrub;
use crate::events::{Event, Kind};

/// How often the array is looked at. One that is asked answers from memory.
const PAUSE: Duration = Duration::from_secs(1);

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// At most so long after it has logged something, the array notes it.
const NOTED_AFTER_SECONDS: u64 = 2;

/// Between two tries to read settings that could not be read: until then nobody is let in.
const SETTINGS_PAUSE: Duration = Duration::from_secs(10);

/// Between two looks whether the key of secrets is where the next start needs it.
const KEY_PAUSE: Duration = Duration::from_secs(10);

/// Between two looks at slices that are not served although they are there, or go.
const SLICES_PAUSE: Duration = Duration::from_secs(5);

/// Between two looks for volumes whose move to here has ended without a word.
const ARRIVALS_PAUSE: Duration = Duration::from_secs(60);

/// Before a scrub that is due but could not end is begun again.
const SCRUB_PAUSE: Duration = Duration::from_secs(60 * 60);

/// Looks for as long as the core runs.
pub(crate) async fn run(member: Rc<Member>) {
    let mut next_note = 0;
    member.tell_changes();
    let mut states = states_of(&member);
    // Those that were noted when the array was opened: some may have left since.
    let mut disks = None;
    let mut levels_before = 0;
    let began = Instant::now();
    let mut scrub_from = began;
    let mut settings_from = Instant::now();
    let mut key_from = Instant::now();
    let mut arrivals_from = Instant::now();
    let mut slices_from = Instant::now();
    loop {
        next_note = tell_notes(&member, next_note);
        ring::sleep(PAUSE).await;
        if member.is_stopping() {
            // What is seen from now on is the end.
            return;
        }
        let info = member.tell_changes();
        let now = states_of(&member);
        let is_to_try = member.is_to_recover() && settings_from.elapsed() >= SETTINGS_PAUSE;
        if now != states || member.is_unsettled() || is_to_try {
            settings_from = Instant::now();
            states = now;
            member.settle().await;
        }
        if key_from.elapsed() >= KEY_PAUSE {
            key_from = Instant::now();
            let member = member.clone();
            // Its file system may not answer.
            ring::spawn(async move { member.look_at_key().await });
        }
        if arrivals_from.elapsed() >= ARRIVALS_PAUSE {
            arrivals_from = Instant::now();
            let member = member.clone();
            // What waits for its disks keeps nothing else waiting.
            ring::spawn(async move { member.discard_idle_arrivals().await });
        }
        if slices_from.elapsed() >= SLICES_PAUSE && member.are_slices_unsettled() {
            slices_from = Instant::now();
            let member = member.clone();
            // One whose disks hang keeps nothing else waiting.
            ring::spawn(async move { member.find_slices().await });
        }
        let spread = member.serving().spread();
        // Both are asked, as each is told once.
        if spread.takes_old() | spread.takes_asking() {
            let member = member.clone();
            ring::spawn(async move { member.settle().await });
        }
        let now = Some(names_of(&member));
        if now != disks && member.forget_what_left() {
            disks = now;
        }
        let levels = levels_reached(&info);
        if levels > levels_before {
            member.serving().targets().warn_of_space();
        }
        levels_before = levels;
        let now = SystemTime::now();
        let is_running = member.array().jobs().iter().any(|job| job.kind == JobKind::Scrub);
        // A clock may be set only some time after the start.
        let is_due =
            is_scrub_due(&info, now) || began.elapsed() >= SCRUB_PAUSE && lies_ahead(&info, now);
        if Instant::now() >= scrub_from && !is_running && is_due {
            scrub_from = Instant::now() + SCRUB_PAUSE;
            ring::spawn(scrub(member.clone()));
        }
    }
}

/// Records what the array has noted from this number on, unless it is there in the same words already: most
/// of it the array has logged too.
fn tell_notes(member: &Member, from: u64) -> u64 {
    let (notes, next) = member.array().events(from);
    for note in notes {
        // It is logged a moment before it is noted.
        let since = note.unix_seconds.saturating_sub(NOTED_AFTER_SECONDS);
        if !member.events().has_said(&note.text, since) {
            member.events().tell(Event::of_array(Kind::ArrayNoted, note.text));
        }
    }
    next
}

/// How many of the warning levels the space in use has reached.
fn levels_reached(info: &ArrayInfo) -> usize {
    let percent = info.used_percent();
    info.settings.warn_percents.iter().filter(|level| percent >= u64::from(**level)).count()
}

fn is_scrub_due(info: &ArrayInfo, now: SystemTime) -> bool {
    let pause_seconds = u64::from(info.settings.scrub_days) * DAY_SECONDS;
    let due = info.scrubbed_unix_seconds.saturating_add(pause_seconds);
    pause_seconds > 0 && unix_seconds(now) >= due
}

/// Whether the last scrub was at a time that is still to come, so that nobody knows when it was: the clock was wrong
/// then.
fn lies_ahead(info: &ArrayInfo, now: SystemTime) -> bool {
    let ahead_seconds = info.scrubbed_unix_seconds.saturating_sub(unix_seconds(now));
    info.settings.scrub_days > 0 && ahead_seconds > DAY_SECONDS
}

fn unix_seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

async fn scrub(member: Rc<Member>) {
    let begun = Event::of_array(Kind::ScrubBegun, "a scrub begins, as it is due");
    member.events().tell(begun);
    let verifying = member.verifies();
    let scrubbed = member.array().scrub().await;
    drop(verifying);
    if member.is_stopping() {
        tracing::info!(
            "the scrub did not end, as the member stops: it begins again after the start"
        );
        return;
    }
    tell_of_scrub(member.events(), "scrub", scrubbed.as_ref());
}

/// The disks, and whether each may come back.
fn names_of(member: &Member) -> Vec<(String, bool)> {
    let disks = member.array().disks().into_iter();
    disks.map(|disk| (disk.name, disk.state == DiskState::Missing)).collect()
}

fn states_of(member: &Member) -> Vec<(u32, VolumeState)> {
    member.array().volumes().into_iter().map(|volume| (volume.id, volume.state)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::remembered::Of;
    use crate::spec::disk::MemberDisk;
    use crate::testing::Rig;
    use array::api::Settings;

    fn info(used_bytes: u64, settings: &Settings) -> ArrayInfo {
        let json = serde_json::json!({
            "id": "", "raid": "raid5", "size_bytes": 1000, "used_bytes": used_bytes,
            "free_bytes": 0, "spare_bytes": 0, "chunk_bytes": 1, "disks": 3, "disks_online": 3,
            "journal_bytes": 0, "journal_used_bytes": 0, "checkpoint": 1, "generation": 1,
            "scrubbed_unix_seconds": 100, "warnings": [],
            "rebuild_share_percent": 50, "scrub_days": settings.scrub_days,
            "warn_percents": settings.warn_percents,
        });
        serde_json::from_value(json).unwrap()
    }

    /// A disk may leave between the opening of the array, when its disks are noted, and the first look.
    #[test]
    fn a_disk_that_has_left_before_the_first_look_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        let gone = format!("file:{}", dir.path().join("gone").display());
        let is_forgotten = rig.with(async move |member| {
            let id = member.array.info().id;
            let disk: MemberDisk = gone.parse().expect("a disk");
            let list = member.remembered.clone();
            list.lock().unwrap().add(&id, &disk).expect("it is noted");
            ring::spawn(run(member.clone()));
            for _ in 0..600 {
                let noted = list.lock().unwrap().disks(&Of::Array(id.clone()));
                if noted.iter().all(|noted| noted.name() != disk.name()) {
                    return true;
                }
                ring::sleep(Duration::from_millis(100)).await;
            }
            false
        });
        assert!(is_forgotten, "the next start would look for it");
        rig.stop();
    }

    #[test]
    fn a_scrub_is_due_so_many_days_after_the_last_one() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let weekly = info(0, &Settings { scrub_days: 7, ..Settings::default() });
        assert!(!is_scrub_due(&weekly, at(99 + 7 * DAY_SECONDS)));
        assert!(is_scrub_due(&weekly, at(100 + 7 * DAY_SECONDS)));
        let never = info(0, &Settings { scrub_days: 0, ..Settings::default() });
        assert!(!is_scrub_due(&never, at(1000 * DAY_SECONDS)));
    }

    #[test]
    fn a_scrub_of_a_time_that_is_to_come_is_none() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let scrubbed = |days: u64, scrub_days| ArrayInfo {
            scrubbed_unix_seconds: days * DAY_SECONDS,
            ..info(0, &Settings { scrub_days, ..Settings::default() })
        };
        assert!(lies_ahead(&scrubbed(1000, 7), at(10 * DAY_SECONDS)));
        assert!(!lies_ahead(&scrubbed(1000, 0), at(10 * DAY_SECONDS)), "none is to be");
        assert!(!lies_ahead(&scrubbed(10, 7), at(10 * DAY_SECONDS - 60)), "a minute is nothing");
        assert!(!lies_ahead(&scrubbed(9, 7), at(10 * DAY_SECONDS)));
        // Whatever a clock has said.
        let last = ArrayInfo { scrubbed_unix_seconds: u64::MAX, ..scrubbed(0, 7) };
        assert!(lies_ahead(&last, at(0)) && !is_scrub_due(&last, at(0)));
    }

    #[test]
    fn each_level_that_is_reached_counts() {
        let settings = Settings { warn_percents: vec![50, 90], ..Settings::default() };
        let reached = |used| levels_reached(&info(used, &settings));
        assert_eq!([0, 499, 500, 899, 900, 1000].map(reached), [0, 0, 1, 1, 2, 2]);
    }
}
