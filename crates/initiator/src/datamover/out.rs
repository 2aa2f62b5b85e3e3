//! Output of a connection: PDUs are queued here during a turn and leave together at its end.

use std::io;

use iscsi::digest::{Digest, digest};
use iscsi::pdu::{BHS_LEN_BYTES, Bhs, padded_len_bytes};
use ring::{Data, SendBatch};

use super::Tcp;

impl Tcp {
    /// Bytes queued and not yet handed to the socket.
    fn queued_bytes(&self) -> usize {
        self.out.borrow().len_bytes()
    }

    /// Queues a PDU whose data segment goes by reference. With a data digest the data must not
    /// change: see [`Data::into_stable`].
    pub(crate) fn put_data(&self, bhs: &Bhs, data: Data) {
        debug_assert_eq!(bhs.data_segment_len_bytes(), data.len(), "the header announces its data");
        let mut out = self.out.borrow_mut();
        out.push_bytes(bhs.bytes());
        if self.params.header_digest {
            out.push_bytes(&digest(bhs.bytes()));
        }
        if !data.is_empty() {
            let pad = padded_len_bytes(data.len()) - data.len();
            let crc = self.params.data_digest.then(|| {
                let mut digest = Digest::new();
                digest.update(data.as_slice().expect("the data is stable"));
                digest.finish_padded()
            });
            out.push_data(data);
            out.push_bytes(&[0; 3][..pad]);
            if let Some(crc) = crc {
                out.push_bytes(&crc);
            }
        }
        drop(out);
        self.out_bell.ring();
    }

    /// Queues a PDU whose short data segment is copied.
    pub(crate) fn send_control(&self, bhs: &[u8; BHS_LEN_BYTES], data: &[u8]) {
        let mut out = self.out.borrow_mut();
        out.push_bytes(bhs);
        if self.params.header_digest {
            out.push_bytes(&digest(bhs));
        }
        if !data.is_empty() {
            out.push_bytes(data);
            out.push_bytes(&[0; 3][..padded_len_bytes(data.len()) - data.len()]);
            if self.params.data_digest {
                let mut digest = Digest::new();
                digest.update(data);
                out.push_bytes(&digest.finish_padded());
            }
        }
        drop(out);
        self.out_bell.ring();
    }

    /// Sends what a turn has queued, in one piece at its end, until it ends.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn send_all(&self) -> io::Result<()> {
        let mut spare = SendBatch::new();
        loop {
            self.out_bell.until(|| self.queued_bytes() > 0 || self.is_ending()).await;
            if self.is_ending() {
                return Ok(());
            }
            ring::turn_end().await;
            let batch = self.out.replace(spare);
            self.sending_since.set(Some(ring::now()));
            let (batch, result) = self.stream.send(batch).await;
            self.sending_since.set(None);
            spare = batch;
            result?;
        }
    }
}
