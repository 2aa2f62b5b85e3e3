//! What a server says of itself that wants to be a member, and what no member can be.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{MemberRecord, MembershipError};

/// How many ports in a row a member has: its door for servers that join, for clients of its etcd, for other etcds, for
/// requests that other members carry to it, and for slices of volumes of others.
pub const PORTS: u16 = 5;

/// How far behind the first of them is the port at which a member is asked by others.
pub const CARRIED_BEHIND: u16 = 3;

/// How far behind the first of them is the port at which a member serves slices of volumes of others
/// (docs/decisions/0052).
pub const SLICES_BEHIND: u16 = 4;

/// The last port that has the others behind it.
pub const PORT_MAX: u16 = u16::MAX - PORTS + 1;

/// How many ports in a row a member had at first: who joined then may have no more.
const PORTS_BEFORE: u16 = 3;

/// By how much clocks may differ: tokens and certificates are worth something for a time.
pub(super) const CLOCKS_SECONDS_MAX: u64 = 60;

/// The longest name of a group, a member or a pool.
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
    /// The first of its [`PORTS`] ports in a row.
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

/// Refuses what cannot be the name of a group, a member or a pool.
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
    check_address(address)?;
    check_port(port, PORTS)
}

/// The same of one that may have been a member before members had so many ports.
pub(super) fn check_place_before(address: IpAddr, port: u16) -> Result<(), MembershipError> {
    check_address(address)?;
    check_port(port, PORTS_BEFORE)
}

fn check_address(address: IpAddr) -> Result<(), MembershipError> {
    let is_usable = match address.to_canonical() {
        IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()),
        // Which interface a link-local address belongs to is different on each server.
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local()),
    };
    if is_usable { Ok(()) } else { Err(MembershipError::Address(address)) }
}

/// Refuses a port that has not so many in a row, itself among them.
fn check_port(port: u16, count: u16) -> Result<(), MembershipError> {
    let is_possible = port != 0 && port.checked_add(count - 1).is_some();
    if is_possible { Ok(()) } else { Err(MembershipError::Port(port)) }
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
    are_nearer(one, other, PORTS)
}

/// The same of members that may have been there before members had so many ports.
pub(super) fn overlap_before(one: &MemberRecord, other: &MemberRecord) -> bool {
    are_nearer(one, other, PORTS_BEFORE)
}

fn are_nearer(one: &MemberRecord, other: &MemberRecord, ports: u16) -> bool {
    one.address == other.address && one.port.abs_diff(other.port) < ports
}
