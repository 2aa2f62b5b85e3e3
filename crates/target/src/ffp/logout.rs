//! Logout: of the session, of one connection, or for recovery, which ErrorRecoveryLevel 0 does not
//! have (RFC 7143 §11.14).
//!
//! The answer waits until the tasks of what is closed are over: a host that goes on over another
//! path must not find an old write on top of its new one.

use std::rc::Rc;

use iscsi::pdu::{
    BHS_LEN_BYTES, Bhs, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, RejectReason,
};

use super::task_management::{too_many_wait, wait_beside};
use crate::session::{Connection, Ending, abort_tasks};

pub(super) fn run(conn: &Rc<Connection>, bhs: &Bhs) {
    let Ok(request) = LogoutRequest::parse(bhs) else { return };
    if too_many_wait(&conn.session) {
        return conn.push_reject(RejectReason::IMMEDIATE_COMMAND_REJECT, bhs.bytes());
    }
    match request.reason {
        LogoutReason::CLOSE_SESSION => {
            let ended = abort_tasks(conn.session.tasks_where(|_| true));
            wait_beside(conn, ended, move |conn| {
                respond(conn, &request, LogoutResult::SUCCESS);
                conn.session.end(&Ending::LoggedOut);
            });
        }
        LogoutReason::CLOSE_CONNECTION => match conn.session.connection(request.cid) {
            Some(closing) => {
                let ended = abort_tasks(conn.session.tasks_of(&closing));
                wait_beside(conn, ended, move |conn| {
                    respond(conn, &request, LogoutResult::SUCCESS);
                    closing.end(Ending::LoggedOut);
                });
            }
            None => respond(conn, &request, LogoutResult::CID_NOT_FOUND),
        },
        LogoutReason::REMOVE_CONNECTION => {
            respond(conn, &request, LogoutResult::RECOVERY_NOT_SUPPORTED);
        }
        _ => conn.push_reject(RejectReason::INVALID_PDU_FIELD, bhs.bytes()),
    }
}

fn respond(conn: &Connection, request: &LogoutRequest, response: LogoutResult) {
    let stamp = conn.stamp();
    let reply = LogoutResponse {
        response,
        itt: request.itt,
        stat_sn: stamp.stat_sn,
        exp_cmd_sn: stamp.exp_cmd_sn,
        max_cmd_sn: stamp.max_cmd_sn,
        time2wait_s: 0,
        time2retain_s: 0,
    };
    let mut header = [0; BHS_LEN_BYTES];
    reply.emit(&mut header);
    conn.mover.send_control(&header, &[]);
}
