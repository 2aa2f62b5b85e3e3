//! What a login asks of the target: who is served, where, and which session a connection joins.

use std::sync::Arc;

use iscsi::chap::AuthPolicy;
use iscsi::login::{LoginEnv, SessionDecision, SessionRequest, TargetLookup};
use iscsi::pdu::LoginStatus;
use iscsi::text::IscsiName;

use crate::access::Rules;
use crate::datamover::Ends;
use crate::mutants::{self, Mutant};
use crate::registry::SessionKey;
use crate::shared::Shared;
use crate::targets::Found;

/// Whether there is room for one more session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    There,
    None,
}

/// One login's view of the target.
pub(super) struct Env<'a> {
    pub(super) shared: &'a Shared,
    pub(super) ends: Ends,
    pub(super) room: Room,
}

impl Env<'_> {
    /// The rules of a target that is served, or those for discovery.
    fn rules(&self, target: Option<&IscsiName>) -> Option<Arc<Rules>> {
        let Some(name) = target else { return Some(self.shared.rules.clone()) };
        match self.shared.targets.find(name.as_str()) {
            Found::Served(target) => Some(target.rules()),
            Found::Offline | Found::Unknown => None,
        }
    }

    /// Whether the rules, as they are now, let in who has proved this.
    fn is_admitted(&self, request: &SessionRequest<'_>) -> bool {
        let from = self.ends.peer.ip();
        mutants::is(Mutant::OldRules)
            || self
                .rules(request.target)
                .is_some_and(|rules| rules.admits(request.initiator.as_str(), from, request.proved))
    }

    /// A place in a session that exists: the TSIH must be its own.
    fn join(&self, request: &SessionRequest<'_>, key: &SessionKey) -> SessionDecision {
        let Some(residence) = self.shared.registry.find(key) else {
            return SessionDecision::Refuse(LoginStatus::SESSION_DOES_NOT_EXIST);
        };
        if residence.tsih != request.tsih {
            return SessionDecision::Refuse(LoginStatus::SESSION_DOES_NOT_EXIST);
        }
        let again = residence.cids.contains(&request.cid);
        if !again && residence.cids.len() >= residence.params.max_connections as usize {
            return SessionDecision::Refuse(LoginStatus::TOO_MANY_CONNECTIONS);
        }
        // The session's numbers live on its core; they are put right when the connection is there.
        SessionDecision::Join { session: residence.params, exp_cmd_sn: 0, max_cmd_sn: 0 }
    }
}

impl LoginEnv for Env<'_> {
    fn find_target(&mut self, name: &IscsiName) -> TargetLookup {
        let target = match self.shared.targets.find(name.as_str()) {
            Found::Served(target) => target,
            Found::Offline => return TargetLookup::Offline,
            Found::Unknown => return TargetLookup::NotFound,
        };
        let elsewhere = self.shared.redirect.as_ref();
        if let Some(elsewhere) = elsewhere.and_then(|rule| rule.elsewhere(self.ends.local)) {
            return TargetLookup::Moved {
                address: elsewhere.address,
                is_temporary: !elsewhere.permanent,
            };
        }
        TargetLookup::Found {
            portal_group_tag: self.shared.port_group,
            alias: target.alias.clone(),
        }
    }

    fn authorize(
        &mut self,
        initiator: &IscsiName,
        target: Option<&IscsiName>,
    ) -> Option<AuthPolicy> {
        self.rules(target)?.auth(initiator.as_str(), self.ends.peer.ip())
    }

    fn session(&mut self, request: &SessionRequest<'_>) -> SessionDecision {
        if self.shared.is_stopping() {
            return SessionDecision::Refuse(LoginStatus::SERVICE_UNAVAILABLE);
        }
        if self.room == Room::None {
            return SessionDecision::Refuse(LoginStatus::OUT_OF_RESOURCES);
        }
        // The rules may be others than those that asked for the proof.
        if !self.is_admitted(request) {
            return SessionDecision::NotAuthorized;
        }
        let key = request.target.map(|target| SessionKey {
            target: target.as_str().into(),
            initiator: request.initiator.as_str().into(),
            isid: request.isid,
        });
        if request.tsih != 0 {
            let Some(key) = key else {
                return SessionDecision::Refuse(LoginStatus::SESSION_DOES_NOT_EXIST);
            };
            return self.join(request, &key);
        }
        let Some(tsih) = self.shared.registry.new_tsih() else {
            return SessionDecision::Refuse(LoginStatus::OUT_OF_RESOURCES);
        };
        if key.is_some_and(|key| self.shared.registry.find(&key).is_some()) {
            SessionDecision::Reinstate { tsih }
        } else {
            SessionDecision::Start { tsih }
        }
    }

    fn random(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the kernel has random numbers");
    }
}
