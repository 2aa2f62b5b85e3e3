//! Members on this machine, each at an address of its own, over an etcd that they run themselves.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::{Duration, Instant};

use group::cluster::{self, ServerState};
use group::membership::{About, Applicant, Inventory, ListedVolume, MemberRecord, Roll};
use group::ownership::MemberId;
use tempfile::TempDir;

use super::files::MembershipFile;
use super::life::judge;
use super::requests::state_of;
use super::trouble::Trouble;
use super::*;
use crate::Logs;
use crate::group_request::{
    Admission, GroupRequest, GroupShown, GroupState, JoinTicket, MemberShown, MemberState,
};
use crate::reply::Answer;

const GROUP: &str = "0123456789abcdef0123456789abcdef";

/// A group of members with these numbers, of whom some are present. Each has entered.
pub(super) fn roll_of(members: &[(u16, bool)]) -> Roll {
    let record = |number: u16| MemberRecord {
        name: format!("m{number}"),
        address: Ipv4Addr::new(192, 0, 2, number.try_into().unwrap()).into(),
        port: 3262,
        certificate_sha256: String::new(),
        array: format!("{number:032x}"),
        version: "1.0.0".to_owned(),
        joined_unix_seconds: 1,
        incarnation: u64::from(number) + 100,
    };
    let about = About {
        id: GROUP.parse().unwrap(),
        name: "lab".to_owned(),
        created_unix_seconds: 1,
        last_member: members.iter().map(|(number, _)| *number).max().unwrap(),
    };
    let present = members.iter().filter(|(_, is_present)| *is_present);
    Roll {
        about: Some(about),
        members: members.iter().map(|(number, _)| (MemberId(*number), record(*number))).collect(),
        present: present.map(|(number, _)| (MemberId(*number), u64::from(*number) + 100)).collect(),
        ..Roll::default()
    }
}

fn file_of(member: u16, is_ending: bool) -> MembershipFile {
    MembershipFile {
        version: MembershipFile::VERSION,
        group: GROUP.parse().unwrap(),
        group_name: "lab".to_owned(),
        member: MemberId(member),
        name: format!("m{member}"),
        address: Ipv4Addr::LOCALHOST.into(),
        port: 3262,
        endpoints: Vec::new(),
        further_endpoints: Vec::new(),
        has_seat: false,
        is_ending,
    }
}

/// Everything that a member keeps of its group is deleted by this word: nothing less may be one.
#[test]
fn only_the_word_of_its_own_group_lets_a_member_leave() {
    let roll = roll_of(&[(1, true), (2, false)]);
    assert_eq!(judge(&roll, &file_of(1, false)), Ok(()));
    assert_eq!(judge(&roll, &file_of(2, false)), Ok(()), "it is away, and in it");
    assert_eq!(judge(&roll, &file_of(3, false)), Err(Trouble::Removed));
    assert_eq!(judge(&roll, &file_of(1, true)), Ok(()), "it was to end, and did not");
    let is_damage = |roll: &Roll, is_ending| {
        matches!(judge(roll, &file_of(3, is_ending)), Err(Trouble::Damaged(_)))
    };
    assert!(is_damage(&Roll::default(), false), "a store that was lost and made anew");
    assert_eq!(judge(&Roll::default(), &file_of(3, true)), Err(Trouble::Deleted));
    let mut other = roll;
    other.about.as_mut().unwrap().id = "f".repeat(32).parse().unwrap();
    assert!(is_damage(&other, false) && is_damage(&other, true), "the store of another group");
}

#[test]
fn how_a_member_is_is_not_known_without_the_store() {
    let mut roll = roll_of(&[(1, true), (2, true), (3, false), (4, false)]);
    roll.members.get_mut(&MemberId(4)).unwrap().incarnation = 0;
    let states =
        |is_known| [1, 2, 3, 4].map(|id| state_of(MemberId(id), &roll, (MemberId(1), is_known)));
    use MemberState::{Away, Joining, Present, Unknown};
    assert_eq!(states(true), [Present, Present, Away, Joining]);
    assert_eq!(states(false), [Present, Unknown, Unknown, Unknown]);
    // Signs of life of a life before the last do not count.
    roll.present.insert(MemberId(3), 7);
    assert_eq!(state_of(MemberId(3), &roll, (MemberId(1), true)), Away);
}

/// A member without an array.
struct Node {
    here: Rc<InGroup>,
    logs: Logs,
    data: TempDir,
    listen: SocketAddr,
    name: &'static str,
}

impl Node {
    /// At the address 127.0.0.`number`, in no group.
    async fn new(number: u8, name: &'static str) -> Self {
        let ip = Ipv4Addr::new(127, 0, 0, number);
        // The ports behind a free one are free more often than not.
        let is_free = |port: u16| (0..3).all(|n| TcpListener::bind((ip, port + n)).is_ok());
        let draw = || TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap().port();
        let port = (0..100).map(|_| draw()).find(|port| *port < 65_000 && is_free(*port));
        let listen = SocketAddr::from((ip, port.expect("three free ports in a row")));
        Self::start(tempfile::tempdir().unwrap(), listen, name).await
    }

    /// Of what lies there.
    async fn start(data: TempDir, listen: SocketAddr, name: &'static str) -> Self {
        let logs = Logs::open(data.path()).unwrap();
        let (door, array) = (CurrentDoor::default(), format!("array-of-{name}"));
        let here = InGroup::read(data.path(), array, door, logs.events.clone()).await;
        here.set_own(Inventory {
            portals: vec![SocketAddr::new(listen.ip(), 3260)],
            volumes: vec![ListedVolume {
                name: "vm".to_owned(),
                iqn: iqn(name),
                size_bytes: 1 << 20,
                is_online: true,
            }],
            snapshots: Vec::new(),
        });
        here.start();
        Self { here, logs, data, listen, name }
    }

    /// Ends it as its process would, and starts it again.
    async fn restart(self) -> Self {
        let (data, listen, name) = self.end().await;
        Self::start(data, listen, name).await
    }

    async fn end(self) -> (TempDir, SocketAddr, &'static str) {
        self.here.end().await;
        self.logs.end();
        (self.data, self.listen, self.name)
    }

    async fn ask(&self, request: GroupRequest) -> Answer {
        let asked = format!("{request:?}");
        self.here.answer(request).await.unwrap_or_else(|error| panic!("{asked}: {error}"))
    }

    async fn refused(&self, request: GroupRequest) -> String {
        let asked = format!("{request:?}");
        let Err(error) = self.here.answer(request).await else { panic!("{asked}: done") };
        error.to_string()
    }

    async fn create(&self) -> GroupState {
        let member = Some(self.name.to_owned());
        let name = "lab".to_owned();
        let made = self.ask(GroupRequest::Create { name, member, listen: self.listen }).await;
        let Answer::Group(GroupShown::In(state)) = made else { panic!("{made:?}") };
        *state
    }

    async fn ticket(&self) -> JoinTicket {
        let lifetime = Duration::from_secs(3600);
        let made = self.ask(GroupRequest::CreateTicket { lifetime }).await;
        let Answer::JoinTicket(ticket) = made else { panic!("{made:?}") };
        ticket
    }

    async fn prepare(&self) -> Applicant {
        let member = Some(self.name.to_owned());
        let prepared = self.ask(GroupRequest::Prepare { member, listen: self.listen }).await;
        let Answer::Applicant(applicant) = prepared else { panic!("{prepared:?}") };
        applicant
    }

    /// What the interface does at both ends.
    async fn admit_at(&self, member: &Self) -> (Applicant, Admission) {
        let (applicant, ticket) = (self.prepare().await, member.ticket().await.ticket);
        let (id, secret) = (ticket.id, SecretWord(ticket.secret));
        let admit = GroupRequest::Admit { id, secret, applicant: applicant.clone() };
        let admitted = member.ask(admit).await;
        let Answer::Admission(admission) = admitted else { panic!("{admitted:?}") };
        (applicant, *admission)
    }

    async fn join_at(&self, member: &Self) {
        let (applicant, admission) = self.admit_at(member).await;
        let admission = Box::new(admission);
        self.ask(GroupRequest::Join { applicant, admission }).await;
    }

    async fn shown(&self) -> GroupShown {
        let shown = self.ask(GroupRequest::Show).await;
        let Answer::Group(shown) = shown else { panic!("{shown:?}") };
        shown
    }

    /// Its members by name; none before the store has answered.
    async fn members(&self) -> BTreeMap<String, MemberShown> {
        match self.here.answer(GroupRequest::Members).await {
            Ok(Answer::Members(all)) => {
                all.into_iter().map(|member| (member.name.clone(), member)).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    async fn states(&self) -> Vec<(String, MemberState)> {
        self.members().await.into_iter().map(|(name, it)| (name, it.state)).collect()
    }

    fn told(&self, kind: Kind) -> usize {
        let all = self.logs.events.after(0).into_iter();
        all.filter(|record| record.what.kind == kind.word()).count()
    }

    fn keeps_anything(&self) -> bool {
        self.data.path().join("group").exists()
    }
}

fn iqn(name: &str) -> String {
    format!("iqn.2026-11.dev.drystone:{name}:vm")
}

/// Waits for what comes by itself.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(120), "in vain for: {what}");
        ring::sleep(Duration::from_millis(200)).await;
    }
}

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).unwrap();
}

/// `(name, state)`, as [`Node::states`] has them.
fn are<const N: usize>(states: [(&str, MemberState); N]) -> Vec<(String, MemberState)> {
    states.into_iter().map(|(name, state)| (name.to_owned(), state)).collect()
}

#[test]
fn a_group_is_made_joined_and_left_and_outlives_its_members_lives() {
    on_a_core(async {
        let (one, two) = (Node::new(1, "one").await, Node::new(2, "two").await);
        assert_eq!(one.shown().await, GroupShown::None);
        assert_eq!(one.refused(GroupRequest::Members).await, "this member is in no group");
        let state = one.create().await;
        assert_eq!((state.name.as_str(), state.here.as_str(), state.members), ("lab", "one", 1));
        assert_eq!(state.store_fault, None);
        let door = one.here.door.now().expect("others can join there");
        assert_eq!(door.address, one.listen);
        let again = GroupRequest::Prepare { member: None, listen: one.listen };
        assert_eq!(one.refused(again).await, "this member is in the group 'lab' already");

        two.join_at(&one).await;
        use MemberState::{Away, Present};
        let both = are([("one", Present), ("two", Present)]);
        for node in [&one, &two] {
            until("both see both", async || node.states().await == both).await;
        }
        until("one sees two's volume", async || {
            one.members().await.get("two").is_some_and(|two| two.volumes == 1)
        })
        .await;
        let mut mark = 0;
        let there = one.here.elsewhere(&mut mark).expect("it was heard of");
        assert_eq!(there[&iqn("two")].to_vec(), [SocketAddr::new(two.listen.ip(), 3260)]);
        assert_eq!(one.told(Kind::MemberJoined), 1);

        let two = two.restart().await;
        until("it is back", async || two.states().await == both).await;
        let (data, listen, name) = two.end().await;
        let without = are([("one", Present), ("two", Away)]);
        until("it is away", async || one.states().await == without).await;
        until("that is told", async || one.told(Kind::MemberAway) == 1).await;
        let there = one.here.elsewhere(&mut mark).expect("it has changed");
        assert_eq!(there[&iqn("two")].len(), 0, "hosts are to come back later");

        // The one that is away hears that it was removed when it starts.
        one.ask(GroupRequest::Remove { member: "two".to_owned() }).await;
        assert_eq!(one.states().await, are([("one", Present)]));
        let two = Node::start(data, listen, name).await;
        until("it leaves", async || two.shown().await == GroupShown::None).await;
        assert_eq!((two.told(Kind::MemberRemoved), two.keeps_anything()), (1, false));
        let last = GroupRequest::Remove { member: "one".to_owned() };
        assert!(one.refused(last).await.contains("is the last member"));

        let one = one.restart().await;
        until("the store is back", async || one.states().await == are([("one", Present)])).await;
        one.ask(GroupRequest::Rename { name: "new".to_owned() }).await;
        let GroupShown::In(renamed) = one.shown().await else { panic!("it is in one") };
        assert_eq!(renamed.name, "new");
        one.ask(GroupRequest::Delete).await;
        assert_eq!(one.shown().await, GroupShown::None);
        assert!(!one.keeps_anything() && one.here.door.now().is_none());
        one.create().await;
        one.end().await;
        two.end().await;
    });
}

/// The only etcd of a group of two would go with the member that runs it, and the group with that.
#[test]
fn who_runs_the_store_goes_when_another_one_runs_it() {
    on_a_core(async {
        let (one, two) = (Node::new(11, "one").await, Node::new(12, "two").await);
        one.create().await;
        two.join_at(&one).await;
        let both = are([("one", MemberState::Present), ("two", MemberState::Present)]);
        until("both are there", async || one.states().await == both).await;
        one.ask(GroupRequest::Remove { member: "one".to_owned() }).await;
        until("it leaves", async || one.shown().await == GroupShown::None).await;
        assert_eq!((one.told(Kind::MemberRemoved), one.keeps_anything()), (1, false));
        let alone = are([("two", MemberState::Present)]);
        until("the other goes on", async || two.states().await == alone).await;
        two.ticket().await;
        let two = two.restart().await;
        until("it does so alone", async || two.states().await == alone).await;
        one.join_at(&two).await;
        until("it is let in again", async || two.states().await.len() == 2).await;
        one.end().await;
        two.end().await;
    });
}

/// Three members, each of which runs a part of the store; at these addresses.
async fn three(numbers: [u8; 3]) -> [Node; 3] {
    let [one, two, three] = numbers;
    let nodes =
        [Node::new(one, "one").await, Node::new(two, "two").await, Node::new(three, "three").await];
    nodes[0].create().await;
    nodes[1].join_at(&nodes[0]).await;
    nodes[2].join_at(&nodes[0]).await;
    until("each runs a part", async || {
        let shown = nodes[0].shown().await;
        matches!(shown, GroupShown::In(state) if state.store.len() == 3)
    })
    .await;
    nodes
}

fn remove(member: &str) -> GroupRequest {
    GroupRequest::Remove { member: member.to_owned() }
}

/// Each of the two could go, as two of three are left; both at once could not, if nobody waited for the other.
#[test]
fn two_that_are_removed_at_the_same_moment_leave_a_store_behind() {
    on_a_core(async {
        let [one, two, three] = three([41, 42, 43]).await;
        futures_util::future::join(one.ask(remove("two")), one.ask(remove("three"))).await;
        assert_eq!(one.states().await, are([("one", MemberState::Present)]));
        for left in [&two, &three] {
            until("it leaves", async || left.shown().await == GroupShown::None).await;
        }
        one.ask(GroupRequest::Rename { name: "new".to_owned() }).await;
        for node in [one, two, three] {
            node.end().await;
        }
    });
}

/// A member is present whose etcd does not run: the store does not go on with it.
#[test]
fn a_member_is_not_removed_on_the_word_of_one_whose_etcd_does_not_run() {
    on_a_core(async {
        let [one, two, three] = three([51, 52, 53]).await;
        two.here.in_one().expect("it is in one").part().end().await;
        one.ask(remove("three")).await;
        until("it leaves", async || three.shown().await == GroupShown::None).await;
        one.ask(GroupRequest::Rename { name: "new".to_owned() }).await;
        until("one runs it alone", async || {
            let shown = one.shown().await;
            matches!(shown, GroupShown::In(state) if state.store == ["one"])
        })
        .await;
        for node in [one, two, three] {
            node.end().await;
        }
    });
}

#[test]
fn an_etcd_that_does_not_run_is_told_of_once_and_shown_until_it_does() {
    on_a_core(async {
        let one = Node::new(61, "one").await;
        assert_eq!(one.create().await.store_part_fault, None);
        let (data, listen, name) = one.end().await;
        let port = SocketAddr::new(listen.ip(), listen.port() + 1);
        let taken = TcpListener::bind(port).expect("its etcd has ended");
        let one = Node::start(data, listen, name).await;
        let fault = async || match one.shown().await {
            GroupShown::In(state) => state.store_part_fault,
            other => panic!("{other:?}"),
        };
        until("it is told", async || one.told(Kind::StorePartDown) == 1).await;
        let why = fault().await.expect("it is shown");
        assert_eq!(why, format!("etcd cannot listen at {port}: another program does"));
        assert_eq!(one.told(Kind::StorePartUp), 0);
        drop(taken);
        until("it runs", async || one.told(Kind::StorePartUp) == 1).await;
        assert_eq!((fault().await, one.told(Kind::StorePartDown)), (None, 1));
        one.end().await;
    });
}

/// Whoever has the other half of a copied volume would have hosts write to the wrong one.
#[test]
fn targets_that_two_members_list_are_told_of_once() {
    on_a_core(async {
        let one = Node::new(71, "one").await;
        let pair = || ["one", "two"].map(str::to_owned);
        let twice = |names: &[&str]| -> inventory::Twice {
            names.iter().map(|name| (iqn(name), pair())).collect()
        };
        let told = || {
            let all = one.logs.events.after(0).into_iter();
            let mut told = all.filter(|record| record.what.kind == Kind::NameTwice.word());
            (told.next_back().map(|record| record.what.text.clone()), told.count())
        };
        one.here.tell_twice("lab", &twice(&[]));
        assert_eq!(told(), (None, 0));
        one.here.tell_twice("lab", &twice(&["a", "b", "c"]));
        one.here.tell_twice("lab", &twice(&["a", "b", "c"]));
        let (text, before) = told();
        let text = text.expect("it is told");
        let listed = format!("'one' and 'two' both list the target '{}'", iqn("a"));
        assert!(text.contains(&listed), "{text}");
        assert!(text.contains("and 2 further targets") && before == 0, "{text}");
        one.here.tell_twice("lab", &twice(&["a"]));
        assert_eq!(told().1, 0, "that is better");
        one.here.tell_twice("lab", &twice(&["a", "d"]));
        let (text, before) = told();
        assert!(text.is_some_and(|text| text.contains(&iqn("d"))) && before == 1);
        one.end().await;
    });
}

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
        let join = GroupRequest::Join { applicant, admission };
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
        let create = GroupRequest::Create { name, member: None, listen };
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
            done.send(here.answer(GroupRequest::Create { name, member, listen }).await.map(drop));
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
        for behind in 1..=2 {
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
        one.ask(GroupRequest::Remove { member: "three".to_owned() }).await;

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
        two.ask(GroupRequest::Join { applicant, admission: Box::new(admission) }).await;
        let both = are([("one", MemberState::Present), ("two", MemberState::Present)]);
        until("it is there", async || one.states().await == both).await;
        let kept = two.here.in_one().expect("it is in one").file().clone();
        assert_eq!(kept.endpoints, [cluster::client_url(one.listen.ip(), one.listen.port() + 1)]);
        one.end().await;
        two.end().await;
    });
}
