//! What each side of a move says of its volume, by which the other one deletes its own copy: that it has it at this moment,
//! with its data, and as a volume that hosts have.

use group::membership::HandOver;
use group::ownership::MemberId;

use super::ends::{adopt, arrival, end, given, is_there, parts, prepared, undecided};
use super::lost::{bare, delete, lose_a_disk};
use super::*;

/// What a member says as the destination of a move, of the volume of this serial number.
fn found(rig: &Rig, id: &MoveId, serial: Option<&str>) -> ArrivalStep {
    let (id, serial) = (id.clone(), serial.map(str::to_owned));
    let answer = moves(rig, MoveRequest::Adopt { id, says: None, serial });
    let Ok(Answer::Arrived(found)) = answer else { panic!("{answer:?}") };
    found
}

fn drawn() -> MoveId {
    MoveId::draw().expect("randomness")
}

/// As in its next life.
fn forget_given_up(rig: &Rig) {
    rig.with(async |member| member.moving.given_up.borrow_mut().clear());
}

/// It remembers that it has given the move up; its disks have failed since.
#[test]
fn what_its_source_has_lost_since_it_has_kept_it_stays_at_its_destination() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair_with(dir.path(), [201, 202], bare());
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    let serial = arrival(right).serial;
    done(left, MoveRequest::GiveUp { id: id.clone() });
    assert_eq!(says(left, &id), SourceSays::GivenUp, "who asks is of an earlier version");
    assert_eq!(says_of(left, &id, Some(&serial)), SourceSays::GivenUp);
    lose_a_disk(left);
    for serial in [Some(&*serial), None] {
        assert_eq!(says_of(left, &id, serial), SourceSays::Unknown, "{serial:?}");
    }
    undecided(right, "nothing stored of its move");
    let step = refused(right, look(&id, Some(SourceSays::Unknown)));
    assert!(step.contains("only an operator decides"), "{step}");
    assert_eq!(parts(right).len(), 1, "it is all that there is");
    end(rigs);
}

/// What it has then is another member's soon, or its own again: nobody knows yet.
#[test]
fn a_source_keeps_nothing_that_leaves_by_another_move() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [203, 204]);
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    let serial = arrival(right).serial;
    let says = || says_of(left, &id, Some(&serial));
    done(left, MoveRequest::GiveUp { id: id.clone() });
    let (second, mut copy) = copied(left);
    assert_eq!(says(), SourceSays::GivenUp, "what had come by the first is of before that");
    forget_given_up(left);
    assert_eq!(says(), SourceSays::Unknown, "it is copied");
    freeze(left, &mut copy, &second);
    left.with(async |member| member.moving.sources.borrow_mut().clear());
    assert_eq!(says(), SourceSays::Unknown, "it is stored that it leaves");
    done(left, MoveRequest::GiveUp { id: second });
    assert_eq!(says(), SourceSays::GivenUp, "it is there by itself");
    end(rigs);
}

/// Its move was cut off behind its record, and the next start deletes it.
#[test]
fn nobody_has_what_has_come_and_has_not_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [205, 206]);
    let id = prepared(&rigs);
    let [_, right] = &rigs;
    let serial = arrival(right).serial;
    let another = drawn();
    for is_stored in [true, false] {
        assert_eq!(says_of(right, &another, Some(&serial)), SourceSays::Unknown, "{is_stored}");
        let found = found(right, &another, Some(&serial));
        assert_eq!(found, ArrivalStep::Unknown, "{is_stored}");
        let id = id.clone();
        right.with(async move |member| {
            member.settings.forget_arrival(&id).await.expect("it is forgotten");
        });
    }
    assert_eq!(found(right, &id, Some(&serial)), ArrivalStep::Waiting, "it is not gone yet");
    end(rigs);
}

/// The store is silent since it was told: its array may have lost it.
#[test]
fn what_its_destination_says_that_it_has_not_stays_although_it_is_listed() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair_with(dir.path(), [207, 208], bare());
    let id = given(&rigs);
    let [left, right] = &rigs;
    let serial = arrival(right).serial;
    assert_eq!(departures(left)[0].serial, serial);
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    wait_until("it is listed", || {
        left.with(async |member| member.lists_it(&member.settings.departures()[0]))
    });
    for found in [ArrivalStep::Unknown, ArrivalStep::Waiting] {
        done(left, MoveRequest::Gone { id: id.clone(), found });
        assert!(is_there(left) && parts(left).len() == 1, "it may be all that there is");
    }

    assert_eq!(found(right, &id, Some(&serial)), ArrivalStep::Adopted);
    assert_eq!(found(right, &id, Some("another")), ArrivalStep::Unknown);
    assert_eq!(found(right, &id, None), ArrivalStep::Unknown, "nobody says which one is meant");
    delete(right, "vm");
    assert_eq!(found(right, &id, Some(&serial)), ArrivalStep::Adopted, "it was deleted there");
    lose_a_disk(right);
    assert_eq!(found(right, &id, Some(&serial)), ArrivalStep::Unknown, "not all of it is there");
    end(rigs);
}

#[test]
fn a_destination_has_nothing_whose_data_are_lost_or_that_leaves_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair_with(dir.path(), [209, 210], bare());
    let id = given(&rigs);
    let [left, right] = &rigs;
    let serial = arrival(right).serial;
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    let says = || found(right, &id, Some(&serial));
    assert_eq!(says(), ArrivalStep::Adopted);
    let (onward, _) = copied(right);
    assert_eq!(says(), ArrivalStep::Unknown, "it is copied");
    done(right, MoveRequest::GiveUp { id: onward });
    assert_eq!(says(), ArrivalStep::Adopted);
    lose_a_disk(right);
    assert_eq!(says(), ArrivalStep::Unknown, "disks are missing");
    assert!(is_there(left));
    end(rigs);
}

/// It knows nothing of it any more then, and has written into the claim that it had it.
#[test]
fn what_its_destination_has_moved_on_goes_from_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [211, 212]);
    let id = given(&rigs);
    let [left, right] = &rigs;
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    right.with(async move |member| {
        let group = member.membership.group_id().expect("it is known").expect("it is in one");
        let given = member.membership.hand_over((&group, MemberId(1)), "vm", &drawn()).await;
        assert_eq!(given.expect("the store answers"), HandOver::Done);
    });
    done(left, MoveRequest::Gone { id, found: ArrivalStep::Unknown });
    assert!(!is_there(left) && parts(left).is_empty());
    end(rigs);
}
