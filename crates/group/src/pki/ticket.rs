//! What a server is given to join a group with: one word, to be copied from one terminal to another.

use std::fmt::{self, Debug, Formatter};
use std::str::FromStr;

use zeroize::Zeroizing;

/// What every ticket begins with, so that one that leaked is known for what it is.
const PREFIX: &str = "drystonejoin_";

/// What the text of every token begins with ([`TokenText`](crate::accounts::TokenText)): a ticket leaves it out.
const SECRET_PREFIX: &str = "drystone_";

const AUTHORITY_DIGITS: usize = 64;
const ID_DIGITS: usize = 8;
const SECRET_DIGITS: usize = 64;

/// Lets one server join, once: it says whom to trust, and proves who may come.
///
/// ```text
/// drystonejoin_<SHA-256 of the authority's certificate: 64>_<number of the token: 8>_<secret: 64>
/// ```
///
/// All are lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The SHA-256 of the certificate of the group's authority, 64 hexadecimal digits.
    pub authority_sha256: String,
    /// The number of the token, 8 hexadecimal digits.
    pub id: String,
    /// The token, as its text prints: `drystone_` and 64 hexadecimal digits.
    pub secret: Zeroizing<String>,
}

/// What is no ticket. It does not repeat what was given, most of which may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no ticket to join a group with, or not all of one: it is a single word that begins with '{PREFIX}', as it \
     was printed when it was made"
)]
pub struct TicketError;

impl Ticket {
    /// As it is handed over. It is shown once, and holds a secret.
    #[must_use]
    pub fn as_text(&self) -> Zeroizing<String> {
        let secret = self.secret.strip_prefix(SECRET_PREFIX).unwrap_or(&self.secret);
        Zeroizing::new(format!("{PREFIX}{}_{}_{secret}", self.authority_sha256, self.id))
    }

    /// Whether this number and this secret can be those of a ticket at all.
    #[must_use]
    pub fn has_form(id: &str, secret: &str) -> bool {
        let digits = secret.strip_prefix(SECRET_PREFIX);
        has_digits(id, ID_DIGITS) && digits.is_some_and(|digits| has_digits(digits, SECRET_DIGITS))
    }
}

impl Debug for Ticket {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ticket")
            .field("authority_sha256", &self.authority_sha256)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    /// Blanks and line ends around it do not matter: it was copied.
    fn from_str(text: &str) -> Result<Self, TicketError> {
        let read = || {
            let rest = text.trim().strip_prefix(PREFIX)?;
            let (authority, rest) = rest.split_once('_')?;
            let (id, secret) = rest.split_once('_')?;
            let is_whole = has_digits(authority, AUTHORITY_DIGITS)
                && has_digits(id, ID_DIGITS)
                && has_digits(secret, SECRET_DIGITS);
            is_whole.then(|| Self {
                authority_sha256: authority.to_owned(),
                id: id.to_owned(),
                secret: Zeroizing::new(format!("{SECRET_PREFIX}{secret}")),
            })
        };
        read().ok_or(TicketError)
    }
}

fn has_digits(text: &str, digits: usize) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == digits && text.bytes().all(is_digit)
}
