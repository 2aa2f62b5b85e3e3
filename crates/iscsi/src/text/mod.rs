//! Text negotiation (RFC 7143 section 6): `key=value` pairs, their values, and the rules by which two
//! sides agree on them. All rules derive from one table, [`KEYS`].

mod continuation;
mod keys;
mod name;
mod negotiation;
mod pairs;
#[cfg(test)]
mod tests;
mod value;

pub use continuation::Reassembly;
pub use keys::{KEYS, Key, Phase, Rule, Scope, Sender, find_key, table_markdown};
pub use name::{IscsiName, NAME_LEN_BYTES_MAX, NameError};
pub(crate) use negotiation::parse_segment_length;
pub use negotiation::{Negotiation, NegotiationError, Role};
pub use pairs::{Pair, TextWriter, parse_pairs, refuse_repeated_keys};
pub use value::{decode_binary, encode_base64, encode_hex, parse_boolean, parse_number};

/// Longest key name (6.1).
pub const KEY_LEN_BYTES_MAX: usize = 63;

/// Longest value of a key that does not say otherwise (6.1).
pub const VALUE_LEN_BYTES_MAX: usize = 255;

/// Longest binary value before its encoding: CHAP challenges and responses (12.1.3).
pub const BINARY_LEN_BYTES_MAX: usize = 1024;

/// Pairs that we take in one text. A login names about 30 keys; the answers to this many unknown ones
/// still fit one login PDU.
pub const PAIRS_MAX: usize = 64;

/// Longest text that we put together from several PDUs of one request.
pub const TEXT_LEN_BYTES_MAX: usize = 32 << 10;

/// The answer to a key that is not known (6.2).
pub const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// The answer to a key that means nothing in the present state (6.2).
pub const IRRELEVANT: &str = "Irrelevant";
/// The answer to a value that cannot be accepted (6.2).
pub const REJECT: &str = "Reject";

/// Why a text cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Not UTF-8.
    #[error("text is not UTF-8")]
    Encoding,
    /// A pair without `=`.
    #[error("a key has no value")]
    NoValue,
    /// A key that is empty, too long, or has other characters than 6.1 allows.
    #[error("a key has a malformed name")]
    KeyName,
    /// A value that is longer than its key allows.
    #[error("the value of a key is too long")]
    ValueTooLong,
    /// The same key twice.
    #[error("a key comes twice")]
    RepeatedKey,
    /// More pairs than [`PAIRS_MAX`].
    #[error("more than {PAIRS_MAX} keys in one text")]
    TooManyPairs,
    /// More text than the limit, over all PDUs of one request.
    #[error("the text is too long")]
    TooLong,
}
