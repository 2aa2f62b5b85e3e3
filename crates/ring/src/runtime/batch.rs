//! Output: small bytes by copy, payloads by reference, sent together.

use std::fmt;

use crate::mem::Data;

/// What of its memory for bytes a batch keeps for its next use.
const BYTES_KEPT_MAX: usize = 64 << 10;

/// The most parts that one `sendmsg` or `pwritev` takes (`UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;

enum Part {
    /// A range of `Inner::bytes`.
    Bytes {
        start: usize,
        len: usize,
    },
    Data(Data),
}

/// Bytes to send in order: headers copied in, payloads by reference. Its vectors keep their
/// capacity, up to a bound, so that a batch that is used again does not allocate.
#[derive(Default)]
pub struct SendBatch(Box<Inner>);

struct Inner {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    len_bytes: usize,
    /// What is still to be sent, as the kernel wants it; made by `seal`, its front moved by
    /// `advance`. Points into `bytes` and `parts`, which do not change meanwhile.
    iovecs: Vec<libc::iovec>,
    sent_iovecs: usize,
    header: libc::msghdr,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner {
            bytes: Vec::new(),
            parts: Vec::new(),
            len_bytes: 0,
            iovecs: Vec::new(),
            sent_iovecs: 0,
            // SAFETY: a message header is numbers and pointers, for which zeroes are valid.
            header: unsafe { std::mem::zeroed() },
        }
    }
}

impl SendBatch {
    /// An empty batch.
    pub fn new() -> SendBatch {
        SendBatch::default()
    }

    /// Appends a copy of `bytes`: for headers, sense data, padding, digests.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let inner = &mut *self.0;
        inner.len_bytes += bytes.len();
        let start = inner.bytes.len();
        inner.bytes.extend_from_slice(bytes);
        if let Some(Part::Bytes { len, .. }) = inner.parts.last_mut() {
            *len += bytes.len(); // the last part ends where these bytes begin
        } else {
            inner.parts.push(Part::Bytes { start, len: bytes.len() });
        }
    }

    /// Appends `data` by reference.
    pub fn push_data(&mut self, data: Data) {
        if !data.is_empty() {
            self.0.len_bytes += data.len();
            self.0.parts.push(Part::Data(data));
        }
    }

    /// Total length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.0.len_bytes
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.0.len_bytes == 0
    }

    /// Empties the batch and lets go of its data.
    pub fn clear(&mut self) {
        let inner = &mut *self.0;
        inner.bytes.clear();
        inner.parts.clear();
        inner.iovecs.clear();
        inner.sent_iovecs = 0;
        inner.len_bytes = 0;
        inner.bytes.shrink_to(BYTES_KEPT_MAX);
        inner.parts.shrink_to(PARTS_MAX);
        inner.iovecs.shrink_to(PARTS_MAX);
    }

    /// Prepares for sending all of it from the start.
    pub(crate) fn seal(&mut self) {
        let inner = &mut *self.0;
        inner.iovecs.clear();
        inner.sent_iovecs = 0;
        let bytes = inner.bytes.as_ptr();
        inner.iovecs.extend(inner.parts.iter().map(|part| match part {
            Part::Bytes { start, len } => {
                // SAFETY: `start` was the length of `bytes` when the part was made.
                let base = unsafe { bytes.add(*start) };
                libc::iovec { iov_base: base.cast_mut().cast(), iov_len: *len }
            }
            Part::Data(data) => {
                let (base, len) = data.raw();
                libc::iovec { iov_base: base.cast_mut().cast(), iov_len: len }
            }
        }));
    }

    /// Takes `sent` bytes off the front.
    pub(crate) fn advance(&mut self, mut sent: usize) {
        let inner = &mut *self.0;
        while sent > 0 {
            let iovec = &mut inner.iovecs[inner.sent_iovecs];
            if sent < iovec.iov_len {
                // SAFETY: still inside the part.
                iovec.iov_base = unsafe { iovec.iov_base.byte_add(sent) };
                iovec.iov_len -= sent;
                return;
            }
            sent -= iovec.iov_len;
            inner.sent_iovecs += 1;
        }
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.0.sent_iovecs == self.0.iovecs.len()
    }

    /// What is left, as much as one call takes. The memory belongs to the heap part of the batch:
    /// it stays where it is when the batch is moved.
    pub(crate) fn iovecs(&self) -> (*const libc::iovec, usize) {
        let left = &self.0.iovecs[self.0.sent_iovecs..];
        (left.as_ptr(), left.len().min(PARTS_MAX))
    }

    /// The same as a message header, equally stable.
    pub(crate) fn header(&mut self) -> *const libc::msghdr {
        let (iovecs, count) = self.iovecs();
        self.0.header.msg_iov = iovecs.cast_mut();
        self.0.header.msg_iovlen = count;
        &raw const self.0.header
    }
}

impl fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBatch")
            .field("len_bytes", &self.0.len_bytes)
            .field("parts", &self.0.parts.len())
            .finish()
    }
}
