//! Rules as logins, discovery and changes of access ask them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use iscsi::chap::{AuthPolicy, ChapPolicy, Credentials};

use crate::mutants::{self, Mutant};

use super::{Access, AccessError, AccessRule};

/// Who may log in. They do not change: a target that gets others gets another value of this.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<AccessRule>,
    /// All users whose secrets are known, and what the target proves.
    chap: Arc<ChapPolicy>,
    /// Hosts of several names at the same time.
    pub(crate) is_shared: bool,
}

impl Rules {
    /// # Errors
    /// [`AccessError`].
    pub(crate) fn new(access: Access) -> Result<Self, AccessError> {
        let Access { rules, users, mutual, shared } = access;
        let mut names = BTreeSet::new();
        if let Some(twice) = users.iter().find(|user| !names.insert(user.user())) {
            return Err(AccessError::UserTwice(twice.user().to_owned()));
        }
        drop(names);
        let chap = Arc::new(ChapPolicy::new(users, mutual)?);
        Ok(Self { rules, chap, is_shared: shared })
    }

    /// The rules that are for a host of this name that comes from there.
    fn candidates(&self, initiator: &str, from: IpAddr) -> impl Iterator<Item = &AccessRule> {
        self.rules.iter().filter(move |rule| rule.fits(initiator, from))
    }

    /// What a host must prove to be let in; `None` if no rule is for it.
    pub(crate) fn auth(&self, initiator: &str, from: IpAddr) -> Option<AuthPolicy> {
        let mut users = BTreeSet::new();
        let (mut is_for_it, mut must_prove) = (false, true);
        for rule in self.candidates(initiator, from) {
            is_for_it = true;
            match &rule.chap_user {
                Some(user) => {
                    users.insert(user.as_str());
                }
                None => must_prove = false,
            }
        }
        is_for_it.then(|| match must_prove {
            true if mutants::is(Mutant::OthersUser) => AuthPolicy::Chap(self.chap.clone()),
            true => AuthPolicy::Chap(Arc::new(self.chap.only(|user| users.contains(user)))),
            false if self.chap.users().is_empty() => AuthPolicy::None,
            false => AuthPolicy::Optional(self.chap.clone()),
        })
    }

    /// Whether a host that has proved this, or nothing, is let in: the whole of the question, as it is asked
    /// at the end of a login and whenever rules change. Who has proved to be a user must still be one, with
    /// the same secret.
    pub(crate) fn admits(
        &self,
        initiator: &str,
        from: IpAddr,
        proved: Option<&Credentials>,
    ) -> bool {
        proved.is_none_or(|proved| self.knows(proved))
            && self.shows(initiator, from, proved.map_or(Proved::Nothing, Proved::User))
    }

    /// This is a user, with this secret. Another secret of the same name is another user's.
    fn knows(&self, proved: &Credentials) -> bool {
        self.chap.users().iter().any(|known| **known == *proved) || mutants::is(Mutant::OldSecret)
    }

    /// All users whose secrets are known, and what the target proves.
    pub(crate) fn chap(&self) -> &Arc<ChapPolicy> {
        &self.chap
    }

    /// Whether some rule lets a host in that has proved so much, or fits one by name or address that may prove more yet.
    pub(crate) fn shows(&self, initiator: &str, from: IpAddr, proved: Proved<'_>) -> bool {
        self.candidates(initiator, from).any(|rule| match (&rule.chap_user, proved) {
            (None, _) => true,
            // Whoever comes could prove to be a user that the rule names and nothing else.
            (Some(_), Proved::NotYet) => rule.initiator.is_some() || rule.from.is_some(),
            (Some(_), Proved::Nothing) => false,
            (Some(_), Proved::User(_)) if mutants::is(Mutant::OthersUser) => true,
            (Some(user), Proved::User(proved)) => {
                user == proved.user() && (self.knows(proved) || mutants::is(Mutant::NameAlone))
            }
        })
    }
}

/// What a host has proved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proved<'a> {
    /// To be this user.
    User(&'a Credentials),
    /// Nothing, where that is all it will prove.
    Nothing,
    /// Nothing, where it may yet: many hosts discover without a proof and log in with one.
    NotYet,
}
