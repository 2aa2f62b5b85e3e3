//! What is asked about the group that the member is in, and what the group is told of its volumes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use array::api::{VolumeInfo, VolumeState};
use group::access::{AccessList, Entry, Object};
use group::membership::{Inventory, ListedVolume, NamesUsed, Shown};
use group::settings::{State, VolumeSettings};
use ring::wait::first;
use target::{Access, AccessError, RemoteTarget, ShownTo};

use super::floating::Listening;
use super::{Member, RequestError};
use crate::group_request::GroupRequest;
use crate::membership::{
    Claim, Elsewhere, TargetElsewhere, handed_over, local_addresses, reachable,
};
use crate::reply::Answer;
use crate::settings::Hosts;

/// Between two looks at what is served here, and at what others serve, however fast it changes.
const PAUSE: Duration = Duration::from_secs(1);

/// Between two looks while nothing is known to have changed: each walks all volumes and snapshots.
const REST_PAUSE: Duration = Duration::from_secs(30);

/// Between two looks at the addresses of this host.
const ADDRESSES_PAUSE: Duration = Duration::from_secs(60);

/// Between two looks at the room of the array, while volumes are as they were: it changes with each write, and what
/// each member tells of it all others hear.
const ROOM_PAUSE: Duration = Duration::from_secs(25);

/// What is free is told in steps of so much: the former of a small array, where each of the latter counts.
const ROOM_STEPS_BYTES: [u64; 2] = [1 << 20, 64 << 20];

/// From here on an array is none of the small ones.
const LARGE_BYTES: u64 = 8 << 30;

/// So much in steps.
const fn in_steps(bytes: u64, capacity: u64) -> u64 {
    let [small, large] = ROOM_STEPS_BYTES;
    bytes - bytes % if capacity < LARGE_BYTES { small } else { large }
}

/// The room of the array, as others are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    free_bytes: u64,
    capacity_bytes: u64,
}

/// What was seen at the last look, and when.
#[derive(Default)]
struct Looked {
    /// What was heard of others.
    mark: u64,
    /// What decided whom hosts are told of: the settings here, and whether they are the group's.
    by: (u64, bool),
    /// The addresses of this host.
    local: Option<(Vec<IpAddr>, Instant)>,
    /// The room, and how often volumes had changed.
    room: Option<(Room, u64, Instant)>,
}

impl Member {
    pub(super) async fn group(&self, request: GroupRequest) -> Result<Answer, RequestError> {
        self.check_no_slices(&request).await?;
        Ok(self.membership.answer(request).await?)
    }

    /// Whoever asks for what is not here waits until the others were heard of, if the member is in a group.
    pub(crate) fn await_group(&self) {
        if matches!(self.membership.group_id(), Ok(Some(_))) {
            self.serving.await_group();
        }
        self.hear_nobody_afloat();
    }

    /// Takes part in the group, if the member is in one.
    pub(crate) fn start_in_group(&self) {
        let (array, settings) = (self.array.clone(), self.settings.clone());
        let spread = self.serving.spread().names_later();
        self.membership.set_volumes(move || {
            // Those in the recycle bin too. The volume of settings has the same name on each member.
            let names = array.volumes().into_iter().map(|volume| volume.name);
            let names = names.filter(|name| !settings.reserves(name));
            names.chain(spread()).collect()
        });
        let settings = self.settings.clone();
        self.membership.set_in_hands(move || {
            let state = settings.state().ok()?;
            on_their_way(&state)
        });
        self.membership.start();
    }

    /// Has the group promise names to this member for volumes that are made next. To be asked before any turn is taken,
    /// as it may wait for the group's store, and to be kept until they are made.
    pub(super) async fn claim(&self, names: Vec<String>) -> Result<Claim, RequestError> {
        // Before it is asked, too: a name that a move has given to this member would be another volume's from then on.
        self.check_not_in_hands(&names)?;
        let claim = self.membership.claim(names.clone()).await?;
        self.check_not_in_hands(&names)?;
        Ok(claim)
    }

    /// What hosts find here, for the others. Volumes in the recycle bin are no targets. While settings cannot be read,
    /// what was said of them before holds: others must not take for unused what they name. `None` where nothing was.
    fn inventory(&self, address: IpAddr, local: &[IpAddr], room: Room) -> Option<Inventory> {
        let names = self.serving.names();
        let state = self.settings.state().ok();
        let (schedules, uses, leaving, (moves, spreads)) = match &state {
            Some(state) => {
                let leaving = handed_over(self.settings.departures());
                let schedules = state.schedules.keys().cloned().collect();
                let in_hand = (self.moves_in_hand(), self.spreads_in_hand());
                (schedules, used_by(state), leaving, in_hand)
            }
            None => {
                let said = self.membership.said_before()?;
                let said = Inventory::clone(&said);
                (said.schedules, said.uses, said.leaving, (said.moves, said.spreads))
            }
        };
        let mut snapshots = self.array.all_snapshots();
        let mut inventory = Inventory {
            portals: reachable(&self.serving.targets().portals(), address, local),
            free_bytes: room.free_bytes,
            capacity_bytes: room.capacity_bytes,
            portal_group: self.serving.port_group(),
            shares: self.membership.shares(),
            schedules,
            uses,
            leaving,
            moves,
            spreads,
            ..Inventory::default()
        };
        for volume in self.volumes() {
            if volume.state == VolumeState::Deleted {
                // One that is not there any more has no data either.
                if self.array.lacks_data(&volume.name).unwrap_or(true) {
                    inventory.deleted_lost.push(volume.name.clone());
                }
                inventory.deleted.push(volume.name);
                continue;
            }
            let own = snapshots.remove(&volume.id).unwrap_or_default();
            let online = own.into_iter().filter(|snapshot| snapshot.online);
            inventory
                .snapshots
                .extend(online.map(|it| names.snapshot((volume.id, &volume.name), &it.name)));
            let iqn = names.volume(volume.id, &volume.name);
            let is_up = matches!(volume.state, VolumeState::Online | VolumeState::Degraded);
            inventory.volumes.push(ListedVolume {
                is_online: is_up
                    && self.serving.refusal(&iqn).is_none()
                    && !self.withholds(volume.id),
                is_lost: volume.state == VolumeState::Lost,
                shown: self.shown_elsewhere(&volume, state.as_deref()),
                serial: names.volume_serial(&volume),
                name: volume.name,
                iqn,
                size_bytes: volume.size_bytes,
            });
        }
        Some(inventory)
    }

    /// Whom other members may tell of a volume. Who is let in by rules of this member's start, or on its machine, they
    /// do not know.
    fn shown_elsewhere(&self, volume: &VolumeInfo, state: Option<&State>) -> Shown {
        match self.hosts(volume.id) {
            Hosts::Everybody => Shown::Everybody,
            Hosts::Rule | Hosts::Loopback | Hosts::Nobody => Shown::Nobody,
            Hosts::Listed => {
                let set = state.and_then(|state| state.volumes.get(&volume.id));
                match set {
                    Some(Ok(VolumeSettings { access: Some(list), .. })) => {
                        Shown::Listed(list.clone())
                    }
                    _ => Shown::Nobody,
                }
            }
        }
    }

    /// The room of the array for volumes of its usual level.
    fn room(&self) -> Room {
        let info = self.array.info();
        let of_level = info.free_by_level.iter().find(|space| space.raid == info.raid);
        let (free, used) = of_level.map_or((0, 0), |space| (space.free_bytes, space.used_bytes));
        let capacity = free.saturating_add(used);
        let free_bytes = in_steps(free, capacity);
        let capacity_bytes = in_steps(capacity, capacity);
        debug_assert!(free_bytes <= capacity_bytes, "what is free is a part of all");
        Room { free_bytes, capacity_bytes }
    }

    /// The targets of others as they are told to hosts here. One list is that of many volumes, and is looked at once.
    fn told_of(&self, elsewhere: Elsewhere, shares: bool) -> BTreeMap<String, RemoteTarget> {
        let mut known = BTreeMap::new();
        let told = elsewhere.into_iter().map(|(iqn, target)| {
            let shown_to = self.shown_to(&target, shares, &mut known);
            let portal_group = target.portal_group();
            (iqn, RemoteTarget { portals: target.portals, portal_group, shown_to })
        });
        told.collect()
    }

    /// Whom discovery here tells of a target of another member. A list of that names policies and CHAP users, which are
    /// known here only where settings are the group's.
    fn shown_to(
        &self,
        target: &TargetElsewhere,
        shares: bool,
        known: &mut BTreeMap<String, Option<ShownTo>>,
    ) -> Option<ShownTo> {
        let list = match target.shown() {
            Shown::Nobody => return None,
            Shown::Everybody => None,
            Shown::Listed(_) if !shares => return None,
            Shown::Listed(list) => Some(list),
        };
        let is_snapshot = target.object == Object::Snapshot;
        let key = serde_json::to_string(&list.map(|list| (list, is_snapshot))).ok()?;
        if let Some(shown_to) = known.get(&key) {
            return shown_to.clone();
        }
        let access = match list {
            None => Some(Access::everyone()),
            // Nobody is told of it while it is not known whom it is for.
            Some(list) => self.settings.state().ok().map(|state| {
                let records = list.records(&state.policies);
                self.settings.access_by(&records, target.object)
            }),
        };
        let shown_to = access.and_then(|access| {
            let refused = |error: &AccessError| {
                tracing::debug!("discovery tells nobody of a target of another member: {error}");
            };
            ShownTo::new(access).inspect_err(refused).ok()
        });
        known.insert(key, shown_to.clone());
        shown_to
    }

    /// Tells hosts of what others serve, where that has changed, or whom they are told of.
    fn tell_of_others(&self, looked: &mut Looked) {
        let by = (self.settings.changes(), self.membership.shares());
        if std::mem::replace(&mut looked.by, by) != by && looked.mark != 0 {
            // It is another map although the group is as it was. A member that has heard of none has no map.
            looked.mark = u64::MAX;
        }
        if let Some(elsewhere) = self.membership.elsewhere(&mut looked.mark) {
            self.serving.set_elsewhere(self.told_of(elsewhere, by.1));
        } else if self.serving.awaits_group() && matches!(self.membership.group_id(), Ok(None)) {
            // It has heard that it is in none, and never of the others.
            self.serving.set_elsewhere(BTreeMap::new());
        }
    }

    /// Tells the group what is served here, if there is one.
    async fn tell_group(&self, looked: &mut Looked) {
        let Some(address) = self.membership.address() else { return };
        if looked.local.as_ref().is_none_or(|(_, since)| since.elapsed() >= ADDRESSES_PAUSE) {
            let mut all = ring::blocking(local_addresses).await;
            // It may be off before these are looked at again.
            all.retain(|at| !self.membership.is_of_group(*at));
            looked.local = Some((all, Instant::now()));
        }
        let settles = self.serving.settles();
        let room = match looked.room {
            Some((room, at, since)) if at == settles && since.elapsed() < ROOM_PAUSE => room,
            _ => {
                let room = self.room();
                looked.room = Some((room, settles, Instant::now()));
                room
            }
        };
        let mut local = looked.local.as_ref().map(|(all, _)| all.clone()).unwrap_or_default();
        // What this host has by turns with others is no address of its portals.
        local.retain(|at| !self.membership.is_of_group(*at));
        if let Some(inventory) = self.inventory(address, &local, room) {
            self.membership.set_own(inventory);
        }
    }

    /// Waits until there may be something else to tell than after so many changes of targets and of settings. It costs
    /// nothing while the member is in no group.
    async fn until_changed(&self, mark: u64, (settles, changes): (u64, u64)) {
        let heard = self.membership.heard_after(mark);
        if self.membership.address().is_none() {
            return heard.await;
        }
        let here = first(self.serving.settled_after(settles), self.settings.changed_after(changes));
        ring::timeout(REST_PAUSE.saturating_sub(PAUSE), first(heard, here)).await;
    }
}

/// What the access lists of volumes here name. Users that policies name are the group's matter.
fn used_by(state: &State) -> NamesUsed {
    let mut uses = NamesUsed::default();
    let lists = state.volumes.values().flatten().filter_map(|volume| volume.access.as_ref());
    for (_, entry) in lists.flat_map(AccessList::entries) {
        match entry {
            Entry::Policy { name, .. } => {
                uses.policies.insert(name.clone());
            }
            Entry::Record(record) => uses.users.extend(record.parts().chap.clone()),
        }
    }
    uses
}

/// The names of volumes that are on their way to other members, or from them; `None` where some names do not read.
fn on_their_way(state: &State) -> Option<Vec<String>> {
    let leave = state.departures.values().map(|it| Some(it.as_ref().ok()?.name.clone()));
    let come = state.arrivals.values().map(|it| Some(it.as_ref().ok()?.name.clone()));
    let unread = state.spreads.values().any(Result::is_err).then_some(None);
    leave.chain(come).chain(unread).collect()
}

/// Tells the group what is served here, and hosts where they find what others serve, until the member stops.
pub(crate) async fn run(member: Rc<Member>) {
    let (mut looked, mut listening) = (Looked::default(), Listening::default());
    while !member.is_stopping() && !member.membership.is_ending() {
        let before = (member.serving.settles(), member.settings.changes());
        member.tell_of_others(&mut looked);
        member.tell_group(&mut looked).await;
        member.float(&mut listening);
        ring::sleep(PAUSE).await;
        member.until_changed(looked.mark, before).await;
    }
}

#[cfg(test)]
mod tests {
    use group::access::Scope;
    use group::membership::MoveId;
    use group::ownership::MemberId;
    use group::record::Setting;
    use group::schedules::Timing;
    use group::settings::{Arrival, Departure, Stage};

    use super::*;
    use crate::access_request::{AccessRequest, ChapRequest, PolicyRequest, SecretText};
    use crate::membership::elsewhere_of;
    use crate::request::{Request, VolumeRequest};
    use crate::running::tests::leaving::leave;
    use crate::schedule_request::{NewSchedule, ScheduleRequest};
    use crate::testing::Rig;

    fn add(rig: &Rig, volume: &str, entry: Entry) {
        let volume = volume.to_owned();
        rig.ask(Request::Access(AccessRequest::Add { volume, entry })).expect("it is added");
    }

    /// A member with a policy `esx` and a CHAP user `ada`, by which the volume `a` may be used, `b` by nobody, and `c`,
    /// which is in the recycle bin.
    fn set_up(rig: &Rig) {
        let (name, secret) = ("esx".to_owned(), SecretText("0123456789abcdef".to_owned()));
        rig.ask(Request::Policy(PolicyRequest::Create { name })).expect("a policy");
        let user = "ada".to_owned();
        rig.ask(Request::Chap(ChapRequest::Add { user, secret })).expect("a user");
        ["a", "b", "c"].iter().for_each(|name| rig.create(name));
        add(rig, "a", Entry::Policy { name: "esx".to_owned(), scope: Scope::default() });
        add(rig, "a", Entry::Record("chap=ada".parse().expect("a record")));
        let (offline, delete) = (
            VolumeRequest::SetOnline { name: "c".to_owned(), online: false },
            VolumeRequest::Delete { name: "c".to_owned() },
        );
        for request in [offline, delete] {
            rig.ask(Request::Volume(request)).expect("it is deleted");
        }
        let schedule = NewSchedule {
            name: "daily".to_owned(),
            volumes: vec!["a".to_owned()],
            timing: Timing::Every { seconds: 24 * 60 * 60 },
            keep: 3,
            paused: true,
        };
        rig.ask(Request::Schedule(ScheduleRequest::Create(schedule))).expect("a schedule");
    }

    fn inventory_of(rig: &Rig) -> Inventory {
        told(rig).expect("its settings can be read")
    }

    fn told(rig: &Rig) -> Option<Inventory> {
        rig.with(async |member| {
            member.inventory("192.0.2.1".parse().expect("an address"), &[], member.room())
        })
    }

    /// Its disks are missing, say: what lists name is still named, and must not go elsewhere.
    #[test]
    fn while_settings_cannot_be_read_what_was_said_of_them_holds() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        set_up(&rig);
        let before = inventory_of(&rig);
        rig.with(async |member| {
            let _turn = member.settings.hold().await;
            member.settings.fail().await;
        });
        assert_eq!(told(&rig), None, "nothing was said, and nothing is known");
        let said = before.clone();
        rig.with(async move |member| member.membership.set_own(said));
        let now = told(&rig).expect("it was said");
        assert_eq!((&now.uses, &now.schedules), (&before.uses, &before.schedules));
        assert!(!now.uses.policies.is_empty() && !now.schedules.is_empty());
        assert_eq!(now.volumes[0].shown, Shown::Nobody, "nobody is let in");
        rig.stop();
    }

    #[test]
    fn others_are_told_what_there_is_what_is_free_and_whom_it_is_for() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        let before = inventory_of(&rig);
        assert_eq!((before.volumes.len(), before.shares), (0, false));
        assert_ne!(before.portal_group, 0);
        assert!(before.free_bytes > 0 && before.free_bytes.is_multiple_of(ROOM_STEPS_BYTES[0]));
        assert!(before.capacity_bytes >= before.free_bytes);
        set_up(&rig);
        let now = inventory_of(&rig);
        let names: Vec<&str> = now.volumes.iter().map(|volume| volume.name.as_str()).collect();
        assert_eq!((names, now.deleted.as_slice()), (vec!["a", "b"], &["c".to_owned()][..]));
        assert_eq!(now.schedules, ["daily"]);
        assert_eq!(now.uses.policies.iter().collect::<Vec<_>>(), ["esx"]);
        assert_eq!(now.uses.users.iter().collect::<Vec<_>>(), ["ada"]);
        let Shown::Listed(list) = &now.volumes[0].shown else { panic!("{:?}", now.volumes[0]) };
        assert_eq!(list.entries().count(), 2);
        assert_eq!(now.volumes[1].shown, Shown::Nobody, "without a list it is for nobody");
        assert!(now.volumes.iter().all(|volume| volume.is_online));
        rig.stop();
    }

    /// Others send nobody here for it, and tell nobody that there is no such target.
    #[test]
    fn what_was_handed_over_is_said_until_its_departure_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        set_up(&rig);
        let depart = |stage: Stage| {
            rig.with(async move |member| {
                let departure = Departure {
                    id: "5".repeat(32).parse().expect("a number"),
                    group: "0".repeat(32).parse().expect("a group"),
                    volume: member.array.volume("a").expect("it is there").id,
                    name: "a".to_owned(),
                    from: MemberId(1),
                    to: MemberId(2),
                    to_name: String::new(),
                    serial: String::new(),
                    iqns: vec!["iqn.2026-11.example:a".to_owned()],
                    stage,
                };
                member.settings.depart(&departure).await.expect("it is stored");
            });
        };
        depart(Stage::Leaving);
        assert_eq!(inventory_of(&rig).leaving, Vec::<String>::new(), "it may stay yet");
        depart(Stage::Gone);
        let said = inventory_of(&rig);
        assert_eq!(said.leaving, ["iqn.2026-11.example:a"]);
        rig.with(async move |member| {
            let _turn = member.settings.hold().await;
            member.settings.fail().await;
            member.membership.set_own(said);
        });
        assert_eq!(inventory_of(&rig).leaving, ["iqn.2026-11.example:a"], "it was said");
        rig.stop();
    }

    #[test]
    fn names_on_their_way_are_known_or_none_is() {
        let mut state = State::default();
        assert_eq!(on_their_way(&state), Some(Vec::new()));
        let (id, name) = ("6".repeat(32), "vm".to_owned());
        let id: MoveId = id.parse().expect("a number");
        let (from, online) = (MemberId(2), true);
        let group = "0".repeat(32).parse().expect("a group");
        let (from_name, serial) = (String::new(), String::new());
        let arrival =
            Arrival { id: id.clone(), group, volume: 7, name, from, from_name, serial, online };
        state.arrivals.insert(id, Ok(arrival));
        assert_eq!(on_their_way(&state), Some(vec!["vm".to_owned()]));
        let later = Departure::decode(b"of a later version").expect_err("it is none");
        state.departures.insert(8, Err(later));
        assert_eq!(on_their_way(&state), None, "its name may be any");
    }

    /// Hosts are sent to who says that it is online; what has left is another one's to tell of.
    #[test]
    fn what_leaves_is_told_of_as_offline_and_what_has_left_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        ["vm", "other"].iter().for_each(|name| rig.create(name));
        let told = || {
            let now = inventory_of(&rig);
            let volumes = now.volumes.into_iter().map(|volume| (volume.name, volume.is_online));
            (volumes.collect::<BTreeMap<_, _>>(), now.deleted, now.leaving.len())
        };
        let all = |vm: Option<bool>| -> BTreeMap<String, bool> {
            let volumes = [("vm", vm), ("other", Some(true))].into_iter();
            volumes.filter_map(|(name, is_online)| Some((name.to_owned(), is_online?))).collect()
        };
        assert_eq!(told(), (all(Some(true)), Vec::new(), 0));
        leave(&rig, "vm", Stage::Leaving);
        assert_eq!(told(), (all(Some(false)), Vec::new(), 0));
        leave(&rig, "vm", Stage::Gone);
        assert_eq!(told(), (all(None), Vec::new(), 1));
        rig.stop();
    }

    #[test]
    fn a_volume_for_all_is_shown_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let (rig, portal) = Rig::start_for_all(dir.path(), &dir.path().join("data"), None);
        rig.create("a");
        let now = inventory_of(&rig);
        assert_eq!((now.portals, &now.volumes[0].shown), (vec![portal], &Shown::Everybody));
        rig.stop();
    }

    /// What another member says of its volumes is told to hosts by the policies and users that both have.
    #[test]
    fn targets_of_others_are_told_of_by_their_lists_where_settings_are_the_groups() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        set_up(&rig);
        let mut theirs = inventory_of(&rig);
        theirs.volumes[1].shown = Shown::Everybody;
        let iqns: Vec<String> = theirs.volumes.iter().map(|volume| volume.iqn.clone()).collect();
        let portal_group = theirs.portal_group;
        let told = |theirs: Inventory, shares: bool| {
            rig.with(async move |member| {
                let told = member.told_of(elsewhere_of(theirs), shares);
                let told = told.into_iter();
                let told = told.map(|(iqn, it)| (iqn, (it.portal_group, it.shown_to.is_some())));
                told.collect::<BTreeMap<_, _>>()
            })
        };
        let is_shown = |told: &BTreeMap<String, (u16, bool)>| {
            assert!(told.values().all(|(group, _)| *group == portal_group));
            [told[&iqns[0]].1, told[&iqns[1]].1]
        };
        let sharing = Inventory { shares: true, ..theirs.clone() };
        assert_eq!(is_shown(&told(sharing.clone(), true)), [true, true]);
        assert_eq!(is_shown(&told(sharing, false)), [false, true], "its users are not known here");
        assert_eq!(is_shown(&told(theirs, true)), [false, true], "those of the other are its own");
        rig.stop();
    }

    /// Lists of volumes are among what others are told of.
    #[test]
    fn a_change_of_settings_is_heard_of() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        rig.create("a");
        let before = rig.with(async |member| member.settings.changes());
        add(&rig, "a", Entry::Record("iqn=iqn.2026-11.com.example:host".parse().expect("one")));
        let heard = rig.with(async move |member| {
            let soon = Duration::from_millis(300);
            let heard = ring::timeout(soon, member.settings.changed_after(before)).await;
            let now = member.settings.changes();
            (heard, ring::timeout(soon, member.settings.changed_after(now)).await)
        });
        assert_eq!(heard, (Some(()), None));
        rig.stop();
    }

    /// What is served is looked at when it has changed, and not while nothing has.
    #[test]
    fn a_change_of_what_is_served_is_heard_of_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        let (before, after, in_no_group) = rig.with(async |member| {
            let soon = Duration::from_millis(300);
            let marks = (member.serving.settles(), member.settings.changes());
            let settled = || member.serving.settled_after(marks.0);
            let before = ring::timeout(soon, settled()).await;
            let asleep = ring::timeout(soon, member.until_changed(0, marks)).await;
            member.settle().await;
            let after = ring::timeout(soon, settled()).await;
            // A member in no group has nobody to tell.
            let still = ring::timeout(soon, member.until_changed(0, marks)).await;
            (before, after, (asleep, still))
        });
        assert_eq!((before, after), (None, Some(())));
        assert_eq!(in_no_group, (None, None));
        rig.stop();
    }
}
