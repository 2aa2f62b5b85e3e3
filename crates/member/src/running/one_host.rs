//! A volume that several hosts use at the same time cannot become one for a single host: both would go on
//! writing.

use std::collections::BTreeSet;

use group::access::{AccessList, Object, Policies, Policy, Record};
use group::settings::{ListChange, State, VolumeSettings, VolumeStep};
use target::{Access, ConnectionInfo, Hold};

use super::{Member, RequestError};
use crate::mutants::{self, Mutant};

/// The records that policies are to have, as in a change of many things.
type PolicySteps = [(String, Option<Vec<Record>>)];

impl Member {
    /// Refuses a change that makes a volume one for a single host while several are logged in that it would
    /// leave there. No more come before what is returned is dropped, which is when the targets have the new rule: one that
    /// came in between would stay.
    pub(super) async fn check_one_host(
        &self,
        name: &str,
        step: &VolumeStep,
        policies: &PolicySteps,
    ) -> Result<Option<Hold>, RequestError> {
        let id = self.find(name)?.id;
        let state = self.settings.state()?;
        let Some(records) = records_of_one_host(&state, id, step, policies) else {
            return Ok(None);
        };
        let access = records.map(|records| self.settings.access_by(&records, Object::Volume));
        let iqn = self.serving.names().volume(name);
        let held = match mutants::is(Mutant::LateRule) {
            true => None,
            false => self.serving.targets().hold(&iqn),
        };
        let (hold, there) = held.unzip();
        let all = self.serving.targets().connections().await;
        let stays = |conn: &&ConnectionInfo| {
            conn.iqn == iqn && access.as_ref().is_none_or(|access| lets_in(access, conn))
        };
        let mut hosts: BTreeSet<String> =
            all.iter().filter(stays).map(|conn| conn.initiator.clone()).collect();
        // One whose only connection is just being replaced has none, and where it comes from is not known.
        let is_seen = |host: &str| all.iter().any(|conn| conn.iqn == iqn && conn.initiator == host);
        let between = there.into_iter().flatten().filter(|host| !is_seen(host));
        hosts.extend(between.map(|host| host.to_string()));
        if hosts.len() > 1 && !mutants::is(Mutant::TwoStay) {
            let (name, hosts) = (name.to_owned(), hosts.into_iter().collect());
            return Err(RequestError::SeveralHosts { name, hosts });
        }
        Ok(hold)
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
fn changed(mut all: Policies, steps: &PolicySteps) -> Option<Policies> {
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
