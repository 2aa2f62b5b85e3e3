//! What members say to each other of volumes that move: on which paths, and in which form.
//!
//! ```text
//!  the source drives                                        the destination
//!  POST   /v1/moves               passport             ─▶   makes room for it
//!  PUT    /v1/moves/{id}/pieces   head, line feed, data ─▶  writes it
//!  POST   /v1/moves/{id}/prepare  seal                 ─▶   stores all of it
//!  POST   /v1/moves/{id}/adopt    what the source says ─▶   looks whose the volume is, and says whether it has it
//!  DELETE /v1/moves/{id}                               ─▶   throws away what is not prepared
//!  answers how it stands      ◀─  GET /v1/moves/{id}?serial=…
//! ```

use group::handover::SourceSays;
use member::{ArrivalStep, PIECE_BYTES_MAX, Piece};
use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};

/// To the destination: a volume is to come.
pub(super) const ARRIVE_PATH: &str = "/v1/moves";

/// A move, at either side.
pub(super) const MOVE_PATH: &str = "/v1/moves/{id}";

/// To the destination: a piece of it.
pub(super) const PIECES_PATH: &str = "/v1/moves/{id}/pieces";

/// To the destination: all of it is there.
pub(super) const PREPARE_PATH: &str = "/v1/moves/{id}/prepare";

/// To the destination: look whose it is.
pub(super) const ADOPT_PATH: &str = "/v1/moves/{id}/adopt";

/// Bytes of a piece on its way: its data, and more than its head has.
pub(super) const FRAME_BYTES_MAX: usize = 2 << 20;
const _: () = assert!(FRAME_BYTES_MAX > PIECE_BYTES_MAX + (1 << 16));

/// The media type of a piece.
pub(super) const FRAME: &str = "application/octet-stream";

/// The media type of all else.
pub(super) const JSON: &str = "application/json";

/// What a destination is told when it is to look whose a volume is. Later versions may add fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Look {
    /// What the source says, if it was asked before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) says: Option<SourceSays>,
    /// The serial number of the volume that is meant: where nothing is stored of the move, it is said whether it is there.
    /// Members of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) serial: Option<String>,
}

/// What a destination has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Looked {
    pub(super) step: ArrivalStep,
}

/// Which volume is meant by who asks how a move stands. Members of earlier versions do not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Of {
    /// Its serial number: where nothing is known of the move, it is said whether the volume is there.
    pub(super) serial: Option<String>,
}

/// How a move stands at its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stands {
    pub(super) says: SourceSays,
    /// The serial number that was asked for. Members of earlier versions answer for none: what they say is of the move alone,
    /// as they remember it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) serial: Option<String>,
}

impl Stands {
    /// What it says of the volume of this serial number. That the volume stays counts of that one alone, which the source
    /// has looked for: one that only remembers it may have lost its disks since, and what has come is all that there is.
    pub(super) fn of(self, serial: &str) -> SourceSays {
        let is_of_it = self.serial.is_some_and(|its| its == serial && !its.is_empty());
        match self.says {
            SourceSays::GivenUp if !is_of_it => SourceSays::Unknown,
            says => says,
        }
    }
}

/// A piece as it travels: a line of JSON, and the data behind it.
pub(super) fn framed(piece: &Piece) -> Vec<u8> {
    let mut frame = serde_json::to_vec(piece).expect("numbers and texts can be written out");
    // In JSON a line feed within a text is written out (RFC 8259 §7).
    frame.push(b'\n');
    if let Piece::Data { bytes, .. } = piece {
        frame.extend_from_slice(bytes);
    }
    frame
}

/// The piece that has come. What changed on its way is refused.
pub(super) fn unframed(frame: &[u8]) -> Result<Piece, Problem> {
    let refused = |what: &str| {
        let sentence = format!("a piece of a volume does not read: {what}");
        Problem::new(Code::BadRequest, sentence)
    };
    let end = frame.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| refused("its head has no end"))?;
    let (head, data) = (&frame[..end], &frame[end + 1..]);
    let mut piece: Piece =
        serde_json::from_slice(head).map_err(|error| refused(&error.to_string()))?;
    match &mut piece {
        Piece::Data { bytes, .. } => {
            if data.is_empty() || data.len() > PIECE_BYTES_MAX {
                return Err(refused("it has no data, or more than a piece may have"));
            }
            bytes.extend_from_slice(data);
        }
        _ if !data.is_empty() => return Err(refused("there is data, and it is a piece of none")),
        _ => {}
    }
    if !piece.is_sound() {
        return Err(refused("its data are not those that were sent"));
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_what_it_was_when_it_has_come() {
        // Data may look like the end of a head.
        let data = Piece::data(1 << 20, [b'\n', b'}', 0, 0xff].repeat(1024));
        for piece in [
            data,
            Piece::Zeroes { at: 0, len_bytes: 4096 },
            Piece::Snapshot { name: "a\nb".into(), unix_seconds: 7, size_bytes: 4096 },
            Piece::Size { bytes: 8192 },
        ] {
            assert_eq!(unframed(&framed(&piece)).unwrap(), piece);
        }
    }

    #[test]
    fn what_changed_or_was_cut_on_its_way_is_refused() {
        let frame = framed(&Piece::data(0, vec![7; 4096]));
        let mut changed = frame.clone();
        *changed.last_mut().unwrap() ^= 1;
        let mut longer = framed(&Piece::Size { bytes: 8192 });
        longer.push(0);
        let most = framed(&Piece::data(0, vec![1; PIECE_BYTES_MAX + 1]));
        let head = frame.iter().position(|byte| *byte == b'\n').unwrap();
        let all: [&[u8]; 9] = [
            b"",
            b"{}\n",
            b"\n",
            &frame[..head],
            &frame[..=head],
            &frame[..frame.len() - 1],
            &changed,
            &longer,
            &most,
        ];
        for wrong in all {
            assert_eq!(unframed(wrong).unwrap_err().code, Code::BadRequest);
        }
        let whole = framed(&Piece::data(0, vec![1; PIECE_BYTES_MAX]));
        assert!(whole.len() < FRAME_BYTES_MAX && unframed(&whole).is_ok());
    }

    #[test]
    fn what_is_said_reads_and_an_empty_look_is_one() {
        let look: Look = serde_json::from_str("{}").unwrap();
        assert_eq!(look, Look::default());
        let says = Some(SourceSays::GivenUp);
        let (early, serial) = (Look { says, serial: None }, Some("S-V1".to_owned()));
        for (look, wanted) in [
            (early, r#"{"says":"given_up"}"#),
            (Look { says, serial }, r#"{"says":"given_up","serial":"S-V1"}"#),
        ] {
            let json = serde_json::to_string(&look).unwrap();
            assert_eq!(json, wanted);
            assert_eq!(serde_json::from_str::<Look>(&json).unwrap(), look);
        }
        let looked: Looked = serde_json::from_str(r#"{"step":"adopted","later":1}"#).unwrap();
        assert_eq!(looked.step, ArrivalStep::Adopted);
    }

    #[test]
    fn that_a_volume_stays_counts_of_the_one_that_was_asked_for() {
        let of = |json: &str, serial: &str| {
            serde_json::from_str::<Stands>(json).expect("it reads").of(serial)
        };
        let (early, given_up) = (r#"{"says":"given_up"}"#, SourceSays::GivenUp);
        let says = Stands { says: given_up, serial: Some("S-V1".to_owned()) };
        let says = serde_json::to_string(&says).unwrap();
        assert_eq!(says, r#"{"says":"given_up","serial":"S-V1"}"#);
        assert_eq!(of(&says, "S-V1"), given_up);
        assert_eq!(of(early, "S-V1"), SourceSays::Unknown, "its disks may have failed since");
        assert_eq!(of(&says, "S-V2"), SourceSays::Unknown);
        for nameless in [early, r#"{"says":"given_up","serial":""}"#] {
            assert_eq!(of(nameless, ""), SourceSays::Unknown, "nobody knows which one it is");
        }
        // By these nothing goes.
        assert_eq!(of(r#"{"says":"under_way"}"#, "S-V1"), SourceSays::UnderWay);
        assert_eq!(of(r#"{"says":"handed_over"}"#, "S-V1"), SourceSays::HandedOver);
    }
}
