//! What a login asks of the target: who is served, where, and which session a connection joins.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use iscsi::chap::{AuthPolicy, ChallengeKey};
use iscsi::login::{LoginEnv, SessionDecision, SessionRequest, TargetLookup};
use iscsi::pdu::LoginStatus;
use iscsi::text::IscsiName;

use crate::access::{Rules, discovery};
use crate::datamover::Ends;
use crate::elsewhere::{self, Way};
use crate::mutants::{self, Mutant};
use crate::registry::SessionKey;
use crate::shared::Shared;
use crate::targets::{Found, Target};

/// Whether there is room for one more session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    There,
    None,
}

/// One login's view of the target.
pub(super) struct Env<'a> {
    shared: &'a Shared,
    ends: Ends,
    room: Room,
    /// The target that was [looked up](LoginEnv::find_target).
    found: Option<Arc<Target>>,
}

impl<'a> Env<'a> {
    pub(super) const fn new(shared: &'a Shared, ends: Ends, room: Room) -> Self {
        Self { shared, ends, room, found: None }
    }

    /// What is known of a target that there is none of here.
    fn find_elsewhere(&self, name: &IscsiName) -> TargetLookup {
        let own = self.shared.announced_portals(self.ends.local);
        match self.shared.elsewhere.way(name.as_str(), self.ends, &own, ring::now()) {
            Some(Way::To(portal)) => {
                TargetLookup::Moved { address: portal.to_string(), is_temporary: true }
            }
            Some(Way::Later) => TargetLookup::Offline,
            None => TargetLookup::NotFound,
        }
    }

    /// The rules of a target as they are now, or those for discovery, one of which must let it in; or why it
    /// is not served any more.
    fn rules(&self, target: Option<&IscsiName>) -> Result<Vec<Arc<Rules>>, LoginStatus> {
        let Some(name) = target else { return Ok(self.shared.discovery_rules()) };
        match self.shared.targets.find(name.as_str()) {
            Found::Served(target) => Ok(vec![target.rules()]),
            Found::Offline => Err(LoginStatus::SERVICE_UNAVAILABLE),
            Found::Unknown => Err(LoginStatus::NOT_FOUND),
        }
    }

    /// Whether the rules, as they are now, let in who has proved this.
    fn is_admitted(&self, request: &SessionRequest<'_>) -> Result<bool, LoginStatus> {
        let (rules, from) = (self.rules(request.target)?, self.ends.peer.ip());
        // Of a target the rules alone say who is a user.
        let known = if request.target.is_none() { self.shared.chap() } else { Vec::new() };
        let is_admitted =
            discovery::admits(&rules, &known, request.initiator.as_str(), from, request.proved);
        Ok(is_admitted || mutants::is(Mutant::OldRules))
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
            Found::Unknown => return self.find_elsewhere(name),
        };
        if let Some(own) = self.shared.floating.own_at(self.ends.local)
            && !mutants::is(Mutant::StayAfloat)
        {
            return from_floating(&own, self.ends);
        }
        let elsewhere = self.shared.redirect.as_ref();
        if let Some(elsewhere) = elsewhere.and_then(|rule| rule.elsewhere(self.ends.local)) {
            return TargetLookup::Moved {
                address: elsewhere.address,
                is_temporary: !elsewhere.permanent,
            };
        }
        TargetLookup::Found {
            portal_group_tag: self.shared.port_group(),
            alias: self.found.insert(target).alias.clone(),
        }
    }

    fn authorize(
        &mut self,
        initiator: &IscsiName,
        target: Option<&IscsiName>,
    ) -> Option<AuthPolicy> {
        let (initiator, from) = (initiator.as_str(), self.ends.peer.ip());
        match target {
            None => {
                let (rules, known) = (self.shared.discovery_rules(), self.shared.chap());
                discovery::auth(&rules, &known, initiator, from)
            }
            Some(_) => self.found.take()?.rules().auth(initiator, from),
        }
    }

    fn session(&mut self, request: &SessionRequest<'_>) -> SessionDecision {
        if self.shared.is_stopping() {
            return SessionDecision::Refuse(LoginStatus::SERVICE_UNAVAILABLE);
        }
        if self.room == Room::None {
            return SessionDecision::Refuse(LoginStatus::OUT_OF_RESOURCES);
        }
        // The rules may be others than those that asked for the proof, or the target gone.
        match self.is_admitted(request) {
            Ok(true) => {}
            Ok(false) => return SessionDecision::NotAuthorized,
            Err(status) => return SessionDecision::Refuse(status),
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
        random(bytes);
    }

    fn challenge_key(&self) -> &ChallengeKey {
        // One for the whole process: servers in it may know the same secrets.
        static KEY: LazyLock<ChallengeKey> = LazyLock::new(|| ChallengeKey::new(&mut random));
        match mutants::is(Mutant::OwnKeys) {
            true => Box::leak(Box::new(ChallengeKey::new(&mut random))),
            false => &KEY,
        }
    }
}

/// No session stays at a portal that another server has next: a target that is served here is at those portals that are
/// this server's alone.
fn from_floating(own: &[SocketAddr], ends: Ends) -> TargetLookup {
    match elsewhere::best(own, ends.local.ip(), &[]) {
        Some(portal) => TargetLookup::Moved { address: portal.to_string(), is_temporary: true },
        None => TargetLookup::Offline,
    }
}

fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the kernel has random numbers");
}
