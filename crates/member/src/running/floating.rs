//! The portal at the address of the group: each member listens there as long as the group has one, whoever has the
//! address now, so that hosts find somebody in the moment in which it comes.

use std::net::SocketAddr;
use std::sync::Arc;

use target::{FloatingListener, FloatingPortal};

use super::Member;

/// Where is listened for the group.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// The address of the group, with the port of the first portal.
    at: Option<SocketAddr>,
    /// `None` also where a portal of the member takes what comes there.
    listener: Option<FloatingListener>,
    /// Nobody listens, although somebody should: it is tried again at each look.
    has_failed: bool,
}

impl Member {
    /// Before hosts are heard at all: where the address of the group is on an interface yet, of a life before this one,
    /// none must stay there. They come back until this member knows its own portals.
    pub(super) fn hear_nobody_afloat(&self) {
        let address = self.membership.group_address();
        let portal = address.map(|address| FloatingPortal {
            address: SocketAddr::new(address.ip(), 0),
            own: Arc::default(),
        });
        self.serving().targets().set_floating(portal);
    }

    /// Listens at the address of the group as it is now, or nowhere.
    pub(super) fn float(&self, listening: &mut Listening) {
        let targets = self.serving().targets();
        let port = targets.portals().first().map(SocketAddr::port);
        let address = self.membership.float_at();
        let found = address.zip(port);
        let at = found.map(|(address, port)| SocketAddr::new(address.ip(), port));
        let own = self.membership.said_before();
        let mut own = own.map(|said| said.portals.clone()).unwrap_or_default();
        own.retain(|portal| at.is_none_or(|at| portal.ip().to_canonical() != at.ip()));
        let leads_here = at.is_none_or(|at| own.iter().any(|it| it.is_ipv4() == at.is_ipv4()));
        // Before somebody can come there, as none must stay.
        targets.set_floating(at.map(|address| FloatingPortal { address, own: own.into() }));
        if listening.at != at || listening.has_failed {
            *listening = Listening { at, ..Listening::default() };
            let Some(at) = at else { return self.membership.note_floating(Ok(None)) };
            match targets.listen_floating(at) {
                Ok(listener) => listening.listener = listener,
                Err(error) => {
                    listening.has_failed = true;
                    let why = format!("it cannot listen on {at}: {error}");
                    return self.membership.note_floating(Err(why));
                }
            }
        }
        let heard_at = match at {
            Some(at) if !leads_here => Err(format!(
                "it has no portal of its own to which it could send hosts that come to {at} (--portal)"
            )),
            _ => Ok(address),
        };
        self.membership.note_floating(heard_at);
    }
}
