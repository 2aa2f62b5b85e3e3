//! What each rule says, and a walk through everything that can happen to a spread volume: its home ends and starts at any
//! moment or is removed, and what is sent is late, lost, or comes twice.

mod home;
mod janitor;
mod model;
mod opening;
mod placement;
mod rebuild;
mod record;
mod removal;
mod slice;
mod walk;

use super::*;
use crate::membership::{GroupId, SliceId, SpreadId};
use crate::ownership::MemberId;

const GIB: u64 = 1 << 30;

const HOME: MemberId = MemberId(1);

/// The array of the home.
const ARRAY: &str = "c0ffee";

fn group() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}

fn spread_id() -> SpreadId {
    "a".repeat(32).parse().expect("it is one")
}

fn slice_id(number: usize) -> SliceId {
    number.to_string().repeat(32).parse().expect("it is one")
}

/// A volume of three members, of which the first is the home.
fn record_of(standing: SpreadStanding) -> SpreadRecord {
    let seat =
        |number: usize| Seat { slice: slice_id(number), member: MemberId(number as u16 + 1) };
    SpreadRecord {
        id: spread_id(),
        group: group(),
        home_array: ARRAY.to_owned(),
        name: "vm".to_owned(),
        size_bytes: standing.size_bytes,
        page_bytes: PAGE_BYTES,
        pattern: vec![0, 1, 0, 2].try_into().expect("it is one"),
        seats: (0..3).map(seat).collect(),
        openings: vec![Openings::default(); 3],
        stage: standing.stage,
    }
}

fn record(stage: SpreadStage) -> SpreadRecord {
    record_of(SpreadStanding { size_bytes: GIB, stage })
}

/// The slice of one of the two others.
fn slice_record(at: usize, standing: SliceStanding) -> SliceRecord {
    let whole = record(SpreadStage::Whole);
    Letter::of(&whole, at as u8 + 1, Order::Go).record(standing)
}

fn slice(stage: SliceStage) -> SliceRecord {
    slice_record(0, SliceStanding { size_bytes: GIB, stage })
}

/// One that its home has opened.
fn used(stage: SliceStage) -> SliceRecord {
    let begun = Opening::NEVER.next(7);
    SliceRecord { begun, opened: begun, ..slice(stage) }
}

/// In the order of these numbers.
fn set(slices: &[u8]) -> SliceSet {
    slices.to_vec().try_into().expect("they are slices")
}
