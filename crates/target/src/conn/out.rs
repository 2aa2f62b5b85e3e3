//! Output of a connection: PDUs are queued here during a turn and leave together at its end.

use std::time::Duration;

use iscsi::digest::{Digest, digest};
use iscsi::pdu::{
    BHS_LEN_BYTES, DataIn, NopIn, RESERVED_TAG, Reject, RejectReason, padded_len_bytes,
};
use ring::Data;

use super::{Connection, Counted, Ping};
use crate::memory::{self, Way};
use crate::shortage;

/// How often a connection that may read no more for want of memory looks again.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);

/// Who waits for memory itself has taken all but what it is being sent now.
const TAKING_TIME: Duration = Duration::from_millis(100);

/// Of what is to be taken at least this part must be, in the time that there is for it.
const PART: u64 = 4;

/// StatSN and the command window, as every response carries them (RFC 7143 §11.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) stat_sn: u32,
    pub(crate) exp_cmd_sn: u32,
    pub(crate) max_cmd_sn: u32,
}

impl Connection {
    /// Takes the next StatSN: for a PDU that carries status.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        let stamp = self.peek_stamp();
        self.stat_sn.set(stamp.stat_sn.wrapping_add(1));
        stamp
    }

    /// The next StatSN without taking it: R2T, and NOP-In that asks.
    #[inline]
    pub(crate) fn peek_stamp(&self) -> Stamp {
        let (exp_cmd_sn, max_cmd_sn) = self.session.window_edges();
        Stamp { stat_sn: self.stat_sn.get(), exp_cmd_sn, max_cmd_sn }
    }

    /// Bytes queued and not yet handed to the socket.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.out.borrow().len_bytes()
    }

    /// Its peer takes enough, and its owner holds little enough, to read and answer more.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.window.is_open() && memory::may_answer(&self.owner)
    }

    /// Waits until more may be read and answered.
    pub(crate) async fn wait_for_room(&self) {
        while !self.is_ending() && !self.has_room() {
            self.room.until(|| self.window.is_open() || self.is_ending()).await;
            self.note_taken();
            if !self.has_room() && !self.is_ending() {
                ring::sleep(MEMORY_PAUSE).await;
                self.miss_output();
            }
        }
    }

    /// There is a place for so much more output, and nobody waits for one.
    #[inline]
    pub(crate) fn has_place(&self, bytes: usize) -> bool {
        self.window.has_place(bytes)
    }

    /// Its owner is known for what its peer has taken by now. That is asked of the system, so only when it
    /// matters, and returned.
    pub(crate) fn note_taken(&self) -> Option<u64> {
        let before = self.acknowledged_bytes.get();
        // The system has forgotten it when the connection has been thrown away.
        let bytes = self.stream.acknowledged_bytes().ok()?.max(before);
        self.acknowledged_bytes.set(bytes);
        self.owner.taken(usize::try_from(bytes - before).unwrap_or(usize::MAX));
        Some(bytes)
    }

    /// It found no memory for output. Others, who do not take theirs, give it way, unless it does not
    /// take its own either.
    pub(crate) fn miss_output(&self) {
        self.note_taken();
        memory::look_anew(&self.owner, Way::Out);
        let since = self.window.sending_since();
        if since.is_none_or(|since| ring::now() - since < TAKING_TIME) {
            shortage::take_back_output();
        }
    }

    /// Of its output too little was taken for so long, since somebody first asked.
    pub(crate) fn takes_nothing(&self, limit: Duration) -> bool {
        let (Some(_), Some(bytes)) = (self.window.sending_since(), self.note_taken()) else {
            return false;
        };
        let now = Counted { bytes, at: ring::now() };
        let before = self.missed.get().unwrap_or(now);
        let taken = now.bytes - before.bytes;
        let is_much = taken > self.window.held_bytes() as u64 / PART;
        self.missed.set(Some(if is_much { now } else { before }));
        !is_much && now.at - before.at >= limit
    }

    /// Queues the last Login Response, to which no digests belong yet (RFC 7143 §13.1).
    pub(crate) fn push_login_response(&self, header: &[u8; BHS_LEN_BYTES], data: &[u8]) {
        let mut out = self.out.borrow_mut();
        out.push_bytes(header);
        out.push_bytes(data);
        out.push_bytes(&[0; 3][..padded_len_bytes(data.len()) - data.len()]);
        self.window.add(out.len_bytes());
        drop(out);
        self.out_rings.ring();
    }

    /// Queues a PDU with a data segment that is copied (sense data, text, inquiry data).
    pub(crate) fn push_pdu(&self, header: &[u8; BHS_LEN_BYTES], data: &[u8]) {
        debug_assert_eq!(
            u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize,
            data.len(),
            "the header announces its data segment"
        );
        let params = self.params.get();
        let mut out = self.out.borrow_mut();
        let before = out.len_bytes();
        out.push_bytes(header);
        if params.header_digest {
            out.push_bytes(&digest(header));
        }
        if !data.is_empty() {
            self.answers_claim.borrow_mut().grow(data.len());
            out.push_bytes(data);
            out.push_bytes(&[0; 3][..padded_len_bytes(data.len()) - data.len()]);
            if params.data_digest {
                out.push_bytes(&padded_digest(data));
            }
        }
        self.window.add(out.len_bytes() - before);
        drop(out);
        self.out_rings.ring();
    }

    /// Queues a Data-In PDU whose payload goes by reference. With a data digest the payload must
    /// stand still (see [`crate::unit::still`]).
    #[inline]
    pub(crate) fn push_data_in(&self, header: &DataIn, data: Data) {
        let params = self.params.get();
        let mut bhs = [0; BHS_LEN_BYTES];
        header.emit(&mut bhs);
        let mut out = self.out.borrow_mut();
        let before = out.len_bytes();
        out.push_bytes(&bhs);
        if params.header_digest {
            out.push_bytes(&digest(&bhs));
        }
        let pad = padded_len_bytes(data.len()) - data.len();
        let pooled_bytes = data.pooled_bytes();
        if pooled_bytes > 0 {
            self.out_claim.borrow_mut().grow(pooled_bytes);
        }
        if params.data_digest {
            let crc = padded_digest(data.as_slice().expect("the payload stands still"));
            out.push_data(data);
            out.push_bytes(&[0; 3][..pad]);
            out.push_bytes(&crc);
        } else {
            out.push_data(data);
            if pad > 0 {
                out.push_bytes(&[0; 3][..pad]);
            }
        }
        self.window.add(out.len_bytes() - before);
        drop(out);
        self.out_rings.ring();
    }

    /// Refuses a PDU and sends its header back (RFC 7143 §11.17).
    pub(crate) fn push_reject(&self, reason: RejectReason, refused: &[u8; BHS_LEN_BYTES]) {
        let stamp = self.stamp();
        let reject = Reject {
            reason,
            data_segment_len_bytes: BHS_LEN_BYTES as u32,
            itt: RESERVED_TAG,
            stat_sn: stamp.stat_sn,
            exp_cmd_sn: stamp.exp_cmd_sn,
            max_cmd_sn: stamp.max_cmd_sn,
            data_sn: 0,
        };
        let mut bhs = [0; BHS_LEN_BYTES];
        reject.emit(&mut bhs);
        self.push_pdu(&bhs, refused);
    }

    /// Asks for a sign of life.
    pub(crate) fn push_ping(&self) {
        let ttt = self.next_ping.get();
        self.next_ping.set(if ttt == RESERVED_TAG - 1 { 1 } else { ttt + 1 });
        let stamp = self.peek_stamp();
        let nop = NopIn {
            data_segment_len_bytes: 0,
            lun: 0,
            itt: RESERVED_TAG,
            ttt,
            stat_sn: stamp.stat_sn,
            exp_cmd_sn: stamp.exp_cmd_sn,
            max_cmd_sn: stamp.max_cmd_sn,
        };
        let mut bhs = [0; BHS_LEN_BYTES];
        nop.emit(&mut bhs);
        self.push_pdu(&bhs, &[]);
        self.ping.set(Some(Ping { ttt, since: ring::now() }));
    }
}

/// The data digest of a segment: it covers the padding (RFC 7143 §11.2.3).
fn padded_digest(data: &[u8]) -> [u8; 4] {
    let mut digest = Digest::new();
    digest.update(data);
    digest.finish_padded()
}
