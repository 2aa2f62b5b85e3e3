//! Who may discover: whomever some of several rules may let in.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use iscsi::chap::{AuthPolicy, ChapPolicy, Credentials};

use super::Rules;

/// What a host must prove to discover: what one of these rules asks of it. `None` if none is for it.
///
/// Who need not prove anything may do so, as any user that is `known`: it sees then what that one may use as well. A
/// user of one name may have several secrets here, as the rules of the server and those of targets know it by their
/// own: each proves what it is the secret of. What the target proves in return is what the first rules say that have
/// something.
pub(crate) fn auth(
    all: &[Arc<Rules>],
    known: &[Arc<ChapPolicy>],
    initiator: &str,
    from: IpAddr,
) -> Option<AuthPolicy> {
    let asked: Vec<_> = all.iter().filter_map(|rules| rules.auth(initiator, from)).collect();
    if asked.is_empty() {
        return None;
    }
    let must_prove = asked.iter().all(|policy| matches!(policy, AuthPolicy::Chap(_)));
    let asked = asked.iter().filter_map(|policy| match policy {
        AuthPolicy::None => None,
        AuthPolicy::Chap(policy) | AuthPolicy::Optional(policy) => Some(&**policy),
    });
    let known = if must_prove { &[] } else { known };
    let policies = asked.chain(known.iter().map(|policy| &**policy));
    let policy = joined(&policies.collect::<Vec<_>>());
    Some(match must_prove {
        true => AuthPolicy::Chap(Arc::new(policy)),
        false if policy.users().is_empty() => AuthPolicy::None,
        false => AuthPolicy::Optional(Arc::new(policy)),
    })
}

/// Whether one of these rules lets a host discover that has proved this, or nothing. Who is a user that is `known`
/// loses nothing by the proof.
pub(crate) fn admits(
    all: &[Arc<Rules>],
    known: &[Arc<ChapPolicy>],
    initiator: &str,
    from: IpAddr,
    proved: Option<&Credentials>,
) -> bool {
    let admit = |proved| all.iter().any(|rules| rules.admits(initiator, from, proved));
    let is_known = |proved: &Credentials| {
        known.iter().flat_map(|policy| policy.users()).any(|user| **user == *proved)
    };
    admit(proved) || proved.is_some_and(is_known) && admit(None)
}

/// The users of all, each secret once.
fn joined(policies: &[&ChapPolicy]) -> ChapPolicy {
    let mut by_name: BTreeMap<&str, Vec<&Credentials>> = BTreeMap::new();
    for user in policies.iter().flat_map(|policy| policy.users()).map(|user| &**user) {
        let same_name = by_name.entry(user.user()).or_default();
        if !same_name.contains(&user) {
            same_name.push(user);
        }
    }
    let users: Vec<Credentials> = by_name.into_values().flatten().cloned().collect();
    let mutual = policies.iter().find_map(|policy| policy.target()).cloned();
    // One side's own secret may be a user's of the other side: the target proves nothing then.
    ChapPolicy::new(users.clone(), mutual)
        .or_else(|_| ChapPolicy::new(users, None))
        .expect("without a secret of the target none is there twice")
}
