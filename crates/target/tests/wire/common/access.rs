//! Rules, users and their secrets, and hosts that prove to be one.

use iscsi::address::AddressPattern;
use iscsi::chap::{Credentials, InitiatorChap};
use iscsi::pdu::LoginStatus;
use target::{Access, AccessRule};

use super::{Login, NoLogin, Rig, on_core};

pub(crate) const UNAUTHORIZED: NoLogin = NoLogin::Refused(LoginStatus::AUTHORIZATION_FAILURE);
pub(crate) const UNAVAILABLE: NoLogin = NoLogin::Refused(LoginStatus::SERVICE_UNAVAILABLE);
pub(crate) const UNPROVED: NoLogin = NoLogin::Refused(LoginStatus::AUTHENTICATION_FAILURE);

pub(crate) fn user(name: &str) -> Credentials {
    Credentials::new(name, format!("the secret of {name}")).unwrap()
}

/// These rules, for which alice, bob and carol are known; shared.
pub(crate) fn access(rules: impl IntoIterator<Item = AccessRule>) -> Access {
    let users = ["alice", "bob", "carol"].map(user).to_vec();
    let rules = rules.into_iter().collect();
    Access { rules, users, shared: true, ..Access::nobody() }
}

/// A rule for a host by the last part of its name.
pub(crate) fn host(name: &str) -> AccessRule {
    AccessRule::initiator(format!("iqn.2026-11.example:{name}"))
}

pub(crate) fn at(pattern: &str) -> Option<AddressPattern> {
    Some(pattern.parse().unwrap())
}

pub(crate) fn as_user(name: &str) -> Option<String> {
    Some(name.to_owned())
}

impl Login {
    /// Proves to be `user`, with the secret that [`user`] gives it.
    pub(crate) fn proving(self, name: &str) -> Self {
        self.with(user(name))
    }

    pub(crate) fn with(self, user: Credentials) -> Self {
        Self { chap: Some(InitiatorChap::new(user, None).unwrap()), ..self }
    }
}

/// Changes who may use the target; how many sessions that ended.
pub(crate) fn set_access(rig: &Rig, iqn: &'static str, access: Option<Access>) -> usize {
    on_core(rig.server(), move |targets| async move { targets.set_access(iqn, access).await })
        .unwrap()
}
