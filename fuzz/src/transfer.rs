//! The data of one write on its way in, and the window of commands: whatever an initiator sends.

use super::input::Input;
use iscsi::ffp::{
    CommandWindow, DataInPlan, DataOutHeader, Placement, TransferLimits, WriteTransfer,
};

/// Limits and lengths, then Data-Out headers; the same bytes once more as CmdSNs.
pub fn run(input: &[u8]) {
    write(Input::new(input));
    read(Input::new(input));
    window(Input::new(input));
}

fn write(mut input: Input<'_>) {
    let flags = input.byte();
    let limits = TransferLimits {
        initial_r2t: flags & 1 != 0,
        immediate_data: flags & 2 == 0,
        first_burst_len_bytes: 512 + u32::from(input.be16()),
        max_burst_len_bytes: 512 + u32::from(input.be16()),
        max_outstanding_r2t: u16::from(flags >> 4),
    };
    let announced = input.be32();
    let wanted = if flags & 4 == 0 { announced } else { input.be32().min(announced) };
    let immediate = input.be32();
    let is_final = flags & 8 == 0;
    let started = WriteTransfer::start(&limits, announced, wanted, immediate, is_final);
    let Ok(mut transfer) = started else { return };
    let mut asked = immediate;
    while !transfer.is_complete() {
        while let Some(r2t) = transfer.next_r2t() {
            assert!(r2t.len > 0 && r2t.len <= limits.max_burst_len_bytes);
            assert!(r2t.offset + r2t.len <= wanted, "nothing is asked for that is not wanted");
            assert!(r2t.offset >= asked, "nothing is asked for twice");
            asked = r2t.offset + r2t.len;
        }
        if input.is_empty() {
            return;
        }
        let flags = input.byte();
        let before = transfer.received_bytes();
        let header = DataOutHeader {
            ttt: if flags & 1 == 0 { 1 } else { u32::MAX },
            data_sn: u32::from(flags >> 4),
            offset: if flags & 2 == 0 { before } else { input.be32() },
            len: input.be32(),
            is_final: flags & 4 != 0,
        };
        if transfer.data_out(&header).is_err() {
            assert_eq!(transfer.received_bytes(), before, "a refusal changes nothing");
            return;
        }
        assert!(transfer.is_spoiled() || transfer.received_bytes() == before + header.len);
        assert!(!transfer.is_spoiled() || transfer.next_r2t().is_none(), "what for?");
        assert!(transfer.received_bytes() <= announced);
        asked = asked.max(transfer.received_bytes());
    }
    assert!(transfer.received_bytes() >= wanted);
    assert_eq!(transfer.next_r2t(), None);
}

/// Data-In PDUs cover the data once, in order.
fn read(mut input: Input<'_>) {
    let (total, segment, burst) = (input.be16(), input.be16(), input.be16());
    let (total, segment, burst) = (total.into(), 512 + u32::from(segment), 512 + u32::from(burst));
    let mut plan = DataInPlan::new(total, segment, burst);
    let (mut at, mut fed) = (0, 0);
    while at < total {
        fed = (fed + 1 + u32::from(input.be16())).min(total);
        while let Some(part) = plan.next_part(fed - at) {
            assert!(part.offset == at && part.len > 0 && part.len <= segment);
            at += part.len;
            assert!(at <= fed);
            assert_eq!(part.last, at == total);
        }
    }
}

fn window(mut input: Input<'_>) {
    let depth = 1 + u32::from(input.byte());
    let mut window = CommandWindow::new(input.be32(), depth);
    while !input.is_empty() {
        let op = input.byte();
        let (expected, max) = (window.exp_cmd_sn(), window.max_cmd_sn());
        if op < 0x40 && window.outstanding() > 0 {
            window.complete(op & 1 != 0);
        } else {
            let cmd_sn = match op & 3 {
                0 => expected,
                1 => expected.wrapping_add(input.byte().into()),
                2 => max.wrapping_add(input.byte().into()),
                _ => input.be32(),
            };
            let placed = window.place(cmd_sn);
            assert!(placed != Placement::InOrder || cmd_sn == expected);
            let ahead = cmd_sn.wrapping_sub(expected);
            let room = max.wrapping_add(1).wrapping_sub(expected);
            assert_eq!(placed == Placement::Ignore, ahead >= room, "the window is what it says");
        }
        assert!(window.outstanding() <= depth, "no more commands than there is room for");
        let moved = window.max_cmd_sn().wrapping_sub(max);
        assert!(moved <= depth, "MaxCmdSN never moves back");
    }
}
