//! Hosts are let in by what the group has set: how many connections they may have is told to the target, and what becomes
//! of that to operators.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use array::api::VolumeInfo;
use group::connections::{
    Allowance, Bound, Crowding, Refusals, RefusedLogins, Taken, Turn as CrowdingTurn,
};
use group::words::counted;
use target::CrowdedOut;

use super::Member;
use crate::events::{Event, Kind, ObjectKind};
use crate::network::boot_time;

/// Between two looks. Others hear of a change within this and the pause of who tells it.
const PAUSE: Duration = Duration::from_millis(500);

/// The names of volumes, by those of their targets.
type VolumesByIqn = HashMap<String, String>;

/// What was looked at before.
#[derive(Debug, Default)]
struct Looked {
    group: Crowding,
    /// Of the pool of this name.
    pool: (String, Crowding),
    refusals: Refusals,
}

/// Looks after that until the member stops.
pub(crate) async fn run(member: Rc<Member>) {
    let mut looked = Looked::default();
    while !member.is_stopping() {
        member.look_at_connections(&mut looked);
        ring::sleep(PAUSE).await;
    }
}

impl Member {
    fn look_at_connections(&self, looked: &mut Looked) {
        let targets = self.serving.targets();
        let own = u32::try_from(targets.connections_taken()).unwrap_or(u32::MAX);
        self.membership.set_connections(own);
        let allowance = self.membership.allowance();
        self.admit(allowance.as_ref());
        let refused = targets.take_crowded_out().into_iter().map(refused_logins).collect();
        let told = looked.refusals.hear(refused, boot_time());
        // For all that is told now: there may be thousands of volumes.
        let volumes = OnceCell::new();
        for told in told {
            let volumes = volumes.get_or_init(|| self.volumes_by_iqn());
            self.events.tell(self.refusal_of(&told, allowance.as_ref(), volumes));
        }
        let Some(allowance) = allowance else {
            (looked.group, looked.pool) = Default::default();
            return;
        };
        // How much is taken is not known yet.
        if !self.membership.hears_others() {
            return;
        }
        if looked.pool.0 != allowance.pool_name {
            looked.pool = (allowance.pool_name.clone(), Crowding::default());
        }
        let turn = looked.group.look(allowance.group.with_own(own), allowance.group.limit);
        self.tell_crowding(turn, &Bound::Group, allowance.group, own);
        let turn = looked.pool.1.look(allowance.pool.with_own(own), allowance.pool.limit);
        self.tell_crowding(turn, &Bound::Pool(allowance.pool_name), allowance.pool, own);
    }

    /// Tells that most of a limit is taken, or is not any more; one of the members under it does.
    fn tell_crowding(&self, turn: Option<CrowdingTurn>, bound: &Bound, taken: Taken, own: u32) {
        let Some(turn) = turn.filter(|_| self.membership.tells_of(bound)) else { return };
        let (kind, word) = match turn {
            CrowdingTurn::High => (Kind::ConnectionsHigh, "more than nine in ten"),
            CrowdingTurn::Eased => (Kind::ConnectionsEased, "fewer than eight in ten"),
        };
        let has = counted(taken.with_own(own), "connection");
        let to = self.in_words(bound);
        let text = match taken.limit {
            Some(limit) => {
                format!("hosts have {has} to {to}, {word} of the {limit} that there may be")
            }
            None => format!("hosts have {has} to {to}, which has no limit any more"),
        };
        // Those of the group and of a pool are two things.
        self.events.tell(Event::of_member(kind, text).repeating(&to));
    }

    /// What is told of a host that was refused at a volume. By now others may have gone.
    fn refusal_of(
        &self,
        refused: &RefusedLogins,
        allowance: Option<&Allowance>,
        volumes: &VolumesByIqn,
    ) -> Event {
        let RefusedLogins { host, target, .. } = refused;
        let why = self.why_refused(refused.is_of_one, allowance);
        let times = match refused.count {
            1 => String::new(),
            count => format!(" {count} times"),
        };
        let Some(from) = refused.from.filter(|_| !host.is_empty()) else {
            let text = format!("further hosts were refused{times}: {why}");
            return Event::of_member(Kind::ConnectionsRefused, text).repeating("further hosts");
        };
        let volume = volume_under(volumes, target);
        let what = match volume {
            Some(volume) => format!("volume '{volume}' ({target})"),
            None => target.clone(),
        };
        let text = format!("{host} at {from} was refused{times} at {what}: {why}");
        let event = match volume {
            Some(name) => Event::about(Kind::ConnectionsRefused, ObjectKind::Volume, name, text),
            None => Event::about(Kind::ConnectionsRefused, ObjectKind::Target, target, text),
        };
        // Each host is named, with each snapshot of a volume too.
        event.repeating(&format!("{host} at {target}"))
    }

    fn why_refused(&self, is_of_one: bool, allowance: Option<&Allowance>) -> String {
        let of_one = allowance.and_then(Allowance::of_one_max).filter(|_| is_of_one);
        if let Some(most) = of_one {
            let has = counted(u64::from(most), "connection");
            return format!(
                "this host has that many itself: from one address a member takes {has}"
            );
        }
        match allowance.and_then(Allowance::bound) {
            Some((bound, limit)) => format!(
                "{} takes {}, and hosts have them",
                self.in_words(&bound),
                counted(u64::from(limit), "connection")
            ),
            None => "hosts had as many connections as the group took".to_owned(),
        }
    }

    /// Has the target let in as many as this leaves. Without a limit its own bound says what a member may have.
    fn admit(&self, allowance: Option<&Allowance>) {
        let number = |most: Option<u32>| {
            most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX)
        };
        let targets = self.serving.targets();
        targets.set_connections_max(number(allowance.and_then(Allowance::own_max)));
        targets.set_connections_of_one_max(number(allowance.and_then(Allowance::of_one_max)));
    }

    /// Has it let in what is known before the group was heard: before the first host comes.
    pub(crate) fn admit_as_known(&self) {
        self.admit(self.membership.allowance().as_ref());
    }

    /// The volumes that are here, by the names of their targets.
    fn volumes_by_iqn(&self) -> VolumesByIqn {
        let names = self.serving.names();
        let volumes = self.volumes().into_iter();
        let iqn = |volume: &VolumeInfo| names.volume(volume.id, &volume.name).to_ascii_lowercase();
        volumes.map(|volume| (iqn(&volume), volume.name)).collect()
    }

    fn in_words(&self, bound: &Bound) -> String {
        match bound {
            Bound::Group => format!("the group '{}'", self.membership.name()),
            Bound::Pool(name) => format!("the pool '{name}'"),
        }
    }
}

/// The volume that is served under this name, or of which a snapshot is: of that the name goes on behind a colon.
fn volume_under<'a>(volumes: &'a VolumesByIqn, target: &str) -> Option<&'a str> {
    let colons = target.rmatch_indices(':').map(|(at, _)| &target[..at]);
    let mut names = std::iter::once(target).chain(colons);
    names.find_map(|iqn| volumes.get(iqn)).map(String::as_str)
}

fn refused_logins(out: CrowdedOut) -> RefusedLogins {
    let text = |name: Option<std::sync::Arc<str>>| name.as_deref().unwrap_or_default().to_owned();
    let from = out.initiator.is_some().then_some(out.from);
    let CrowdedOut { is_of_one, count, .. } = out;
    RefusedLogins { host: text(out.initiator), target: text(out.target), from, is_of_one, count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_of_the_volume_whose_name_it_has_or_begins_with() {
        let known = [("iqn.2026-11.example:vm", "vm"), ("iqn.2026-11.example:vm:x", "other")];
        let known = known.map(|(iqn, name)| (iqn.to_owned(), name.to_owned())).into();
        let of = |target| volume_under(&known, target);
        assert_eq!(of("iqn.2026-11.example:vm"), Some("vm"));
        assert_eq!(of("iqn.2026-11.example:vm:daily-1"), Some("vm"), "a snapshot");
        assert_eq!(of("iqn.2026-11.example:vm:x:daily-1"), Some("other"), "the longest name");
        assert_eq!(of("iqn.2026-11.example:vm2"), None);
        assert_eq!(of("iqn.2026-11.example"), None);
    }
}
