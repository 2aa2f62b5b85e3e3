//! What a server says of itself that wants to be a member, and what no member can be.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{MemberRecord, MembershipError};

/// How many ports in a row a member has: for members, for clients of its etcd, for other etcds.
pub(super) const PORTS: u16 = 3;

/// The last port that has the others behind it.
pub(super) const PORT_MAX: u16 = u16::MAX - PORTS + 1;

/// By how much clocks may differ: tokens and certificates are worth something for a time.
pub(super) const CLOCKS_SECONDS_MAX: u64 = 60;

/// The longest name of a group or a member.
pub(super) const NAME_BYTES_MAX: usize = 63;

/// The longest version, and the longest identity of an array: strangers say them, and the store keeps them.
pub(super) const WORD_BYTES_MAX: usize = 64;

/// A server that wants to be a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applicant {
    /// The name that it is to have.
    pub name: String,
    /// Where the other members are to reach it.
    pub address: IpAddr,
    /// The first of its three ports in a row.
    pub port: u16,
    /// The SHA-256 of the certificate that was issued for it, in hexadecimal digits; not looked at before there is one.
    pub certificate_sha256: String,
    /// The identity of its array, in hexadecimal digits.
    pub array: String,
    /// The version of drystone that it runs.
    pub version: String,
    /// What its clock says, in seconds since 1970 (UTC).
    pub clock_unix_seconds: u64,
}

impl Applicant {
    /// Refuses what is a member of no group.
    pub(super) fn check(&self) -> Result<(), MembershipError> {
        check_name(&self.name)?;
        check_place(self.address, self.port)?;
        check_word("array", &self.array)?;
        check_word("version", &self.version)
    }

    /// Refuses a clock that differs too much from the one of who judges.
    pub(super) fn check_clock(&self, now_unix_seconds: u64) -> Result<(), MembershipError> {
        let seconds = self.clock_unix_seconds.abs_diff(now_unix_seconds);
        if seconds <= CLOCKS_SECONDS_MAX {
            return Ok(());
        }
        let is_ahead = self.clock_unix_seconds > now_unix_seconds;
        Err(MembershipError::Clock { seconds, is_ahead })
    }

    /// What the store says of it from now on.
    pub(super) fn record(&self, now_unix_seconds: u64) -> MemberRecord {
        MemberRecord {
            name: self.name.clone(),
            address: self.address.to_canonical(),
            port: self.port,
            certificate_sha256: self.certificate_sha256.clone(),
            array: self.array.clone(),
            version: self.version.clone(),
            joined_unix_seconds: now_unix_seconds,
            incarnation: 0,
        }
    }
}

/// Refuses what cannot be the name of a group or a member.
///
/// # Errors
/// [`MembershipError::Name`]
pub fn check_name(name: &str) -> Result<(), MembershipError> {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    // Nobody could ask for a path that ends in those.
    let is_path = name == "." || name == "..";
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(belongs) && !is_path {
        return Ok(());
    }
    Err(MembershipError::Name(name.to_owned()))
}

/// Refuses where no member can be reached.
///
/// # Errors
/// [`MembershipError::Address`], [`MembershipError::Port`]
pub fn check_place(address: IpAddr, port: u16) -> Result<(), MembershipError> {
    let is_usable = match address.to_canonical() {
        IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()),
        // Which interface a link-local address belongs to is different on each server.
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local()),
    };
    if !is_usable {
        return Err(MembershipError::Address(address));
    }
    if (1..=PORT_MAX).contains(&port) { Ok(()) } else { Err(MembershipError::Port(port)) }
}

/// Refuses what is too long to be kept, or is no word.
pub(super) fn check_word(what: &'static str, word: &str) -> Result<(), MembershipError> {
    let is_word = word.bytes().all(|byte| byte.is_ascii_graphic());
    if is_word && (1..=WORD_BYTES_MAX).contains(&word.len()) {
        return Ok(());
    }
    Err(MembershipError::Applicant(what))
}

/// Whether members at these places would want the same port.
pub(super) fn overlap(one: &MemberRecord, other: &MemberRecord) -> bool {
    one.address == other.address && one.port.abs_diff(other.port) < PORTS
}
