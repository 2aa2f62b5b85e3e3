//! Who may use what: rules over CHAP user, initiator name and address.

pub(crate) mod discovery;
mod rules;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use iscsi::address::AddressPattern;
use iscsi::chap::{Credentials, CredentialsError};
use thiserror::Error;

pub(crate) use rules::{Proved, Rules};

/// Who may log in to a target, and what they must prove; or who may discover.
///
/// A host is let in when one rule matches in all that it names. Of the rules that fit its initiator name and
/// its address one that names no CHAP user suffices; otherwise it must prove to be a user that one of them
/// names. The same holds for each connection of a session, from the first to the last, and all of them prove
/// to be the same user, or nothing.
#[derive(Clone, Debug)]
pub struct Access {
    /// One of them must match. None at all: nobody may log in.
    pub rules: Vec<AccessRule>,
    /// The CHAP users that are known, with their secrets. A rule whose user is not among them admits nobody.
    pub users: Vec<Credentials>,
    /// What the target proves in return to a user that asks for it (mutual CHAP).
    pub mutual: Option<Credentials>,
    /// Hosts of several initiator names may be logged in at the same time. Without it a second one is
    /// refused for as long as the first has a session; more sessions of the first are always welcome.
    pub shared: bool,
}

impl Access {
    /// Lets everyone in, several at a time, without a proof.
    #[must_use]
    pub fn everyone() -> Self {
        Self::uniform(Vec::new(), None, None)
    }

    /// Lets nobody in: to be completed.
    #[must_use]
    pub const fn nobody() -> Self {
        Self { rules: Vec::new(), users: Vec::new(), mutual: None, shared: false }
    }

    /// Lets those in, several at a time, that one of `places` fits (everyone, if there are none), and of whom
    /// each proves to be the one user `chap`, if there is one.
    #[must_use]
    pub fn uniform(
        places: Vec<AccessRule>,
        chap: Option<Credentials>,
        mutual: Option<Credentials>,
    ) -> Self {
        let mut rules = if places.is_empty() { vec![AccessRule::anyone()] } else { places };
        for rule in &mut rules {
            rule.chap_user = chap.as_ref().map(|user| user.user().to_owned());
        }
        Self { rules, users: chap.into_iter().collect(), mutual, shared: true }
    }
}

/// One combination of what a host must be to be let in; what is `None` may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRule {
    /// The CHAP user that it proves to be.
    pub chap_user: Option<String>,
    /// Its initiator name, compared in lower case.
    pub initiator: Option<String>,
    /// Where it comes from.
    pub from: Option<AddressPattern>,
}

impl AccessRule {
    /// Whoever comes.
    #[must_use]
    pub fn anyone() -> Self {
        Self::default()
    }

    /// A host of this initiator name.
    #[must_use]
    pub fn initiator(name: impl Into<String>) -> Self {
        Self { initiator: Some(name.into()), ..Self::default() }
    }

    /// A host at one of these addresses.
    #[must_use]
    pub fn from(pattern: impl Into<AddressPattern>) -> Self {
        Self { from: Some(pattern.into()), ..Self::default() }
    }

    /// Whoever proves to be this CHAP user.
    #[must_use]
    pub fn user(name: impl Into<String>) -> Self {
        Self { chap_user: Some(name.into()), ..Self::default() }
    }

    /// The rule is for a host of this name that comes from there, whatever it has to prove yet.
    #[must_use]
    pub fn fits(&self, initiator: &str, from: IpAddr) -> bool {
        self.initiator.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(initiator))
            && self.from.as_ref().is_none_or(|pattern| pattern.includes(from))
    }
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccessError {
    /// The secret of the target is also one of a user's.
    #[error("{0}")]
    Credentials(#[from] CredentialsError),
    /// One name with two secrets.
    #[error("the CHAP user {0} is there twice: leave one of them out")]
    UserTwice(String),
}
