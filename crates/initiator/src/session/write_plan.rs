//! Which data of a write goes when (RFC 7143 11.3.4, 11.7, 13.10 to 13.14). Pure.

use iscsi::params::SessionParams;

/// What is sent of a write without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsolicited {
    /// Bytes behind the command itself.
    pub(crate) immediate_bytes: u32,
    /// The end of the unsolicited Data-Out PDUs that follow; equal to `immediate_bytes` for none.
    pub(crate) end_bytes: u32,
}

impl Unsolicited {
    /// For a write of `len` bytes, to a peer that takes data segments of `segment_max` bytes.
    pub(crate) fn plan(params: &SessionParams, segment_max: u32, len: u32) -> Self {
        let burst = len.min(params.first_burst_len_bytes);
        let immediate_bytes = if params.immediate_data { burst.min(segment_max) } else { 0 };
        let end_bytes = if params.initial_r2t { immediate_bytes } else { burst };
        Self { immediate_bytes, end_bytes }
    }

    /// The F bit of the command: no unsolicited Data-Out PDU follows.
    pub(crate) fn is_final(&self) -> bool {
        self.end_bytes == self.immediate_bytes
    }
}

/// One Data-Out PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) data_sn: u32,
    pub(crate) offset_bytes: u32,
    pub(crate) len_bytes: u32,
    pub(crate) is_final: bool,
}

/// The Data-Out PDUs of one sequence, the bytes `start..end`.
pub(crate) fn segments(start: u32, end: u32, segment_max: u32) -> impl Iterator<Item = Segment> {
    (0..).map_while(move |data_sn: u32| {
        let offset_bytes = start.checked_add(data_sn.checked_mul(segment_max)?)?;
        let len_bytes = end.checked_sub(offset_bytes).filter(|&left| left > 0)?.min(segment_max);
        let is_final = offset_bytes + len_bytes == end;
        Some(Segment { data_sn, offset_bytes, len_bytes, is_final })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iscsi::ffp::{DataOutHeader, TransferLimits, WriteTransfer};
    use proptest::prelude::*;

    fn params(initial_r2t: bool, immediate_data: bool, first: u32, burst: u32) -> SessionParams {
        SessionParams {
            initial_r2t,
            immediate_data,
            first_burst_len_bytes: first,
            max_burst_len_bytes: burst,
            ..SessionParams::default()
        }
    }

    #[test]
    fn four_ways_to_begin() {
        let plan = |r2t, immediate| {
            let plan = Unsolicited::plan(&params(r2t, immediate, 4096, 8192), 1024, 10_000);
            (plan.immediate_bytes, plan.end_bytes, plan.is_final())
        };
        assert_eq!(plan(true, false), (0, 0, true));
        assert_eq!(plan(true, true), (1024, 1024, true));
        assert_eq!(plan(false, true), (1024, 4096, false));
        assert_eq!(plan(false, false), (0, 4096, false));
    }

    #[test]
    fn a_sequence_ends_with_its_last_byte() {
        let found: Vec<Segment> = segments(100, 351, 100).collect();
        let lens: Vec<u32> = found.iter().map(|segment| segment.len_bytes).collect();
        assert_eq!(lens, [100, 100, 51]);
        assert_eq!(found.iter().map(|it| it.is_final).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(segments(5, 5, 100).count(), 0);
    }

    proptest! {
        /// The target's own book-keeping accepts every sequence, and all of the data arrives.
        #[test]
        fn the_target_takes_it_all(
            initial_r2t in any::<bool>(), immediate_data in any::<bool>(),
            first in 512_u32..20_000, burst in 512_u32..20_000, segment_max in 512_u32..9000,
            len in 1_u32..100_000, outstanding in 1_u16..9,
        ) {
            let first = first.min(burst);
            let session = params(initial_r2t, immediate_data, first, burst);
            let limits = TransferLimits {
                initial_r2t, immediate_data, first_burst_len_bytes: first,
                max_burst_len_bytes: burst, max_outstanding_r2t: outstanding,
            };
            let plan = Unsolicited::plan(&session, segment_max, len);
            let mut target =
                WriteTransfer::start(&limits, len, len, plan.immediate_bytes, plan.is_final()).unwrap();
            let send = |target: &mut WriteTransfer, start, end, ttt| {
                for segment in segments(start, end, segment_max) {
                    target.data_out(&DataOutHeader {
                        ttt, data_sn: segment.data_sn, offset: segment.offset_bytes,
                        len: segment.len_bytes, is_final: segment.is_final,
                    }).unwrap();
                }
            };
            send(&mut target, plan.immediate_bytes, plan.end_bytes, u32::MAX);
            while let Some(r2t) = target.next_r2t() {
                send(&mut target, r2t.offset, r2t.offset + r2t.len, 7);
            }
            prop_assert!(target.is_complete());
        }
    }
}
