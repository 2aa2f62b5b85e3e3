//! Cutting ranges.

use std::ops::Range;

/// The longest single operation on the device: the largest buffer that a core keeps for reuse.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;

/// Cuts `range` at every multiple of [`PIECE_BYTES`].
pub(crate) fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let end = (at / PIECE_BYTES + 1).saturating_mul(PIECE_BYTES).min(range.end);
        Some(std::mem::replace(&mut at, end)..end)
    })
}

/// A range in whole blocks, and the parts of blocks before and behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Bytes of one block that do not reach its start, its end, or both; may be empty.
    pub(crate) head: Range<u64>,
    /// Whole blocks; may be empty.
    pub(crate) body: Range<u64>,
    /// Bytes of one block that do not reach its end; may be empty.
    pub(crate) tail: Range<u64>,
}

impl Parts {
    /// Parts `range` on a device with blocks of `block_bytes`.
    pub(crate) fn of(range: &Range<u64>, block_bytes: u64) -> Parts {
        let up = range.start.next_multiple_of(block_bytes).min(range.end);
        let down = (range.end / block_bytes * block_bytes).max(up);
        Parts { head: range.start..up, body: up..down, tail: down..range.end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_cut_at_whole_pieces() {
        let cut: Vec<_> = pieces(PIECE_BYTES - 1..2 * PIECE_BYTES + 1).collect();
        let p = PIECE_BYTES;
        assert_eq!(cut, [p - 1..p, p..2 * p, 2 * p..2 * p + 1]);
        assert_eq!(pieces(7..7).count(), 0);
        assert_eq!(pieces(u64::MAX - 1..u64::MAX).count(), 1);
    }

    #[test]
    fn parts_of_a_range() {
        let parts = |range: Range<u64>| Parts::of(&range, 512);
        assert_eq!(parts(0..512), Parts { head: 0..0, body: 0..512, tail: 512..512 });
        assert_eq!(parts(1..2), Parts { head: 1..2, body: 2..2, tail: 2..2 });
        assert_eq!(parts(1..512), Parts { head: 1..512, body: 512..512, tail: 512..512 });
        assert_eq!(parts(511..513), Parts { head: 511..512, body: 512..512, tail: 512..513 });
        assert_eq!(parts(100..1500), Parts { head: 100..512, body: 512..1024, tail: 1024..1500 });
    }

    proptest! {
        #[test]
        fn parts_join_to_the_range_and_stay_in_their_blocks(at in 0_u64..10_000, len in 0_u64..10_000) {
            let Parts { head, body, tail } = Parts::of(&(at..at + len), 512);
            prop_assert_eq!((head.start, head.end), (at, body.start));
            prop_assert_eq!((body.end, tail.end), (tail.start, at + len));
            prop_assert!(body.is_empty() || (body.start % 512, body.end % 512) == (0, 0));
            for edge in [head, tail] {
                prop_assert!(edge.is_empty() || edge.start / 512 == (edge.end - 1) / 512);
                prop_assert!(edge.end - edge.start < 512);
            }
        }

        #[test]
        fn pieces_join_to_the_range(at in 0_u64..1 << 30, len in 0_u64..1 << 23) {
            let mut next = at;
            for piece in pieces(at..at + len) {
                prop_assert_eq!(piece.start, next);
                prop_assert!(piece.end - piece.start <= PIECE_BYTES && piece.start < piece.end);
                next = piece.end;
            }
            prop_assert_eq!(next, at + len);
        }
    }
}
