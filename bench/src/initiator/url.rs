//! `iscsi://HOST:PORT/IQN/LUN`, the form that libiscsi and QEMU understand too.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// Port when the URL names none (RFC 7143 4.2.7.1).
const PORT_DEFAULT: u16 = 3260;

/// Where a disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// Host name or address; an IPv6 address without its brackets.
    pub(crate) host: String,
    /// TCP port.
    pub(crate) port: u16,
    /// Target name.
    pub(crate) iqn: String,
    /// Logical unit, below 256 (single-level addressing, SAM-5 4.7.7.2).
    pub(crate) lun: u8,
}

impl FromStr for Url {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest = text
            .strip_prefix("iscsi://")
            .with_context(|| format!("{text}: write iscsi://HOST:PORT/IQN/LUN"))?;
        let mut parts = rest.split('/');
        let (Some(portal), Some(iqn), Some(lun), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            bail!("{text}: write iscsi://HOST:PORT/IQN/LUN");
        };
        ensure!(!iqn.is_empty(), "{text}: the target name is missing");
        let (host, port) = split_portal(portal)?;
        let lun = lun.parse().with_context(|| format!("{text}: LUN is a number below 256"))?;
        Ok(Self { host, port, iqn: iqn.to_owned(), lun })
    }
}

fn split_portal(portal: &str) -> Result<(String, u16)> {
    let (host, port) = if let Some(rest) = portal.strip_prefix('[') {
        let (host, tail) = rest.split_once(']').context("an IPv6 address ends with ']'")?;
        (host, tail.strip_prefix(':'))
    } else {
        match portal.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (portal, None),
        }
    };
    ensure!(!host.is_empty(), "the host is missing");
    let port = match port {
        None => PORT_DEFAULT,
        Some(port) => port.parse().with_context(|| format!("{port} is no TCP port"))?,
    };
    Ok((host.to_owned(), port))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "iscsi://[{}]:{}/{}/{}", self.host, self.port, self.iqn, self.lun)
        } else {
            write!(f, "iscsi://{}:{}/{}/{}", self.host, self.port, self.iqn, self.lun)
        }
    }
}
