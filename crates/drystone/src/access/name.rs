//! iSCSI names (RFC 7143 4.2.7): `iqn.`, `eui.` and `naa.`.

use thiserror::Error;

/// The longest iSCSI name, in bytes (RFC 7143 4.2.7.1).
const NAME_LEN_MAX: usize = 223;

/// Why an iSCSI name was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum NameError {
    /// Not one of the three forms.
    #[error(
        "'{0}' is not an iSCSI name: write iqn.YYYY-MM.REVERSED-DOMAIN[:TEXT], such as iqn.2026-11.com.example:disk1"
    )]
    Form(String),
    /// A byte that a normalized name does not have.
    #[error(
        "'{name}' has {found:?} in it: write an iSCSI name with a to z, 0 to 9, '-', '.' and ':' only"
    )]
    Character {
        /// The name as written.
        name: String,
        /// The first character that does not belong.
        found: char,
    },
    /// Letters in upper case: the names of two spellings are one name.
    #[error("'{name}' has capital letters: write {lower}")]
    Capitals {
        /// The name as written.
        name: String,
        /// The name to write.
        lower: String,
    },
    /// Over the limit of the standard.
    #[error("the iSCSI name '{name}' has {len_bytes} bytes: write one of at most {NAME_LEN_MAX}")]
    TooLong {
        /// The name as written.
        name: String,
        /// Its length.
        len_bytes: usize,
    },
}

/// Whether `text` starts as an iSCSI name does, so that it was meant as one.
pub(crate) fn looks_like_name(text: &str) -> bool {
    let starts = |prefix: &str| {
        text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    starts("iqn.") || starts("eui.") || starts("naa.")
}

/// Checks an iSCSI name and gives it back.
pub(crate) fn parse(text: &str) -> Result<String, NameError> {
    if !looks_like_name(text) {
        return Err(NameError::Form(text.to_owned()));
    }
    if text.len() > NAME_LEN_MAX {
        return Err(NameError::TooLong { name: text.to_owned(), len_bytes: text.len() });
    }
    let belongs = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
    if let Some(found) = text.chars().find(|c| !belongs(*c)) {
        return Err(NameError::Character { name: text.to_owned(), found });
    }
    // The hexadecimal forms may be in either case; an IQN is folded to lower case first.
    let (form, rest) = text.split_at(4);
    let well_formed = match form.to_ascii_lowercase().as_str() {
        "iqn." => is_iqn_rest(rest),
        "eui." => is_hex(rest, &[16]),
        _ => is_hex(rest, &[16, 32]),
    };
    if !well_formed {
        return Err(NameError::Form(text.to_owned()));
    }
    let lower = text.to_ascii_lowercase();
    if lower != text && (form != form.to_ascii_lowercase() || form == "iqn.") {
        return Err(NameError::Capitals { name: text.to_owned(), lower });
    }
    Ok(text.to_owned())
}

/// `YYYY-MM.REVERSED-DOMAIN[:TEXT]` (RFC 7143 4.2.7.4).
fn is_iqn_rest(rest: &str) -> bool {
    let authority = rest.split(':').next().unwrap_or_default();
    let Some((date, domain)) = authority.split_once('.') else { return false };
    let Some((year, month)) = date.split_once('-') else { return false };
    let digits =
        |text: &str, len: usize| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    digits(year, 4)
        && digits(month, 2)
        && month.parse().is_ok_and(|month: u8| (1..=12).contains(&month))
        && domain.split('.').all(|label| !label.is_empty())
}

/// Hexadecimal digits, as many as one of `lens`.
fn is_hex(text: &str, lens: &[usize]) -> bool {
    lens.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_of_the_standard_is_taken() {
        for name in [
            "iqn.2026-11.dev.drystone:export",
            "iqn.1993-08.org.debian:01:abcdef",
            "iqn.2001-04.com.example",
            "iqn.1991-05.com.microsoft:host-1.example.com",
            "eui.02004567a425678d",
            "eui.02004567A425678D",
            "naa.52004567ba64678d",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(parse(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn each_refusal_says_what_to_write_instead() {
        let form = "is not an iSCSI name: write iqn.YYYY-MM.REVERSED-DOMAIN[:TEXT], such as iqn.2026-11.com.example:disk1";
        let only = "write an iSCSI name with a to z, 0 to 9, '-', '.' and ':' only";
        let long = format!("iqn.2026-11.com.example:{}", "x".repeat(200));
        let cases = [
            ("", format!("'' {form}")),
            ("disk1", format!("'disk1' {form}")),
            ("iqn.", format!("'iqn.' {form}")),
            ("iqn.2026-11", format!("'iqn.2026-11' {form}")),
            ("iqn.2026-13.com.example", format!("'iqn.2026-13.com.example' {form}")),
            ("iqn.2026-00.com.example", format!("'iqn.2026-00.com.example' {form}")),
            ("iqn.26-11.com.example", format!("'iqn.26-11.com.example' {form}")),
            ("iqn.2026-11.com..example", format!("'iqn.2026-11.com..example' {form}")),
            ("iqn.2026-11.:x", format!("'iqn.2026-11.:x' {form}")),
            ("eui.0200", format!("'eui.0200' {form}")),
            ("naa.6200zz67ba64678d", format!("'naa.6200zz67ba64678d' {form}")),
            (
                "iqn.2026-11.com.example:my disk",
                format!("'iqn.2026-11.com.example:my disk' has ' ' in it: {only}"),
            ),
            (
                "iqn.2026-11.com.example:a_b",
                format!("'iqn.2026-11.com.example:a_b' has '_' in it: {only}"),
            ),
            (
                "iqn.2026-11.com.Example:Disk",
                "'iqn.2026-11.com.Example:Disk' has capital letters: write iqn.2026-11.com.example:disk"
                    .to_owned(),
            ),
            (
                "IQN.2026-11.com.example",
                "'IQN.2026-11.com.example' has capital letters: write iqn.2026-11.com.example"
                    .to_owned(),
            ),
            (
                &long,
                format!("the iSCSI name '{long}' has 224 bytes: write one of at most 223"),
            ),
        ];
        for (text, sentence) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), sentence, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(iqn\\.|eui\\.|naa\\.)?.{0,40}") {
            let _ = parse(&text);
        }
    }
}
