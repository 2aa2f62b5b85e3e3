//! NOP-Out: pings of the initiator, and answers to ours (RFC 7143 §11.18).

use std::rc::Rc;

use iscsi::pdu::{BHS_LEN_BYTES, Bhs, NopIn, NopOut, RESERVED_TAG, RejectReason};

use crate::session::Connection;

pub(super) fn run(conn: &Rc<Connection>, bhs: &Bhs, data: &[u8]) {
    let Ok(nop) = NopOut::parse(bhs) else { return };
    if nop.ttt != RESERVED_TAG {
        // Data comes back with an answer only if we sent some, which we never do.
        if conn.ping.get().is_some_and(|ping| ping.ttt == nop.ttt) {
            conn.ping.set(None);
        }
    }
    if nop.itt == RESERVED_TAG {
        if !nop.is_immediate {
            conn.push_reject(RejectReason::PROTOCOL_ERROR, bhs.bytes());
        }
        return;
    }
    let limit = conn.params().max_recv_data_segment_peer_bytes as usize;
    let echo = &data[..data.len().min(limit)];
    let stamp = conn.stamp();
    let reply = NopIn {
        data_segment_len_bytes: echo.len() as u32,
        lun: 0,
        itt: nop.itt,
        ttt: RESERVED_TAG,
        stat_sn: stamp.stat_sn,
        exp_cmd_sn: stamp.exp_cmd_sn,
        max_cmd_sn: stamp.max_cmd_sn,
    };
    let mut header = [0; BHS_LEN_BYTES];
    reply.emit(&mut header);
    conn.mover.send_control(&header, echo);
}
