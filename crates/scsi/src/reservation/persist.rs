//! The image of the registrations and the reservation that outlives a power loss (SPC-4 5.13.5),
//! and that members of a group pass to each other.
//!
//! All numbers big-endian, nothing between the fields:
//!
//! ```text
//!  byte 0        4         6       7      8            12        16        20
//!       +--------+---------+-------+------+------------+---------+---------+---
//!       | "DPRS" | version | flags | type | PRGENERAT. | holder  | count   | entries ...
//!       | magic  | 1 or 2  | 1:APTPL| 0: - |            | index   |         |
//!       +--------+---------+-------+------+------------+---------+---------+---
//!
//!  entry 0       8      10      16       18                                   after the last one:
//!       +--------+-------+-------+--------+------------+--------+--------+     +--------------------+
//!       | key    | target| ISID  | length | name of    | length | owner  |     | CRC-32C of all the |
//!       |        | port  |       | of name| initiator  | 1 byte |        |     | bytes before it    |
//!       +--------+-------+-------+--------+------------+--------+--------+     +--------------------+
//! ```
//!
//! 1. `type` is zero, with `holder` FFFF_FFFFh, if there is no reservation; else it is the TYPE
//!    of SPC-4 6.15.3.4.
//! 2. `holder` is the index of an entry, or FFFF_FFFFh for the all registrants types.
//! 3. What [`Reservations`] promises of itself holds for the image: keys are not zero, no nexus
//!    comes twice, a reservation has a registrant.
//!
//! 4. In version 1 entries end with the name, which is their owner; so it is written where that holds for
//!    all. A name is the owner of length zero.
//!
//! A RESERVE of SPC-2 is not part of it: it ends with the nexus, and so with the power.

use super::transport_id::NAME_BYTES_MAX;
use super::{
    Held, Holder, OWNER_BYTES_MAX, REGISTRATIONS_MAX, Registration, ReservationType, Reservations,
    nexus_key,
};
use crate::nexus::NexusKey;

const MAGIC: [u8; 4] = *b"DPRS";
/// Written by releases that counted by name, and where that is all the same.
const VERSION_BY_NAME: u16 = 1;
const VERSION: u16 = 2;
const FLAG_APTPL: u8 = 0x01;
const NO_HOLDER: u32 = u32::MAX;
const CRC_BYTES: usize = 4;

/// Why bytes are not an image of reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Not even the magic number is right.
    #[error("not an image of reservations")]
    Magic,
    /// Written by a later release.
    #[error("reservations are in format {0}, this release knows format {VERSION}")]
    Version(u16),
    /// Torn, cut short or changed by somebody else.
    #[error("the image of the reservations is damaged (checksum)")]
    Checksum,
    /// The checksum is right and yet the contents cannot be.
    #[error("the image of the reservations contradicts itself: {0}")]
    Contents(&'static str),
}

impl Reservations {
    /// The image: see the module's drawing. At most about 153 KiB.
    pub fn to_bytes(&self) -> Vec<u8> {
        let index_of =
            |holder: &NexusKey| self.registrations.iter().position(|entry| entry.nexus == *holder);
        let holder = match self.held.as_ref().map(|held| &held.holder) {
            Some(Holder::One(nexus)) => {
                index_of(nexus).expect("the holder is registered: invariant of Reservations") as u32
            }
            _ => NO_HOLDER,
        };
        let mut image = Vec::with_capacity(64 + self.registrations.len() * 64);
        image.extend(MAGIC);
        let is_by_name =
            self.registrations.iter().all(|entry| entry.owner == entry.nexus.initiator);
        let version = if is_by_name { VERSION_BY_NAME } else { VERSION };
        image.extend(version.to_be_bytes());
        image.push(if self.persist { FLAG_APTPL } else { 0 });
        image.push(self.reservation().map_or(0, |kind| kind as u8));
        image.extend(self.generation.to_be_bytes());
        image.extend(holder.to_be_bytes());
        image.extend((self.registrations.len() as u32).to_be_bytes());
        for Registration { nexus, key, owner } in &self.registrations {
            image.extend(key.to_be_bytes());
            image.extend(nexus.target_port.to_be_bytes());
            image.extend(nexus.isid);
            image.extend((nexus.initiator.len() as u16).to_be_bytes());
            image.extend(nexus.initiator.as_bytes());
            if version == VERSION {
                let owner = if *owner == nexus.initiator { "" } else { owner };
                debug_assert!(owner.len() <= OWNER_BYTES_MAX);
                image.push(owner.len() as u8);
                image.extend(owner.as_bytes());
            }
        }
        image.extend(crc32c(&image).to_be_bytes());
        image
    }

    /// The state that [`Reservations::to_bytes`] wrote. A unit that starts up calls
    /// [`Reservations::power_on`] next.
    pub fn from_bytes(image: &[u8]) -> Result<Self, ImageError> {
        if !image.starts_with(&MAGIC) {
            return Err(ImageError::Magic);
        }
        let (body, crc) = image.split_last_chunk::<CRC_BYTES>().ok_or(ImageError::Checksum)?;
        if crc32c(body) != u32::from_be_bytes(*crc) {
            return Err(ImageError::Checksum);
        }
        let mut reader = Reader(&body[MAGIC.len()..]);
        let version = u16::from_be_bytes(reader.take()?);
        if ![VERSION_BY_NAME, VERSION].contains(&version) {
            return Err(ImageError::Version(version));
        }
        let [flags, kind] = reader.take()?;
        let mut state = Self {
            persist: flags & FLAG_APTPL != 0,
            generation: u32::from_be_bytes(reader.take()?),
            ..Self::default()
        };
        let holder = u32::from_be_bytes(reader.take()?);
        let count = u32::from_be_bytes(reader.take()?) as usize;
        if count > REGISTRATIONS_MAX {
            return Err(ImageError::Contents("more registrations than there may be"));
        }
        for _ in 0..count {
            state.registrations.push(reader.registration(version)?);
        }
        if !reader.0.is_empty() {
            return Err(ImageError::Contents("bytes after the last registration"));
        }
        state.held = state.held_of(kind, holder)?;
        if !state.is_sound() {
            return Err(ImageError::Contents("a zero key, or a nexus or reservation out of place"));
        }
        Ok(state)
    }

    fn held_of(&self, kind: u8, holder: u32) -> Result<Option<Held>, ImageError> {
        if kind == 0 && holder == NO_HOLDER {
            return Ok(None);
        }
        let kind = ReservationType::from_code(kind)
            .ok_or(ImageError::Contents("unknown type of reservation"))?;
        let holder = match (kind.is_all_registrants(), self.registrations.get(holder as usize)) {
            (true, None) if holder == NO_HOLDER => Holder::AllRegistrants,
            (false, Some(entry)) => Holder::One(entry.nexus.clone()),
            _ => return Err(ImageError::Contents("the holder does not fit the type")),
        };
        Ok(Some(Held { kind, holder }))
    }
}

/// An image as it counts for a unit that hosts reach by the target port `to` now, and reached by `from` before: whoever
/// was registered, or held the reservation, is and does. The two numbers change places, so that no two nexuses become
/// one: who was registered by `to` before, where no host came by it, is not let in by that either.
///
/// # Errors
/// The bytes are no image.
pub fn with_port(image: &[u8], from: u16, to: u16) -> Result<Vec<u8>, ImageError> {
    let mut state = Reservations::from_bytes(image)?;
    let renumber = |nexus: &mut NexusKey| {
        nexus.target_port = match nexus.target_port {
            port if port == from => to,
            port if port == to => from,
            port => port,
        };
    };
    state.registrations.iter_mut().for_each(|entry| renumber(&mut entry.nexus));
    if let Some(Held { holder: Holder::One(nexus), .. }) = &mut state.held {
        renumber(nexus);
    }
    debug_assert!(state.is_sound(), "ports were exchanged for all nexuses alike: {state:?}");
    Ok(state.to_bytes())
}

/// Whether an image is one that outlives a loss of power: the last valid APTPL bit was one.
///
/// # Errors
/// The bytes are no image.
pub fn is_persistent(image: &[u8]) -> Result<bool, ImageError> {
    Ok(Reservations::from_bytes(image)?.is_persistent())
}

/// The rest of the bytes to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(ImageError::Contents("cut short"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn registration(&mut self, version: u16) -> Result<Registration, ImageError> {
        let key = u64::from_be_bytes(self.take()?);
        let target_port = u16::from_be_bytes(self.take()?);
        let isid = self.take()?;
        let name_bytes = usize::from(u16::from_be_bytes(self.take()?));
        if name_bytes == 0 || name_bytes > NAME_BYTES_MAX {
            return Err(ImageError::Contents("length of an initiator name"));
        }
        let nexus = nexus_key(self.text(name_bytes)?, isid, target_port);
        let owner = match version {
            VERSION_BY_NAME => "",
            _ => {
                let [owner_bytes] = self.take()?;
                self.text(usize::from(owner_bytes))?
            }
        };
        let owner = if owner.is_empty() { nexus.initiator.clone() } else { owner.into() };
        Ok(Registration { nexus, key, owner })
    }

    fn text(&mut self, len_bytes: usize) -> Result<&str, ImageError> {
        let cut = self.0.split_at_checked(len_bytes).ok_or(ImageError::Contents("cut short"))?;
        self.0 = cut.1;
        std::str::from_utf8(cut.0).map_err(|_| ImageError::Contents("a name that is not UTF-8"))
    }
}

/// CRC-32C, bit by bit: an image is small and rare, so a table or a dependency buys nothing.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (POLYNOMIAL_REFLECTED & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn crc32c_of_the_check_string() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283); // RFC 3720 B.4's polynomial
    }
}
