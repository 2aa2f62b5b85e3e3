//! How moves end whose destination is there: what is between the members is decided by the claim of the name alone,
//! and where nothing decides it, by an operator.

use group::handover::DestinationStep;
use group::settings::Arrival;

use super::*;
use crate::move_request::{Transit, TransitState};

/// Has the destination take pieces until it has nearly all, or all.
pub(super) fn send(from: &Rig, to: &Rig, id: &MoveId) {
    loop {
        let next = moves(from, MoveRequest::Next { id: id.clone() }).expect("there is more");
        let Answer::Piece(piece) = next else { panic!("{next:?}") };
        if matches!(piece, Piece::CaughtUp | Piece::End) {
            return;
        }
        done(to, MoveRequest::Write { id: id.clone(), piece });
    }
}

/// All of the volume `vm` is at the second member too, and nobody has asked the store.
pub(super) fn prepared([left, right]: &[Rig; 2]) -> MoveId {
    write(left, 0, MIB, 1);
    let leaving = begun(left, "vm");
    let id = leaving.id;
    done(right, MoveRequest::Arrive { passport: leaving.passport });
    send(left, right, &id);
    done(left, MoveRequest::Freeze { id: id.clone() });
    send(left, right, &id);
    let seal = seal(left, &id);
    done(right, MoveRequest::Prepare { id: id.clone(), seal });
    id
}

/// The volume `vm` is the second member's, by the group, and neither of them serves it.
pub(super) fn given(rigs: &[Rig; 2]) -> MoveId {
    let id = prepared(rigs);
    commit(&rigs[0], &id);
    id
}

fn commit(rig: &Rig, id: &MoveId) {
    let committed = moves(rig, MoveRequest::Commit { id: id.clone() });
    assert_eq!(committed.expect("the store answers"), Answer::Committed(true));
}

/// The second member is removed, and its server joins again: it has another number then.
pub(super) fn join_anew([left, right]: &[Rig; 2], number: u8) {
    let member = "right".to_owned();
    let remove = Request::Group(GroupRequest::Remove {
        member,
        despite_moves: true,
        despite_spreads: false,
    });
    assert_eq!(left.ask(remove).expect("it is done"), Answer::Done);
    wait_until("it knows that it is in no group any more", || {
        right.with(async |member| matches!(member.membership.group_id(), Ok(None)))
    });
    let part = only_part(right);
    assert_eq!(
        (part.state, part.other.as_str()),
        (TransitState::Undecided, "left of another group")
    );
    join(right, "right", free_at(number), (left, false));
}

pub(super) fn arrival(rig: &Rig) -> Arrival {
    rig.with(async |member| member.settings.arrivals().remove(0))
}

pub(super) fn adopt(rig: &Rig, id: &MoveId, says: Option<SourceSays>) -> ArrivalStep {
    let mut step = None;
    wait_until("the store answers", || {
        match moves(rig, look(id, says)) {
            Ok(Answer::Arrived(looked)) => step = Some(looked),
            Ok(other) => panic!("{other:?}"),
            Err(error) => tracing::info!("not yet: {error}"),
        }
        step.is_some()
    });
    step.expect("it has answered")
}

pub(super) fn parts(rig: &Rig) -> Vec<Transit> {
    let answer = moves(rig, MoveRequest::Transits).expect("they are listed");
    let Answer::Transits(all) = answer else { panic!("{answer:?}") };
    all
}

fn only_part(rig: &Rig) -> Transit {
    let mut all = parts(rig);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Waits until only an operator ends the part of a member, for this reason.
pub(super) fn undecided(rig: &Rig, words: &str) {
    wait_until(words, || {
        let part = only_part(rig);
        let is_it = part.why.as_ref().is_some_and(|why| why.contains(words));
        is_it && part.state == TransitState::Undecided
    });
}

pub(super) fn settle(id: &MoveId, keep: bool) -> MoveRequest {
    MoveRequest::Settle { id: id.clone(), keep }
}

/// Whose the name is, and by which move.
pub(super) fn whose(rig: &Rig) -> Option<(u16, Option<MoveId>)> {
    rig.with(async |member| {
        let holder = member.membership.holder_of("vm").await.expect("the store answers");
        holder.map(|holder| (holder.member.0, holder.moved))
    })
}

pub(super) fn is_there(rig: &Rig) -> bool {
    rig.with(async |member| member.array().volume("vm").is_ok())
}

pub(super) fn end(rigs: [Rig; 2]) {
    let [left, right] = rigs;
    right.stop();
    left.stop();
}

/// The destination has read that the name is given to it; before it has done anything about that, an operator settles
/// at the source that the volume stays, which the group allows: the name is that of a member which is none any more.
#[test]
fn a_volume_that_stays_while_its_destination_looks_is_served_by_its_source_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [150, 151]);
    let id = given(&rigs);
    join_anew(&rigs, 152);
    let [left, right] = &rigs;
    let looked = arrival(right);
    wait_until("it has read that it is given", || {
        let looked = looked.clone();
        right.with(async move |member| {
            member.step_of(&looked, None).await.ok() == Some(DestinationStep::Adopt)
        })
    });
    undecided(left, "removed from the group since");
    done(left, settle(&id, true));
    assert!(is_served(left) && departures(left).is_empty());

    let step = right.with(async move |member| {
        member.adopt_given(&looked).await.map_err(|error| error.to_string())
    });
    assert_eq!(step, Ok(ArrivalStep::Waiting));
    assert!(!is_served(right), "the source serves it");
    assert_eq!(only_part(right).id, id, "it is not thrown away either");
    let says = says(left, &id);
    assert_eq!(says, SourceSays::GivenUp);
    assert_eq!(adopt(right, &id, Some(says)), ArrivalStep::Discarded);
    assert!(is_served(left) && !is_there(right) && parts(right).is_empty());
    end(rigs);
}

#[test]
fn a_volume_that_its_destination_has_adopted_under_another_number_is_not_kept_at_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [153, 154]);
    let id = given(&rigs);
    join_anew(&rigs, 155);
    let [left, right] = &rigs;
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    assert!(is_served(right) && parts(right).is_empty());
    assert_eq!(whose(left), Some((3, Some(id.clone()))), "whoever looks late knows how it came");
    undecided(left, "member 'right' has told that it has this volume now");
    let kept = refused(left, settle(&id, true));
    assert!(kept.contains("the member 'right' has told that it has that volume"), "{kept}");
    assert!(!is_served(left));
    done(left, settle(&id, false));
    assert!(!is_there(left) && is_served(right));
    end(rigs);
}

/// The destination has lost all that it had stored, and somebody has made another volume of that name there, which has
/// moved on: what the source has is the only copy.
#[test]
fn a_name_that_has_passed_on_by_another_move_is_no_proof_that_its_volume_was_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [156, 157]);
    let [left, right] = &rigs;
    // Its destination is kept in memory, so that it knows nothing of it.
    let (id, copy, _) = sealed(left);
    commit(left, &id);
    right.create("vm");
    undecided(left, "its name is that of a volume of member 'right' now");
    let kept = refused(left, settle(&id, true));
    assert!(kept.contains("rename that one first"), "{kept}");
    let onward = MoveId::draw().expect("randomness");
    right.with(async move |member| {
        let group = member.membership.group_id().expect("it is known").expect("it is in one");
        let to = group::ownership::MemberId(1);
        let given = member.membership.hand_over((&group, to), "vm", &onward).await;
        assert_eq!(given.expect("the store answers"), group::membership::HandOver::Done);
    });
    for found in [ArrivalStep::Unknown, ArrivalStep::Adopted] {
        done(left, MoveRequest::Gone { id: id.clone(), found });
        assert!(is_there(left), "it may be all that there is");
    }
    undecided(left, "its name is this member's again");
    done(left, settle(&id, true));
    assert!(is_served(left) && copy.contents == contents(left));
    end(rigs);
}

/// It was the destination's, which has said so itself.
#[test]
fn what_was_adopted_and_deleted_since_goes_from_its_source_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [158, 159]);
    let id = given(&rigs);
    let [left, right] = &rigs;
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    let name = || "vm".to_owned();
    let offline = VolumeRequest::SetOnline { name: name(), online: false };
    for request in [offline, VolumeRequest::Delete { name: name() }] {
        right.ask(Request::Volume(request)).expect("it is deleted");
    }
    wait_until("the others have heard of it", || {
        done(left, gone(&id));
        !is_there(left)
    });
    assert!(parts(left).is_empty());
    end(rigs);
}

/// The array of the destination has lost what the group has given to it, or somebody has deleted it there by hand.
#[test]
fn a_volume_that_is_lost_where_it_was_given_to_is_settled_on_both_sides() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [160, 161]);
    let id = given(&rigs);
    let [left, right] = &rigs;
    let hidden = right.with(async |member| {
        let id = member.settings.arrivals().remove(0).id;
        super::super::arrival::hidden_name(&id)
    });
    right.with(async move |member| {
        member.array().delete_volume(&hidden).await.expect("it is deleted");
        member.array().purge_volume(&hidden).await.expect("it is purged");
    });
    undecided(right, "what had come of it is not on its array");
    let part = only_part(right);
    assert_eq!(part.other, "left");
    let step = refused(right, look(&id, None));
    assert!(step.contains("only an operator decides"), "{step}");
    let kept = refused(right, settle(&id, true));
    assert!(kept.contains("its copy is not on the array"), "{kept}");
    assert_eq!(whose(left), Some((2, Some(id.clone()))), "its name stays what it was");
    let early = refused(left, settle(&id, true));
    assert!(early.contains("the group decides"), "{early}");

    done(right, settle(&id, false));
    assert!(parts(right).is_empty());
    undecided(left, "its name is no volume's any more");
    // Cut off behind the name.
    left.with(async |member| {
        member.take_name_to_keep("vm").await.map(drop).expect("nobody has it");
    });
    assert_eq!(whose(left), Some((1, None)));
    assert!(!is_served(left));
    undecided(left, "its name is this member's again");
    done(left, settle(&id, true));
    assert!(is_served(left) && parts(left).is_empty());
    end(rigs);
}

/// What an operator wants and what the group says are the same: he has it done at once, also where it was begun before.
#[test]
fn a_volume_that_stays_by_the_group_is_kept_and_not_discarded() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [162, 163]);
    let (id, _) = frozen(&rigs[0]);
    let driven = refused(&rigs[0], settle(&id, true));
    assert!(driven.contains("the group decides"), "{driven}");
    end(rigs);
    let left = start(dir.path(), "left");
    assert!(!is_served(&left) && moves(&left, settle(&id, false)).is_err());
    wait_until("the store answers", || moves(&left, settle(&id, true)).is_ok());
    assert!(is_served(&left) && departures(&left).is_empty());
    left.stop();
}
