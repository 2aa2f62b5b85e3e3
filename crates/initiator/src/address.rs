//! Where a logical unit is: `iscsi://[user[%secret]@]HOST[:PORT]/IQN[/LUN]`.

use std::fmt;
use std::str::FromStr;

use iscsi::chap::{Credentials, CredentialsError, InitiatorChap};
use iscsi::discovery::{DEFAULT_PORT, PortalAddress};
use iscsi::text::{IscsiName, NameError};

const SCHEME: &str = "iscsi://";
/// The highest LUN that flat space addressing reaches (SAM-5 4.7.7.3).
const LUN_MAX: u16 = 16383;

/// A logical unit of a target, and the portal through which it is asked for first.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetAddress {
    /// Where the target listens.
    pub portal: PortalAddress,
    /// The target.
    pub name: IscsiName,
    /// The logical unit, 0 to 16383.
    pub lun: u16,
    /// CHAP user and secret. Not shown.
    pub login: Option<(String, String)>,
}

/// Why a text is no [`TargetAddress`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Not of this form at all.
    #[error("an address reads iscsi://[USER[%SECRET]@]HOST[:PORT]/IQN[/LUN]")]
    Form,
    /// The part between `//` and `/`.
    #[error("{0:?} is no HOST[:PORT]")]
    Portal(String),
    /// The target's name.
    #[error("{name:?} is no target name: {error}")]
    Name {
        /// As given.
        name: String,
        /// What is wrong.
        error: NameError,
    },
    /// The logical unit number.
    #[error("{0:?} is no LUN: a number up to {LUN_MAX}")]
    Lun(String),
}

impl TargetAddress {
    /// LUN 0 of a target.
    #[must_use]
    pub fn new(portal: PortalAddress, name: IscsiName) -> Self {
        Self { portal, name, lun: 0, login: None }
    }

    /// What to authenticate with, if the address says so.
    ///
    /// # Errors
    /// A user without a name, or a secret that is missing or too short.
    pub fn chap(&self) -> Result<Option<InitiatorChap>, CredentialsError> {
        let Some((user, secret)) = &self.login else { return Ok(None) };
        let credentials = Credentials::new(user.as_str(), secret.as_bytes())?;
        InitiatorChap::new(credentials, None).map(Some)
    }
}

impl FromStr for TargetAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).ok_or(AddressError::Form)?;
        // A secret may contain anything but a slash; neither host nor name contains an `@`.
        let (authority, path) = rest.split_once('/').ok_or(AddressError::Form)?;
        let (login, endpoint) = match authority.rsplit_once('@') {
            Some((login, endpoint)) => (Some(login), endpoint),
            None => (None, authority),
        };
        let login = login.map(|login| {
            let (user, secret) = login.split_once('%').unwrap_or((login, ""));
            (user.to_owned(), secret.to_owned())
        });
        let portal: PortalAddress =
            endpoint.parse().map_err(|_| AddressError::Portal(endpoint.to_owned()))?;
        if portal.group_tag.is_some() {
            return Err(AddressError::Portal(endpoint.to_owned()));
        }
        let (name, lun) = match path.split_once('/') {
            Some((name, lun)) => (name, lun),
            None => (path, "0"),
        };
        let name = IscsiName::parse(name)
            .map_err(|error| AddressError::Name { name: name.to_owned(), error })?;
        let is_number = !lun.is_empty() && lun.bytes().all(|byte| byte.is_ascii_digit());
        let number = lun.parse().ok().filter(|&number| is_number && number <= LUN_MAX);
        let lun = number.ok_or_else(|| AddressError::Lun(lun.to_owned()))?;
        Ok(Self { portal, name, lun, login })
    }
}

impl fmt::Display for TargetAddress {
    /// Without user and secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/{}", show(&self.portal), self.name, self.lun)
    }
}

impl fmt::Debug for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `host`, or `host:port` unless that is the usual one.
pub(crate) fn show(portal: &PortalAddress) -> String {
    let host = &portal.host;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    if portal.port == DEFAULT_PORT { host } else { format!("{host}:{}", portal.port) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IQN: &str = "iqn.2026-11.dev.drystone:vol";

    fn parse(text: &str) -> TargetAddress {
        text.parse().unwrap()
    }

    #[test]
    fn short_and_long_forms() {
        let short = parse(&format!("iscsi://host/{IQN}"));
        assert_eq!((short.portal.host.as_str(), short.portal.port, short.lun), ("host", 3260, 0));
        assert_eq!(short.login, None);
        let long = parse(&format!("iscsi://ann%with%and@it@[fd00::1]:3261/{IQN}/12"));
        assert_eq!((long.portal.host.as_str(), long.portal.port), ("fd00::1", 3261));
        assert_eq!(long.lun, 12);
        assert_eq!(long.login, Some(("ann".into(), "with%and@it".into())));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let address = parse(&format!("iscsi://ann%a-secret-of-16-b@host:1/{IQN}/3"));
        assert_eq!(address.to_string(), format!("iscsi://host:1/{IQN}/3"));
        assert!(!format!("{address:?}").contains("secret"));
        assert!(address.chap().unwrap().is_some());
        let short = parse(&format!("iscsi://ann%short@host/{IQN}"));
        assert_eq!(short.chap().unwrap_err(), CredentialsError::SecretTooShort);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |text: &str| text.parse::<TargetAddress>().unwrap_err();
        assert_eq!(wrong("nfs://host/x"), AddressError::Form);
        assert_eq!(wrong("iscsi://host"), AddressError::Form);
        assert!(matches!(wrong(&format!("iscsi://ho st/{IQN}")), AddressError::Portal(_)));
        assert!(matches!(wrong(&format!("iscsi://host,1/{IQN}")), AddressError::Portal(_)));
        assert!(matches!(wrong("iscsi://host/volume"), AddressError::Name { .. }));
        for lun in ["", "x", "+1", "16384", "1/2"] {
            assert_eq!(wrong(&format!("iscsi://host/{IQN}/{lun}")), AddressError::Lun(lun.into()));
        }
    }

    proptest! {
        #[test]
        fn shown_and_read_again_is_the_same(v6 in any::<bool>(), port in 1_u16.., lun in 0_u16..=LUN_MAX) {
            let host = if v6 { "fd00::7" } else { "san-7.example" };
            let portal = PortalAddress { host: host.into(), port, group_tag: None };
            let address =
                TargetAddress { lun, ..TargetAddress::new(portal, IscsiName::parse(IQN).unwrap()) };
            prop_assert_eq!(address.to_string().parse::<TargetAddress>().unwrap(), address);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}") {
            let _ = text.parse::<TargetAddress>();
            let _ = format!("iscsi://{text}").parse::<TargetAddress>();
        }
    }
}
