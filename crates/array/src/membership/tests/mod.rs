//! Labels and openings.

mod choosing;
mod model;
mod walk;

use crate::DiskId;
use crate::label::{
    ArrayId, ChangeId, Found, Label, Layout, MemberKind, MemberRecord, MemberState, Since,
};

const SIZE: u64 = 16 << 20;

/// A label of an array of so many disks, all active; the first three are holders.
pub(super) fn fresh(disks: u16, journal_disks: u16) -> Label {
    let members = (0..disks + journal_disks).map(|number| MemberRecord {
        disk: DiskId(number),
        uuid: [number as u8; 16],
        size_bytes: SIZE,
        state: MemberState::Active,
        kind: if number < disks { MemberKind::Data } else { MemberKind::Journal },
        name: format!("d{number}"),
    });
    let holders: Vec<DiskId> = (0..disks.min(3)).map(DiskId).collect();
    let own: Vec<DiskId> = (disks..disks + journal_disks).map(DiskId).collect();
    Label {
        array: ArrayId([7; 16]),
        generation: 1,
        change: ChangeId(1),
        ancestors: vec![ChangeId(0)],
        disk: DiskId(0),
        layout: Layout::choose(&[SIZE], None).unwrap(),
        members: members.collect(),
        journal: if own.is_empty() { holders.clone() } else { own },
        holders,
        went_out: Vec::new(),
    }
}

pub(super) fn found(label: &Label) -> Found {
    Found::Label { label: Box::new(label.clone()), rewrite: false, is_cut: false }
}

/// As the disks `numbers` carry it.
pub(super) fn carried(label: &Label, numbers: &[u16]) -> Vec<Label> {
    numbers.iter().map(|number| label.for_disk(DiskId(*number))).collect()
}

pub(super) const SINCE: Since = Since { checkpoint: 9, position: 4096 };
