//! Moves one side of which has lost what it had, or has another life by now: no copy goes without a word of its own.

use array::Level;
use group::membership::Holder;
use group::settings::{Arrival, Units, VolumeSettings};

use super::ends::{
    adopt, arrival, end, given, is_there, join_anew, parts, prepared, settle, undecided, whose,
};
use super::*;
use crate::move_request::TransitState;

/// One disk of a member fails: volumes without redundancy have lost data.
pub(super) fn lose_a_disk(rig: &Rig) {
    rig.with(async |member| {
        let disk = member.array().disks().remove(0).name;
        member.array().fail_disk(&disk, true).await.expect("it is declared failed");
    });
}

/// A volume that no disk may fail of.
pub(super) fn bare() -> VolumeSpec {
    VolumeSpec { level: Some(Level::Raid0), ..volume("vm") }
}

fn holder(rig: &Rig) -> Option<Holder> {
    rig.with(async |member| member.membership.holder_of("vm").await.expect("the store answers"))
}

/// The source would purge the only whole copy.
#[test]
fn what_its_destination_has_lost_before_it_was_served_stays_at_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair_with(dir.path(), [166, 167], bare());
    let id = given(&rigs);
    let [left, right] = &rigs;
    let before = contents(left);
    lose_a_disk(right);
    undecided(right, "what had come of it is not on its array");
    let step = refused(right, look(&id, None));
    assert!(step.contains("only an operator decides"), "{step}");
    let kept = refused(right, settle(&id, true));
    assert!(kept.contains("its copy is not on the array"), "{kept}");
    done(left, gone(&id));
    assert!(is_there(left), "it is all that there is");
    done(right, settle(&id, false));
    undecided(left, "its name is no volume's any more");
    done(left, settle(&id, true));
    assert!(is_served(left) && contents(left) == before);
    end(rigs);
}

/// It was served there, and its source has not deleted what it has yet.
#[test]
fn what_its_destination_has_lost_since_stays_at_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair_with(dir.path(), [168, 169], bare());
    let id = given(&rigs);
    let [left, right] = &rigs;
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    lose_a_disk(right);
    undecided(left, "disks that have its data are missing there");
    done(left, gone(&id));
    assert!(is_there(left), "it is all that there is");
    // As operators are told to: one that is deleted there would be gone by their wish.
    let rename = VolumeRequest::Rename { name: "vm".to_owned(), to: "lost".to_owned() };
    right.ask(Request::Volume(rename)).expect("it has its record");
    wait_until("the name is given back", || moves(left, settle(&id, true)).is_ok());
    assert!(is_served(left) && parts(left).is_empty());
    end(rigs);
}

/// Its state says no more then that its data are lost, and who has deleted it there may mean to have it back from here.
#[test]
fn what_its_destination_has_lost_and_deleted_stays_at_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair_with(dir.path(), [190, 191], bare());
    let id = given(&rigs);
    let [left, right] = &rigs;
    let before = contents(left);
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    lose_a_disk(right);
    undecided(left, "disks that have its data are missing there");
    delete(right, "vm");
    undecided(left, "it in its recycle bin, and disks that have its data are missing");
    done(left, gone(&id));
    assert!(is_there(left), "it is all that there is");
    let kept = refused(left, settle(&id, true));
    assert!(kept.contains("rename that one first"), "{kept}");
    right.ask(Request::Volume(VolumeRequest::Purge { name: "vm".to_owned() })).expect("it is gone");
    wait_until("the name is given back", || moves(left, settle(&id, true)).is_ok());
    assert!(is_served(left) && contents(left) == before);
    end(rigs);
}

/// It goes to the recycle bin.
pub(super) fn delete(rig: &Rig, name: &str) {
    let name = || name.to_owned();
    let offline = VolumeRequest::SetOnline { name: name(), online: false };
    for request in [offline, VolumeRequest::Delete { name: name() }] {
        rig.ask(Request::Volume(request)).expect("it is deleted");
    }
}

/// The first member has told that it has the volume, and no part in a move.
fn is_told_as_kept(rigs: &[Rig; 2]) -> bool {
    let from = arrival(&rigs[1]).from;
    rigs[1].with(async move |member| {
        let told = member.told_by(from);
        told.is_some_and(|it| it.moves.is_empty() && it.volumes.iter().any(|it| it.name == "vm"))
    })
}

/// That may be of before the move, as the store was silent since, and its array be lost: then it knows nothing of either.
#[test]
fn nothing_is_thrown_away_as_its_source_has_told_once_that_it_has_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [192, 193]);
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    let serial = arrival(right).serial;
    assert_eq!(says_of(left, &id, Some(&serial)), SourceSays::UnderWay);
    done(left, MoveRequest::GiveUp { id: id.clone() });
    wait_until("it has told so", || is_told_as_kept(&rigs));
    assert_eq!(adopt(right, &id, Some(SourceSays::Unknown)), ArrivalStep::Waiting);
    assert_eq!(parts(right)[0].state, TransitState::Waits, "the source is to be asked");

    // As in its next life.
    left.with(async |member| member.moving.given_up.borrow_mut().clear());
    assert_eq!(says(left, &id), SourceSays::Unknown, "it was not said which volume is meant");
    assert_eq!(says_of(left, &id, Some("another")), SourceSays::Unknown);
    let says = says_of(left, &id, Some(&serial));
    assert_eq!(adopt(right, &id, Some(says)), ArrivalStep::Discarded);
    assert!(is_served(left) && parts(right).is_empty());
    delete(left, "vm");
    assert_eq!(says_of(left, &id, Some(&serial)), SourceSays::Unknown, "nobody serves it");
    end(rigs);
}

/// What has come is not on its array any more, and what hosts know it by is forgotten with that.
fn lose_what_has_come(rig: &Rig) {
    let arrival = arrival(rig);
    rig.with(async move |member| {
        let hidden = super::super::arrival::hidden_name(&arrival.id);
        member.array().delete_volume(&hidden).await.expect("it is deleted");
        member.array().purge_volume(&hidden).await.expect("it is purged");
        member.settings.forget_purged().await;
        assert!(member.settings.all_adopted().is_empty());
    });
}

/// By which its source is asked for it.
fn serial_of_arrival(rig: &Rig) -> String {
    let answer = moves(rig, MoveRequest::Arrivals).expect("they are listed");
    let Answer::Arrivals(all) = answer else { panic!("{answer:?}") };
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].serial.clone()
}

#[test]
fn what_is_lost_where_it_has_come_is_asked_for_by_its_serial_number() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [194, 195]);
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    lose_what_has_come(right);
    assert_eq!(adopt(right, &id, Some(says(left, &id))), ArrivalStep::Waiting);
    done(left, MoveRequest::GiveUp { id: id.clone() });
    left.with(async |member| member.moving.given_up.borrow_mut().clear());
    assert_eq!(adopt(right, &id, None), ArrivalStep::AskSource);
    let says = says_of(left, &id, Some(&serial_of_arrival(right)));
    assert_eq!(adopt(right, &id, Some(says)), ArrivalStep::Discarded);
    assert!(is_served(left) && parts(right).is_empty());
    end(rigs);
}

/// A member of an earlier version has not written the number down.
#[test]
fn what_nobody_can_name_any_more_is_settled_by_an_operator() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [196, 197]);
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    let early = Arrival { serial: String::new(), ..arrival(right) };
    right.with(async move |member| {
        let known = member.settings.all_adopted().remove(&early.volume).expect("it is stored");
        let (settings, units) = (VolumeSettings::default(), Units::new());
        let stored = member.settings.arrive(&early, &settings, &known, &units).await;
        stored.expect("it is stored");
    });
    assert_eq!(serial_of_arrival(right), departures(left)[0].serial, "it is known beside it");
    lose_what_has_come(right);
    assert_eq!(serial_of_arrival(right), "");
    wait_until("it has heard that its source is at it", || {
        parts(right)[0].state == TransitState::Waits
    });
    done(left, MoveRequest::GiveUp { id: id.clone() });
    undecided(right, "what hosts know it by is not stored here any more");
    let unknown = look(&id, Some(SourceSays::Unknown));
    assert!(refused(right, unknown).contains("only an operator decides"));
    let kept = refused(right, settle(&id, true));
    assert!(kept.contains("its copy is not on the array"), "{kept}");
    done(right, settle(&id, false));
    assert!(is_served(left) && parts(right).is_empty());
    end(rigs);
}

/// It is not given away yet, and its source cannot serve it any more.
#[test]
fn what_its_source_has_lost_stays_at_its_destination() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair_with(dir.path(), [188, 189], bare());
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    lose_a_disk(left);
    done(left, MoveRequest::GiveUp { id: id.clone() });
    let serial = arrival(right).serial;
    assert_eq!(says_of(left, &id, Some(&serial)), SourceSays::Unknown, "it has no data of it");
    undecided(right, "nothing stored of its move");
    let step = refused(right, look(&id, Some(says(left, &id))));
    assert!(step.contains("only an operator decides"), "{step}");
    assert_eq!(parts(right).len(), 1, "it is all that there is");
    let rename = VolumeRequest::Rename { name: "vm".to_owned(), to: "lost".to_owned() };
    left.ask(Request::Volume(rename)).expect("it has its record");
    wait_until("the name is given back", || moves(right, settle(&id, true)).is_ok());
    assert!(is_served(right) && parts(right).is_empty());
    end(rigs);
}

/// An operator was about to keep it at its source, and has discarded it there then, as the other member has a copy.
#[test]
fn a_copy_is_not_thrown_away_as_the_other_one_was_discarded() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [170, 171]);
    let id = given(&rigs);
    join_anew(&rigs, 172);
    let [left, right] = &rigs;
    // Cut off behind the name.
    left.with(async |member| {
        member.take_name_to_keep("vm").await.map(drop).expect("who has it is no member");
    });
    undecided(left, "its name is this member's again");
    done(left, settle(&id, false));
    assert!(!is_there(left));
    assert_eq!(says(left, &id), SourceSays::Unknown);
    undecided(right, "has it no more, and nothing stored of its move");
    let step = refused(right, look(&id, Some(says(left, &id))));
    assert!(step.contains("only an operator decides"), "{step}");
    wait_until("the name is given back", || moves(right, settle(&id, true)).is_ok());
    assert!(is_served(right), "it is all that there is");
    end(rigs);
}

/// Its destination was away, and somebody has made a volume of its name meanwhile.
#[test]
fn each_copy_of_a_volume_whose_name_is_elsewhere_waits_for_a_word_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [173, 174]);
    let id = given(&rigs);
    join_anew(&rigs, 175);
    let [left, right] = &rigs;
    let third = start(dir.path(), "third");
    join(&third, "third", free_at(176), (left, false));
    third.create("vm");
    for part in [left, right] {
        undecided(part, "its name is that of a volume of member 'third' now");
    }
    done(left, settle(&id, false));
    let looked = moves(right, look(&id, Some(says(left, &id))));
    assert!(looked.is_err(), "{looked:?}");
    undecided(right, "has it no more, and nothing stored of its move");
    let kept = refused(right, settle(&id, true));
    assert!(kept.contains("rename that one first"), "{kept}");
    done(right, settle(&id, false));
    assert!(parts(right).is_empty() && parts(left).is_empty());
    third.stop();
    end(rigs);
}

#[test]
fn a_name_that_was_given_with_a_volume_is_not_to_be_had_for_another_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [177, 178]);
    let id = given(&rigs);
    let [left, right] = &rigs;
    right.create("other");
    let (name, to) = ("other".to_owned(), "vm".to_owned());
    for request in [VolumeRequest::Create(volume("VM")), VolumeRequest::Rename { name, to }] {
        let refused = right.ask(Request::Volume(request)).expect_err("it is promised");
        assert!(refused.to_string().starts_with("there is a volume"), "{refused}");
        assert_eq!(whose(left), Some((2, Some(id.clone()))), "it is given still");
    }
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    assert!(is_served(right));
    end(rigs);
}

/// It was written that the destination has it; before it was served it was lost there.
#[test]
fn a_volume_that_is_made_behind_a_lost_one_is_not_taken_for_that() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [179, 180]);
    let id = given(&rigs);
    let [left, right] = &rigs;
    let arrival = arrival(right);
    let held = right.with(async move |member| {
        let Arrival { group, name, id, .. } = &arrival;
        let adopted = member.membership.adopt_name(group, name, id).await;
        assert!(adopted.expect("the store answers").is_some());
        let hidden = super::super::arrival::hidden_name(id);
        member.array().delete_volume(&hidden).await.expect("it is deleted");
        member.array().purge_volume(&hidden).await.expect("it is purged");
        member.settle_move(id, false).await.expect("it is lost");
        member.membership.holder_of("vm").await.expect("the store answers")
    });
    assert_eq!(held, None, "the name is given back at once, with what its claim says");
    right.create("vm");
    let made = holder(left).expect("it is made");
    assert_eq!((made.moved, made.adopted), (None, Vec::new()));
    let name = || "vm".to_owned();
    let offline = VolumeRequest::SetOnline { name: name(), online: false };
    for request in [offline, VolumeRequest::Delete { name: name() }] {
        right.ask(Request::Volume(request)).expect("it is deleted");
    }
    done(left, gone(&id));
    assert!(is_there(left), "it is all that there is");
    undecided(left, "its name is that of a volume of member 'right' now");
    end(rigs);
}

/// A member of an earlier version has not written that it had the volume, which is in its recycle bin by now.
#[test]
fn what_may_have_been_deleted_where_it_went_is_settled_by_an_operator() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [181, 182]);
    let id = given(&rigs);
    let [left, right] = &rigs;
    let arrival = arrival(right);
    right.with(async move |member| {
        let seat = member.seat().expect("it is known");
        member.take_over(&arrival, seat.as_ref()).await.map(drop).expect("it is taken over");
    });
    let name = || "vm".to_owned();
    let offline = VolumeRequest::SetOnline { name: name(), online: false };
    for request in [offline, VolumeRequest::Delete { name: name() }] {
        right.ask(Request::Volume(request)).expect("it is deleted");
    }
    undecided(left, "has a volume of that name in its recycle bin");
    done(left, gone(&id));
    assert!(is_there(left), "nobody has said that it is this one");
    done(left, settle(&id, false));
    assert!(!is_there(left) && parts(left).is_empty());
    end(rigs);
}

/// The source has served it since, and an operator has deleted it there: what had come is of before that. Who asks behind
/// that hears what a source says that has lost it.
#[test]
fn what_was_given_up_and_deleted_at_its_source_is_thrown_away_by_its_answer_of_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [186, 187]);
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    done(left, MoveRequest::GiveUp { id: id.clone() });
    assert!(is_served(left));
    let before = says(left, &id);
    delete(left, "vm");
    left.ask(Request::Volume(VolumeRequest::Purge { name: "vm".to_owned() })).expect("it is gone");
    undecided(right, "has it no more, and nothing stored of its move");
    assert_eq!(adopt(right, &id, None), ArrivalStep::AskSource);
    let behind = says(left, &id);
    assert_eq!((before, behind), (SourceSays::GivenUp, SourceSays::Unknown));
    let step = refused(right, look(&id, Some(behind)));
    assert!(step.contains("only an operator decides"), "{step}");
    assert_eq!(adopt(right, &id, Some(before)), ArrivalStep::Discarded);
    assert!(parts(right).is_empty());
    end(rigs);
}

#[test]
fn what_its_destination_lists_under_another_number_has_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [183, 184]);
    let id = given(&rigs);
    join_anew(&rigs, 185);
    let [left, right] = &rigs;
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    wait_until("it is listed", || {
        done(left, gone(&id));
        !is_there(left)
    });
    assert!(is_served(right) && parts(left).is_empty());
    end(rigs);
}
