//! What units keep lies on the array: it is there after any end of the process, on any machine, and what earlier
//! versions kept in files is taken over whatever cuts that off.

mod full;
mod lost_key;
mod moves;
mod of_group;
mod spread;

use std::fs;
use std::path::Path;

use group::access::Entry;
use group::membership::{SetId, SliceId};
use group::record::Setting;
use group::settings::SetIntent;
use group::spread::SliceRecord;
use iscsi::chap::Credentials;
use target::{Record, UnitStore};

use super::*;
use crate::access_request::{AccessRequest, ChapRequest, SecretText};
use crate::reply::Answer;
use crate::request::{ArrayRequest, Request, SnapshotRequest, VolumeRequest};
use crate::testing::Rig;

impl MemberSettings {
    /// Keeps what is stored as it is until the guard is dropped.
    pub(crate) async fn hold(&self) -> ring::wait::Guard<()> {
        self.turn.take().await
    }

    /// They cannot be read from now on, as after a start: nothing is known of them. For who has the turn.
    pub(crate) async fn fail_unread(&self) {
        self.state.replace(Arc::default());
        self.fail().await;
    }

    /// They cannot be read from now on. For who has the turn.
    pub(crate) async fn fail(&self) {
        self.leave(Kept::Broken("as the test wants it".to_owned())).await;
    }

    /// What is stored of a set does not read from now on, as a later version wrote it, until it is changed.
    pub(crate) fn misread_set(&self, id: &SetId) {
        let later = SetIntent::decode(br#"{"version":2,"value":{}}"#);
        assert!(later.is_err(), "it is of a later version");
        Arc::make_mut(&mut self.state.borrow_mut()).sets.insert(id.clone(), later);
    }

    /// They are lost, as where they could not be read and were given up. For who has the turn.
    pub(crate) async fn lose(&self) {
        self.fail_unread().await;
        self.give_up_unreadable().await;
        assert_eq!(self.fault(), None, "they are given up");
    }

    /// What is stored of this slice is damaged, as far as is known.
    pub(crate) fn damage_slice(&self, id: &SliceId) {
        let damaged = SliceRecord::decode(b"x");
        Arc::make_mut(&mut self.state.borrow_mut()).slices.insert(id.clone(), damaged);
    }

    /// It reads again.
    pub(crate) async fn read_again(&self) {
        self.refresh().await.expect("it reads");
    }

    /// Whether a record of a unit waits to be saved.
    pub(crate) fn is_to_save(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }
}

const IMAGE: &[u8] = b"who has reserved what";
const NEWER: &[u8] = b"who has reserved what since then";

fn serial(rig: &Rig, number: u32) -> String {
    rig.with(async move |member| format!("{}V{number:X}", serials_begin(&member.array().info().id)))
}

/// As a server saves it for one of its units.
fn save(rig: &Rig, serial: &str, image: Option<&[u8]>) -> Result<(), String> {
    let (units, serial) = (rig.units(), serial.to_owned());
    let image = image.map(<[u8]>::to_vec);
    rig.with(async move |_| {
        let saved = units.save(&serial, Record::Reservations, image).await;
        saved.map_err(|error| error.to_string())
    })
}

fn kept(rig: &Rig, serial: &str, record: Record) -> Option<Vec<u8>> {
    rig.units().load(serial, record).expect("it is known")
}

fn reserved(rig: &Rig, serial: &str) -> Option<Vec<u8>> {
    kept(rig, serial, Record::Reservations)
}

/// Writes what an earlier version had in its directory.
fn write_files(data: &Path, serials: &[&str], number: u16) {
    let files = data.join("reservations");
    fs::create_dir_all(&files).expect("a directory");
    for serial in serials {
        fs::write(files.join(format!("{serial}.reservations")), IMAGE).expect("a file");
    }
    fs::write(data.join("portal-group"), format!("{number}\n")).expect("a file");
}

/// Nothing can be stored: somebody's volume has the name.
fn take_the_name(home: &Path) {
    let rig = Rig::start(home, &home.join("away"));
    rig.with(async |member| {
        let spec = array::api::VolumeSpec {
            name: hidden::NAME.to_owned(),
            size_bytes: 8 << 20,
            level: None,
            thick: false,
            block_bytes: 4096,
            cache: array::api::Cache::Durable,
            read_ahead_bytes: None,
            cached: true,
        };
        member.array().create_volume(spec).await.expect("a volume");
    });
    rig.stop();
}

fn number(rig: &Rig) -> u16 {
    rig.with(async |member| member.settings().identity(None).await.1.get())
}

#[test]
fn what_is_answered_as_saved_is_there_on_another_machine_after_any_end() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("one"));
    let (first, second) = (serial(&rig, 1), serial(&rig, 2));
    let number_there = number(&rig);
    save(&rig, &second, None).unwrap();
    assert!(rig.with(async |member| hidden::find(member.array()).is_none()), "nothing to store");
    save(&rig, &first, Some(IMAGE)).unwrap();
    assert_eq!(reserved(&rig, &first).unwrap(), IMAGE);
    save(&rig, &first, Some(NEWER)).unwrap();
    save(&rig, &second, Some(IMAGE)).unwrap();
    // The process ends as it may: nothing is closed.
    drop(rig);
    let rig = Rig::start(dir.path(), &dir.path().join("other"));
    assert_eq!(reserved(&rig, &first).unwrap(), NEWER);
    assert_eq!(reserved(&rig, &second).unwrap(), IMAGE);
    assert_eq!(kept(&rig, &first, Record::Sanitize), None);
    assert_eq!(number(&rig), number_there);
    save(&rig, &second, None).unwrap();
    rig.stop();
    let rig = Rig::start(dir.path(), &dir.path().join("one"));
    assert_eq!((reserved(&rig, &first).unwrap(), reserved(&rig, &second)), (NEWER.to_vec(), None));
    rig.stop();
}

/// Of many saves at once each is answered, and all of them are stored.
#[test]
fn saves_that_wait_are_stored_together() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    let serials: Vec<String> = (0..40).map(|number| serial(&rig, number)).collect();
    let (units, all) = (rig.units(), serials.clone());
    let answers: Result<(), ()> = rig.with(async move |_| {
        let save = |serial: &String| {
            let image = Some(serial.clone().into_bytes());
            let (units, serial) = (units.clone(), serial.clone());
            async move { units.save(&serial, Record::Reservations, image).await.map_err(drop) }
        };
        ring::wait::join_all(all.iter().map(save)).await
    });
    assert_eq!(answers, Ok(()));
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    for serial in &serials {
        assert_eq!(reserved(&rig, serial).unwrap(), serial.as_bytes());
    }
    rig.stop();
}

#[test]
fn what_units_keep_leaves_room_for_who_may_use_them() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    rig.create("a");
    // As much as a unit with all registrations that it may have.
    let large = vec![7; 153 << 10];
    let mut refused = None;
    for number in 0..40 {
        let saved = save(&rig, &serial(&rig, number), Some(&large));
        refused = refused.or(saved.err().map(|why| (number, why)));
    }
    let (number, why) = refused.expect("there is an end");
    assert!(number == 26 && why.contains("no room"), "{number}: {why}");
    let (percent, holders) = rig.units().shared_room();
    assert_eq!((percent, holders.len()), (97, 26), "{holders:?}");
    for number in 100..180 {
        save(&rig, &serial(&rig, number), Some(&[7; 2000])).expect("a few hosts have room always");
    }
    for round in 0..40 {
        let serial = serial(&rig, round % 26);
        save(&rig, &serial, Some(&large)).expect("what is as large as before has room");
    }
    let entry = Entry::Record("ip=10.0.0.1".parse().expect("a record"));
    let add = AccessRequest::Add { volume: "a".to_owned(), entry };
    rig.ask(Request::Access(add)).expect("who may use a volume can be said all the same");
    save(&rig, &serial(&rig, 0), Some(NEWER)).expect("what is smaller than before has room");
    save(&rig, &serial(&rig, 39), Some(NEWER)).expect("and makes some");
    rig.stop();
}

#[test]
fn what_a_purged_volume_kept_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    for name in ["a", "b"] {
        rig.create(name);
    }
    let serial = |name: &'static str| {
        rig.with(async move |member| {
            let volumes = member.volumes();
            let volume = volumes.iter().find(|volume| volume.name == name).expect("it is there");
            member.serving().names().volume_serial(volume)
        })
    };
    let (a, b) = (serial("a"), serial("b"));
    save(&rig, &a, Some(IMAGE)).unwrap();
    save(&rig, &b, Some(IMAGE)).unwrap();
    let ask = |request| rig.ask(Request::Volume(request)).expect("it is done");
    ask(VolumeRequest::SetOnline { name: "a".into(), online: false });
    ask(VolumeRequest::Delete { name: "a".into() });
    assert_eq!(reserved(&rig, &a).unwrap(), IMAGE, "it may come back");
    ask(VolumeRequest::Purge { name: "a".into() });
    rig.stop();
    let rig = Rig::start(dir.path(), &data);
    assert_eq!((reserved(&rig, &a), reserved(&rig, &b).unwrap()), (None, IMAGE.to_vec()));
    rig.stop();
}

#[test]
fn what_a_deleted_snapshot_kept_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    rig.create("a");
    for name in ["read", "written", "stays"] {
        let (volumes, name) = (vec!["a".to_owned()], Some(name.to_owned()));
        rig.ask(Request::Snapshot(SnapshotRequest::Create { volumes, name })).expect("it is taken");
    }
    let ask = |request| rig.ask(Request::Snapshot(request)).expect("it is done");
    let of = |name: &str| ("a".to_owned(), name.to_owned());
    let (volume, name) = of("written");
    ask(SnapshotRequest::SetWritable { volume, name, fresh: true });
    let serials = rig.with(async |member| {
        let names = member.serving().names();
        let all = member.array().all_snapshots().into_values().flatten();
        all.map(|snapshot| match snapshot.view_id {
            Some(view) => names.serial_of(view),
            None => names.snapshot_serial(&snapshot),
        })
        .collect::<Vec<_>>()
    });
    for serial in &serials {
        save(&rig, serial, Some(IMAGE)).unwrap();
    }
    for gone in ["read", "written"] {
        let (volume, name) = of(gone);
        ask(SnapshotRequest::SetOnline { volume, name, online: false });
        let (volume, name) = of(gone);
        ask(SnapshotRequest::Delete { volume, name });
    }
    let kept = |rig: &Rig| -> Vec<bool> {
        serials.iter().map(|serial| reserved(rig, serial).is_some()).collect()
    };
    assert_eq!(kept(&rig), [false, false, true]);
    rig.stop();
    let rig = Rig::start(dir.path(), &data);
    assert_eq!(kept(&rig), [false, false, true]);
    rig.stop();
}

/// Hosts of a hundred volumes at once: together they get no more than one after the other would, and what is to
/// be unregistered afterwards is.
#[test]
fn a_burst_of_saves_leaves_room_too() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    let serials: Vec<String> = (0..100).map(|number| serial(&rig, number)).collect();
    let (units, all) = (rig.units(), serials.clone());
    let taken: Vec<bool> = rig.with(async move |_| {
        let taken = RefCell::new(vec![false; all.len()]);
        let saves = all.iter().enumerate().map(|(number, serial)| {
            let (units, taken) = (&units, &taken);
            async move {
                let large = Some(vec![7; 123 << 10]);
                let saved = units.save(serial, Record::Reservations, large).await;
                taken.borrow_mut()[number] = saved.is_ok();
                Ok::<(), ()>(())
            }
        });
        let all_done: Result<(), ()> = ring::wait::join_all(saves).await;
        all_done.expect("none fails");
        taken.into_inner()
    });
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 33);
    for (serial, _) in serials.iter().zip(&taken).filter(|(_, taken)| **taken) {
        save(&rig, serial, Some(NEWER)).expect("what shrinks has room");
        save(&rig, serial, None).expect("and so has nothing");
    }
    rig.stop();
}

/// The number under which hosts registered outlives a start at which it could not be stored.
#[test]
fn the_number_goes_to_the_array_with_the_first_record() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    let (first, second) = (serial(&rig, 1), serial(&rig, 2));
    rig.stop();
    write_files(&data, &[&first, &second], 777);
    take_the_name(dir.path());
    let rig = Rig::start(dir.path(), &data);
    rig.with(async |member| {
        member.array().rename_volume(hidden::NAME, "mine").await.expect("another name");
    });
    save(&rig, &second, Some(NEWER)).expect("there is room for it now");
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    assert_eq!(number(&rig), 777);
    assert_eq!(reserved(&rig, &first).unwrap(), IMAGE);
    assert_eq!(reserved(&rig, &second).unwrap(), NEWER);
    rig.stop();
}

/// Whatever is set meanwhile, and until it reads.
#[test]
fn files_that_cannot_be_listed_keep_all_units_from_being_served() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    rig.create("a");
    let first = serial(&rig, 1);
    rig.stop();
    fs::write(data.join("reservations"), b"no directory").unwrap();
    let rig = Rig::start(dir.path(), &data);
    let is_known = || rig.units().load(&first, Record::Reservations).is_ok();
    assert!(!is_known());
    let entry = Entry::Record("ip=10.0.0.1".parse().expect("a record"));
    let add = AccessRequest::Add { volume: "a".to_owned(), entry };
    rig.ask(Request::Access(add)).expect("who may use a volume can be said all the same");
    rig.with(async |member| member.settle().await);
    assert!(!is_known(), "somebody may be fenced off there");
    fs::remove_file(data.join("reservations")).unwrap();
    write_files(&data, &[&first], 777);
    rig.with(async |member| member.settle().await);
    assert_eq!(reserved(&rig, &first).unwrap(), IMAGE);
    rig.stop();
}

/// A cut between reading the files and storing what they say: nothing is lost, and the next start goes on.
#[test]
fn files_stay_until_what_they_say_is_on_the_array() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    let (first, second) = (serial(&rig, 1), serial(&rig, 2));
    rig.stop();
    write_files(&data, &[&first, &second], 777);
    let other = data.join("reservations/0000-V1.reservations");
    fs::write(&other, b"of another array").unwrap();
    take_the_name(dir.path());
    let rig = Rig::start(dir.path(), &data);
    assert_eq!(reserved(&rig, &first).unwrap(), IMAGE, "it counts all the same");
    assert_eq!(number(&rig), 777);
    assert!(save(&rig, &second, Some(NEWER)).unwrap_err().contains("rename it"));
    rig.with(async |member| {
        member.array().rename_volume(hidden::NAME, "mine").await.expect("another name");
    });
    drop(rig);

    let rig = Rig::start(dir.path(), &data);
    assert_eq!(reserved(&rig, &second).unwrap(), IMAGE, "what was refused has not come true");
    drop(rig);
    let names = || {
        let entries = fs::read_dir(data.join("reservations")).expect("it is there");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> =
            names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let moved = |serial: &str| format!("{serial}.reservations.moved");
    let mut expected = vec!["0000-V1.reservations".to_owned(), moved(&first), moved(&second)];
    expected.sort();
    assert_eq!(names(), expected);
    assert!(data.join("portal-group").exists(), "another array needs it yet");
    // All of it is on the array.
    let rig = Rig::start(dir.path(), &dir.path().join("away"));
    assert_eq!(reserved(&rig, &first).unwrap(), IMAGE);
    assert_eq!(number(&rig), 777);
    rig.stop();
}

/// A cut between storing what files say and moving them aside: what is stored since then counts.
#[test]
fn a_file_that_was_stored_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    let (first, second) = (serial(&rig, 1), serial(&rig, 2));
    rig.stop();
    write_files(&data, &[&first, &second], 777);
    let file = |serial: &str| data.join(format!("reservations/{serial}.reservations"));
    let in_the_way = |serial: &str| data.join(format!("reservations/{serial}.reservations.moved"));
    for serial in [&first, &second] {
        fs::create_dir(in_the_way(serial)).unwrap();
    }
    let rig = Rig::start(dir.path(), &data);
    assert_eq!(reserved(&rig, &first).unwrap(), IMAGE);
    save(&rig, &first, Some(NEWER)).unwrap();
    save(&rig, &second, None).unwrap();
    drop(rig);
    assert!(file(&first).exists() && file(&second).exists());
    for serial in [&first, &second] {
        fs::remove_dir(in_the_way(serial)).unwrap();
    }
    let rig = Rig::start(dir.path(), &data);
    assert_eq!((reserved(&rig, &first).unwrap(), reserved(&rig, &second)), (NEWER.to_vec(), None));
    assert_eq!(number(&rig), 777);
    rig.stop();
    assert!(!file(&first).exists() && !file(&second).exists());
    assert!(!data.join("portal-group").exists() && data.join("portal-group.moved").exists());
}

/// What does not read may be what keeps somebody out.
#[test]
fn a_file_that_does_not_read_keeps_its_unit_and_no_other_from_being_served() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    let (first, second) = (serial(&rig, 1), serial(&rig, 2));
    rig.stop();
    fs::create_dir_all(data.join(format!("reservations/{first}.reservations"))).unwrap();
    let rig = Rig::start(dir.path(), &data);
    let refused = rig.units().load(&first, Record::Reservations).unwrap_err().to_string();
    assert!(refused.starts_with("cannot read '"), "{refused}");
    assert_eq!(reserved(&rig, &second), None);
    rig.stop();
}

#[test]
fn a_name_that_was_chosen_goes_with_the_array() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = |rig: &Rig| rig.with(async |member| member.serving().names().prefix().to_owned());
    let chosen = "iqn.2026-11.com.example:san";
    let rig = Rig::start(dir.path(), &dir.path().join("one"));
    let usual = prefix(&rig);
    rig.stop();
    let rig =
        Rig::start_as(dir.path(), &dir.path().join("one"), Some("iqn.2026-11.com.example:SAN"));
    assert_eq!(prefix(&rig), chosen);
    drop(rig);
    let rig = Rig::start(dir.path(), &dir.path().join("other"));
    assert_eq!(prefix(&rig), chosen, "on another machine, without a word");
    rig.stop();
    let rig = Rig::start_as(dir.path(), &dir.path().join("other"), Some(&usual));
    rig.stop();
    let rig = Rig::start(dir.path(), &dir.path().join("one"));
    assert_eq!(prefix(&rig), usual, "it is as it was");
    rig.stop();
}

/// While nobody knows what was reserved, nobody gets in; afterwards everybody finds it as it was.
#[test]
fn no_unit_is_known_while_the_settings_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    rig.create("a");
    let first = serial(&rig, 1);
    save(&rig, &first, Some(IMAGE)).unwrap();
    let units = rig.units();
    rig.with(async |member| member.settings().fail().await);
    let refused = units.load(&first, Record::Reservations).unwrap_err().to_string();
    assert!(refused.contains("not available") && refused.contains("as the test"), "{refused}");
    assert!(save(&rig, &first, Some(NEWER)).is_err());
    rig.with(async |member| member.settle().await);
    assert_eq!(reserved(&rig, &first).unwrap(), IMAGE);
    save(&rig, &first, Some(NEWER)).unwrap();
    assert_eq!(reserved(&rig, &first).unwrap(), NEWER);
    rig.stop();
}

#[test]
fn a_stored_secret_that_is_one_of_the_start_for_the_other_direction_is_told_and_no_new_one_is_taken()
 {
    const SECRET: &str = "one-for-both-ways";
    let dir = tempfile::tempdir().unwrap();
    let add = |rig: &Rig, user: &str| {
        let secret = SecretText(SECRET.to_owned());
        rig.ask(Request::Chap(ChapRequest::Add { user: user.to_owned(), secret }))
    };
    let shown = |rig: &Rig| match rig.ask(Request::Array(ArrayRequest::Show)) {
        Ok(Answer::Array(info)) => info.warnings,
        other => panic!("{other:?}"),
    };
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    add(&rig, "al").expect("nobody minds");
    assert_eq!(shown(&rig), [""; 0]);
    rig.stop();

    let mutual = Credentials::new("array", SECRET.as_bytes()).ok();
    let given = Given { user: None, mutual };
    let rig = Rig::start_given(dir.path(), &dir.path().join("data"), given);
    let told = rig.told(Kind::SecretShared);
    assert!(
        told[0].starts_with("the stored secret of CHAP user 'al' is also the one "),
        "{told:?}"
    );
    assert_eq!((told.len(), shown(&rig)), (1, told));
    let refused = add(&rig, "bo").unwrap_err().to_string();
    assert!(refused.contains("for the other direction of CHAP"), "{refused}");
    // The one thing to do about it.
    let secret = SecretText("another-of-its-own".to_owned());
    rig.ask(Request::Chap(ChapRequest::Set { user: "al".to_owned(), secret })).expect("it is done");
    assert_eq!((shown(&rig), rig.told(Kind::SecretShared).len()), (Vec::new(), 1));
    rig.stop();
}
