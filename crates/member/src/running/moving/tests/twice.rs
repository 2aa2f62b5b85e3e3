//! Copies of a volume that has another name by now: no name says that it is another member's, and what that one has told
//! of its volumes keeps an operator from having two of them served.

use group::membership::HandOver;

use super::ends::{
    adopt, arrival, end, given, is_there, parts, prepared, send, settle, undecided, whose,
};
use super::*;

/// The volume gets another name.
fn rename(rig: &Rig, to: &str) {
    let (name, to) = ("vm".to_owned(), to.to_owned());
    let renamed = rig.ask(Request::Volume(VolumeRequest::Rename { name, to }));
    renamed.expect("it is renamed");
}

fn has(rig: &Rig, name: &'static str) -> bool {
    rig.with(async move |member| member.array().volume(name).is_ok())
}

/// A third member of their group.
fn third(dir: &Path, [left, _]: &[Rig; 2], number: u8) -> Rig {
    let third = start(dir, "third");
    join(&third, "third", free_at(number), (left, false));
    third
}

/// A volume of this name moves to the third member, to the end.
fn give_on(from: &Rig, third: &Rig, name: &str) {
    let mut begun = None;
    wait_until("the third member is known", || {
        begun = moves(from, begin(name, Some("third"), None)).ok();
        begun.is_some()
    });
    let Some(Answer::Leaving(leaving)) = begun else { panic!("{begun:?}") };
    let Leaving { id, passport, .. } = *leaving;
    done(third, MoveRequest::Arrive { passport });
    send(from, third, &id);
    done(from, MoveRequest::Freeze { id: id.clone() });
    send(from, third, &id);
    let seal = seal(from, &id);
    done(third, MoveRequest::Prepare { id: id.clone(), seal });
    let committed = moves(from, MoveRequest::Commit { id: id.clone() });
    assert_eq!(committed.expect("the store answers"), Answer::Committed(true));
    assert_eq!(adopt(third, &id, None), ArrivalStep::Adopted);
    wait_until("what is left of it is gone", || {
        done(from, gone(&id));
        departures(from).is_empty()
    });
}

/// An operator is told where it is, and refused to keep what is left of it elsewhere, which he can discard.
fn is_not_kept(rig: &Rig, id: &MoveId, by: &str) {
    undecided(rig, &format!("member '{by}' has told that it has this volume now"));
    let kept = refused(rig, settle(id, true));
    assert!(
        kept.contains(&format!("the member '{by}' has told that it has that volume")),
        "{kept}"
    );
    assert!(!is_served(rig) && parts(rig).len() == 1);
    done(rig, settle(id, false));
    assert!(!is_there(rig) && parts(rig).is_empty());
}

#[test]
fn what_its_destination_has_given_on_under_another_name_is_not_kept_at_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [213, 214]);
    let id = given(&rigs);
    let third = third(dir.path(), &rigs, 215);
    let [left, right] = &rigs;
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    rename(right, "other");
    give_on(right, &third, "other");
    wait_until("its name is nobody's", || whose(left).is_none());
    is_not_kept(left, &id, "third");
    assert!(has(&third, "other"));
    third.stop();
    end(rigs);
}

/// The source was cut off before it heard that the group had given it away.
#[test]
fn what_its_destination_has_under_another_name_is_not_kept_at_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [216, 217]);
    let id = prepared(&rigs);
    let [left, right] = &rigs;
    let (by, to) = (id.clone(), departures(left)[0].to);
    left.with(async move |member| {
        let group = member.membership.group_id().expect("it is known").expect("it is in one");
        let given = member.membership.hand_over((&group, to), "vm", &by).await;
        assert_eq!(given.expect("the store answers"), HandOver::Done);
        member.moving.sources.borrow_mut().clear();
    });
    assert_eq!(adopt(right, &id, None), ArrivalStep::Adopted);
    rename(right, "other");
    wait_until("its name is nobody's", || whose(left).is_none());
    assert_eq!(departures(left)[0].stage, Stage::Leaving);
    is_not_kept(left, &id, "right");
    assert!(has(right, "other"));
    end(rigs);
}

/// It has kept it, and its operators have moved it on since: what had come before is of before that.
#[test]
fn what_its_source_has_given_on_under_another_name_is_not_kept_at_its_destination() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [218, 219]);
    let id = prepared(&rigs);
    let third = third(dir.path(), &rigs, 220);
    let [left, right] = &rigs;
    done(left, MoveRequest::GiveUp { id: id.clone() });
    rename(left, "other");
    give_on(left, &third, "other");
    wait_until("its name is nobody's", || whose(left).is_none());
    is_not_kept(right, &id, "third");
    assert!(has(&third, "other"));
    third.stop();
    end(rigs);
}

/// Somebody else has thrown away what is stored of it meanwhile.
#[test]
fn a_name_is_free_again_whose_volume_is_not_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let rigs = pair(dir.path(), [221, 222]);
    given(&rigs);
    let [left, right] = &rigs;
    let arrival = arrival(right);
    let forgotten = arrival.id.clone();
    right.with(async move |member| {
        member.settings.forget_arrival(&forgotten).await.expect("it is forgotten");
    });
    wait_until("its source has told that it is handed over", || {
        let arrival = arrival.clone();
        let kept = right.with(async move |member| {
            member.keep_arrived(&arrival).await.map_err(|error| error.to_string())
        });
        let kept = kept.expect_err("nothing is stored of it");
        let is_told = !kept.contains("has told that it has that volume");
        assert!(!is_told || kept.contains("no move of the number"), "{kept}");
        is_told
    });
    wait_until("its name is nobody's", || whose(left).is_none());
    end(rigs);
}
