//! A volume that several hosts use at the same time, or use a snapshot of, cannot become one for a single host: both would
//! go on writing.

use std::collections::BTreeSet;
use std::sync::Arc;

use group::access::{AccessList, Object, Policies, Policy, Record};
use group::settings::{ListChange, State, VolumeSettings, VolumeStep};
use target::{Access, ConnectionInfo, Hold};

use super::{Member, RequestError};
use crate::mutants::{self, Mutant};

/// The records that policies are to have, as in a change of many things.
type PolicySteps = [(String, Option<Vec<Record>>)];

/// A target that the rule of a volume is about.
struct Ruled {
    /// What it is to records.
    object: Object,
    /// Which of its snapshots, if it is not the volume.
    snapshot: Option<String>,
    iqn: String,
    /// Who had sessions when no more could come.
    there: BTreeSet<Arc<str>>,
}

/// Which targets are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The volume and its snapshots.
    All,
    /// Its snapshots: it goes offline itself, and they stay.
    Snapshots,
}

impl Member {
    /// Refuses a change that makes a volume, and so its snapshots, one for a single host while several are logged in to one of
    /// them that it would leave there. No more come before what is returned is dropped, which is when the targets have the
    /// new rule: one that came in between would stay.
    pub(super) async fn check_one_host(
        &self,
        (name, which): (&str, Which),
        step: &VolumeStep,
        policies: &PolicySteps,
    ) -> Result<Vec<Hold>, RequestError> {
        let id = self.find(name)?.id;
        let state = self.settings.state()?;
        let Some(records) = records_of_one_host(&state, id, step, policies) else {
            return Ok(Vec::new());
        };
        let mut holds = Vec::new();
        let mut ruled = self.ruled(id, name, which);
        for target in &mut ruled {
            if !mutants::is(Mutant::LateRule)
                && let Some((hold, there)) = self.serving.targets().hold(&target.iqn)
            {
                holds.push(hold);
                target.there = there;
            }
        }
        let all = self.serving.targets().connections().await;
        for target in ruled {
            let access = records.as_deref();
            let access = access.map(|records| self.settings.access_by(records, target.object));
            let hosts = target.staying(access.as_ref(), &all);
            if hosts.len() > 1 && !mutants::is(Mutant::TwoStay) {
                let (name, hosts) = (name.to_owned(), hosts.into_iter().collect());
                return Err(RequestError::SeveralHosts { name, snapshot: target.snapshot, hosts });
            }
        }
        Ok(holds)
    }

    fn ruled(&self, id: u32, name: &str, which: Which) -> Vec<Ruled> {
        let names = self.serving.names();
        let target =
            |object, snapshot, iqn| Ruled { object, snapshot, iqn, there: BTreeSet::new() };
        let mut all = Vec::new();
        if which == Which::All {
            all.push(target(Object::Volume, None, names.volume(id, name)));
        }
        if mutants::is(Mutant::VolumeAlone) {
            return all;
        }
        let snapshots = self.array.all_snapshots().remove(&id).unwrap_or_default();
        all.extend(snapshots.into_iter().filter(|snapshot| snapshot.online).map(|snapshot| {
            let iqn = names.snapshot((id, name), &snapshot.name);
            target(Object::Snapshot, Some(snapshot.name), iqn)
        }));
        all
    }
}

impl Ruled {
    /// Which hosts go on under these rules, or all that are there where nobody is let out.
    fn staying(&self, access: Option<&Access>, all: &[ConnectionInfo]) -> BTreeSet<String> {
        let of_it = || all.iter().filter(|conn| conn.iqn == self.iqn);
        let stays = |conn: &&ConnectionInfo| access.is_none_or(|access| lets_in(access, conn));
        let mut hosts: BTreeSet<String> =
            of_it().filter(stays).map(|conn| conn.initiator.clone()).collect();
        // One whose only connection is just being replaced has none, and where it comes from is not known.
        let is_seen = |host: &str| of_it().any(|conn| conn.initiator == host);
        let between = self.there.iter().filter(|host| !is_seen(host));
        hosts.extend(between.map(|host| host.to_string()));
        hosts
    }
}

/// Whom the list of a volume is for that is one for a single host after this, and is not before; the inner
/// `None` where the change leaves it to all those that are logged in.
fn records_of_one_host(
    state: &State,
    id: u32,
    step: &VolumeStep,
    policies: &PolicySteps,
) -> Option<Option<Vec<Record>>> {
    let before = match state.volumes.get(&id) {
        Some(Err(_)) => return None,
        Some(Ok(settings)) => settings.clone(),
        None => VolumeSettings::default(),
    };
    let is_listed = match &step.access {
        None => before.access.is_some(),
        Some(change) => matches!(change, ListChange::Listed(_)),
    };
    // Without a list several may use it, but nobody is told so who has asked for one.
    let was_for_one = !before.shared && before.access.is_some();
    let is_for_one = !step.shared.unwrap_or(before.shared) && (is_listed || before.shared);
    if was_for_one || !is_for_one {
        return None;
    }
    let Some(ListChange::Listed(entries)) = &step.access else { return Some(None) };
    let mut list = AccessList::default();
    // A list that cannot be is refused with the change.
    list.replace(entries).ok()?;
    Some(Some(list.records(&changed(state.policies.clone(), policies)?)))
}

/// Policies as they are to be.
pub(super) fn changed(mut all: Policies, steps: &PolicySteps) -> Option<Policies> {
    for (name, records) in steps {
        let mut policy = Policy::default();
        match records {
            None => drop(all.remove(name)),
            Some(records) => {
                policy.replace(records).ok()?;
                all.insert(name.clone(), policy);
            }
        }
    }
    Some(all)
}

/// Whether a host goes on under these rules.
fn lets_in(access: &Access, conn: &ConnectionInfo) -> bool {
    access.rules.iter().any(|rule| {
        rule.fits(&conn.initiator, conn.peer.ip())
            && (rule.chap_user.is_none() || rule.chap_user == conn.chap_user)
    })
}
