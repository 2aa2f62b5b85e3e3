//! What can be asked of a member about volumes that move from one member to another, and what it answers.
//!
//! One member is the source of a move and one its destination; who drives it asks the one for pieces and gives them to
//! the other. All of it goes by the number that the source has drawn.

use array::Level;
use array::api::Cache;
use group::handover::SourceSays;
use group::membership::MoveId;
use group::ownership::MemberId;
use group::settings::{UnitRecord, VolumeSettings};
use serde::{Deserialize, Serialize};

use crate::settings::Unlisted;

/// Bytes of one piece of data, at most.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

/// About volumes that move. What each is answered with stands behind the arrow, nothing where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum MoveRequest {
    /// To the source: begin to move a volume, to this member, to one of this pool, or to the one with most room in the
    /// pool that the source is of → [`Leaving`].
    Begin { name: String, to: Option<String>, pool: Option<String> },
    /// To the source: what the destination is to be given next → [`Piece`].
    Next { id: MoveId },
    /// To the source, after [`Piece::CaughtUp`]: no host has the volume from now on, whatever ends meanwhile.
    Freeze { id: MoveId },
    /// To the source, after [`Piece::End`]: what hosts rely on beside the data → [`Seal`].
    Seal { id: MoveId },
    /// To the source, when the destination is prepared: give the name of the volume to the destination → whether it was
    /// given; if it was not, the volume is served at the source again.
    Commit { id: MoveId },
    /// To the source: the volume stays, and is served there again. It may be asked for again and again.
    GiveUp { id: MoveId },
    /// To the source: how it stands → [`SourceSays`]. Of a move that nothing is known of it says that it was given up if it
    /// has the volume of this serial number; members of earlier versions say none.
    Says { id: MoveId, serial: Option<String> },
    /// To the source: the departures that nobody drives in this life of the member, and those that the group has given
    /// away → [`group::settings::Departure`]s.
    Departures,
    /// To the source: the destination has said this of a volume that was handed over, so that what is left of it here can go
    /// where it has that.
    Gone { id: MoveId, found: ArrivalStep },
    /// To the destination: make room for a volume.
    Arrive { passport: Passport },
    /// To the destination: a piece of it.
    Write { id: MoveId, piece: Piece },
    /// To the destination: all of it is there, and is to survive whatever comes.
    Prepare { id: MoveId, seal: Seal },
    /// To the destination: look whose the volume is, with what the source says if it was asked → [`ArrivalStep`]. Of a move
    /// that nothing is stored of it says that the volume was adopted if it has that of this serial number; members of
    /// earlier versions say none.
    Adopt { id: MoveId, says: Option<SourceSays>, serial: Option<String> },
    /// To the destination: throw away what has come, unless it is prepared. It may be asked for again and again.
    Discard { id: MoveId },
    /// To the destination: what is prepared and not adopted → [`group::settings::Arrival`]s.
    Arrivals,
    /// To either side: what is stored of volumes that move, and how each stands → [`Transit`]s.
    Transits,
    /// To either side, by an operator, where the group decides nothing any more: the volume is this member's from now on,
    /// or what this member has of it goes.
    Settle { id: MoveId, keep: bool },
}

impl MoveRequest {
    /// The volumes that it names, as its member has them.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        match self {
            Self::Begin { name, .. } => vec![name],
            Self::Arrive { passport } => vec![&passport.name],
            _ => Vec::new(),
        }
    }
}

/// What a member has stored of a volume that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transit {
    /// The move.
    pub id: MoveId,
    /// The volume.
    pub name: String,
    /// Which part the member has in it.
    pub way: Way,
    /// The name of the other member, or its number.
    pub other: String,
    /// How it stands.
    pub state: TransitState,
    /// Why it waits, or why nobody but an operator ends it.
    pub why: Option<String>,
}

/// Which way a volume goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To another member.
    Leaves,
    /// From another member.
    Arrives,
}

/// How what is stored of a move stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransitState {
    /// It is being done.
    UnderWay,
    /// It goes on by itself when the group's store or the other member answers.
    Waits,
    /// The group decides nothing any more: an operator ends it, and nobody else.
    Undecided,
}

/// A move that has begun at its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Its number.
    pub id: MoveId,
    /// The destination.
    pub to: MemberId,
    /// The name of that member.
    pub to_name: String,
    /// What the destination is to know.
    pub passport: Passport,
    /// Bytes of its snapshots and of its contents as they are now: what hosts write meanwhile comes on top.
    pub total_bytes: u64,
}

/// What a destination is to know of a volume before it comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passport {
    /// The number of the move.
    pub id: MoveId,
    /// The source.
    pub from: MemberId,
    /// The name of the volume.
    pub name: String,
    /// Its size, or that of the first of its snapshots if it has some: [`Piece::Size`] says when that changes.
    pub size_bytes: u64,
    /// Its RAID level.
    pub level: Level,
    /// Its space is reserved.
    pub thick: bool,
    /// Its logical block.
    pub block_bytes: u32,
    /// When writes are answered.
    pub cache: Cache,
    /// What sequential reads fetch ahead.
    pub read_ahead_bytes: u32,
    /// What is read of it may be kept in memory.
    pub cached: bool,
    /// It is served, as far as an operator decides that.
    pub online: bool,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// How the name of its target begins, up to the colon before its own name.
    pub iqn_prefix: String,
    /// Its serial number.
    pub serial: String,
    /// The room that it takes with its snapshots, before redundancy.
    pub needs_bytes: u64,
    /// Whom volumes without an access list are for at the source.
    pub unlisted: Unlisted,
    /// It has an access list.
    pub has_list: bool,
}

/// What a destination is given of a volume, one after the other. Its JSON has not the bytes of [`Data`](Self::Data): they
/// go beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "piece", rename_all = "snake_case")]
pub enum Piece {
    /// The volume has this here.
    Data {
        /// Where, in bytes.
        at: u64,
        /// Whole blocks of 4 KiB, at most [`PIECE_BYTES_MAX`] of bytes.
        #[serde(skip)]
        bytes: Vec<u8>,
        /// Their CRC-32C.
        crc32c: u32,
    },
    /// It has zeroes here.
    Zeroes {
        /// Where, in bytes.
        at: u64,
        /// How many.
        len_bytes: u64,
    },
    /// It is what the snapshot of this name was.
    Snapshot {
        /// Its name.
        name: String,
        /// When it was taken, in seconds since 1970 (UTC).
        unix_seconds: u64,
        /// Its size, which is that of the volume at that time.
        size_bytes: u64,
    },
    /// It has this size from here on.
    Size {
        /// In bytes.
        bytes: u64,
    },
    /// Little is missing: the source is to freeze it, and to be asked for the rest then.
    CaughtUp,
    /// It is all there.
    End,
}

impl Piece {
    /// A piece of data, with its checksum.
    #[must_use]
    pub fn data(at: u64, bytes: Vec<u8>) -> Self {
        let crc32c = crc32c(&bytes);
        Self::Data { at, bytes, crc32c }
    }

    /// Whether it is as it was made: its data match their checksum.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Data { bytes, crc32c: sum, .. } => crc32c(bytes) == *sum,
            _ => true,
        }
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    // The algorithm has 32 bits, the type of its result more.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// What hosts rely on of a volume beside its data, as it was when no host had it any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Who may use it.
    pub settings: VolumeSettings,
    /// What its unit keeps.
    pub units: Vec<UnitImage>,
    /// The number of the portal group that hosts had it by, which registrations name.
    pub portal_group: u16,
    /// It is to be served, as far as an operator decides that.
    pub online: bool,
    /// What sequential reads fetch ahead.
    pub read_ahead_bytes: u32,
    /// What is read of it may be kept in memory.
    pub cached: bool,
}

/// What a unit keeps, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitImage {
    record: UnitWord,
    /// In hexadecimal digits.
    image: String,
}

/// Which record of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UnitWord {
    Reservations,
    Sanitize,
}

impl UnitImage {
    /// Of this record.
    #[must_use]
    pub fn new(record: UnitRecord, image: &[u8]) -> Self {
        let record = match record {
            UnitRecord::Reservations => UnitWord::Reservations,
            UnitRecord::Sanitize => UnitWord::Sanitize,
        };
        Self { record, image: image.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Which record it is of.
    #[must_use]
    pub fn record(&self) -> UnitRecord {
        match self.record {
            UnitWord::Reservations => UnitRecord::Reservations,
            UnitWord::Sanitize => UnitRecord::Sanitize,
        }
    }

    /// The image; `None` of what are no hexadecimal digits.
    #[must_use]
    pub fn image(&self) -> Option<Vec<u8>> {
        let is_hex = self.image.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex || !self.image.len().is_multiple_of(2) {
            return None;
        }
        let pairs = (0..self.image.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&self.image[at..at + 2], 16).ok()).collect()
    }
}

/// What became of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalStep {
    /// The volume is this member's, and here with its data.
    Adopted,
    /// The source is to be asked how it stands.
    AskSource,
    /// Nobody can say yet.
    Waiting,
    /// The source has kept it, and what had come is gone.
    Discarded,
    /// Nothing of this number is here, or nothing any more, and no such volume. Also where nobody has said which is meant.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_changed_on_the_way_is_not_sound() {
        let piece = Piece::data(4096, vec![7; 4096]);
        assert!(piece.is_sound());
        let Piece::Data { at, mut bytes, crc32c } = piece else { panic!("it is data") };
        bytes[4095] ^= 1;
        assert!(!Piece::Data { at, bytes, crc32c }.is_sound());
    }

    #[test]
    fn the_json_of_data_has_all_but_the_bytes() {
        let piece = Piece::data(8192, vec![1; 4096]);
        let json = serde_json::to_string(&piece).expect("it is JSON");
        assert!(json.len() < 100, "{json}");
        let Ok(Piece::Data { at: 8192, bytes, crc32c }) = serde_json::from_str(&json) else {
            panic!("{json}")
        };
        assert!(bytes.is_empty());
        assert!(Piece::Data { at: 8192, bytes: vec![1; 4096], crc32c }.is_sound());
        let size = Piece::Size { bytes: 1 << 20 };
        let json = serde_json::to_string(&size).expect("it is JSON");
        assert_eq!(serde_json::from_str::<Piece>(&json).expect("it reads"), size);
    }

    #[test]
    fn an_image_of_a_unit_is_what_it_was() {
        let image = UnitImage::new(UnitRecord::Reservations, &[0, 1, 0xfe, 0xff]);
        let json = serde_json::to_string(&image).expect("it is JSON");
        let back: UnitImage = serde_json::from_str(&json).expect("it reads");
        assert_eq!(back.record(), UnitRecord::Reservations);
        assert_eq!(back.image(), Some(vec![0, 1, 0xfe, 0xff]));
        for wrong in ["abc", "zz"] {
            let json = format!(r#"{{"record":"sanitize","image":"{wrong}"}}"#);
            let wrong: UnitImage = serde_json::from_str(&json).expect("it reads");
            assert_eq!(wrong.image(), None);
        }
    }
}
