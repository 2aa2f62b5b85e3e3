//! Cutting a byte stream into headers of one length and the payload after each.

/// Bytes of a header: the basic header segment of iSCSI (RFC 7143 11.2.1), and of the plain loop.
pub(crate) const HEAD_BYTES: usize = 48;

/// What came out of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a, const HEAD: usize = HEAD_BYTES> {
    /// A whole header. Say with [`Frames::expect_payload`] what follows it.
    Head([u8; HEAD]),
    /// A part of the payload, as much as has arrived; `last` ends it.
    Payload {
        /// The bytes, lent from the receive buffer.
        bytes: &'a [u8],
        /// Nothing of this payload is left.
        last: bool,
    },
}

/// A cutter that holds no payload: only a header that has come in part.
#[derive(Debug)]
pub(crate) struct Frames<const HEAD: usize = HEAD_BYTES> {
    head: [u8; HEAD],
    have: usize,
    payload_left: usize,
}

impl<const HEAD: usize> Default for Frames<HEAD> {
    fn default() -> Self {
        Self { head: [0; HEAD], have: 0, payload_left: 0 }
    }
}

impl<const HEAD: usize> Frames<HEAD> {
    /// `bytes` follow the header just returned, and are handed out before the next header.
    pub(crate) fn expect_payload(&mut self, bytes: usize) {
        self.payload_left = bytes;
    }

    /// Takes the next frame off the front of `input`, or all of it when it ends within a header.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Frame<'a, HEAD>> {
        if self.payload_left > 0 {
            if input.is_empty() {
                return None;
            }
            let (bytes, rest) = input.split_at(input.len().min(self.payload_left));
            *input = rest;
            self.payload_left -= bytes.len();
            return Some(Frame::Payload { bytes, last: self.payload_left == 0 });
        }
        if self.have == 0
            && let Some((head, rest)) = input.split_first_chunk::<HEAD>()
        {
            *input = rest;
            return Some(Frame::Head(*head));
        }
        let take = input.len().min(HEAD - self.have);
        let (bytes, rest) = input.split_at(take);
        self.head[self.have..self.have + take].copy_from_slice(bytes);
        *input = rest;
        self.have += take;
        if self.have < HEAD {
            return None;
        }
        self.have = 0;
        Some(Frame::Head(self.head))
    }
}
