//! Output: PDUs are queued here during a turn and leave together at its end.

use std::io;

use iscsi::digest::{Digest, digest};
use iscsi::pdu::{BHS_LEN_BYTES, DataIn, padded_len_bytes};
use ring::{Data, SendBatch};

use super::{Close, Tcp};
use crate::memory::{self, Claim, Use};

impl Tcp {
    /// Bytes queued and not yet handed to the socket.
    fn queued_bytes(&self) -> usize {
        self.out.borrow().len_bytes()
    }

    pub(crate) fn data_in_bytes(&self) -> u64 {
        self.data_in_bytes.get()
    }

    /// Its peer takes enough, and its owner holds little enough, to read and answer more.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.window.is_open() && memory::may_answer(&self.owner)
    }

    /// Waits until its peer has taken what it may keep waiting, or it ends.
    pub(crate) async fn wait_for_window(&self) {
        self.room.until(|| self.window.is_open() || self.is_ending()).await;
    }

    /// There is a place for so much more output, and nobody waits for one.
    #[inline]
    pub(crate) fn has_place(&self, bytes: usize) -> bool {
        self.window.has_place(bytes)
    }

    /// Queues the last Login Response, to which no digests belong yet (RFC 7143 §13.1).
    pub(crate) fn send_login_response(&self, header: &[u8; BHS_LEN_BYTES], data: &[u8]) {
        let mut out = self.out.borrow_mut();
        out.push_bytes(header);
        out.push_bytes(data);
        out.push_bytes(&[0; 3][..padded_len_bytes(data.len()) - data.len()]);
        self.window.add(out.len_bytes());
        drop(out);
        self.out_rings.ring();
    }

    /// Queues a PDU with a data segment that is copied (sense data, text, inquiry data).
    pub(crate) fn send_control(&self, header: &[u8; BHS_LEN_BYTES], data: &[u8]) {
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
    /// stand still (see [`block::stable`]).
    #[inline]
    pub(crate) fn put_data(&self, header: &DataIn, data: Data) {
        let params = self.params.get();
        let mut bhs = [0; BHS_LEN_BYTES];
        header.emit(&mut bhs);
        let mut out = self.out.borrow_mut();
        let before = out.len_bytes();
        out.push_bytes(&bhs);
        if params.header_digest {
            out.push_bytes(&digest(&bhs));
        }
        self.data_in_bytes.set(self.data_in_bytes.get() + data.len() as u64);
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

    /// Sends what the tasks of a turn have queued, in one piece at the end of the turn, until it ends.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn send_all(&self) -> io::Result<()> {
        let mut spare = SendBatch::new();
        loop {
            self.out_rings.until(|| self.queued_bytes() > 0 || self.is_ending()).await;
            let drains = self.close.get() == Some(Close::Drained);
            if self.is_ending() && (self.queued_bytes() == 0 || !drains) {
                return Ok(());
            }
            ring::turn_end().await;
            let batch = self.out.replace(spare);
            let claims = (
                self.out_claim.replace(Claim::none(&self.owner, Use::Read)),
                self.answers_claim.replace(Claim::none(&self.owner, Use::Answer)),
            );
            self.missed.set(None);
            self.window.begin(batch.len_bytes());
            let (batch, result) = self.stream.send(batch).await;
            drop(claims);
            self.window.end(|| self.note_taken().unwrap_or(0));
            spare = batch;
            self.room.ring();
            result?;
        }
    }
}

/// The data digest of a segment: it covers the padding (RFC 7143 §11.2.3).
fn padded_digest(data: &[u8]) -> [u8; 4] {
    let mut digest = Digest::new();
    digest.update(data);
    digest.finish_padded()
}
