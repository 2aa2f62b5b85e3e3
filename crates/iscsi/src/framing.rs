//! Where a PDU's parts lie in the byte stream (RFC 7143 11.2), from its first 48 bytes alone.
//!
//! ```text
//! | BHS 48 | AHS | header digest | data | padding | data digest |
//! ```
//!
//! Lengths are checked before anything is allocated for them. A PDU that is too long is a format error,
//! after which the connection cannot be trusted (7.7); a data digest that does not match costs only that PDU (7.8).

use crate::digest::{DIGEST_LEN_BYTES, digest};
use crate::params::{ConnectionParams, DEFAULT_MAX_RECV_DATA_SEGMENT_BYTES};
use crate::pdu::{BHS_LEN_BYTES, Bhs, RejectReason, padded_len_bytes};

/// Longest additional header segments that we take: the rest of a 260-byte CDB and a bidirectional length.
pub const AHS_LEN_BYTES_MAX: usize = 248 + 8;

/// What a connection's next PDU must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Headers are followed by a digest.
    pub header_digest: bool,
    /// Data segments that are not empty are followed by a digest.
    pub data_digest: bool,
    /// Longest data segment that we take, without padding.
    pub data_segment_len_bytes_max: u32,
}

impl FrameLimits {
    /// During login: no digests, and data segments of the default length (7.1, 13.12).
    pub const LOGIN: Self = Self {
        header_digest: false,
        data_digest: false,
        data_segment_len_bytes_max: DEFAULT_MAX_RECV_DATA_SEGMENT_BYTES,
    };
}

impl From<&ConnectionParams> for FrameLimits {
    fn from(params: &ConnectionParams) -> Self {
        Self {
            header_digest: params.header_digest,
            data_digest: params.data_digest,
            data_segment_len_bytes_max: params.max_recv_data_segment_local_bytes,
        }
    }
}

/// Why a PDU cannot be taken. [`FrameError::answer`] says what becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The data segment is longer than we declared to take (13.12).
    #[error("a data segment of {len_bytes} bytes is longer than the {max_bytes} that were agreed")]
    DataSegmentTooLong {
        /// DataSegmentLength of the header.
        len_bytes: usize,
        /// What we declared.
        max_bytes: usize,
    },
    /// The additional header segments are longer than anything they can say.
    #[error("{len_bytes} bytes of additional header segments are too long")]
    AhsTooLong {
        /// TotalAHSLength of the header, in bytes.
        len_bytes: usize,
    },
    /// The header digest does not match: not even the lengths can be trusted.
    #[error("header digest mismatch")]
    HeaderDigest,
    /// The data digest does not match.
    #[error("data digest mismatch")]
    DataDigest,
}

/// What a [`FrameError`] asks for at ErrorRecoveryLevel 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameAnswer {
    /// The connection ends (7.7, 7.8).
    Drop,
    /// The PDU is discarded and answered with a Reject; the connection goes on (7.8).
    Reject(RejectReason),
}

impl FrameError {
    /// What to do about it.
    #[must_use]
    pub const fn answer(&self) -> FrameAnswer {
        match self {
            Self::DataSegmentTooLong { .. } | Self::AhsTooLong { .. } | Self::HeaderDigest => {
                FrameAnswer::Drop
            }
            Self::DataDigest => FrameAnswer::Reject(RejectReason::DATA_DIGEST_ERROR),
        }
    }
}

/// The lengths of one PDU's parts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    ahs_len_bytes: u16,
    data_len_bytes: u32,
    has_header_digest: bool,
    has_data_digest: bool,
}

impl FrameHeader {
    /// Takes the lengths from a header.
    ///
    /// # Errors
    /// [`FrameError::DataSegmentTooLong`] or [`FrameError::AhsTooLong`], before a byte more was read.
    #[inline]
    pub fn new(bhs: &Bhs, limits: &FrameLimits) -> Result<Self, FrameError> {
        let ahs_len_bytes = bhs.total_ahs_len_bytes();
        if ahs_len_bytes > AHS_LEN_BYTES_MAX {
            return Err(FrameError::AhsTooLong { len_bytes: ahs_len_bytes });
        }
        let len_bytes = bhs.data_segment_len_bytes();
        let max_bytes = limits.data_segment_len_bytes_max as usize;
        if len_bytes > max_bytes {
            return Err(FrameError::DataSegmentTooLong { len_bytes, max_bytes });
        }
        Ok(Self {
            ahs_len_bytes: ahs_len_bytes as u16,
            data_len_bytes: len_bytes as u32,
            has_header_digest: limits.header_digest,
            has_data_digest: limits.data_digest && len_bytes > 0,
        })
    }

    /// Additional header segments, padding included.
    #[must_use]
    #[inline]
    pub const fn ahs_len_bytes(&self) -> usize {
        self.ahs_len_bytes as usize
    }

    /// BHS, additional header segments and header digest.
    #[must_use]
    #[inline]
    pub const fn header_len_bytes(&self) -> usize {
        let digest_len = self.has_header_digest as usize * DIGEST_LEN_BYTES;
        BHS_LEN_BYTES + self.ahs_len_bytes() + digest_len
    }

    /// The data segment without padding.
    #[must_use]
    #[inline]
    pub const fn data_len_bytes(&self) -> usize {
        self.data_len_bytes as usize
    }

    /// The padding after the data segment: 0 to 3.
    #[must_use]
    #[inline]
    pub const fn padding_len_bytes(&self) -> usize {
        padded_len_bytes(self.data_len_bytes()) - self.data_len_bytes()
    }

    /// Whether a digest follows the data segment.
    #[must_use]
    #[inline]
    pub const fn has_data_digest(&self) -> bool {
        self.has_data_digest
    }

    /// Data segment, padding and data digest.
    #[must_use]
    #[inline]
    pub const fn payload_len_bytes(&self) -> usize {
        let digest_len = self.has_data_digest as usize * DIGEST_LEN_BYTES;
        padded_len_bytes(self.data_len_bytes()) + digest_len
    }

    /// The whole PDU.
    #[must_use]
    #[inline]
    pub const fn total_len_bytes(&self) -> usize {
        self.header_len_bytes() + self.payload_len_bytes()
    }

    /// Checks the header digest, if there is one; `header` is [`Self::header_len_bytes`] long.
    ///
    /// # Errors
    /// [`FrameError::HeaderDigest`].
    ///
    /// # Panics
    /// If `header` has another length.
    #[inline]
    pub fn verify_header(&self, header: &[u8]) -> Result<(), FrameError> {
        assert_eq!(header.len(), self.header_len_bytes());
        if self.has_header_digest && !ends_with_its_digest(header) {
            return Err(FrameError::HeaderDigest);
        }
        Ok(())
    }

    /// Checks the data digest, if there is one; `payload` is [`Self::payload_len_bytes`] long. A payload
    /// that lies in several pieces is checked with [`crate::digest::Digest`] instead.
    ///
    /// # Errors
    /// [`FrameError::DataDigest`].
    ///
    /// # Panics
    /// If `payload` has another length.
    #[inline]
    pub fn verify_payload(&self, payload: &[u8]) -> Result<(), FrameError> {
        assert_eq!(payload.len(), self.payload_len_bytes());
        if self.has_data_digest && !ends_with_its_digest(payload) {
            return Err(FrameError::DataDigest);
        }
        Ok(())
    }
}

/// Whether the last four bytes are the digest of those before.
fn ends_with_its_digest(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk::<DIGEST_LEN_BYTES>()
        .is_some_and(|(covered, sent)| digest(covered) == *sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: FrameLimits =
        FrameLimits { header_digest: true, data_digest: true, data_segment_len_bytes_max: 8192 };

    fn bhs(ahs_words: u8, data_len: u32) -> Bhs {
        let mut raw = [0; 48];
        raw[4] = ahs_words;
        raw[5..8].copy_from_slice(&data_len.to_be_bytes()[1..]);
        Bhs::new(raw)
    }

    #[test]
    fn parts_add_up() {
        let frame = FrameHeader::new(&bhs(2, 513), &LIMITS).unwrap();
        assert_eq!(frame.header_len_bytes(), 48 + 8 + 4);
        assert_eq!(frame.padding_len_bytes(), 3);
        assert_eq!(frame.payload_len_bytes(), 513 + 3 + 4);
        assert_eq!(frame.total_len_bytes(), 60 + 520);
        let plain = FrameHeader::new(&bhs(0, 512), &FrameLimits::LOGIN).unwrap();
        assert_eq!(plain.total_len_bytes(), 48 + 512);
    }

    #[test]
    fn an_empty_data_segment_has_no_digest() {
        let frame = FrameHeader::new(&bhs(0, 0), &LIMITS).unwrap();
        assert!(!frame.has_data_digest());
        assert_eq!(frame.total_len_bytes(), 52);
    }

    #[test]
    fn too_long_is_refused_on_the_header_alone_and_drops_the_connection() {
        assert!(FrameHeader::new(&bhs(0, 8192), &LIMITS).is_ok());
        let data = FrameHeader::new(&bhs(0, 8193), &LIMITS).unwrap_err();
        assert_eq!(data, FrameError::DataSegmentTooLong { len_bytes: 8193, max_bytes: 8192 });
        assert!(FrameHeader::new(&bhs(64, 0), &LIMITS).is_ok());
        let ahs = FrameHeader::new(&bhs(65, 0), &LIMITS).unwrap_err();
        assert_eq!(ahs, FrameError::AhsTooLong { len_bytes: 260 });
        assert_eq!(data.answer(), FrameAnswer::Drop);
        assert_eq!(ahs.answer(), FrameAnswer::Drop);
    }

    #[test]
    fn digests_that_do_not_match_drop_or_reject() {
        let header = bhs(0, 5);
        let frame = FrameHeader::new(&header, &LIMITS).unwrap();
        let mut wire = header.bytes().to_vec();
        wire.extend(digest(&wire));
        assert_eq!(frame.verify_header(&wire), Ok(()));
        wire[17] ^= 1;
        let error = frame.verify_header(&wire).unwrap_err();
        assert_eq!(error.answer(), FrameAnswer::Drop);

        let mut payload = b"hello\0\0\0".to_vec();
        payload.extend(digest(&payload));
        assert_eq!(frame.verify_payload(&payload), Ok(()));
        payload[6] = 1; // padding is covered
        let error = frame.verify_payload(&payload).unwrap_err();
        let reject = FrameAnswer::Reject(RejectReason::DATA_DIGEST_ERROR);
        assert_eq!(error.answer(), reject);
    }

    proptest! {
        #[test]
        fn any_header_has_bounded_lengths(ahs in any::<u8>(), data in 0_u32..1 << 24, max in 512_u32..1 << 24,
                                          header_digest in any::<bool>(), data_digest in any::<bool>()) {
            let limits = FrameLimits { header_digest, data_digest, data_segment_len_bytes_max: max };
            match FrameHeader::new(&bhs(ahs, data), &limits) {
                Ok(frame) => {
                    prop_assert!(data <= max && frame.ahs_len_bytes() <= AHS_LEN_BYTES_MAX);
                    prop_assert_eq!(frame.total_len_bytes() % 4, 0);
                    prop_assert!(frame.payload_len_bytes() <= max as usize + 3 + 4);
                }
                Err(_) => prop_assert!(data > max || usize::from(ahs) * 4 > AHS_LEN_BYTES_MAX),
            }
        }
    }
}
