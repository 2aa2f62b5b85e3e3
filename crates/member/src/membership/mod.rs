//! The member in its group: what it keeps of that, how it takes part, and what it is asked about it.
//!
//! ```text
//!           create, join                         attend
//!   Alone ───────────────▶ In: unreached ◀───────────────────▶ In: reached
//!     ▲                          │          the store is away         │
//!     │                          ╰──────────────┬─────────────────────╯
//!     ╰─────────────────────────────────────────╯
//!        leave: deleted, or removed by the store's word
//! ```
//!
//! A member serves its volumes in each of these states alike: nothing of it waits for the group.
//!
//! Numbered, for all that lies here:
//! 1. What makes the member part of a group is `membership.json` ([`files`]). It comes last when a group is made or
//!    joined, and goes first when it is left. So a start after a crash finds a member that is in its group or in none.
//! 2. The directory of the group is deleted when the operator ends the group, and when the store says that the
//!    member was removed: it was reached, the group there is this one, and the member is not in it. Anything less is
//!    told as [`Kind::GroupDamaged`] and deletes nothing.
//! 3. Whoever makes, joins or leaves a group has [`InGroup::turn`].
//! 4. Who makes or renames volumes has the group promise their names before, and the look behind him ([`naming`]) gives
//!    back what nobody uses: no other code does.
//! 5. etcd begins a new cluster once, when the group is made. Later starts of it need its data, or a seat that the
//!    cluster has given to this member ([`seats`]).
//! 6. The address of the group is put on an interface by [`address`], while the store says that it is this member's, and
//!    for no longer than others leave it alone.
//! 7. Whoever manages the group is answered at its address while that is on an interface here, by a member that shares
//!    the settings of the group ([`answering`]): whatever changes one of both is told there.
//! 8. The settings of the group are taken over by a member whose own are in it, and of the array that the group knows
//!    it by ([`sharing`]): what is taken over replaces what lies there.

mod address;
mod announced;
mod answering;
mod connections;
mod error;
mod files;
mod floating;
mod handing;
mod health;
mod inventory;
mod joined;
mod kept;
mod life;
mod making;
mod naming;
mod part;
mod pools;
mod presence;
mod requests;
mod seats;
mod sets;
mod sharing;
#[cfg(test)]
pub(crate) mod tests;
mod trouble;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use group::address::GroupAddress;
use group::cluster::STOP_TIME;
use group::membership::{Inventory, Roll};
use ring::wait::{Bell, Turn, both};

use crate::events::{Event, EventLog, Kind, ObjectKind};
use crate::group_request::{Door, OfGroup, SecretWord};

use announced::Announcer;
use connections::OwnConnections;
pub use error::GroupError;
pub use files::is_in_group;
use files::{Found, GroupDir};
use inventory::Twice;
#[cfg(test)]
pub(crate) use inventory::elsewhere_of;
pub(crate) use inventory::{Elsewhere, TargetElsewhere, handed_over, local_addresses, reachable};
use joined::Joined;
pub(crate) use naming::Claim;
use naming::Naming;
use presence::News;
use sharing::Sharing;

/// How long the end of the member waits for its part of the store.
const END_TIME: Duration = Duration::from_secs(5);

/// How long that waits for the others to hear that the member goes.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

// An etcd that does not end by itself is killed before nobody waits for it any more: none is left.
const _: () = assert!(FAREWELL_TIME.as_millis() + STOP_TIME.as_millis() < END_TIME.as_millis());

/// The group of a member, or that it is in none. Lives on the first core.
pub(crate) struct InGroup {
    dir: GroupDir,
    /// The identity of the array.
    array: String,
    /// What other threads go by.
    of_group: OfGroup,
    events: EventLog,
    standing: RefCell<Standing>,
    /// The group that is being made, whose etcd runs before the member is in it.
    making: RefCell<Option<Rc<Joined>>>,
    /// Who has it makes, joins or leaves a group.
    turn: Turn,
    /// Drawn once in the life of this process, when it is needed.
    incarnation: Cell<Option<u64>>,
    /// What the member serves, and whom it tells of the group.
    announcer: Rc<Announcer>,
    /// How many connections hosts have to it.
    connections: OwnConnections,
    /// Which names of volumes the group has promised to it.
    naming: Naming,
    /// Rings when something was heard of the group, when it was left, and when the end has begun.
    heard: Bell,
    /// The address at which hosts are heard as the group's, or were to be.
    floated: Cell<Option<GroupAddress>>,
    /// The names that two members list, as far as that was told.
    told_twice: RefCell<BTreeSet<String>>,
    /// The settings that members have in common.
    sharing: Sharing,
    is_ending: Cell<bool>,
}

enum Standing {
    /// In none.
    Alone,
    /// In one whose files do not read: a sentence.
    Broken(String),
    In(Rc<Joined>),
}

impl Debug for InGroup {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        // Not the keys.
        out.debug_struct("InGroup").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl InGroup {
    /// What the data directory says of the group of the member with this array. Nothing of it is begun yet.
    pub(crate) async fn read(
        data: &Path,
        array: String,
        of_group: OfGroup,
        events: EventLog,
    ) -> Rc<Self> {
        let dir = GroupDir::new(data);
        let reads = dir.clone();
        let found = ring::blocking(move || reads.read()).await;
        let announcer = Rc::new(Announcer::new(of_group.roll.clone()));
        let standing = Self::standing(&dir, found, (&events, &announcer));
        Rc::new(Self {
            dir,
            array,
            of_group,
            events,
            standing: RefCell::new(standing),
            making: RefCell::default(),
            turn: Turn::default(),
            incarnation: Cell::new(None),
            announcer,
            connections: OwnConnections::default(),
            naming: Naming::default(),
            heard: Bell::default(),
            floated: Cell::new(None),
            told_twice: RefCell::default(),
            sharing: Sharing::default(),
            is_ending: Cell::new(false),
        })
    }

    fn standing(
        dir: &GroupDir,
        found: Result<Found, GroupError>,
        (events, announcer): (&EventLog, &Rc<Announcer>),
    ) -> Standing {
        let joined = match found {
            Ok(Found::Nothing) => return Standing::Alone,
            Ok(Found::Unfinished) => {
                tracing::warn!(
                    "'{}' is what is left of a group that was not made or joined to the end: the member is in none",
                    dir.path().display()
                );
                return Standing::Alone;
            }
            Ok(Found::Here(here)) => {
                let (file, keys) = *here;
                Joined::new(dir, file, keys, announcer.clone())
            }
            Err(error) => Err(error),
        };
        match joined {
            Ok(joined) => Standing::In(Rc::new(joined)),
            Err(error) => {
                let text = format!(
                    "{error}. The volumes of this member are served, and it takes no part in its group: put the files \
                     back, or move the directory '{}' away for it to be in no group, and start the member again",
                    dir.path().display()
                );
                events.tell(Event::of_member(Kind::GroupDamaged, &text));
                Standing::Broken(text)
            }
        }
    }

    /// Takes part in the group from now on, if there is one.
    pub(crate) fn start(self: &Rc<Self>) {
        if let Some(joined) = self.in_one() {
            self.attend(&joined);
        }
    }

    /// Ends that, before the array closes: the others hear of it, and the own part of the store stops.
    pub(crate) async fn end(&self) {
        self.is_ending.set(true);
        self.heard.ring();
        let being_made = self.making.borrow().clone();
        let Some(joined) = being_made.or_else(|| self.in_one()) else { return };
        self.of_group.door.replace(None);
        joined.stop_tasks();
        self.note_answering();
        let ending = async {
            let farewell = both(address::end(&joined), joined.disappear());
            ring::timeout(FAREWELL_TIME, farewell).await;
            joined.part().end().await;
        };
        if ring::timeout(END_TIME, ending).await.is_none() {
            tracing::warn!("etcd has not ended within {} s", END_TIME.as_secs());
        }
    }

    /// Where others reach the member, if it is in a group.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        Some(self.in_one()?.file().address)
    }

    /// Says what the member serves.
    pub(crate) fn set_own(&self, own: Inventory) {
        if self.announcer.set_own(own)
            && let Some(joined) = self.in_one()
        {
            joined.announce();
        }
    }

    /// What the member has said last that it serves, also in a life before this one; `None` where that is not known.
    pub(crate) fn said_before(&self) -> Option<Arc<Inventory>> {
        self.announcer.own().or_else(|| {
            let joined = self.in_one()?;
            let me = joined.me();
            joined.with_roll(|roll| roll.inventories.get(&me).cloned()).flatten()
        })
    }

    /// What others serve, unless it is what was heard before at this mark.
    pub(crate) fn elsewhere(&self, mark: &mut u64) -> Option<Elsewhere> {
        let (joined, revision) = (self.in_one(), self.revision());
        if std::mem::replace(mark, revision) == revision {
            return None;
        }
        let map = joined.and_then(|joined| {
            let me = joined.me();
            let twice = joined.with_roll(inventory::listed_twice).unwrap_or_default();
            let to_be_told = |roll: &Roll| {
                let all = twice.iter().filter(|(iqn, _)| !inventory::is_on_its_way(roll, iqn));
                all.map(|(iqn, members)| (iqn.clone(), members.clone())).collect()
            };
            let told: Twice = joined.with_roll(to_be_told).unwrap_or_default();
            self.tell_twice(&joined.group_name(), &told);
            joined.with_roll(|roll| inventory::elsewhere(roll, me, &twice))
        });
        Some(map.unwrap_or_default())
    }

    /// Waits until there is something else than at this mark of [`elsewhere`](Self::elsewhere), hosts are to be heard at
    /// another [address](Self::group_address) than the one that was noted last, or the member ends.
    pub(crate) async fn heard_after(&self, mark: u64) {
        let is_news = || self.revision() != mark || self.group_address() != self.floated.get();
        self.heard.until(|| self.is_ending.get() || is_news()).await;
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.get()
    }

    /// Of the last change of what members serve, or who they are. A roll that was heard has one of 1 or more; without one
    /// it is 0.
    fn revision(&self) -> u64 {
        self.in_one().map_or(0, |joined| joined.served_revision())
    }

    /// Tells of names that two members list, when there are others than before: no host can be sent to the right one.
    fn tell_twice(&self, group: &str, twice: &Twice) {
        let names: BTreeSet<String> = twice.keys().cloned().collect();
        let told = self.told_twice.replace(names);
        let mut news = twice.iter().filter(|(name, _)| !told.contains(*name));
        let Some((name, [one, other])) = news.next() else { return };
        let further = match news.count() {
            0 => String::new(),
            more => format!(", and {more} further targets are listed by two members as well"),
        };
        let text = format!(
            "group '{group}': the members '{one}' and '{other}' both list the target '{name}'{further}: hosts that ask \
             a member for it that does not serve it are sent to neither"
        );
        self.tell(Kind::NameTwice, text);
    }

    fn in_one(&self) -> Option<Rc<Joined>> {
        match &*self.standing.borrow() {
            Standing::In(joined) => Some(joined.clone()),
            Standing::Alone | Standing::Broken(_) => None,
        }
    }

    /// The group of the member, to ask it something.
    fn joined(&self) -> Result<Rc<Joined>, GroupError> {
        if self.is_ending.get() {
            return Err(GroupError::Stopping);
        }
        match &*self.standing.borrow() {
            Standing::In(joined) if joined.is_leaving() => Err(GroupError::Leaving),
            Standing::In(joined) => Ok(joined.clone()),
            Standing::Alone => Err(GroupError::NotInGroup),
            Standing::Broken(why) => Err(GroupError::Broken(why.clone())),
        }
    }

    /// Begins the tasks of a group that the member is in.
    fn attend(self: &Rc<Self>, joined: &Rc<Joined>) {
        debug_assert!(!joined.is_leaving(), "who leaves does not begin anew");
        self.standing.replace(Standing::In(joined.clone()));
        if self.is_ending.get() {
            // It takes part from its next start on.
            joined.stop_tasks();
            return;
        }
        self.sharing.begin(joined);
        let (address, keys) = (joined.file().door(), joined.keys());
        self.of_group.door.replace(Some(Door {
            address,
            authority: keys.authority.clone(),
            certificate: keys.certificate.clone(),
            key: SecretWord(keys.key.clone()),
        }));
        self.note_answering();
        ring::spawn(life::run(self.clone(), joined.clone()));
        ring::spawn(life::watch_part(self.clone(), joined.clone()));
    }

    fn incarnation(&self) -> Result<u64, GroupError> {
        if let Some(drawn) = self.incarnation.get() {
            return Ok(drawn);
        }
        // 0 is a member that has not begun yet.
        let drawn = getrandom::u64()?.max(1);
        self.incarnation.set(Some(drawn));
        Ok(drawn)
    }

    fn tell(&self, kind: Kind, text: impl AsRef<str>) {
        self.events.tell(Event::of_member(kind, text));
    }

    fn tell_news(&self, group: &str, news: Vec<News>) {
        for news in news {
            let (kind, name, what) = match news {
                News::Joined(name) => (Kind::MemberJoined, name, "has joined it"),
                News::Left(name) => (Kind::MemberLeft, name, "was removed from it"),
                News::Away(name) => (Kind::MemberAway, name, "gives no signs of life"),
                News::Back(name) => (Kind::MemberBack, name, "is back"),
            };
            let text = format!("group '{group}': member '{name}' {what}");
            self.events.tell(Event::about(kind, ObjectKind::Member, &name, text));
        }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
