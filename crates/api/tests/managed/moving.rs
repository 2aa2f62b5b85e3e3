//! Volumes that move from one member to another, through the port that members have for each other.

use std::time::{Duration, Instant};

use api::client::Client;
use api::problem::Code;
use api::types::{JobKind, Run, RunKind, RunState};
use group::membership::MoveId;
use group::settings::{Arrival, Departure, Stage};
use member::Piece;

use crate::moves::{SERIAL, group_of_tests, script, seal};
use crate::{Group, Node, problem, until};

/// Begins to move `vm` from left to right.
fn begin(group: &Group) -> (Client, Run) {
    let client = group.node("left").client();
    let run = client.move_volume("vm", Some("right"), None).expect("it begins");
    (client, run)
}

/// Two members, of which the first has a volume.
fn pair() -> Group {
    Group::start([("left", &["vm"]), ("right", &[])])
}

/// How a run has ended, and why it failed if it did.
fn end(client: &Client, run: &Run) -> (RunState, String) {
    drop(client.end_of_run(&run.id, &mut |_| {}));
    let runs = client.runs().expect("a list");
    let ended = runs.into_iter().find(|it| it.id == run.id).expect("it is kept");
    assert_ne!(ended.state, RunState::Running);
    (ended.state, ended.problem.map(|problem| problem.detail).unwrap_or_default())
}

/// Nothing is left of a move, and the volume is on this one of the two members.
fn is_on(group: &Group, name: &str) {
    for node in &group.nodes {
        until("nothing is left", || node.has.moves.is_idle());
        let is_there = node.has.names().contains(&"vm".to_owned());
        assert_eq!(is_there, node.name == name, "{}: {:?}", node.name, node.has.names());
    }
}

/// Whether a member has told of an event of this kind.
fn has_told(node: &Node, kind: &str) -> bool {
    let events = node.ask("GET", "/v1/events?severity=info", &[], "").json();
    events.as_array().expect("a list").iter().any(|event| event["kind"] == kind)
}

#[test]
fn a_volume_moves_with_all_that_it_has_whoever_is_asked() {
    let mut group = Group::start([("left", &["vm"]), ("right", &[]), ("third", &[])]);
    let third = group.node("third").client();
    let run = third.move_volume("vm", Some("right"), None).expect("it begins");
    assert_eq!(third.answered_by().as_deref(), Some("left"), "it has the run");
    assert_eq!((run.kind, run.state), (RunKind::Move, RunState::Running));
    assert_eq!((run.volume.as_deref(), run.to.as_deref()), (Some("vm"), Some("right")));
    let ended = third.on(third.answered_by()).end_of_run(&run.id, &mut |_| {}).expect("an end");
    assert_eq!((ended.state, ended.problem), (RunState::Done, None));

    let (left, right) = (&group.node("left").has.moves, &group.node("right").has.moves);
    let is_sent = |piece: &Piece| !matches!(piece, Piece::CaughtUp | Piece::End);
    let sent: Vec<Piece> = script().into_iter().filter(is_sent).collect();
    assert_eq!(right.pieces(), sent);
    assert_eq!(right.seals(), [seal()]);
    let mut steps = left.asked();
    steps.dedup();
    steps.truncate(7);
    assert_eq!(steps, ["begin", "next", "freeze", "next", "seal", "commit", "gone"]);
    is_on(&group, "right");
    assert!(!left.was_asked("give-up") && !right.was_asked("discard"));
    for name in ["left", "right"] {
        assert!(has_told(group.node(name), "volume_moved"), "{name}");
    }
    // Its member of before finds it at once, the others as soon as they have heard of it.
    group.tell();
    assert_eq!(group.node("left").client().volume("vm").unwrap().member.as_deref(), Some("right"));
    group.hear();
    assert_eq!(third.volume("vm").unwrap().member.as_deref(), Some("right"));
    let audit = |name: &str| group.node(name).ask("GET", "/v1/audit", &[], "").json().to_string();
    assert!(audit("left").contains("POST /v1/volumes/{name}/move"), "{}", audit("left"));
    let there = audit("right");
    assert!(there.contains("POST /v1/moves\"") && there.contains("member 'left'"), "{there}");
    assert!(!there.contains("/pieces"), "{there}");
    group.stop();
}

#[test]
fn what_is_refused_has_not_begun() {
    let group = pair();
    let (left, right) = (group.node("left"), group.node("right"));
    let client = left.client();
    let both = problem(client.move_volume("vm", Some("right"), Some("default")));
    assert_eq!(both.code, Code::Invalid);
    assert_eq!(problem(client.move_volume("none", None, None)).code, Code::NoSuchVolume);
    assert_eq!(problem(client.move_volume("vm", Some("left"), None)).code, Code::WrongState);
    assert!(!right.has.moves.was_asked("arrive") && !left.has.moves.was_asked("give-up"));
    right.has.moves.fails("arrive", 1);
    let told = problem(client.move_volume("vm", None, None));
    assert_eq!(told.code, Code::Unavailable);
    assert!(told.detail.starts_with("member 'right' does not take volume 'vm': "), "{told}");
    assert_eq!(left.has.moves.asked().last(), Some(&"give-up"));
    assert!(!right.has.moves.was_asked("discard"), "it has said that there is nothing");
    assert!(client.runs().unwrap().is_empty(), "none of them has begun");
    is_on(&group, "left");
    let (client, run) = begin(&group);
    assert_eq!(end(&client, &run).0, RunState::Done, "it moves once nothing is in the way");
    group.stop();
}

#[test]
fn a_step_that_fails_leaves_the_volume_where_it_was() {
    let group = pair();
    let (left, right) = (group.node("left"), group.node("right"));
    for (node, step) in
        [(left, "next"), (left, "freeze"), (left, "seal"), (right, "write"), (right, "prepare")]
    {
        node.has.moves.fails(step, 1);
        let (client, run) = begin(&group);
        let (state, why) = end(&client, &run);
        assert_eq!(state, RunState::Failed, "{step}");
        assert!(why.contains("without a result"), "{step}: {why}");
        is_on(&group, "left");
        assert!(!left.has.moves.was_asked("commit"), "{step}");
    }
    assert!(has_told(left, "volume_move_given_up"));
    // That it is given up is asked for until it is done.
    left.has.moves.fails("freeze", 1);
    left.has.moves.fails("give-up", 2);
    let (client, run) = begin(&group);
    assert_eq!(end(&client, &run).0, RunState::Failed);
    is_on(&group, "left");
    group.stop();
}

#[test]
fn a_move_that_is_cancelled_ends_and_tells_how_far_it_was() {
    let group = pair();
    let (left, right) = (&group.node("left").has.moves, &group.node("right").has.moves);
    left.is_endless(true);
    let (client, run) = begin(&group);
    until("something has come", || right.came() > 2);
    let told = || client.runs().expect("a list").into_iter().find(|it| it.id == run.id);
    until("it tells how far it is", || {
        let jobs = told().expect("it goes on").jobs;
        jobs.first().is_some_and(|job| job.kind == JobKind::Move && job.done_bytes > 0)
    });
    assert_eq!(client.cancel_run(&run.id).expect("it can be").state, RunState::Running);
    let ended = client.end_of_run(&run.id, &mut |_| {}).expect("an end");
    assert_eq!((ended.state, ended.problem), (RunState::Cancelled, None));
    assert!(ended.jobs[0].subject == "vm" && ended.jobs[0].done_bytes > 2 * 4096);
    assert!(ended.jobs[0].total_bytes >= ended.jobs[0].done_bytes);
    assert!(left.was_asked("give-up") && !left.was_asked("freeze"));
    is_on(&group, "left");
    group.stop();
}

/// Cancels a move that waits, and gives how it has ended. It is waited for half a minute at most, as for an answer.
fn cancelled((client, run): &(Client, Run)) -> RunState {
    let begun = Instant::now();
    assert_eq!(client.cancel_run(&run.id).expect("it can be").state, RunState::Running);
    let (state, _) = end(client, run);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    state
}

#[test]
fn a_move_that_is_cancelled_waits_for_nobody_who_does_not_answer() {
    let group = pair();
    let (left, right) = (&group.node("left").has.moves, &group.node("right").has.moves);
    for (silent, step) in
        [(left, "next"), (left, "freeze"), (left, "seal"), (right, "write"), (right, "prepare")]
    {
        silent.hangs(&[step]);
        let begun = begin(&group);
        until("it is waited for", || silent.is_waited_for());
        assert_eq!(cancelled(&begun), RunState::Cancelled, "{step}");
        silent.hangs(&[]);
        is_on(&group, "left");
        assert!(!left.was_asked("commit"), "{step}");
    }
    // Nor until it has thrown away what has come: it does so by itself.
    right.hangs(&["write", "discard"]);
    let begun = begin(&group);
    until("it is waited for", || right.is_waited_for());
    assert_eq!(cancelled(&begun), RunState::Cancelled);
    assert!(left.is_idle() && right.was_asked("discard"));
    group.stop();
}

#[test]
fn what_is_not_known_of_a_volume_is_told_to_nobody() {
    let group = pair();
    let (left, right) = (group.node("left"), group.node("right"));
    left.has.moves.fails("freeze", 1);
    left.has.moves.fails("says", 1);
    let (client, run) = begin(&group);
    let (state, why) = end(&client, &run);
    assert_eq!(state, RunState::Failed);
    assert!(why.contains("it is not known yet whether it stays here: "), "{why}");
    assert!(left.has.moves.was_asked("give-up"));
    assert!(!has_told(left, "volume_move_given_up"));
    assert!(!right.has.moves.was_asked("discard") && !right.has.moves.was_asked("adopt"));
    group.stop();
}

#[test]
fn what_only_an_operator_decides_ends_the_run() {
    let group = pair();
    let left = &group.node("left").has.moves;
    let undecided = |step: &'static str| {
        left.undecided(step);
        let (client, run) = begin(&group);
        let (state, why) = end(&client, &run);
        assert_eq!(state, RunState::Failed, "{step}");
        assert!(why.contains("only an operator decides"), "{step}: {why}");
        let asked = left.asked();
        assert_eq!(asked.iter().filter(|word| **word == step).count(), 1, "{step}: {asked:?}");
    };
    undecided("commit");
    assert!(!left.was_asked("give-up"));
    left.fails("freeze", 1);
    undecided("give-up");
    group.stop();
}

#[test]
fn from_the_hand_over_on_it_is_asked_for_until_it_is_known_and_nothing_is_cancelled() {
    let group = pair();
    let left = &group.node("left").has.moves;
    left.fails("commit", usize::MAX);
    let (client, run) = begin(&group);
    until("it was asked for twice", || {
        left.asked().iter().filter(|word| **word == "commit").count() > 1
    });
    let refused = problem(client.cancel_run(&run.id));
    assert_eq!(refused.code, Code::WrongState);
    assert!(refused.detail.contains("is being handed over"), "{refused}");
    assert!(!left.was_asked("give-up"));
    left.fails("commit", 0);
    assert_eq!(end(&client, &run).0, RunState::Done);
    is_on(&group, "right");
    group.stop();
}

#[test]
fn a_volume_that_the_group_does_not_give_away_stays() {
    let group = pair();
    group.node("left").has.moves.is_kept();
    let (client, run) = begin(&group);
    let (state, why) = end(&client, &run);
    assert_eq!(state, RunState::Failed);
    assert!(why.starts_with("volume 'vm' stays here: the group did not give it"), "{why}");
    is_on(&group, "left");
    group.stop();
}

/// What has come is all that there is then: the destination hears what the member says of the volume, and nothing that its
/// driver knows of the move.
#[test]
fn what_its_source_has_lost_meanwhile_stays_where_it_has_come() {
    let group = pair();
    let (left, right) = (group.node("left"), group.node("right"));
    left.has.moves.is_kept();
    left.has.moves.has_lost();
    let (client, run) = begin(&group);
    assert_eq!(end(&client, &run).0, RunState::Failed);
    assert!(left.has.moves.was_asked("says") && right.has.moves.was_asked("adopt"));
    assert!(!right.has.moves.is_idle(), "nobody has said that its source has it");
    group.stop();
}

/// The group has given it, and the destination says that it has nothing: what is left at the source is all that there is.
#[test]
fn what_its_destination_says_that_it_has_not_is_not_told_as_done() {
    let group = pair();
    let (left, right) = (&group.node("left").has.moves, &group.node("right").has.moves);
    right.has_lost();
    let (client, run) = begin(&group);
    let (state, why) = end(&client, &run);
    assert_eq!(state, RunState::Failed);
    assert!(why.contains("has not said yet that it serves it: it says that it has no"), "{why}");
    assert!(left.was_asked("gone") && !left.is_idle(), "it is kept");
    group.stop();
}

#[test]
fn a_destination_that_ends_meanwhile_keeps_nobody_from_the_volume() {
    let mut group = pair();
    group.node("left").has.moves.is_endless(true);
    let (client, run) = begin(&group);
    let right = group.node("right").has.clone();
    until("something has come", || right.moves.came() > 2);
    group.kill("right");
    let (state, why) = end(&client, &run);
    assert_eq!(state, RunState::Failed, "{why}");
    assert!(why.contains("member 'right'"), "{why}");
    is_on(&group, "left");
    // Nor does one that was gone before.
    let told = problem(client.move_volume("vm", Some("right"), None));
    assert_eq!(told.code, Code::NotReached, "{told}");
    is_on(&group, "left");
    group.stop();
}

#[test]
fn a_destination_finds_by_itself_what_the_group_has_given_it() {
    let mut group = pair();
    let right = group.node("right").has.clone();
    right.moves.fails("adopt", usize::MAX);
    begin(&group);
    let left = &group.node("left").has.moves;
    until("it is to adopt it", || left.was_asked("commit") && right.moves.was_asked("adopt"));
    assert!(!left.was_asked("gone"), "not before it has");
    group.kill("left");
    right.moves.fails("adopt", 0);
    until("it has looked", || right.names() == ["vm"]);
    assert!(right.moves.is_idle());
    group.stop();
}

/// A volume of this serial number has left a member for another one, which it was given to.
fn gone(from: &Node, to: &Node, serial: &str) -> Departure {
    Departure {
        id: MoveId::draw().expect("randomness"),
        group: group_of_tests(),
        volume: 1,
        name: "adopted".to_owned(),
        from: from.number,
        to: to.number,
        to_name: String::new(),
        serial: serial.to_owned(),
        iqns: Vec::new(),
        stage: Stage::Gone,
    }
}

/// Its array may have lost what it has told the others of.
#[test]
fn what_its_destination_does_not_have_stays_at_its_source() {
    let group = Group::start([("left", &["vm"]), ("right", &["adopted"])]);
    let (left, right) = (group.node("left"), group.node("right"));
    left.has.moves.leave(gone(left, right, "another"));
    until("it was asked", || {
        right.has.moves.was_asked("adopt") && left.has.moves.was_asked("gone")
    });
    assert!(!left.has.moves.is_idle(), "it is all that there is");
    group.stop();
}

#[test]
fn what_a_life_before_has_left_is_put_right_by_both_sides() {
    let group = Group::start([("left", &["vm"]), ("right", &["adopted"])]);
    let (left, right) = (group.node("left"), group.node("right"));
    // The one was adopted long ago, the other was cut off before the group was asked.
    left.has.moves.leave(gone(left, right, SERIAL));
    let (name, stage) = ("vm".to_owned(), Stage::Leaving);
    left.has.moves.leave(Departure { name, stage, ..gone(left, right, SERIAL) });
    // And one was prepared whose source has kept it, and says so of the volume alone.
    let (id, name) = (MoveId::draw().expect("randomness"), "other".to_owned());
    let from = left.number;
    let (group_id, online) = (group_of_tests(), true);
    let (volume, from_name, serial) = (2, String::new(), SERIAL.to_owned());
    let arrival = Arrival { id, group: group_id, volume, name, from, from_name, serial, online };
    right.has.moves.come(arrival);
    until("all of it is done", || left.has.moves.is_idle() && right.has.moves.is_idle());
    for word in ["gone", "give-up", "says"] {
        assert!(left.has.moves.was_asked(word), "{word}");
    }
    is_on(&group, "left");
    assert_eq!(right.has.names(), ["adopted"]);
    until("it is told", || has_told(left, "volume_moved"));
    until("it is told", || has_told(left, "volume_move_given_up"));
    group.stop();
}

#[test]
fn what_members_ask_of_each_other_is_not_asked_at_a_socket() {
    let group = pair();
    let left = group.node("left");
    let id = MoveId::draw().expect("randomness");
    for (method, path) in [
        ("POST", "/v1/moves".to_owned()),
        ("GET", format!("/v1/moves/{id}")),
        ("DELETE", format!("/v1/moves/{id}")),
        ("PUT", format!("/v1/moves/{id}/pieces")),
        ("POST", format!("/v1/moves/{id}/adopt")),
    ] {
        for headers in [&[][..], &[("drystone-member", "right")][..]] {
            let refused = left.ask(method, &path, headers, "");
            assert!(refused.status == 404 || refused.status == 403, "{method} {path} {refused:?}");
        }
    }
    for name in ["left", "right"] {
        assert!(group.node(name).has.moves.asked().is_empty(), "{name}");
    }
    group.stop();
}
