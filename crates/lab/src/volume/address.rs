//! What may stand behind `--on` and in `lun=`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use block::DriveClass;
use initiator::{PortalAddress, TargetAddress};

use crate::nbd::{NbdAddress, NbdAddressError};

const SCHEME: &str = "iscsi://";

/// Something that can be opened as disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// One unit of one target.
    Iscsi(TargetAddress),
    /// LUN 0 of all targets of a portal whose names fit a pattern, in which `*` is any text.
    Portal {
        /// The portal.
        portal: PortalAddress,
        /// The pattern.
        pattern: String,
        /// CHAP user and secret. Not shown.
        login: Option<(String, String)>,
    },
    /// An export of an NBD server.
    Nbd(NbdAddress),
    /// A file or a block device.
    Path(PathBuf),
    /// Memory of this process.
    Ram(u64),
    /// Nothing: writes are dropped, reads give zeroes.
    Null(u64),
    /// Memory as slow as a drive.
    Sim(DriveClass, u64),
}

/// Why a text is no [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An iSCSI URL that is none.
    #[error("'{text}': {error}")]
    Url {
        /// What was written.
        text: String,
        /// What is wrong.
        error: initiator::AddressError,
    },
    /// An NBD URL that is none.
    #[error("'{text}': {error}")]
    Nbd {
        /// What was written.
        text: String,
        /// What is wrong.
        error: NbdAddressError,
    },
    /// A size.
    #[error("'{0}' has no size: write ram:1G, null:1G or sim:sas10k:1G")]
    Size(String),
    /// A drive that is not simulated.
    #[error("'{text}' names no drive: write one of {known}")]
    Drive {
        /// What was written.
        text: String,
        /// What there is.
        known: String,
    },
    /// A protocol that the lab does not speak.
    #[error(
        "the lab does not speak {0}: write iscsi://HOST/IQN, nbd://HOST/EXPORT, a path, ram:SIZE, null:SIZE or sim:DRIVE:SIZE"
    )]
    Scheme(String),
    /// Nothing.
    #[error("a target is missing: write iscsi://HOST/IQN or a path")]
    Empty,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        if text.starts_with(SCHEME) {
            return iscsi(text);
        }
        if text.starts_with("nbd://") || text.starts_with("nbd+unix://") {
            let wrong = |error| AddressError::Nbd { text: text.to_owned(), error };
            return text.parse().map(Self::Nbd).map_err(wrong);
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(AddressError::Scheme(scheme.to_owned()));
        }
        let size = |size: &str| {
            let bytes = crate::workload::bytes(size).filter(|bytes| *bytes >= 4096);
            bytes.ok_or_else(|| AddressError::Size(text.to_owned()))
        };
        match text.split_once(':') {
            Some(("ram", rest)) => size(rest).map(Self::Ram),
            Some(("null", rest)) => size(rest).map(Self::Null),
            Some(("sim", rest)) => {
                let (drive, rest) = rest.split_once(':').unwrap_or((rest, ""));
                let class = DriveClass::from_name(drive).ok_or_else(|| AddressError::Drive {
                    text: text.to_owned(),
                    known: DriveClass::ALL.map(DriveClass::name).join(", "),
                })?;
                size(rest).map(|bytes| Self::Sim(class, bytes))
            }
            _ => Ok(Self::Path(PathBuf::from(text))),
        }
    }
}

/// A URL, or one with a pattern in the place of the name.
fn iscsi(text: &str) -> Result<Address, AddressError> {
    let url = |error| AddressError::Url { text: without_secret(text), error };
    let rest = &text[SCHEME.len()..];
    let pattern = rest.split_once('/').map_or("", |(_, pattern)| pattern);
    if !pattern.contains('*') && !pattern.is_empty() {
        return text.parse().map(Address::Iscsi).map_err(url);
    }
    // What stands before the name is read as with any name.
    let stand_in =
        format!("{SCHEME}{}/iqn.2026-11.dev.drystone:any", rest.split('/').next().unwrap_or(""));
    let address: TargetAddress = stand_in.parse().map_err(url)?;
    let pattern = if pattern.is_empty() { "*" } else { pattern }.to_owned();
    Ok(Address::Portal { portal: address.portal, pattern, login: address.login })
}

fn without_secret(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("{SCHEME}...@{rest}"),
        None => text.to_owned(),
    }
}

impl fmt::Display for Address {
    /// Without user and secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iscsi(address) => address.fmt(f),
            Self::Portal { portal, pattern, .. } => {
                write!(f, "{SCHEME}{}:{}/{pattern}", portal.host, portal.port)
            }
            Self::Nbd(address) => address.fmt(f),
            Self::Path(path) => path.display().fmt(f),
            Self::Ram(bytes) => write!(f, "ram:{bytes}"),
            Self::Null(bytes) => write!(f, "null:{bytes}"),
            Self::Sim(class, bytes) => write!(f, "sim:{}:{bytes}", class.name()),
        }
    }
}

/// Whether `name` fits a pattern in which each `*` is any text.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IQN: &str = "iqn.2026-11.com.example:a";

    #[test]
    fn each_kind_is_told_by_its_form() {
        let parse = |text: &str| text.parse::<Address>().unwrap();
        let Address::Iscsi(one) = parse(&format!("iscsi://host:3261/{IQN}/2")) else { panic!() };
        assert_eq!((one.portal.port, one.lun), (3261, 2));
        let Address::Portal { portal, pattern, login } =
            parse("iscsi://u%secret-of-16-byt@[fd00::1]/*:vol-*")
        else {
            panic!()
        };
        assert_eq!(
            (portal.host.as_str(), pattern.as_str(), login.is_some()),
            ("fd00::1", "*:vol-*", true)
        );
        assert!(matches!(parse("iscsi://host"), Address::Portal { pattern, .. } if pattern == "*"));
        let Address::Nbd(export) = parse("nbd://host/x") else { panic!() };
        assert_eq!(export.export, "x");
        assert_eq!(parse("/dev/sdb"), Address::Path("/dev/sdb".into()));
        assert_eq!(parse("ram:1G"), Address::Ram(1 << 30));
        assert_eq!(parse("null:1t"), Address::Null(1 << 40));
        assert_eq!(parse("sim:sas10k:1g"), Address::Sim(DriveClass::Sas10k, 1 << 30));
    }

    #[test]
    fn what_is_wrong_is_named_and_no_secret_is() {
        let wrong = |text: &str| text.parse::<Address>().unwrap_err().to_string();
        assert!(wrong("nvme://host/x").starts_with("the lab does not speak nvme"));
        assert!(
            wrong("nbd+unix:///x")
                .starts_with("'nbd+unix:///x': the path of the socket is missing")
        );
        assert!(wrong("sim:floppy:1g").contains("sas15k, sas10k"));
        assert!(wrong("ram:").contains("has no size"));
        let secret = wrong("iscsi://u%secret@ho st/iqn.2026-11.com.example:a");
        assert!(!secret.contains("secret") && secret.contains("...@ho st"), "{secret}");
        assert!(wrong("").contains("missing"));
    }

    #[test]
    fn patterns_fit_what_they_should() {
        for (pattern, name, expected) in [
            ("*", IQN, true),
            ("iqn.*:a", IQN, true),
            ("*:b", IQN, false),
            ("*2026*example*", IQN, true),
            (IQN, IQN, true),
            ("iqn", IQN, false),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<Address>();
            let _ = format!("iscsi://{text}").parse::<Address>();
            let _ = fits(&text, &text);
        }

        #[test]
        fn a_name_with_parts_left_out_fits(name in "[a-c]{0,12}", from in 0_usize..12, len in 0_usize..12) {
            let (from, to) = (from.min(name.len()), (from + len).min(name.len()));
            let pattern = format!("{}*{}", &name[..from], &name[to..]);
            prop_assert!(fits(&pattern, &name));
        }
    }
}
