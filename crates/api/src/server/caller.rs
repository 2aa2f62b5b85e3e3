//! Who asks: somebody at the socket, somebody who has logged in, another member for one of these, or for itself.

use std::fmt;
use std::sync::Arc;

use group::accounts::Role;
use member::audit::Actor;

use super::carry::{Behalf, Carried};
use super::login::Login;
use super::peer::Peer;

/// Who asks.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    peer: Peer,
    who: Who,
}

/// By what it is known who asks.
#[derive(Debug, Clone)]
enum Who {
    /// The kernel says so, at the socket, where nobody has to log in.
    Process,
    /// It has logged in, and may do that.
    Login(Login, Role),
    /// Another member says so.
    Carried(Arc<Carried>),
    /// It is another member, which asks for itself.
    Member(String),
}

impl Caller {
    /// A process at the control socket.
    pub(super) const fn at_socket(peer: Peer) -> Self {
        Self { peer, who: Who::Process }
    }

    /// Who has logged in, with what that may do.
    pub(super) const fn logged_in(peer: Peer, login: Login, role: Role) -> Self {
        Self { peer, who: Who::Login(login, role) }
    }

    /// Whom another member asks for.
    pub(super) fn carried(peer: Peer, carried: Carried) -> Self {
        Self { peer, who: Who::Carried(Arc::new(carried)) }
    }

    /// Another member of this name.
    pub(super) const fn member(peer: Peer, name: String) -> Self {
        Self { peer, who: Who::Member(name) }
    }

    /// Whether it is asked at the control socket.
    pub(super) const fn is_local(&self) -> bool {
        matches!(self.who, Who::Process)
    }

    /// Whether another member has sent it here: it is done here, and goes nowhere else.
    pub(super) const fn is_carried(&self) -> bool {
        matches!(self.who, Who::Carried(_))
    }

    /// How it has logged in, if it has.
    pub(super) const fn login(&self) -> Option<&Login> {
        match &self.who {
            Who::Login(login, _) => Some(login),
            Who::Process | Who::Carried(_) | Who::Member(_) => None,
        }
    }

    /// What tells one that asks from another, whatever connection it uses.
    pub(super) fn owner(&self) -> String {
        match (&self.who, self.peer) {
            (Who::Login(login, _), _) => login.identity(),
            (Who::Carried(carried), _) => carried.behalf.owner.clone(),
            (Who::Member(name), _) => format!("member '{name}'"),
            (Who::Process, Peer::Process { uid, .. }) => format!("user {uid}"),
            (Who::Process, peer) => peer.to_string(),
        }
    }

    /// As the audit log has it. A user of another machine has no number here.
    pub(super) fn actor(&self) -> Actor {
        let account = match &self.who {
            Who::Process => None,
            Who::Login(login, _) => Some(login.to_string()),
            Who::Carried(carried) => Some(carried.behalf.who.clone()),
            Who::Member(_) => Some(self.owner()),
        };
        Actor { account, ..self.peer.actor() }
    }

    /// Where it is, as the audit log has it.
    pub(super) fn place(&self) -> String {
        match &self.who {
            Who::Process | Who::Login(..) | Who::Member(_) => self.peer.place(),
            Who::Carried(carried) => {
                format!("{} via member '{}'", carried.behalf.from, carried.member)
            }
        }
    }

    /// What another member is told of it by this one; `None` of one for whom a member asks already, and of a member.
    pub(super) fn behalf(&self, own: &str) -> Option<Behalf> {
        let (who, owner, role) = match &self.who {
            // Each machine has users of its own with the same numbers.
            Who::Process => {
                (self.user(), format!("{} of member '{own}'", self.owner()), Role::Administrator)
            }
            Who::Login(login, role) => (login.to_string(), self.owner(), *role),
            Who::Carried(_) | Who::Member(_) => return None,
        };
        Some(Behalf::new(&who, owner, role, self.place()))
    }

    /// The user of this machine, as people of another one read it.
    fn user(&self) -> String {
        match self.peer.actor() {
            Actor { uid: Some(uid), user: Some(user), .. } => format!("user {user} (uid {uid})"),
            Actor { uid: Some(uid), .. } => format!("user with uid {uid}"),
            _ => self.peer.to_string(),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::Process => self.peer.fmt(f),
            Who::Login(login, _) => write!(f, "{login} from {}", self.peer),
            Who::Carried(carried) => write!(f, "{} from {}", carried.behalf.who, self.place()),
            Who::Member(name) => write!(f, "member '{name}' from {}", self.place()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_told_to_other_members_and_what_they_tell_goes_no_further() {
        let caller = Caller::at_socket(Peer::Process { uid: u32::MAX - 7, pid: Some(1) });
        assert!(caller.is_local() && !caller.is_carried());
        let behalf = caller.behalf("left").expect("nobody has carried it yet");
        assert_eq!(behalf.who, "user with uid 4294967288");
        assert_eq!(behalf.owner, "user 4294967288 of member 'left'");
        assert_eq!(behalf.from, "control socket");
        assert_eq!(behalf.role, Role::Administrator);
        let from = "192.0.2.1:4000".parse().unwrap();
        let peer = Peer::Member { from, certificate: [7; 32] };
        let carried = Caller::carried(peer, Carried { behalf, member: "left".to_owned() });
        assert!(carried.is_carried() && !carried.is_local());
        assert_eq!(carried.behalf("right"), None);
        assert_eq!(carried.owner(), "user 4294967288 of member 'left'");
        assert_ne!(carried.owner(), caller.owner(), "a user of this machine has that number, too");
        assert_eq!(carried.place(), "control socket via member 'left'");
        let account = Some("user with uid 4294967288".to_owned());
        assert_eq!(carried.actor(), Actor { account, ..Actor::default() });
        let shown = "user with uid 4294967288 from control socket via member 'left'";
        assert_eq!(carried.to_string(), shown);
    }

    #[test]
    fn a_member_that_asks_for_itself_is_on_record_by_its_name() {
        let from = "192.0.2.1:4000".parse().unwrap();
        let member = Caller::member(Peer::Member { from, certificate: [7; 32] }, "left".to_owned());
        assert!(!member.is_carried() && !member.is_local() && member.login().is_none());
        assert_eq!(member.behalf("right"), None);
        let account = Some("member 'left'".to_owned());
        assert_eq!(member.actor(), Actor { account, ..Actor::default() });
        assert_eq!(member.place(), "192.0.2.1:4000");
        assert_eq!(member.to_string(), "member 'left' from 192.0.2.1:4000");
    }
}
