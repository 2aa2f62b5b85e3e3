//! The ROD token (SPC-4 5.17.6.5): 512 bytes that stand for a list of blocks.
//!
//! Tokens are of the type *access upon reference* (0001_0000h): whoever uses one gets the data that
//! the blocks hold at that time. A point in time copy, which SBC-4 has in mind for POPULATE TOKEN,
//! would promise the data of the time the token was made for as long as it lives, and there are no
//! snapshots to keep that promise with. The copy manager is expected to revoke a token before a
//! block of it changes ([`TokenRegistry::revoke_range`](super::TokenRegistry::revoke_range)), so
//! that a token which still works gives that data all the same.
//!
//! ```text
//!   0  ROD TYPE                        4 bytes
//!   4  reserved                        2
//!   6  ROD TOKEN LENGTH (01F8h)        2
//!   8  COPY MANAGER ROD TOKEN IDENT.   8   differs in all tokens of a copy manager
//!  16  CREATOR LOGICAL UNIT DESCR.    32   an E4h CSCD descriptor
//!  48  NUMBER OF BYTES REPRESENTED    16
//!  64  reserved                       32
//!  96  device type specific           32   logical block length in the first four bytes
//! 128  TARGET DEVICE DESCRIPTOR      128   SCSI name string of the target
//! 256  EXTENDED ROD TOKEN DATA       256   random, so that a token cannot be guessed
//! ```

use super::designator::Designator;
use super::limits::CSCD_TYPE_IDENTIFICATION;
use super::{be32, be64};
use crate::sense::{AdditionalSense, Sense, SenseKey};

/// Length of a token.
pub const ROD_TOKEN_BYTES: usize = 512;
pub(super) const ROD_TYPE_ACCESS_UPON_REFERENCE: u32 = 0x0001_0000;
pub(super) const ROD_TYPE_ZERO: u32 = 0xffff_0001;
/// ROD TOKEN LENGTH counts what follows the header.
const TOKEN_LENGTH: u16 = (ROD_TOKEN_BYTES - HEADER_BYTES) as u16;
const HEADER_BYTES: usize = 8;
const EXTENDED_AT: usize = 256;
/// ROD management token: header and body without the extension (SPC-4 5.17.6.4).
pub(super) const MANAGEMENT_BYTES: usize = 96;

/// What a token that was sent says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// The well-known token of endless zeroes, FFFF_0001h (SBC-4 4.28.4).
    Zeroes,
    /// One that stands for blocks, as this copy manager makes them: its identifier.
    Blocks(u64),
}

/// Who makes a token, for those of its fields that name somebody.
#[derive(Debug, Clone, Copy)]
pub struct TokenSource<'a> {
    /// EUI-64 or NAA designator of the logical unit.
    pub unit: Designator,
    /// iSCSI name of the target.
    pub target_name: &'a str,
    /// Logical block length of the unit.
    pub block_bytes: u32,
}

/// A token on the wire.
#[derive(Clone, PartialEq, Eq)]
pub struct RodToken(pub(super) Box<[u8; ROD_TOKEN_BYTES]>);

impl RodToken {
    /// `random` must come from a cryptographically secure source, anew for each token
    /// (SPC-4 5.17.6.5.1 asks for 32 bytes of it; all of the field is filled).
    pub(super) fn new(
        id: u64,
        source: &TokenSource<'_>,
        represented_bytes: u64,
        random: &[u8; 256],
    ) -> Self {
        let mut token = [0; ROD_TOKEN_BYTES];
        token[..4].copy_from_slice(&ROD_TYPE_ACCESS_UPON_REFERENCE.to_be_bytes());
        token[6..8].copy_from_slice(&TOKEN_LENGTH.to_be_bytes());
        token[8..16].copy_from_slice(&id.to_be_bytes());
        token[16] = CSCD_TYPE_IDENTIFICATION;
        source.unit.emit(&mut token[16..48]);
        token[48..64].copy_from_slice(&u128::from(represented_bytes).to_be_bytes());
        token[96..100].copy_from_slice(&source.block_bytes.to_be_bytes());
        name_target(&mut token[128..EXTENDED_AT], source.target_name);
        token[EXTENDED_AT..].copy_from_slice(random);
        Self(Box::new(token))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; ROD_TOKEN_BYTES] {
        &self.0
    }

    /// Looks at the header of a token that a host has sent; whether it is good is not said by that.
    ///
    /// ILLEGAL REQUEST with INVALID TOKEN LENGTH or UNSUPPORTED REQUEST TOKEN TYPE (SPC-4
    /// 5.17.6.5.2.3).
    pub fn kind_of(token: &[u8; ROD_TOKEN_BYTES]) -> Result<TokenKind, Sense> {
        if token[6..8] != TOKEN_LENGTH.to_be_bytes() {
            return Err(invalid(AdditionalSense::INVALID_TOKEN_LENGTH));
        }
        match be32(token, 0) {
            ROD_TYPE_ACCESS_UPON_REFERENCE => Ok(TokenKind::Blocks(be64(token, 8))),
            ROD_TYPE_ZERO => Ok(TokenKind::Zeroes),
            _ => Err(invalid(AdditionalSense::UNSUPPORTED_REQUEST_TOKEN_TYPE)),
        }
    }

    /// Compares in a time that does not depend on where the difference is.
    pub(super) fn is(&self, token: &[u8; ROD_TOKEN_BYTES]) -> bool {
        self.0.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }
}

impl std::fmt::Debug for RodToken {
    /// Without the random part: a token is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RodToken({})", be64(&self.0[..], 8))
    }
}

/// A token that cannot be used.
pub(super) fn invalid(why: AdditionalSense) -> Sense {
    Sense::new(SenseKey::IllegalRequest, why)
}

/// Target device descriptor: a SCSI name string (SPC-4 7.8.6), cut if it does not fit.
fn name_target(field: &mut [u8], name: &str) {
    let room = field.len() - 4 - 1;
    let end = (0..=room.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    let name = &name.as_bytes()[..end.unwrap_or(0)];
    field[0] = 0x50 | 0x03; // iSCSI, UTF-8
    field[1] = 0x80 | 0x20 | 0x08; // PIV, association target device, SCSI name string
    field[3] = (name.len() + 1).next_multiple_of(4) as u8;
    field[4..4 + name.len()].copy_from_slice(name);
}
