//! iSCSI names (RFC 7143 4.2.7).

use std::fmt;

/// Longest iSCSI name (4.2.7.2).
pub const NAME_LEN_BYTES_MAX: usize = 223;

/// An iSCSI name in its normalised form: `iqn.`, `eui.` or `naa.`, in lower case.
///
/// Only the ASCII part of the iSCSI stringprep profile (RFC 3722) is supported: names with other
/// characters are refused rather than compared wrongly.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IscsiName(Box<str>);

/// Why a string is not an iSCSI name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than [`NAME_LEN_BYTES_MAX`].
    #[error("an iSCSI name has at most {NAME_LEN_BYTES_MAX} characters")]
    TooLong,
    /// A character other than letters, digits, dot, minus and colon.
    #[error("an iSCSI name has only letters, digits, '.', '-' and ':'")]
    Character,
    /// Neither of the three forms.
    #[error(
        "an iSCSI name reads iqn.YYYY-MM.DOMAIN[:TEXT], eui. and 16 hexadecimal digits, \
         or naa. and 16 or 32 of them"
    )]
    Form,
}

impl IscsiName {
    /// Checks and normalises a name.
    ///
    /// # Errors
    /// A [`NameError`] that says what is wrong.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        if name.len() > NAME_LEN_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
        if !name.bytes().all(allowed) {
            return Err(NameError::Character);
        }
        let name = name.to_ascii_lowercase();
        let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_name = match name.split_at_checked(4) {
            Some(("iqn.", rest)) => is_qualified(rest),
            Some(("eui.", rest)) => rest.len() == 16 && is_hex(rest),
            Some(("naa.", rest)) => matches!(rest.len(), 16 | 32) && is_hex(rest),
            _ => false,
        };
        if is_name { Ok(Self(name.into_boxed_str())) } else { Err(NameError::Form) }
    }

    /// The normalised name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A date, and the reversed domain name of a naming authority that held it then (4.2.7.3).
fn is_qualified(rest: &str) -> bool {
    let Some((date, authority)) = rest.split_once('.') else {
        return false;
    };
    let is_date = matches!(date.as_bytes(), [year @ .., b'-', m1, m2]
        if year.len() == 4
            && year.iter().all(u8::is_ascii_digit)
            && matches!([*m1, *m2], [b'0', b'1'..=b'9'] | [b'1', b'0'..=b'2']));
    is_date && authority.starts_with(|c: char| c.is_ascii_alphanumeric())
}

impl fmt::Debug for IscsiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for IscsiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for IscsiName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::parse(name)
    }
}
