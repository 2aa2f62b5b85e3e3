//! Additional header segments (RFC 7143 11.2.2): the rest of a long CDB, and the read length of a
//! bidirectional command.

use super::{PduError, padded_len_bytes};

/// Longest the additional header segments of one PDU can be: TotalAHSLength is one byte, in words (11.2.1.5).
pub const TOTAL_AHS_LEN_BYTES_MAX: usize = 255 * 4;

/// Longest CDB that SPC allows: 8 bytes and an Additional CDB Length of one byte (SPC-5 4.3.3).
pub const CDB_LEN_BYTES_MAX: usize = 260;

/// Bytes of the CDB that are in the header of the SCSI Command itself (11.3.5).
const CDB_IN_BHS_LEN_BYTES: usize = 16;

/// AHSLength and AHSType before each segment (11.2.2.1, 11.2.2.2).
const AHS_HEADER_LEN_BYTES: usize = 3;

/// AHSType of an Extended CDB (11.2.2.1).
const TYPE_EXTENDED_CDB: u8 = 1;

/// AHSType of an Expected Bidirectional Read Data Length (11.2.2.1).
const TYPE_BIDIRECTIONAL_LEN: u8 = 2;

/// One additional header segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahs<'a> {
    /// AHSType, assigned or not.
    pub kind: u8,
    /// All bytes after AHSType, without padding; the first is reserved in both assigned types.
    pub specific: &'a [u8],
}

/// Walks the segments in `ahs`, whose length is TotalAHSLength in bytes. After an error the walk ends.
pub fn segments(mut ahs: &[u8]) -> impl Iterator<Item = Result<Ahs<'_>, PduError>> {
    std::iter::from_fn(move || {
        if ahs.is_empty() {
            return None;
        }
        let Some((segment, rest)) = split_first(ahs) else {
            ahs = &[];
            return Some(Err(PduError::Ahs));
        };
        ahs = rest;
        Some(Ok(segment))
    })
}

/// The first segment and what follows its padding; `None` if the segment reaches over the end.
fn split_first(ahs: &[u8]) -> Option<(Ahs<'_>, &[u8])> {
    let (header, rest) = ahs.split_first_chunk::<AHS_HEADER_LEN_BYTES>()?;
    let len_bytes = usize::from(u16::from_be_bytes([header[0], header[1]]));
    let padded = padded_len_bytes(AHS_HEADER_LEN_BYTES + len_bytes) - AHS_HEADER_LEN_BYTES;
    if padded > rest.len() {
        return None;
    }
    let segment = Ahs { kind: header[2], specific: &rest[..len_bytes] };
    Some((segment, &rest[padded..]))
}

/// What the additional header segments of a SCSI Command say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommandAhs<'a> {
    /// The CDB from its 17th byte on; empty if it fits the header.
    pub extended_cdb: &'a [u8],
    /// Expected Bidirectional Read Data Length (11.2.2.4).
    pub bidirectional_read_len_bytes: Option<u32>,
}

impl<'a> CommandAhs<'a> {
    /// Reads all segments. Types that are not assigned are passed over; an assigned one may come once.
    ///
    /// # Errors
    /// [`PduError::Ahs`] if a segment reaches over the end, comes twice, or has a length that its type
    /// does not allow.
    pub fn parse(ahs: &'a [u8]) -> Result<Self, PduError> {
        let mut found = Self::default();
        for segment in segments(ahs) {
            let Ahs { kind, specific } = segment?;
            match kind {
                TYPE_EXTENDED_CDB => {
                    let (_reserved, cdb) = specific.split_first().ok_or(PduError::Ahs)?;
                    let fits = CDB_IN_BHS_LEN_BYTES + cdb.len() <= CDB_LEN_BYTES_MAX;
                    if cdb.is_empty() || !fits || !found.extended_cdb.is_empty() {
                        return Err(PduError::Ahs);
                    }
                    found.extended_cdb = cdb;
                }
                TYPE_BIDIRECTIONAL_LEN => {
                    let [_reserved, len @ ..] = specific else {
                        return Err(PduError::Ahs);
                    };
                    let len: [u8; 4] = len.try_into().map_err(|_| PduError::Ahs)?;
                    let len_bytes = u32::from_be_bytes(len);
                    if found.bidirectional_read_len_bytes.replace(len_bytes).is_some() {
                        return Err(PduError::Ahs);
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Appends the segments to `out`, padded; their total is TotalAHSLength.
    pub fn emit(&self, out: &mut Vec<u8>) {
        if !self.extended_cdb.is_empty() {
            debug_assert!(self.extended_cdb.len() <= CDB_LEN_BYTES_MAX - CDB_IN_BHS_LEN_BYTES);
            push_segment(out, TYPE_EXTENDED_CDB, self.extended_cdb);
        }
        if let Some(len_bytes) = self.bidirectional_read_len_bytes {
            push_segment(out, TYPE_BIDIRECTIONAL_LEN, &len_bytes.to_be_bytes());
        }
    }
}

/// One segment: AHSLength counts the reserved byte that precedes `content` (11.2.2.3).
fn push_segment(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let len_bytes = u16::try_from(content.len() + 1).expect("a CDB is at most 260 bytes");
    out.extend_from_slice(&len_bytes.to_be_bytes());
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(content);
    out.resize(padded_len_bytes(out.len()), 0);
}
