//! What a login asks of the target: who is served, where, and which session a connection joins.

use std::sync::Arc;

use iscsi::chap::{AuthPolicy, ChapPolicy, CredentialsError};
use iscsi::login::{LoginEnv, SessionDecision, SessionRequest, SessionType, TargetLookup};
use iscsi::pdu::LoginStatus;
use iscsi::text::IscsiName;

use super::Ends;
use crate::config::Access;
use crate::session::SessionKey;
use crate::shared::Shared;

/// What initiators must prove, as the login needs it.
///
/// # Errors
/// The same secret for both directions.
pub(crate) fn auth_policy(access: &Access) -> Result<AuthPolicy, CredentialsError> {
    match &access.chap {
        None => Ok(AuthPolicy::None),
        Some(user) => {
            let policy = ChapPolicy::new(vec![user.clone()], access.mutual.clone())?;
            Ok(AuthPolicy::Chap(Arc::new(policy)))
        }
    }
}

/// One login's view of the target.
pub(super) struct Env<'a> {
    pub(super) shared: &'a Shared,
    pub(super) ends: Ends,
}

impl Env<'_> {
    fn admits(&self, initiator: &IscsiName) -> bool {
        let allow = &self.shared.allow;
        let from = self.ends.peer.ip();
        allow.is_empty() || allow.iter().any(|rule| rule.admits(initiator.as_str(), from))
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
        if name.as_str() != self.shared.name.as_str() {
            return TargetLookup::NotFound;
        }
        let elsewhere = self.shared.redirect.as_ref();
        if let Some(elsewhere) = elsewhere.and_then(|rule| rule.elsewhere(self.ends.local)) {
            return TargetLookup::Moved {
                address: elsewhere.address,
                is_temporary: !elsewhere.permanent,
            };
        }
        TargetLookup::Found {
            portal_group_tag: self.shared.port_group,
            alias: self.shared.alias.clone(),
            auth: self.shared.auth.clone(),
        }
    }

    fn discovery_auth(&mut self) -> AuthPolicy {
        self.shared.auth.clone()
    }

    fn authorize(&mut self, initiator: &IscsiName, _target: Option<&IscsiName>) -> bool {
        self.admits(initiator)
    }

    fn session(&mut self, request: &SessionRequest<'_>) -> SessionDecision {
        if self.shared.is_stopping() {
            return SessionDecision::Refuse(LoginStatus::SERVICE_UNAVAILABLE);
        }
        let key = SessionKey { initiator: request.initiator.as_str().into(), isid: request.isid };
        if request.tsih != 0 {
            return self.join(request, &key);
        }
        let Some(tsih) = self.shared.registry.new_tsih() else {
            return SessionDecision::Refuse(LoginStatus::OUT_OF_RESOURCES);
        };
        let is_normal = request.session_type == SessionType::Normal;
        if is_normal && self.shared.registry.find(&key).is_some() {
            SessionDecision::Reinstate { tsih }
        } else {
            SessionDecision::Start { tsih }
        }
    }

    fn random(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the kernel has random numbers");
    }
}
