//! What arrives, by the pieces that a source sends. Whose it is in the end is asked of the group's store, which these
//! members have none of: they are told.

use array::api::{Cache, VolumeState};
use group::ownership::MemberId;
use group::settings::VolumeSettings;
use target::{Record, UnitStore};

use super::*;
use crate::move_request::{ArrivalStep, UnitImage};
use crate::request::{Request, VolumeRequest};
use crate::running::tests::{host, iqn};
use crate::testing::{Host, Rig};

const MIB: u64 = 1 << 20;
const NAME: &str = "VM_1";
const SERIAL: &str = "FEDCBA9876543210-V7";
const PREFIX: &str = "iqn.2026-11.dev.drystone:fedcba98";

/// The number of a move, told from others by its first digits.
fn number(of: u8) -> MoveId {
    serde_json::from_str(&format!("\"{of:02x}{}\"", "0".repeat(30))).expect("it is a number")
}

fn group() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}

/// No two volumes have the same.
fn serial_of(of: u8) -> String {
    if of == 1 { SERIAL.to_owned() } else { format!("FEDCBA9876543210-V7{of}") }
}

fn passport(of: u8, name: &str) -> Passport {
    Passport {
        id: number(of),
        from: MemberId(7),
        name: name.to_owned(),
        size_bytes: 4 * MIB,
        level: Level::Raid10,
        thick: false,
        block_bytes: 512,
        cache: Cache::Durable,
        read_ahead_bytes: 0,
        cached: true,
        online: true,
        created_unix_seconds: 1_000_000_000,
        iqn_prefix: PREFIX.to_owned(),
        serial: serial_of(of),
        needs_bytes: 4 * MIB,
        unlisted: Unlisted::Nobody,
        has_list: true,
    }
}

fn seal() -> Seal {
    Seal {
        settings: VolumeSettings { access: None, shared: true },
        units: Vec::new(),
        portal_group: 9,
        online: true,
        read_ahead_bytes: 65_536,
        cached: false,
    }
}

fn snapshot(name: &str, unix_seconds: u64, size_bytes: u64) -> Piece {
    Piece::Snapshot { name: name.to_owned(), unix_seconds, size_bytes }
}

/// What hosts and operators would read.
async fn read(
    member: &Member,
    volume: &str,
    snapshot: Option<&str>,
    at: u64,
    len: usize,
) -> Vec<u8> {
    let device = match snapshot {
        None => member.array().device(volume),
        Some(name) => member.array().snapshot_device(volume, name),
    };
    let data = device.expect("it is there").read(at, len).await.expect("it reads");
    let mut bytes = vec![0; len];
    data.copy_to(0, &mut bytes);
    bytes
}

async fn write(member: &Member, of: u8, pieces: Vec<Piece>) {
    for piece in pieces {
        let what = format!("{piece:?}").chars().take(60).collect::<String>();
        let written = member.write_piece(&number(of), piece).await;
        written.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

fn names(member: &Member) -> Vec<String> {
    let volumes = member.array().volumes().into_iter().map(|volume| volume.name);
    volumes.filter(|name| name != crate::settings::hidden::NAME).collect()
}

/// A volume of this number that has arrived and is prepared.
async fn prepared(member: &Member, of: u8, name: &str) -> Arrival {
    member.make_hidden(passport(of, name), group()).await.expect("there is room");
    write(member, of, vec![Piece::data(0, vec![of; 4096])]).await;
    member.prepare_now(&number(of), seal()).await.expect("it is stored");
    record(member, of).expect("there is a record")
}

fn record(member: &Member, of: u8) -> Option<Arrival> {
    let state = member.settings().state().expect("it reads");
    state.arrivals.get(&number(of)).map(|found| found.as_ref().expect("it reads").clone())
}

/// Each piece comes twice, as if its answer had been lost.
#[test]
fn a_volume_without_a_list_comes_only_where_it_is_for_whom_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    let of = |unlisted, has_list| Passport { unlisted, has_list, ..passport(1, NAME) };
    for (unlisted, has_list, is_taken) in [
        (Unlisted::Nobody, false, true),
        (Unlisted::Everybody, false, false),
        (Unlisted::Rule, false, false),
        (Unlisted::Rule, true, true),
    ] {
        let passport = of(unlisted, has_list);
        let checked = rig.with(async move |member| {
            member.check_list(&passport, has_list).map_err(|error| error.to_string())
        });
        assert_eq!(checked.is_ok(), is_taken, "{unlisted:?} {has_list} {checked:?}");
    }
    rig.stop();
}

#[test]
fn a_volume_that_has_arrived_is_what_its_pieces_say() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        member.make_hidden(passport(1, NAME), group()).await.expect("there is room");
        let pieces = vec![
            Piece::data(0, vec![1; 8192]),
            Piece::data(MIB, vec![2; PIECE_BYTES_MAX]),
            snapshot("monday", 1_000_000_001, 4 * MIB),
            Piece::Zeroes { at: 4096, len_bytes: 4096 },
            Piece::Size { bytes: 8 * MIB },
            Piece::data(7 * MIB, vec![3; 4096]),
            snapshot("tuesday", 1_000_000_002, 8 * MIB),
            Piece::Size { bytes: 2 * MIB },
            Piece::CaughtUp,
            Piece::data(0, vec![4; 4096]),
            Piece::End,
        ];
        let twice = pieces.into_iter().flat_map(|piece| [piece.clone(), piece]);
        write(&member, 1, twice.collect()).await;
        for _ in 0..2 {
            member.prepare_now(&number(1), seal()).await.expect("it is stored");
        }
        let late = member.write_piece(&number(1), Piece::data(0, vec![9; 4096])).await;
        assert!(matches!(late, Err(RequestError::Move(MoveError::NoSuch(_)))), "{late:?}");
        let arrival = record(&member, 1).expect("there is a record");
        for _ in 0..2 {
            let step = member.take_over(&arrival, None).await.expect("it is taken over");
            assert_eq!(step, ArrivalStep::Adopted);
        }
        assert_eq!((names(&member), record(&member, 1)), (vec![NAME.to_owned()], None));
        let step = member.adopt(&number(1), None, None).await.expect("it can be told");
        assert_eq!(step, ArrivalStep::Unknown, "nothing is left of the move");

        let info = member.array().volume(NAME).expect("it is there");
        assert_eq!((info.state, info.size_bytes), (VolumeState::Online, 2 * MIB));
        assert_eq!((info.read_ahead_bytes, info.cached), (65_536, false), "as at the freeze");
        let state = member.settings().state().expect("it reads");
        assert!(matches!(state.volumes.get(&info.id), Some(Ok(set)) if set.shared));
        let all = member.array().snapshots(NAME).expect("it is there").into_iter();
        let all: Vec<_> = all.map(|it| (it.name, it.created_unix_seconds, it.size_bytes)).collect();
        let (monday, tuesday) = ("monday".to_owned(), "tuesday".to_owned());
        assert_eq!(all, [(monday, 1_000_000_001, 4 * MIB), (tuesday, 1_000_000_002, 8 * MIB)]);
        assert_eq!(read(&member, NAME, None, 0, 8192).await, [[4_u8; 4096], [0; 4096]].concat());
        assert_eq!(read(&member, NAME, Some("monday"), 0, 8192).await, vec![1; 8192]);
        assert_eq!(read(&member, NAME, Some("tuesday"), 4096, 4096).await, vec![0; 4096]);
        assert_eq!(read(&member, NAME, Some("tuesday"), 7 * MIB, 4096).await, vec![3; 4096]);
        let end = read(&member, NAME, None, 2 * MIB - 4096, 4096).await;
        assert_eq!(end, vec![2; 4096]);
    });
    rig.stop();
}

#[test]
fn a_piece_that_cannot_be_right_is_refused_and_changes_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        member.make_hidden(passport(1, NAME), group()).await.expect("there is room");
        let right = vec![Piece::data(0, vec![1; 4096]), snapshot("s", 5, 4 * MIB)];
        write(&member, 1, right).await;
        let wrong = [
            Piece::Data { at: 0, bytes: vec![2; 4096], crc32c: 1 },
            Piece::data(4 * MIB - 4096, vec![2; 8192]),
            Piece::data(100, vec![2; 4096]),
            Piece::data(0, Vec::new()),
            Piece::data(0, vec![2; PIECE_BYTES_MAX + 4096]),
            Piece::data(u64::MAX - 4095, vec![2; 4096]),
            Piece::Zeroes { at: 0, len_bytes: 5 * MIB },
            snapshot("s", 6, 4 * MIB),
            snapshot("t", 6, 8 * MIB),
        ];
        for piece in wrong {
            let refused = member.write_piece(&number(1), piece).await;
            assert!(
                matches!(refused, Err(RequestError::Move(MoveError::BadPiece(_)))),
                "{refused:?}"
            );
        }
        let unknown = member.write_piece(&number(2), Piece::End).await;
        assert!(matches!(unknown, Err(RequestError::Move(MoveError::NoSuch(_)))), "{unknown:?}");
        let hidden = hidden_name(&number(1));
        assert_eq!(read(&member, &hidden, None, 0, 4096).await, vec![1; 4096]);
        assert_eq!(member.array().snapshots(&hidden).expect("it is there").len(), 1);
        let other = Passport { thick: true, ..passport(1, NAME) };
        let refused = member.arrive(other).await;
        assert!(matches!(refused, Err(RequestError::Move(MoveError::BadPiece(_)))), "{refused:?}");
        member.arrive(passport(1, NAME)).await.expect("it was asked for before");
    });
    rig.stop();
}

#[test]
fn a_volume_that_cannot_be_here_is_refused_before_anything_is_made() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    ["here", "binned"].iter().for_each(|name| rig.create(name));
    let name = || "binned".to_owned();
    let offline = VolumeRequest::SetOnline { name: name(), online: false };
    for request in [offline, VolumeRequest::Delete { name: name() }] {
        rig.ask(Request::Volume(request)).expect("it is deleted");
    }
    rig.with(async |member: Rc<Member>| {
        let outside = member.arrive(passport(1, NAME)).await;
        assert!(matches!(outside, Err(RequestError::Group(_))), "{outside:?}");
        for taken in ["HERE", "binned"] {
            let refused = member.make_hidden(passport(1, taken), group()).await;
            assert!(
                matches!(refused, Err(RequestError::Move(MoveError::NameThere { .. }))),
                "{refused:?}"
            );
        }
        for bad in ["", "a name", ".arriving-0123456789abcdef"] {
            let refused = member.make_hidden(passport(1, bad), group()).await;
            let is_refused = matches!(refused, Err(RequestError::Array(ArrayError::BadName(_))));
            assert!(is_refused, "{refused:?}");
        }
        let large = Passport { needs_bytes: 1 << 40, ..passport(1, NAME) };
        let refused = member.make_hidden(large, group()).await;
        let is_refused = matches!(refused, Err(RequestError::Move(MoveError::NoRoom { .. })));
        assert!(is_refused, "{refused:?}");
        let parities = Passport { level: Level::Raid6, ..passport(1, NAME) };
        let refused = member.make_hidden(parities, group()).await;
        let too_few = matches!(refused, Err(RequestError::Array(ArrayError::TooFewDisks { .. })));
        assert!(too_few, "{refused:?}");
        assert_eq!(member.moving.arriving().len(), 0);
        assert_eq!(names(&member).len(), 2, "nothing was made: {:?}", names(&member));
        for of in 1..=4 {
            let passport = passport(of, &format!("v{of}"));
            member.make_hidden(passport, group()).await.expect("there is room");
        }
        let fifth = member.make_hidden(passport(5, "v5"), group()).await;
        assert!(
            matches!(fifth, Err(RequestError::Move(MoveError::TooMany { max: 4 }))),
            "{fifth:?}"
        );
    });
    rig.stop();
}

/// Killed in the middle of one move, and after another was prepared.
#[test]
fn a_start_deletes_what_is_not_prepared_and_nothing_else() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let rig = Rig::start(home.path(), &data);
    rig.create("here");
    rig.with(async |member: Rc<Member>| {
        prepared(&member, 1, NAME).await;
        member.make_hidden(passport(2, "half"), group()).await.expect("there is room");
        write(&member, 2, vec![Piece::data(0, vec![2; 4096]), snapshot("s", 5, 4 * MIB)]).await;
        assert_eq!(names(&member).len(), 3);
    });
    drop(rig);
    let rig = Rig::start(home.path(), &data);
    rig.with(async |member: Rc<Member>| {
        let mut there = names(&member);
        there.sort();
        assert_eq!(there, [hidden_name(&number(1)), "here".to_owned()]);
        let arrival = record(&member, 1).expect("it is prepared still");
        assert_eq!(read(&member, &hidden_name(&number(1)), None, 0, 4096).await, vec![1; 4096]);
        let step = member.adopt(&number(2), None, None).await.expect("it can be told");
        assert_eq!(step, ArrivalStep::Unknown);
        member.discard_arrival(&number(1)).await.expect("it is left alone");
        assert_eq!(record(&member, 1), Some(arrival.clone()));
        let step = member.discard_prepared(&arrival).await.expect("the source keeps it");
        assert_eq!(step, ArrivalStep::Discarded);
        assert_eq!((names(&member), record(&member, 1)), (vec!["here".to_owned()], None));
    });
    rig.stop();
}

#[test]
fn what_nothing_is_heard_of_any_more_is_deleted() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        member.make_hidden(passport(1, NAME), group()).await.expect("there is room");
        member.discard_idle_arrivals().await;
        let hidden = hidden_name(&number(1));
        assert_eq!(names(&member), [hidden], "it was heard of just now");
        let step = member.adopt(&number(1), None, None).await.expect("it can be told");
        assert_eq!(step, ArrivalStep::Waiting, "it is not unknown while it is there");
        member.discard_idle_for(Duration::ZERO).await;
        assert_eq!((names(&member), member.moving.arriving().len()), (Vec::new(), 0));
        for _ in 0..2 {
            member.discard_arrival(&number(1)).await.expect("there is nothing to do");
        }
    });
    rig.stop();
}

/// Until the store has given it away the source may serve it.
#[test]
fn a_volume_that_has_arrived_is_served_by_word_of_the_store_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        let arrival = prepared(&member, 1, NAME).await;
        for says in [None, Some(group::handover::SourceSays::HandedOver)] {
            let adopted = member.adopt(&number(1), says, None).await;
            let is_refused =
                matches!(adopted, Err(RequestError::Move(MoveError::NotDecided { .. })));
            assert!(is_refused, "{adopted:?}");
        }
        assert_eq!(names(&member), [hidden_name(&number(1))]);
        assert_eq!(record(&member, 1), Some(arrival));
        let part = member.transits().await.expect("they are listed").remove(0);
        assert_eq!(part.other, "member 7 of another group", "who it was nobody has known");
    });
    rig.stop();
}

/// The copy of what the group has given to this member is away: its source must not hear that nothing is known of it.
#[test]
fn a_prepared_volume_that_is_gone_is_never_unknown() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        let arrival = prepared(&member, 1, NAME).await;
        let hidden = hidden_name(&number(1));
        member.array().delete_volume(&hidden).await.expect("it is deleted");
        member.array().purge_volume(&hidden).await.expect("it is purged");
        let missing = member.take_over(&arrival, None).await;
        assert!(
            matches!(missing, Err(RequestError::Move(MoveError::ArrivalMissing(_)))),
            "{missing:?}"
        );
        assert_eq!(record(&member, 1), Some(arrival));
    });
    rig.stop();
}

/// What the source has may be all that there is, and would be deleted as soon as this one is served.
#[test]
fn a_prepared_volume_whose_data_are_lost_is_not_adopted() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        let bare = Passport { level: Level::Raid0, ..passport(1, NAME) };
        member.make_hidden(bare, group()).await.expect("there is room");
        write(&member, 1, vec![Piece::data(0, vec![1; 4096])]).await;
        member.prepare_now(&number(1), seal()).await.expect("it is stored");
        let arrival = record(&member, 1).expect("there is a record");
        let disk = member.array().disks().remove(0).name;
        member.array().fail_disk(&disk, true).await.expect("it is declared failed");
        let hidden = hidden_name(&number(1));
        let state = member.array().volume(&hidden).expect("it is there").state;
        assert_eq!(state, VolumeState::Lost);
        let missing = |done: Result<(), RequestError>| {
            matches!(done, Err(RequestError::Move(MoveError::ArrivalMissing(_))))
        };
        assert!(missing(member.take_over(&arrival, None).await.map(drop)));
        assert!(missing(member.settle_move(&number(1), true).await));
        assert_eq!((names(&member), record(&member, 1)), (vec![hidden], Some(arrival)));
        member.settle_move(&number(1), false).await.expect("it is thrown away");
        assert_eq!((names(&member), record(&member, 1)), (Vec::new(), None));
    });
    rig.stop();
}

/// Registrations name the portal group that hosts have the volume by: by another one they would be of nobody.
#[test]
fn reservations_have_the_portal_group_of_their_new_member() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("v");
    let mut good = Host::log_in(portal, &host("good"), &iqn(&rig, "v")).expect("it is let in");
    good.register(0x600d);
    assert_eq!(good.answer(), Some(0));
    let serial = rig.with(async |member: Rc<Member>| {
        let info = member.array().volume("v").expect("it is there");
        member.serving().names().volume_serial(&info)
    });
    let loaded = rig.units().load(&serial, Record::Reservations).expect("it reads");
    let image = loaded.expect("the host has registered");
    rig.with(async move |member: Rc<Member>| {
        let key = |record| UnitKey { serial: SERIAL.to_owned(), record };
        let here = member.serving().port_group();
        let sent = |portal_group, record, image: &[u8]| {
            let units = vec![UnitImage::new(record, image)];
            member.units_of_seal(&passport(1, NAME), &Seal { units, portal_group, ..seal() })
        };
        let reservations = UnitRecord::Reservations;
        let same = sent(here, reservations, &image).expect("it reads");
        assert_eq!(same[&key(reservations)], Some(image.clone()));
        assert_eq!(same[&key(UnitRecord::Sanitize)], None);
        let there = if here == 1 { 2 } else { 1 };
        let elsewhere = target::with_port(&image, here, there).expect("it reads");
        assert_ne!(elsewhere, image);
        let moved = sent(there, reservations, &elsewhere).expect("it reads");
        assert_eq!(moved, same, "they are of the portal group here again");
        let erased = sent(here, UnitRecord::Sanitize, &image);
        assert!(matches!(erased, Err(RequestError::Move(MoveError::Sanitized(_)))), "{erased:?}");
    });
    rig.stop();
}

/// Nothing of them is saved at the source, and a move is no loss of power.
#[test]
fn reservations_that_outlive_no_loss_of_power_come_along_in_memory() {
    let home = tempfile::tempdir().expect("a directory");
    let (rig, portal) = Rig::start_for_all(home.path(), &home.path().join("data"), None);
    rig.create("v");
    let v = iqn(&rig, "v");
    let mut good = Host::log_in(portal, &host("good"), &v).expect("it is let in");
    good.register_for_now(0x600d);
    assert_eq!(good.answer(), Some(0));
    drop(good);
    let units = rig.units();
    rig.with(async move |member: Rc<Member>| {
        let info = member.array().volume("v").expect("it is there");
        let serial = member.serving().names().volume_serial(&info);
        member.serving().withdraw(&v).await.expect("no task is left");
        let saved = |serial: &str| units.load(serial, Record::Reservations).expect("it reads");
        assert_eq!(saved(&serial), None);
        let kept = |serial: &str| member.serving().targets().kept_reservations(serial);
        let image = kept(&serial).expect("the host has registered");
        let prepare = async |of: u8, name: &str, units: Vec<UnitImage>| {
            let passport = Passport { unlisted: Unlisted::Everybody, ..passport(of, name) };
            member.make_hidden(passport, group()).await.expect("there is room");
            let portal_group = member.serving().port_group();
            let seal = Seal { units, portal_group, ..seal() };
            member.prepare_now(&number(of), seal).await.expect("it is stored");
        };
        prepare(1, NAME, vec![UnitImage::new(UnitRecord::Reservations, &image)]).await;
        assert_eq!((kept(SERIAL), saved(SERIAL)), (Some(image.clone()), None));
        let arrival = record(&member, 1).expect("there is a record");
        member.discard_prepared(&arrival).await.expect("it is thrown away");
        assert_eq!(kept(SERIAL), None, "nothing of it is left");
        member.serving().targets().keep_reservations(&serial_of(2), Some(image));
        prepare(2, "other", Vec::new()).await;
        assert_eq!(kept(&serial_of(2)), None, "what was kept of a life before is over");
    });
    rig.stop();
}

/// The group promises it to this member from the moment in which the volume is its own.
#[test]
fn the_name_of_a_volume_that_has_arrived_is_for_that_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        let claim = async |name: &str| member.claim(vec!["a".to_owned(), name.to_owned()]).await;
        assert!(claim(NAME).await.is_ok());
        let arrival = prepared(&member, 1, NAME).await;
        for name in [NAME, "vm-1"] {
            let refused = claim(name).await.err().expect("it is to be called so").to_string();
            assert!(
                refused.starts_with(&format!("there is a volume {name:?} already")),
                "{refused}"
            );
        }
        assert!(claim("vm-2").await.is_ok());
        member.discard_prepared(&arrival).await.expect("the source keeps it");
        assert!(claim(NAME).await.is_ok());
    });
    rig.stop();
}

/// Power fails behind the name and before the record is gone, and an operator throws it away then.
#[test]
fn a_volume_whose_adoption_was_cut_off_is_thrown_away_under_whatever_name() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        let arrival = prepared(&member, 1, NAME).await;
        member.array().rename_volume(&hidden_name(&arrival.id), NAME).await.expect("it is free");
        member.array().set_volume_online(NAME, true).await.expect("it is there");
        member.discard_prepared(&arrival).await.expect("it is thrown away");
        assert_eq!((names(&member), record(&member, 1)), (Vec::new(), None));
    });
    rig.stop();
}

/// It was found that the source keeps it; before it is thrown away an operator has it kept here, as the source was
/// removed.
#[test]
fn what_was_kept_while_it_was_about_to_be_thrown_away_is_not_deleted() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        let arrival = prepared(&member, 1, NAME).await;
        // It is in no group, so that only an operator decides.
        member.settle_move(&number(1), true).await.expect("it is kept");
        assert_eq!((names(&member), record(&member, 1)), (vec![NAME.to_owned()], None));
        let step = member.discard_prepared(&arrival).await.expect("there is nothing to do");
        assert_eq!(step, ArrivalStep::Unknown);
        assert_eq!(names(&member), [NAME], "it is served");
        assert_eq!(read(&member, NAME, None, 0, 4096).await, vec![1; 4096]);
    });
    rig.stop();
}

/// What was stored of it is gone, and it may be all that there is.
#[test]
fn what_has_come_is_for_operators_to_see_when_all_that_was_set_is_thrown_away() {
    let home = tempfile::tempdir().expect("a directory");
    let rig = Rig::start(home.path(), &home.path().join("data"));
    rig.with(async |member: Rc<Member>| {
        let arrival = prepared(&member, 1, NAME).await;
        member.settings().show_what_moves().await.expect("it is done");
        member.settings().forget_arrival(&arrival.id).await.expect("it is gone");
        member.discard_cut_off().await;
        let name = hidden_name(&arrival.id).trim_start_matches('.').to_owned();
        assert_eq!(names(&member), std::slice::from_ref(&name));
        let state = member.array().volume(&name).expect("it is there").state;
        assert_eq!(state, VolumeState::Offline, "nobody is given it unasked");
    });
    rig.stop();
}
