use proptest::prelude::*;

use super::*;

#[test]
fn serial_numbers_wrap() {
    assert!(serial_lt(u32::MAX, 0));
    assert!(serial_lt(0x7fff_ffff, 0x8000_0000));
    assert!(!serial_lt(5, 5));
    assert!(serial_le(5, 5));
    assert!(!serial_le(6, 5));
}

#[test]
fn window_closes_and_reopens() {
    let mut window = CommandWindow::new(u32::MAX, 2);
    assert_eq!(window.max_cmd_sn(), 0);
    assert_eq!(window.place(u32::MAX), Placement::InOrder);
    assert_eq!(window.place(0), Placement::InOrder);
    assert_eq!(window.place(1), Placement::Ignore, "two are under way: the window is closed");
    window.complete(false);
    assert_eq!(window.max_cmd_sn(), 1);
    assert_eq!(window.place(1), Placement::InOrder);
}

#[test]
fn window_keeps_early_and_ignores_old() {
    let mut window = CommandWindow::new(10, 4);
    assert_eq!(window.place(12), Placement::Early);
    assert_eq!(window.place(9), Placement::Ignore);
    assert_eq!(window.place(14), Placement::Ignore, "beyond MaxCmdSN");
    assert_eq!(window.place(10), Placement::InOrder);
    assert_eq!(window.place(10), Placement::Ignore, "a duplicate");
}

#[test]
fn window_under_pressure_drains_to_one() {
    let mut window = CommandWindow::new(0, 4);
    for sn in 0..4 {
        assert_eq!(window.place(sn), Placement::InOrder);
    }
    for _ in 0..3 {
        window.complete(true);
        assert_eq!(window.max_cmd_sn(), 3, "no new room while memory is short");
    }
    window.complete(true);
    assert_eq!(window.max_cmd_sn(), 4, "one command may always come");
    window.reopen(false);
    assert_eq!(window.max_cmd_sn(), 7);
}

const LIMITS: TransferLimits = TransferLimits {
    initial_r2t: false,
    immediate_data: true,
    first_burst_len_bytes: 1024,
    max_burst_len_bytes: 2048,
    max_outstanding_r2t: 2,
};

fn pdu(ttt: u32, data_sn: u32, offset: u32, len: u32, is_final: bool) -> DataOutHeader {
    DataOutHeader { ttt, data_sn, offset, len, is_final }
}

#[test]
fn immediate_data_alone_completes() {
    let mut transfer = WriteTransfer::start(&LIMITS, 512, 512, 512, true).unwrap();
    assert!(transfer.is_complete());
    assert_eq!(transfer.next_r2t(), None);
}

#[test]
fn r2ts_cover_the_rest_in_bursts() {
    let mut transfer = WriteTransfer::start(&LIMITS, 6000, 6000, 1000, true).unwrap();
    assert_eq!(transfer.next_r2t(), Some(R2tRequest { r2t_sn: 0, offset: 1000, len: 2048 }));
    assert_eq!(transfer.next_r2t(), Some(R2tRequest { r2t_sn: 1, offset: 3048, len: 2048 }));
    assert_eq!(transfer.next_r2t(), None, "two are outstanding");
    transfer.data_out(&pdu(7, 0, 1000, 2000, false)).unwrap();
    assert_eq!(transfer.next_r2t(), None);
    transfer.data_out(&pdu(7, 1, 3000, 48, true)).unwrap();
    assert_eq!(transfer.next_r2t(), Some(R2tRequest { r2t_sn: 2, offset: 5096, len: 904 }));
    transfer.data_out(&pdu(7, 0, 3048, 2048, true)).unwrap();
    assert!(!transfer.is_complete());
    transfer.data_out(&pdu(7, 0, 5096, 904, true)).unwrap();
    assert!(transfer.is_complete());
}

#[test]
fn data_beyond_what_is_wanted_is_taken_unasked_only() {
    let mut transfer = WriteTransfer::start(&LIMITS, 1024, 512, 1024, true).unwrap();
    assert!(transfer.is_complete());
    assert_eq!(transfer.next_r2t(), None);
    let mut transfer = WriteTransfer::start(&LIMITS, 4096, 512, 0, true).unwrap();
    assert_eq!(transfer.next_r2t(), Some(R2tRequest { r2t_sn: 0, offset: 0, len: 512 }));
}

#[test]
fn broken_transfers_are_refused() {
    let refuse = |announced, immediate, is_final, limits: &TransferLimits| {
        WriteTransfer::start(limits, announced, announced, immediate, is_final).unwrap_err()
    };
    let none = TransferLimits { initial_r2t: true, immediate_data: false, ..LIMITS };
    assert_eq!(refuse(4096, 1, true, &none), TransferError::ImmediateForbidden);
    assert_eq!(refuse(4096, 0, false, &none), TransferError::UnsolicitedForbidden);
    assert_eq!(refuse(4096, 1025, true, &LIMITS), TransferError::FirstBurstExceeded);
    assert_eq!(refuse(512, 513, true, &LIMITS), TransferError::BeyondExpectedLength);

    let open = || WriteTransfer::start(&LIMITS, 4096, 4096, 0, false).unwrap();
    let unasked = u32::MAX;
    assert_eq!(open().data_out(&pdu(3, 0, 0, 512, true)), Err(TransferError::UnsolicitedForbidden));
    assert_eq!(open().data_out(&pdu(unasked, 0, 4, 512, true)), Err(TransferError::Offset));
    let too_much = open().data_out(&pdu(unasked, 0, 0, 1025, true));
    assert_eq!(too_much, Err(TransferError::FirstBurstExceeded));

    let mut asked = WriteTransfer::start(&LIMITS, 4096, 4096, 0, true).unwrap();
    assert_eq!(asked.data_out(&pdu(1, 0, 0, 1, true)), Err(TransferError::UnsolicitedForbidden));
    asked.next_r2t().unwrap();
    assert_eq!(asked.data_out(&pdu(1, 0, 0, 2049, true)), Err(TransferError::Burst));
    assert_eq!(asked.data_out(&pdu(1, 0, 0, 2048, false)), Err(TransferError::Burst));
    assert_eq!(asked.data_out(&pdu(1, 0, 0, 100, true)), Err(TransferError::Burst));
}

#[test]
fn a_transfer_that_lost_data_settles_and_never_completes() {
    // DataSN 0 of the first burst got lost; then the second burst comes whole.
    let mut transfer = WriteTransfer::start(&LIMITS, 6000, 6000, 0, true).unwrap();
    while transfer.next_r2t().is_some() {}
    transfer.data_out(&pdu(1, 1, 1024, 1024, true)).unwrap();
    assert!(transfer.is_spoiled() && !transfer.is_settled());
    assert_eq!(transfer.next_r2t(), None, "the rest is of no use");
    transfer.data_out(&pdu(1, 0, 2048, 2048, true)).unwrap();
    assert!(transfer.is_settled() && !transfer.is_complete());

    // The end of a burst got lost as well as its start: bounds still hold.
    let mut transfer = WriteTransfer::start(&LIMITS, 2048, 2048, 0, true).unwrap();
    transfer.next_r2t().unwrap();
    assert_eq!(transfer.data_out(&pdu(1, 9, 512, 1537, false)), Err(TransferError::Burst));
    transfer.data_out(&pdu(1, 9, 512, 512, false)).unwrap();
    transfer.data_out(&pdu(1, 3, 0, 512, true)).unwrap();
    assert!(transfer.is_settled() && !transfer.is_complete());

    // A wrong digest spoils in the same way, unasked data too.
    let mut transfer = WriteTransfer::start(&LIMITS, 1024, 1024, 0, false).unwrap();
    transfer.data_out(&pdu(u32::MAX, 0, 0, 512, false)).unwrap();
    transfer.spoil();
    transfer.data_out(&pdu(u32::MAX, 1, 512, 512, true)).unwrap();
    assert!(transfer.is_settled() && !transfer.is_complete());
}

proptest! {
    /// Whatever the settings, an initiator that answers every R2T finishes, and each byte is asked
    /// for exactly once.
    #[test]
    fn an_obedient_initiator_always_finishes(
        wanted in 1_u32..100_000,
        extra in 0_u32..5_000,
        first in 512_u32..20_000,
        burst in 512_u32..20_000,
        outstanding in 1_u16..12,
        immediate in 0_u32..20_000,
        segment in 512_u32..9_000,
    ) {
        let limits = TransferLimits {
            initial_r2t: true,
            immediate_data: true,
            first_burst_len_bytes: first,
            max_burst_len_bytes: burst,
            max_outstanding_r2t: outstanding,
        };
        let announced = wanted + extra;
        let immediate = immediate.min(first).min(announced);
        let mut transfer =
            WriteTransfer::start(&limits, announced, wanted, immediate, true).unwrap();
        let mut asked = std::collections::VecDeque::new();
        let mut expected = immediate;
        loop {
            while let Some(r2t) = transfer.next_r2t() {
                prop_assert_eq!(r2t.offset, expected);
                prop_assert!(r2t.len > 0 && r2t.len <= burst);
                expected += r2t.len;
                asked.push_back(r2t);
            }
            let Some(r2t) = asked.pop_front() else { break };
            let (mut at, mut sn) = (0, 0);
            while at < r2t.len {
                let len = segment.min(r2t.len - at);
                let last = at + len == r2t.len;
                transfer.data_out(&pdu(1, sn, r2t.offset + at, len, last)).unwrap();
                (at, sn) = (at + len, sn + 1);
            }
        }
        prop_assert!(transfer.is_complete());
        prop_assert_eq!(transfer.received_bytes(), wanted.max(immediate));
    }

    /// Data-In parts tile the data; F falls on burst ends; sizes hold; split feeding changes nothing
    /// but the cuts.
    #[test]
    fn data_in_tiles(
        total in 1_u32..300_000, segment in 512_u32..70_000, burst in 512_u32..70_000,
        step in 1_u32..70_000,
    ) {
        let mut plan = DataInPlan::new(total, segment, burst);
        let (mut at, mut in_burst, mut fed, mut sn) = (0, 0, 0, 0);
        while at < total {
            fed = (fed + step).min(total);
            while let Some(part) = plan.next_part(fed - at) {
                prop_assert_eq!((part.offset, part.data_sn), (at, sn));
                prop_assert!(part.len <= segment);
                (at, in_burst, sn) = (at + part.len, in_burst + part.len, sn + 1);
                prop_assert!(in_burst <= burst);
                prop_assert_eq!(part.final_in_burst, at == total || in_burst == burst);
                prop_assert_eq!(part.last, at == total);
                if part.final_in_burst { in_burst = 0; }
            }
        }
        prop_assert_eq!(plan.pdus(), sn);
    }
}
