//! The source of a move: members with arrays, over an etcd that they run, and a destination that is kept in memory.

mod ends;
mod lost;
mod twice;
mod vouching;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use array::api::VolumeSpec;
use block::WriteFlags;
use group::handover::SourceSays;
use group::membership::MoveId;
use group::schedules::Timing;
use group::settings::{Departure, Stage};

use super::copying::is_of_move;
use crate::RequestError;
use crate::group_request::GroupRequest;
use crate::membership::tests::{free_at, join, make_group, start};
use crate::move_request::{ArrivalStep, Leaving, MoveRequest, Piece, Seal};
use crate::reply::Answer;
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::running::tests::wait_until;
use crate::schedule_request::{NewSchedule, ScheduleRequest};
use crate::testing::{Rig, volume};

const MIB: usize = 1 << 20;

fn moves(rig: &Rig, request: MoveRequest) -> Result<Answer, RequestError> {
    rig.ask(Request::Move(request))
}

fn done(rig: &Rig, request: MoveRequest) {
    let asked = format!("{request:?}");
    let answer = moves(rig, request).unwrap_or_else(|error| panic!("{asked}: {error}"));
    assert_eq!(answer, Answer::Done, "{asked}");
}

fn refused(rig: &Rig, request: MoveRequest) -> String {
    let asked = format!("{request:?}");
    let Err(error) = moves(rig, request) else { panic!("{asked}: done") };
    error.to_string()
}

/// The destination has said that it has the volume.
fn gone(id: &MoveId) -> MoveRequest {
    MoveRequest::Gone { id: id.clone(), found: ArrivalStep::Adopted }
}

/// The destination is to look whose the volume is, for who does not say which one that is.
fn look(id: &MoveId, says: Option<SourceSays>) -> MoveRequest {
    MoveRequest::Adopt { id: id.clone(), says, serial: None }
}

fn begin(name: &str, to: Option<&str>, pool: Option<&str>) -> MoveRequest {
    let owned = |word: Option<&str>| word.map(str::to_owned);
    MoveRequest::Begin { name: name.to_owned(), to: owned(to), pool: owned(pool) }
}

/// Begins to move a volume, once the group knows enough for that.
fn begun(rig: &Rig, name: &str) -> Leaving {
    let mut leaving = None;
    wait_until("the other member has told what it is", || {
        match moves(rig, begin(name, None, None)) {
            Ok(Answer::Leaving(begun)) => leaving = Some(*begun),
            Ok(other) => panic!("{other:?}"),
            Err(error) => tracing::info!("not yet: {error}"),
        }
        leaving.is_some()
    });
    leaving.expect("it has begun")
}

/// Two members of a group; the first one has a volume `vm`.
fn pair(dir: &Path, numbers: [u8; 2]) -> [Rig; 2] {
    pair_with(dir, numbers, volume("vm"))
}

/// The same, with this volume.
fn pair_with(dir: &Path, numbers: [u8; 2], spec: VolumeSpec) -> [Rig; 2] {
    let (left, right) = (start(dir, "left"), start(dir, "right"));
    make_group(&left, "left", free_at(numbers[0]));
    join(&right, "right", free_at(numbers[1]), (&left, false));
    left.ask(Request::Volume(VolumeRequest::Create(spec))).expect("a volume");
    [left, right]
}

/// Writes as a host would.
fn write(rig: &Rig, at: usize, len: usize, byte: u8) {
    rig.with(async move |member| {
        let device = member.array().device("vm").expect("it is there");
        let data: Arc<[u8]> = vec![byte; len].into();
        let written = device.write(at as u64, data.into(), WriteFlags::default()).await;
        written.expect("it is written");
    });
}

fn contents(rig: &Rig) -> Vec<u8> {
    rig.with(async |member| {
        let device = member.array().device("vm").expect("it is there");
        let geometry = device.geometry();
        let len = (geometry.blocks * u64::from(geometry.block_bytes)) as usize;
        let mut all = vec![0; len];
        for at in (0..len).step_by(MIB) {
            let data = device.read(at as u64, MIB.min(len - at)).await.expect("it reads");
            data.copy_to(0, &mut all[at..at + data.len()]);
        }
        all
    })
}

fn snapshot(rig: &Rig, name: &str) {
    let (volumes, name) = (vec!["vm".to_owned()], Some(name.to_owned()));
    rig.ask(Request::Snapshot(SnapshotRequest::Create { volumes, name })).expect("it is taken");
}

/// The names of the snapshots that moves have taken.
fn own_snapshots(rig: &Rig) -> Vec<String> {
    rig.with(async |member| {
        let all = member.array().snapshots("vm").expect("it is there").into_iter();
        let own = all.filter(|it| is_of_move(&it.name) && !it.deleting);
        own.map(|it| it.name).collect()
    })
}

fn is_served(rig: &Rig) -> bool {
    rig.with(async |member| {
        let served = member.serving().targets().list();
        served.iter().any(|target| target.iqn.ends_with(":vm"))
    })
}

fn departures(rig: &Rig) -> Vec<Departure> {
    rig.with(async |member| member.settings.departures())
}

/// What a destination has been given.
#[derive(Default)]
struct Received {
    contents: Vec<u8>,
    snapshots: BTreeMap<String, Vec<u8>>,
    is_frozen: bool,
}

impl Received {
    fn of(leaving: &Leaving) -> Self {
        Self { contents: vec![0; leaving.passport.size_bytes as usize], ..Self::default() }
    }

    /// Takes pieces until it has nearly all, or all.
    fn take(&mut self, rig: &Rig, id: &MoveId) {
        loop {
            let next = moves(rig, MoveRequest::Next { id: id.clone() }).expect("there is more");
            let Answer::Piece(piece) = next else { panic!("{next:?}") };
            assert!(piece.is_sound());
            match piece {
                Piece::Data { at, bytes, .. } => {
                    self.contents[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                }
                Piece::Zeroes { at, len_bytes } => {
                    self.contents[at as usize..][..len_bytes as usize].fill(0);
                }
                Piece::Snapshot { name, size_bytes, .. } => {
                    assert_eq!(self.contents.len() as u64, size_bytes, "{name}");
                    self.snapshots.insert(name, self.contents.clone());
                }
                Piece::Size { bytes } => self.contents.resize(bytes as usize, 0),
                Piece::CaughtUp => return assert!(!self.is_frozen, "nothing comes after the end"),
                Piece::End => return assert!(self.is_frozen, "hosts go on writing"),
            }
        }
    }
}

/// Freezes a volume whose copy has nearly all.
fn freeze(rig: &Rig, copy: &mut Received, id: &MoveId) {
    done(rig, MoveRequest::Freeze { id: id.clone() });
    copy.is_frozen = true;
}

fn says(rig: &Rig, id: &MoveId) -> SourceSays {
    says_of(rig, id, None)
}

/// The same of the volume of this serial number.
fn says_of(rig: &Rig, id: &MoveId, serial: Option<&str>) -> SourceSays {
    let request = MoveRequest::Says { id: id.clone(), serial: serial.map(str::to_owned) };
    let answer = moves(rig, request).expect("it says how it stands");
    let Answer::SourceSays(says) = answer else { panic!("{answer:?}") };
    says
}

fn seal(rig: &Rig, id: &MoveId) -> Seal {
    let answer = moves(rig, MoveRequest::Seal { id: id.clone() }).expect("all is sent");
    let Answer::Seal(seal) = answer else { panic!("{answer:?}") };
    *seal
}

/// Begins to move `vm`, and gives its destination nearly all.
fn copied(rig: &Rig) -> (MoveId, Received) {
    let leaving = begun(rig, "vm");
    let mut copy = Received::of(&leaving);
    copy.take(rig, &leaving.id);
    (leaving.id, copy)
}

/// The same, and then no host has it any more.
fn frozen(rig: &Rig) -> (MoveId, Received) {
    let (id, mut copy) = copied(rig);
    freeze(rig, &mut copy, &id);
    (id, copy)
}

/// The same, and then its destination has all of it: nobody has asked the store yet.
fn sealed(rig: &Rig) -> (MoveId, Received, Seal) {
    let (id, mut copy) = frozen(rig);
    copy.take(rig, &id);
    let seal = seal(rig, &id);
    (id, copy, seal)
}

/// How many snapshots operators are told that `vm` has.
fn listed_snapshots(rig: &Rig) -> u32 {
    let listed = rig.ask(Request::Volume(VolumeRequest::List)).expect("there is a list");
    let Answer::Volumes(all) = listed else { panic!("{listed:?}") };
    all.iter().find(|volume| volume.info.name == "vm").expect("it is there").info.snapshots
}

/// Hosts write, take away and resize while it is copied, and somebody takes a snapshot meanwhile.
#[test]
fn what_is_sent_is_the_volume() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = pair(dir.path(), [130, 131]);
    write(&left, 0, 3 * MIB, 1);
    snapshot(&left, "one");
    let one = contents(&left);
    write(&left, MIB, MIB, 0);
    write(&left, 8 * MIB, 4096, 2);
    let leaving = begun(&left, "vm");
    let id = leaving.id.clone();
    assert_eq!(leaving.to_name, "right");
    let again = refused(&left, begin("vm", None, None));
    assert!(again.contains("is being moved to 'right'"), "{again}");
    let mut copy = Received::of(&leaving);
    let early = refused(&left, MoveRequest::Freeze { id: id.clone() });
    assert!(early.contains("not at the step"), "{early}");
    copy.take(&left, &id);
    assert_eq!(copy.snapshots["one"], one);
    assert!(!own_snapshots(&left).is_empty());
    assert_eq!(listed_snapshots(&left), 1, "those of the move are not told of");
    let deleted = SnapshotRequest::Delete { volume: "vm".to_owned(), name: "one".to_owned() };
    let kept = left.ask(Request::Snapshot(deleted)).unwrap_err().to_string();
    assert!(kept.contains("is being moved"), "{kept}");
    let (name, size_bytes) = ("vm".to_owned(), 24 << 20);
    let resize = VolumeRequest::Resize { name, size_bytes, shrink: false };
    left.ask(Request::Volume(resize)).expect("it grows");
    write(&left, 20 * MIB, MIB, 3);
    snapshot(&left, "two");
    let two = contents(&left);
    write(&left, 0, 4096, 4);
    assert!(is_served(&left) && departures(&left).is_empty(), "hosts have it");
    freeze(&left, &mut copy, &id);
    assert!(!is_served(&left), "nobody has it");
    assert_eq!(departures(&left)[0].stage, Stage::Leaving);
    assert_eq!(says(&left, &id), SourceSays::UnderWay);
    copy.take(&left, &id);
    assert_eq!(copy.snapshots.keys().collect::<Vec<_>>(), ["one", "two"]);
    assert!(copy.snapshots["two"] == two, "as it was then");
    assert!(copy.contents == contents(&left), "as it was when no host had it any more");
    assert!(seal(&left, &id).online);
    let commit =
        || moves(&left, MoveRequest::Commit { id: id.clone() }).expect("the store answers");
    assert_eq!(commit(), Answer::Committed(true));
    assert_eq!(commit(), Answer::Committed(true), "the first answer was lost");
    assert_eq!(says(&left, &id), SourceSays::HandedOver);
    done(&left, MoveRequest::GiveUp { id: id.clone() });
    assert_eq!(departures(&left)[0].stage, Stage::Gone, "it is too late for that");
    assert!(!is_served(&left));
    // The destination has told nobody of it yet, so that what is here may be all that there is.
    done(&left, gone(&id));
    assert!(left.with(async |member| member.array().volume("vm").is_ok()), "it is not purged");
    right.stop();
    left.stop();
}

#[test]
fn what_is_given_up_stays_and_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = pair(dir.path(), [132, 133]);
    write(&left, 0, MIB, 1);
    // Before and behind the freeze.
    for freezes in [false, true] {
        let (id, mut copy) = copied(&left);
        assert!(!own_snapshots(&left).is_empty());
        if freezes {
            freeze(&left, &mut copy, &id);
            assert!(!is_served(&left));
        }
        for _ in 0..2 {
            done(&left, MoveRequest::GiveUp { id: id.clone() });
        }
        assert!(is_served(&left) && departures(&left).is_empty());
        assert_eq!(own_snapshots(&left), Vec::<String>::new());
        assert_eq!(says(&left, &id), SourceSays::GivenUp);
        let late = refused(&left, MoveRequest::Commit { id });
        assert!(late.contains("no move"), "{late}");
    }
    right.stop();
    left.stop();
}

/// Two decide the same move; before the late one does, the volume begins to leave by another one.
#[test]
fn what_is_decided_of_a_move_changes_nothing_of_a_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = pair(dir.path(), [164, 165]);
    write(&left, 0, MIB, 1);
    let (first, _) = frozen(&left);
    let former = departures(&left).remove(0);
    done(&left, MoveRequest::GiveUp { id: first });
    let late = |is_gone: bool| {
        let former = former.clone();
        left.with(async move |member| match is_gone {
            true => member.handed_over(&former).await.map_err(|error| error.to_string()),
            false => member.decide(&former).await.map(drop).map_err(|error| error.to_string()),
        })
    };
    let (second, _) = frozen(&left);
    for is_gone in [false, true] {
        let refused = late(is_gone).expect_err("it is over");
        assert!(refused.contains("no move of the number"), "{refused}");
        let left_by: Vec<_> = departures(&left).into_iter().map(|it| (it.id, it.stage)).collect();
        assert_eq!(left_by, [(second.clone(), Stage::Leaving)]);
        assert!(!is_served(&left));
    }
    done(&left, MoveRequest::GiveUp { id: second });
    assert!(late(true).is_err() && departures(&left).is_empty(), "it leaves by none");
    assert!(is_served(&left));
    right.stop();
    left.stop();
}

/// The source ends when no host has the volume any more, and starts again.
#[test]
fn a_volume_that_was_leaving_is_served_after_a_start_when_the_store_says_whose_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = pair(dir.path(), [134, 135]);
    write(&left, 0, MIB, 1);
    let (id, _) = frozen(&left);
    right.stop();
    left.stop();
    let left = start(dir.path(), "left");
    assert!(!is_served(&left), "whose it is is not known");
    let answer = moves(&left, MoveRequest::Departures).expect("it is listed");
    let Answer::Departures(waiting) = answer else { panic!("{answer:?}") };
    assert_eq!(waiting.iter().map(|it| &it.id).collect::<Vec<_>>(), [&id]);
    assert_eq!(says(&left, &id), SourceSays::UnderWay);
    wait_until("the store answers", || {
        moves(&left, MoveRequest::GiveUp { id: id.clone() }).is_ok()
    });
    assert!(is_served(&left) && departures(&left).is_empty());
    wait_until("what the move took is gone", || own_snapshots(&left).is_empty());
    left.stop();
}

#[test]
fn what_must_stay_is_refused_before_anything_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let alone = start(dir.path(), "alone");
    alone.create("vm");
    let nobody = refused(&alone, begin("vm", None, None));
    assert!(nobody.contains("in no group"), "{nobody}");
    alone.stop();
    let [left, right] = pair(dir.path(), [136, 137]);
    // From here on the other member is known.
    let first = begun(&left, "vm").id;
    done(&left, MoveRequest::GiveUp { id: first });
    let says = |request: MoveRequest, words: &str| {
        let refusal = refused(&left, request);
        assert!(refusal.contains(words), "{refusal}");
    };
    says(begin("none", None, None), "there is no volume 'none'");
    says(begin("vm", Some("left"), None), "is on that member already");
    says(begin("vm", Some("none"), None), "no member 'none'");
    says(begin("vm", None, Some("none")), "no pool 'none'");
    let name = Some(".moving-0123abcd0123abcd".to_owned());
    let named = SnapshotRequest::Create { volumes: vec!["vm".to_owned()], name };
    let refusal = left.ask(Request::Snapshot(named)).unwrap_err().to_string();
    assert!(refusal.contains("which a move takes"), "{refusal}");
    snapshot(&left, "s");
    let online = |online| {
        let (volume, name) = ("vm".to_owned(), "s".to_owned());
        let request = SnapshotRequest::SetOnline { volume, name, online };
        left.ask(Request::Snapshot(request)).expect("it is set");
    };
    online(true);
    says(begin("vm", None, None), "its snapshot 's' is online");
    online(false);
    let schedule = NewSchedule {
        name: "daily".to_owned(),
        volumes: vec!["vm".to_owned()],
        timing: Timing::Every { seconds: 24 * 60 * 60 },
        keep: 3,
        paused: true,
    };
    left.ask(Request::Schedule(ScheduleRequest::Create(schedule))).expect("a schedule");
    says(begin("vm", None, None), "the schedule 'daily' names it");
    let unknown = MoveId::draw().expect("randomness");
    says(MoveRequest::Next { id: unknown.clone() }, "no move of the number");
    done(&left, MoveRequest::GiveUp { id: unknown });
    assert!(is_served(&left) && own_snapshots(&left).is_empty());
    right.stop();
    left.stop();
}

/// A part in each of four, whoever the other side is. One that has ended leaves room for the next.
#[test]
fn a_fifth_move_is_refused_until_another_one_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = pair(dir.path(), [138, 139]);
    ["v2", "v3", "v4", "v5"].iter().for_each(|name| left.create(name));
    let first = begun(&left, "vm").id;
    let others = ["v2", "v3", "v4"].map(|name| begun(&left, name).id);
    let fifth = refused(&left, begin("v5", None, None));
    assert!(fifth.contains("takes part in 4 moves already"), "{fifth}");
    // Of one that moves it is said that it does, however many there are.
    let again = refused(&left, begin("v2", None, None));
    assert!(again.contains("is being moved to 'right'"), "{again}");
    done(&left, MoveRequest::GiveUp { id: first });
    let fifth = begun(&left, "v5").id;
    for id in others.into_iter().chain([fifth]) {
        done(&left, MoveRequest::GiveUp { id });
    }
    right.stop();
    left.stop();
}

/// Nobody would serve it: the store compares that both are members when it is asked, whatever was prepared before.
#[test]
fn a_name_is_not_given_to_a_member_that_was_removed_behind_the_freeze() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = pair(dir.path(), [140, 141]);
    write(&left, 0, MIB, 1);
    let (id, copy, _) = sealed(&left);
    right.stop();
    let remove = || {
        Request::Group(GroupRequest::Remove {
            member: "right".to_owned(),
            despite_moves: false,
            despite_spreads: false,
        })
    };
    let mut refusals = Vec::new();
    wait_until("it is away, and removed", || match left.ask(remove()) {
        Ok(_) => true,
        Err(error) => {
            refusals.push(error.to_string());
            false
        }
    });
    let is_known = |why: &String| why.contains("'right' has a part in moving vm");
    assert!(refusals.iter().all(is_known), "while it was there: {refusals:?}");
    assert!(!is_served(&left), "the store was not asked yet");
    let commit = moves(&left, MoveRequest::Commit { id: id.clone() });
    assert_eq!(commit.expect("the store answers"), Answer::Committed(false));
    assert!(is_served(&left) && departures(&left).is_empty());
    assert_eq!(says(&left, &id), SourceSays::GivenUp);
    assert!(copy.contents == contents(&left), "it is what it was");
    wait_until("what the move took is gone", || own_snapshots(&left).is_empty());
    left.stop();
}

/// Hosts and operators go on while it is copied: what counts is how it was when nobody had it any more.
#[test]
fn a_volume_that_is_taken_offline_while_it_is_copied_arrives_offline() {
    let dir = tempfile::tempdir().unwrap();
    let [left, right] = pair(dir.path(), [142, 145]);
    write(&left, 0, MIB, 1);
    let (id, mut copy) = copied(&left);
    let offline = VolumeRequest::SetOnline { name: "vm".to_owned(), online: false };
    left.ask(Request::Volume(offline)).expect("it is taken offline");
    freeze(&left, &mut copy, &id);
    copy.take(&left, &id);
    assert!(!seal(&left, &id).online);
    assert!(copy.contents == contents(&left), "and all of it is sent");
    done(&left, MoveRequest::GiveUp { id });
    assert!(!is_served(&left) && departures(&left).is_empty(), "an operator has said so");
    right.stop();
    left.stop();
}

/// Whose a volume is its other member could not find out then.
#[test]
fn a_member_with_a_part_in_a_move_is_not_removed_unless_that_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let [left, right] = pair(dir.path(), [146, 147]);
    let leaving = begun(&left, "vm");
    wait_until("the group has heard of the move", || {
        right.with(async |member| {
            let roll = member.membership.roll_now().expect("it is in a group");
            roll.inventories.values().any(|inventory| !inventory.moves.is_empty())
        })
    });
    let remove = |despite_moves| {
        let member = "left".to_owned();
        right.ask(Request::Group(GroupRequest::Remove {
            member,
            despite_moves,
            despite_spreads: false,
        }))
    };
    let refused = remove(false).expect_err("it is refused").to_string();
    assert!(refused.starts_with("'left' has a part in moving vm: wait until"), "{refused}");
    assert_eq!(remove(true).expect("it is done"), Answer::Done);
    // Nobody drives it, and it had not begun to leave: it stays.
    done(&left, MoveRequest::GiveUp { id: leaving.id });
    assert!(is_served(&left));
    left.stop();
    right.stop();
}
