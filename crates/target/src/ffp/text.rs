//! Text requests: SendTargets, and what may still be declared (RFC 7143 §11.10, appendix C).

use std::net::SocketAddr;
use std::rc::Rc;

use iscsi::discovery::{Portal, SendTargets, TextEnv, TextStep, write_record};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, TextRequest, TextResponse};
use iscsi::text::TextWriter;

use crate::access::{Proved, Rules};
use crate::elsewhere;
use crate::session::Connection;
use crate::shared::Shared;
use crate::targets::Found;

/// Whether a host learns of a target with these rules: if it may use it, or its name or address is on the list beside a
/// proof that it has not given yet.
fn is_shown(conn: &Connection, rules: &Rules) -> bool {
    let (session, from) = (&conn.session, conn.peer.ip());
    let proved = match conn.proved.as_deref() {
        Some(user) => Proved::User(user),
        None if session.is_discovery() => Proved::NotYet,
        None => Proved::Nothing,
    };
    rules.shows(&session.initiator, from, proved)
}

/// What this server has by the name of one that others have is not theirs, whether it is served now or not.
fn is_unknown_here(shared: &Shared, name: &str) -> bool {
    matches!(shared.targets.find(name), Found::Unknown)
}

/// Where a host that is here finds what is served here. At a floating portal it is told of those alone that lead it here
/// from there.
fn own_portals(conn: &Connection) -> Vec<SocketAddr> {
    let shared = &conn.session.shared;
    match shared.floating.own_at(conn.local) {
        Some(own) => elsewhere::leading_there(&own, conn.local.ip(), &[]).collect(),
        None => shared.announced_portals(conn.local),
    }
}

/// What one connection may learn.
struct Env<'a>(&'a Connection);

impl TextEnv for Env<'_> {
    fn send_targets(&mut self, which: &SendTargets, out: &mut TextWriter) -> bool {
        let Self(conn) = self;
        let session = &conn.session;
        let shared = &session.shared;
        let targets = match which {
            // A normal session may ask for its own target only.
            SendTargets::All if !session.is_discovery() => return false,
            SendTargets::Current if session.is_discovery() => return false,
            SendTargets::One(name) if !session.is_discovery() && *name != session.target().name => {
                return false;
            }
            _ if !session.is_discovery() => vec![session.target().clone()],
            SendTargets::One(name) => match shared.targets.find(name.as_str()) {
                Found::Served(target) => vec![target],
                Found::Offline | Found::Unknown => Vec::new(),
            },
            _ => shared.targets.served(),
        };
        let portal = |address| Portal { address, group_tag: shared.port_group() };
        let portals: Vec<_> = own_portals(conn).into_iter().map(portal).collect();
        // Without a portal the host would take the one that it is at for that of the target.
        let is_anywhere = !portals.is_empty();
        for target in targets.into_iter().filter(|_| is_anywhere) {
            if is_shown(conn, &target.rules()) {
                write_record(&target.name, &portals, out);
            }
        }
        if session.is_discovery() {
            self.write_elsewhere(which, out);
        }
        true
    }
}

impl Env<'_> {
    /// What other servers have, behind what is here.
    fn write_elsewhere(&self, which: &SendTargets, out: &mut TextWriter) {
        let Self(conn) = self;
        let shared = &conn.session.shared;
        let only = match which {
            SendTargets::One(name) => Some(name.as_str()),
            _ => None,
        };
        let own = shared.announced_portals(conn.local);
        let at = (conn.local.ip(), own.as_slice());
        let told = shared.elsewhere.told_of(only, at, |rules| is_shown(conn, rules));
        for (name, portals, group_tag) in told {
            if is_unknown_here(shared, name.as_str()) {
                let portal = |address| Portal { address, group_tag };
                let portals: Vec<_> = portals.into_iter().map(portal).collect();
                write_record(&name, &portals, out);
            }
        }
    }
}

pub(super) fn run(conn: &Rc<Connection>, bhs: &Bhs, text: &[u8]) {
    let Ok(request) = TextRequest::parse(bhs) else { return };
    let mut params = conn.params();
    let step = conn.text.borrow_mut().on_request(&request, text, &mut params, &mut Env(conn));
    conn.mover.params.set(params);
    let (is_final, is_continued, ttt, data) = match step {
        TextStep::Reject(reason) => return conn.push_reject(reason, bhs.bytes()),
        TextStep::Respond { is_final, is_continued, ttt, data } => {
            (is_final, is_continued, ttt, data)
        }
    };
    let stamp = conn.stamp();
    let response = TextResponse {
        is_final,
        is_continued,
        data_segment_len_bytes: data.len() as u32,
        lun: 0,
        itt: request.itt,
        ttt,
        stat_sn: stamp.stat_sn,
        exp_cmd_sn: stamp.exp_cmd_sn,
        max_cmd_sn: stamp.max_cmd_sn,
    };
    let mut header = [0; BHS_LEN_BYTES];
    response.emit(&mut header);
    conn.mover.send_control(&header, &data);
}
