//! Servers are let in, or not, and what is left of those that are not.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Instant;

use group::cluster::{self, ServerState};
use group::membership::{Applicant, PORTS};

use super::node::{Node, are, on_a_core, until};
use super::*;
use crate::group_request::{GroupRequest, GroupShown};
use crate::reply::Answer;

#[test]
fn a_ticket_lets_one_server_in_and_a_server_that_cannot_stay_is_taken_back() {
    on_a_core(async {
        let (one, two) = (Node::new(21, "one").await, Node::new(22, "two").await);
        one.create().await;
        let ticket = one.ticket().await.ticket;
        let spare = one.ticket().await;
        let kept = async || match one.ask(GroupRequest::Tickets).await {
            Answer::JoinTickets(kept) => kept,
            other => panic!("{other:?}"),
        };
        let listed = kept().await;
        assert_eq!(listed.len(), 2);
        let listed = listed.iter().find(|it| it.id == spare.ticket.id).expect("it was made");
        assert_eq!(listed.expires_unix_seconds, spare.expires_unix_seconds);
        assert_eq!(listed.created_unix_seconds + 3600, listed.expires_unix_seconds);
        let revoke = || GroupRequest::RevokeTicket { id: spare.ticket.id.clone() };
        one.ask(revoke()).await;
        let id = &spare.ticket.id;
        assert_eq!(one.refused(revoke()).await, format!("there is no token '{id}' to join with"));
        let left: Vec<String> = kept().await.into_iter().map(|it| it.id).collect();
        assert_eq!(left, std::slice::from_ref(&ticket.id));
        let applicant = two.prepare().await;
        let admit = |secret: &str, applicant: &Applicant| GroupRequest::Admit {
            id: ticket.id.clone(),
            secret: SecretWord(secret.to_owned().into()),
            applicant: applicant.clone(),
        };
        let wrong = ticket.secret.replace(|c: char| c.is_ascii_digit(), "a");
        let wrong = one.refused(admit(&wrong, &applicant)).await;
        let same_name = Applicant { name: "one".to_owned(), ..applicant.clone() };
        let taken = one.refused(admit(&ticket.secret, &same_name)).await;
        assert!(taken.contains("a member 'one' already"), "{taken}");
        let copy = Applicant { array: "array-of-one".to_owned(), ..applicant.clone() };
        let copied = one.refused(admit(&ticket.secret, &copy)).await;
        assert!(copied.contains("a copy of a member"), "{copied}");
        let Answer::Admission(admission) = one.ask(admit(&ticket.secret, &applicant)).await else {
            panic!("it is let in")
        };
        let used = one.refused(admit(&ticket.secret, &applicant)).await;
        assert_eq!(used, wrong, "who presents a ticket is not told what is wrong with it");

        // Its data directory takes nothing now: a file lies where the directory is to be.
        std::fs::write(two.data.path().join("group"), "in the way").unwrap();
        let join = GroupRequest::Join { applicant, admission, replace_settings: false };
        let refused = two.refused(join).await;
        assert!(refused.starts_with("cannot keep what belongs to the group"), "{refused}");
        assert_eq!(two.shown().await, GroupShown::None);
        until("the group has forgotten it", async || one.states().await.len() == 1).await;
        std::fs::remove_file(two.data.path().join("group")).unwrap();
        two.join_at(&one).await;
        until("it is in", async || one.states().await.len() == 2).await;
        one.end().await;
        two.end().await;
    });
}

#[test]
fn a_group_that_cannot_be_made_leaves_nothing() {
    on_a_core(async {
        let one = Node::new(31, "one").await;
        let taken = TcpListener::bind((one.listen.ip(), one.listen.port() + 1)).unwrap();
        let create = |name: &str| GroupRequest::Create {
            name: name.to_owned(),
            member: None,
            listen: one.listen,
            address: None,
        };
        let refused = one.refused(create("lab")).await;
        let port = taken.local_addr().unwrap();
        assert!(refused.starts_with(&format!("cannot listen on {port}, ")), "{refused}");
        assert!(one.refused(create("a b")).await.contains("'a b' cannot be the name"));
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, one.listen.port()));
        let prepare = GroupRequest::Prepare { member: None, listen: everywhere };
        assert!(one.refused(prepare).await.contains("cannot be the address of a member"));
        assert!(!one.keeps_anything());
        assert_eq!(one.shown().await, GroupShown::None);
        one.end().await;
    });
}

/// The files of a group that do not read are told of, and nothing is made of them or over them.
#[test]
fn a_member_whose_files_do_not_read_serves_and_says_so() {
    on_a_core(async {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir(data.path().join("group")).unwrap();
        let file = data.path().join("group/membership.json");
        std::fs::write(&file, "{").unwrap();
        let one = Node::start(data, SocketAddr::from((Ipv4Addr::LOCALHOST, 3262)), "one").await;
        let GroupShown::Broken(why) = one.shown().await else { panic!("it reads") };
        assert!(why.contains("membership.json"), "{why}");
        assert_eq!(one.told(Kind::GroupDamaged), 1);
        let (name, listen) = ("lab".to_owned(), one.listen);
        let create = GroupRequest::Create { name, member: None, listen, address: None };
        assert!(one.refused(create).await.starts_with("this member cannot take part"));
        assert!(file.exists());
        one.end().await;
    });
}

/// How many members the group of this one has, by the word of its store.
async fn members_of(node: &Node) -> usize {
    let joined = node.here.in_one().expect("it is in one");
    joined.read_roll().await.expect("the store answers").members.len()
}

/// Its etcd runs before the member is in the group: one that ends between the two must not leave it behind.
#[test]
fn a_member_that_ends_while_it_makes_a_group_leaves_no_etcd() {
    on_a_core(async {
        let one = Node::new(51, "one").await;
        let (here, listen) = (one.here.clone(), one.listen);
        let (done, made) = ring::oneshot();
        ring::spawn(async move {
            let (name, member) = ("lab".to_owned(), Some("one".to_owned()));
            let create = GroupRequest::Create { name, member, listen, address: None };
            done.send(here.answer(create).await.map(drop));
        });
        let runs = || {
            let making = one.here.making.borrow();
            let state = making.as_ref().and_then(|joined| joined.part().state());
            matches!(state, Some(ServerState::Running { .. }))
        };
        let begun = Instant::now();
        while !runs() {
            assert!(begun.elapsed() < Duration::from_secs(60), "etcd does not start");
            ring::sleep(Duration::from_millis(5)).await;
        }
        one.here.end().await;
        for behind in 1..PORTS {
            let port = listen.port() + behind;
            TcpListener::bind((listen.ip(), port)).expect("no etcd has it any more");
        }
        let made = made.await.expect("it is answered");
        assert!(matches!(made, Err(GroupError::Stopping)), "{made:?}");
        assert!(!one.keeps_anything());
        one.logs.end();
    });
}

/// The group has let it in by then, and would wait for it.
#[test]
fn a_server_that_may_not_join_any_more_is_taken_back() {
    on_a_core(async {
        let (one, two) = (Node::new(61, "one").await, Node::new(62, "two").await);
        let three = Node::new(63, "three").await;
        one.create().await;
        let join = |(applicant, admission)| GroupRequest::Join {
            applicant,
            admission: Box::new(admission),
            replace_settings: false,
        };
        let admitted = two.admit_at(&one).await;
        assert_eq!(members_of(&one).await, 2);
        two.create().await;
        assert_eq!(two.refused(join(admitted)).await, "this member is in the group 'lab' already");
        assert_eq!(members_of(&one).await, 1);

        let (applicant, mut admission) = three.admit_at(&one).await;
        admission.endpoints.clear();
        let refused = three.refused(join((applicant, admission))).await;
        assert!(refused.contains("'three' now, which is to be removed there"), "{refused}");
        one.ask(GroupRequest::Remove {
            member: "three".to_owned(),
            despite_moves: false,
            despite_spreads: false,
        })
        .await;

        let admitted = three.admit_at(&one).await;
        three.here.end().await;
        assert_eq!(three.refused(join(admitted)).await, "the member is stopping");
        assert_eq!(members_of(&one).await, 1);
        three.logs.end();
        one.end().await;
        two.end().await;
    });
}

/// All who ran the store may have been replaced while it was away.
#[test]
fn a_member_that_knows_nobody_who_runs_the_store_hears_it_from_the_others() {
    on_a_core(async {
        let (one, two) = (Node::new(71, "one").await, Node::new(72, "two").await);
        one.create().await;
        let (applicant, mut admission) = two.admit_at(&one).await;
        assert_eq!(admission.further_endpoints.len(), 2, "those of all members");
        admission.endpoints = vec![format!("https://{}", SocketAddr::new(two.listen.ip(), 1))];
        let (admission, replace_settings) = (Box::new(admission), false);
        two.ask(GroupRequest::Join { applicant, admission, replace_settings }).await;
        let both = are([("one", MemberState::Present), ("two", MemberState::Present)]);
        until("it is there", async || one.states().await == both).await;
        let kept = two.here.in_one().expect("it is in one").file().clone();
        assert_eq!(kept.endpoints, [cluster::client_url(one.listen.ip(), one.listen.port() + 1)]);
        one.end().await;
        two.end().await;
    });
}
