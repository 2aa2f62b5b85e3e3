//! Members without arrays, over an etcd that they run.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use group::membership::{Applicant, ListedVolume};
use ring::testing::free_ports;
use tempfile::TempDir;

use super::*;
use crate::Logs;
use crate::group_request::{
    Admission, GroupRequest, GroupShown, GroupState, JoinTicket, MemberShown,
};
use crate::reply::Answer;

/// A member without an array.
pub(super) struct Node {
    pub(super) here: Rc<InGroup>,
    pub(super) logs: Logs,
    pub(super) data: TempDir,
    pub(super) listen: SocketAddr,
    pub(super) name: &'static str,
    /// What its other threads know of the group.
    pub(super) of_group: OfGroup,
    /// The names of its volumes, as its array would have them.
    pub(super) volumes: Rc<RefCell<Vec<String>>>,
}

impl Node {
    /// At the address 127.0.0.`number`, in no group.
    pub(super) async fn new(number: u8, name: &'static str) -> Self {
        Self::start(tempfile::tempdir().unwrap(), free_at(number), name).await
    }

    /// Of what lies there.
    pub(super) async fn start(data: TempDir, listen: SocketAddr, name: &'static str) -> Self {
        Self::start_with(data, listen, name, Rc::default()).await
    }

    /// The same, of a member that has volumes of these names.
    pub(super) async fn start_with(
        data: TempDir,
        listen: SocketAddr,
        name: &'static str,
        volumes: Rc<RefCell<Vec<String>>>,
    ) -> Self {
        let logs = Logs::open(data.path()).unwrap();
        let of_group = OfGroup::default();
        let array = format!("array-of-{name}");
        let here = InGroup::read(data.path(), array, of_group.clone(), logs.events.clone()).await;
        here.set_own(Inventory {
            portals: vec![SocketAddr::new(listen.ip(), 3260)],
            volumes: vec![ListedVolume {
                name: "vm".to_owned(),
                iqn: iqn(name),
                size_bytes: 1 << 20,
                is_online: true,
                ..ListedVolume::default()
            }],
            ..Inventory::default()
        });
        let named = volumes.clone();
        here.set_volumes(move || named.borrow().clone());
        here.start();
        Self { here, logs, data, listen, name, of_group, volumes }
    }

    /// Ends it as its process would, and starts it again.
    pub(super) async fn restart(self) -> Self {
        let volumes = self.volumes.clone();
        let (data, listen, name) = self.end().await;
        Self::start_with(data, listen, name, volumes).await
    }

    pub(super) async fn end(self) -> (TempDir, SocketAddr, &'static str) {
        self.here.end().await;
        self.logs.end();
        (self.data, self.listen, self.name)
    }

    pub(super) async fn ask(&self, request: GroupRequest) -> Answer {
        let asked = format!("{request:?}");
        self.here.answer(request).await.unwrap_or_else(|error| panic!("{asked}: {error}"))
    }

    pub(super) async fn refused(&self, request: GroupRequest) -> String {
        let asked = format!("{request:?}");
        let Err(error) = self.here.answer(request).await else { panic!("{asked}: done") };
        error.to_string()
    }

    pub(super) async fn create(&self) -> GroupState {
        let member = Some(self.name.to_owned());
        let name = "lab".to_owned();
        let listen = self.listen;
        let create = GroupRequest::Create { name, member, listen, address: None };
        let made = self.ask(create).await;
        let Answer::Group(GroupShown::In(state)) = made else { panic!("{made:?}") };
        *state
    }

    pub(super) async fn ticket(&self) -> JoinTicket {
        let lifetime = Duration::from_secs(3600);
        let made = self.ask(GroupRequest::CreateTicket { lifetime }).await;
        let Answer::JoinTicket(ticket) = made else { panic!("{made:?}") };
        ticket
    }

    pub(super) async fn prepare(&self) -> Applicant {
        let member = Some(self.name.to_owned());
        let prepared = self.ask(GroupRequest::Prepare { member, listen: self.listen }).await;
        let Answer::Applicant(applicant) = prepared else { panic!("{prepared:?}") };
        applicant
    }

    /// What the interface does at both ends.
    pub(super) async fn admit_at(&self, member: &Self) -> (Applicant, Admission) {
        let (applicant, ticket) = (self.prepare().await, member.ticket().await.ticket);
        let (id, secret) = (ticket.id, SecretWord(ticket.secret));
        let admit = GroupRequest::Admit { id, secret, applicant: applicant.clone() };
        let admitted = member.ask(admit).await;
        let Answer::Admission(admission) = admitted else { panic!("{admitted:?}") };
        (applicant, *admission)
    }

    pub(super) async fn join_at(&self, member: &Self) {
        let (applicant, admission) = self.admit_at(member).await;
        let admission = Box::new(admission);
        let replace_settings = false;
        self.ask(GroupRequest::Join { applicant, admission, replace_settings }).await;
    }

    pub(super) async fn shown(&self) -> GroupShown {
        let shown = self.ask(GroupRequest::Show).await;
        let Answer::Group(shown) = shown else { panic!("{shown:?}") };
        shown
    }

    /// Its members by name; none before the store has answered.
    pub(super) async fn members(&self) -> BTreeMap<String, MemberShown> {
        match self.here.answer(GroupRequest::Members).await {
            Ok(Answer::Members(all)) => {
                all.into_iter().map(|member| (member.name.clone(), member)).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    pub(super) async fn states(&self) -> Vec<(String, MemberState)> {
        self.members().await.into_iter().map(|(name, it)| (name, it.state)).collect()
    }

    pub(super) fn told(&self, kind: Kind) -> usize {
        let all = self.logs.events.after(0).into_iter();
        all.filter(|record| record.what.kind == kind.word()).count()
    }

    pub(super) fn keeps_anything(&self) -> bool {
        self.data.path().join("group").exists()
    }
}

/// Where a member can listen, at the address 127.0.0.`number`.
pub(crate) fn free_at(number: u8) -> SocketAddr {
    let ip = Ipv4Addr::new(127, 0, 0, number).into();
    SocketAddr::new(ip, free_ports(ip))
}

pub(super) fn iqn(name: &str) -> String {
    format!("iqn.2026-11.dev.drystone:{name}:vm")
}

/// Waits for what comes by itself.
pub(super) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(120), "in vain for: {what}");
        ring::sleep(Duration::from_millis(200)).await;
    }
}

pub(super) fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).unwrap();
}

/// `(name, state)`, as [`Node::states`] has them.
pub(super) fn are<const N: usize>(states: [(&str, MemberState); N]) -> Vec<(String, MemberState)> {
    states.into_iter().map(|(name, state)| (name.to_owned(), state)).collect()
}

/// Three members, each of which runs a part of the store; at these addresses.
pub(super) async fn three(numbers: [u8; 3]) -> [Node; 3] {
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

pub(super) fn remove(member: &str) -> GroupRequest {
    GroupRequest::Remove { member: member.to_owned(), despite_moves: false, despite_spreads: false }
}
