//! PDUs out of a stream that comes in pieces: however it is cut, and whatever there is no room for at
//! first, the same ones come out.

use super::input::Input;
use iscsi::assembly::{Assembler, Sink, Step, Whole};
use iscsi::framing::{FrameError, FrameLimits};
use iscsi::pdu::Bhs;

/// How often a header may be refused for want of room.
const REFUSALS_MAX: u8 = 3;
/// Pieces whose lengths the input says; the rest of the stream comes in one.
const PIECES_MAX: u8 = 32;

/// Where data goes, if there is room for it.
struct Place {
    bytes: Vec<u8>,
}

impl Sink for Place {
    fn take(&mut self, offset: usize, part: &[u8]) {
        assert_eq!(offset, self.bytes.len(), "parts follow each other");
        self.bytes.extend_from_slice(part);
    }
}

/// One PDU as it came out.
#[derive(Debug, PartialEq, Eq)]
struct Out {
    bhs: Bhs,
    ahs: Vec<u8>,
    data: Vec<u8>,
    is_intact: bool,
}

/// How one piece is taken.
#[derive(Clone, Copy)]
struct Way {
    may_lend: bool,
    /// Data goes past the assembler into its place.
    is_direct: bool,
    /// No room at the first times of asking.
    refusals: u8,
}

/// Settings of the connection, the pieces and how each is taken, then the stream.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let flags = input.byte();
    let limits = FrameLimits {
        header_digest: flags & 1 != 0,
        data_digest: flags & 2 != 0,
        data_segment_len_bytes_max: 512 + u32::from(flags) * 64,
    };
    let pieces: Vec<(usize, Way)> = (0..input.byte() % PIECES_MAX)
        .map(|_| {
            let (len, how) = (input.be16(), input.byte());
            let refusals = how >> 2 & REFUSALS_MAX;
            let way = Way { may_lend: how & 1 != 0, is_direct: how & 2 != 0, refusals };
            (usize::from(len) % 1024, way)
        })
        .collect();
    let stream = input.rest();
    let whole = Way { may_lend: true, is_direct: false, refusals: 0 };
    let at_once = assemble(&limits, &[], whole, stream);
    let last = Way { may_lend: flags & 4 != 0, is_direct: flags & 8 != 0, refusals: 0 };
    let in_pieces = assemble(&limits, &pieces, last, stream);
    assert_eq!(at_once, in_pieces, "the same, however it is cut");
}

/// All PDUs of the stream, and how the connection ended if it did.
fn assemble(
    limits: &FrameLimits,
    pieces: &[(usize, Way)],
    last: Way,
    stream: &[u8],
) -> (Vec<Out>, Option<FrameError>) {
    let mut assembler = Assembler::new();
    let (mut all, mut rest) = (Vec::new(), stream);
    for (len, way) in pieces {
        let (piece, after) = rest.split_at((*len).min(rest.len()));
        rest = after;
        if let Err(error) = feed(&mut assembler, limits, *way, piece, &mut all) {
            return (all, Some(error));
        }
    }
    let end = feed(&mut assembler, limits, last, rest, &mut all);
    (all, end.err())
}

fn feed(
    assembler: &mut Assembler<Place>,
    limits: &FrameLimits,
    way: Way,
    mut piece: &[u8],
    all: &mut Vec<Out>,
) -> Result<(), FrameError> {
    let mut refused = 0;
    loop {
        match assembler.step(&mut piece, limits, |_, _| way.may_lend)? {
            Step::Idle => {
                assert!(piece.is_empty(), "an idle assembler has taken all");
                return Ok(());
            }
            Step::Whole(Whole { bhs, ahs, data, is_intact }) => {
                all.push(Out { bhs: *bhs, ahs: ahs.to_vec(), data: data.to_vec(), is_intact });
            }
            Step::Head(_) if refused < way.refusals => refused += 1,
            Step::Head(_) => {
                refused = 0;
                assembler.open(Place { bytes: Vec::new() });
                if way.is_direct
                    && let Some((missing, _)) = assembler.missing()
                {
                    let (part, after) = piece.split_at(missing.len().min(piece.len()));
                    assembler.came(part).bytes.extend_from_slice(part);
                    piece = after;
                }
            }
            Step::Done { bhs, sink, is_intact } => {
                let ahs = assembler.ahs().to_vec();
                all.push(Out { bhs, ahs, data: sink.bytes, is_intact });
            }
        }
    }
}
