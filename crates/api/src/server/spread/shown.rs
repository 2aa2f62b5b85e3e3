//! Volumes that lie on several members, and their slices, as operators see them.

use std::sync::Arc;

use group::ownership::MemberId;
use group::spread::{SpreadRecord, SpreadStage};
use member::{DamagedRecord, SeatShown, SliceFate, SliceShown, SpreadRequest, SpreadShown};

use super::{drive, here, name_of, own, stored};
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::carry::here as of_here;
use crate::types::{List, Nothing, Slice, SliceState, Volume, VolumeSlice, VolumeSpread};

/// Adds where those lie whose home this member is.
pub(in crate::server) async fn with_slices(app: &App, volumes: &mut [Volume]) {
    let Some(now) = app.roll.now() else { return };
    let is_here = |volume: &&mut Volume| volume.member.as_deref() == Some(now.name.as_str());
    if volumes.iter_mut().all(|volume| !is_here(&volume)) {
        return;
    }
    // While they cannot be read none of them is shown.
    let Ok(own) = own(app).await else { return };
    for volume in volumes.iter_mut().filter(is_here) {
        let is_it =
            |shown: &&SpreadShown| shown.record.name == volume.name && !is_going(&shown.record);
        volume.spread = own.iter().find(is_it).map(|shown| spread_of(app, shown));
    }
}

fn is_going(record: &SpreadRecord) -> bool {
    matches!(record.stage, SpreadStage::Making | SpreadStage::Going { .. })
}

fn spread_of(app: &App, shown: &SpreadShown) -> VolumeSpread {
    let record = &shown.record;
    let growing_to_bytes = match record.stage {
        SpreadStage::Growing { to_bytes } => Some(to_bytes),
        SpreadStage::Making | SpreadStage::Whole | SpreadStage::Going { .. } => None,
    };
    let slice = |SeatShown { seat, pages, trouble }: &SeatShown| VolumeSlice {
        id: seat.slice.to_string(),
        member: bare_name(app, seat.member),
        pages: *pages,
        unreachable_seconds: trouble.as_ref().map(|(seconds, _)| *seconds),
        why: trouble.as_ref().map(|(_, why)| why.clone()),
    };
    VolumeSpread {
        id: record.id.to_string(),
        page_bytes: record.page_bytes,
        growing_to_bytes,
        slices: shown.slices.iter().map(slice).collect(),
        shortage: None,
    }
}

/// A member by its name alone; by its number where it is none any more.
fn bare_name(app: &App, member: MemberId) -> String {
    let now = app.roll.now();
    let record = now.as_ref().and_then(|now| now.roll.members.get(&member));
    record.map_or_else(|| member.to_string(), |record| record.name.clone())
}

/// A sentence of the rules about a slice, with the name of its home.
pub(super) fn home_in(app: &App, sentence: &str, home: MemberId) -> String {
    // The number stands before a word or a comma.
    let number = home.to_string();
    let ends = [",", " ", ":"];
    ends.iter().fold(sentence.to_owned(), |text, end| {
        text.replace(&format!("{number}{end}"), &format!("{}{end}", name_of(app, home)))
    })
}

/// The slices of other homes' volumes that this member has, and those of its own volumes that are awaited to go.
pub(in crate::server) async fn own_slices(app: &Arc<App>) -> Result<Vec<Slice>, Problem> {
    let List(slices) = here::<List<SliceShown>>(app, SpreadRequest::Slices).await?;
    let mut all: Vec<Slice> = slices.iter().map(|slice| held(app, slice)).collect();
    for shown in stored(app).await? {
        all.extend(left_at_home(app, &shown));
        all.extend(awaited(app, &shown));
    }
    let List(records) = here::<List<DamagedRecord>>(app, SpreadRequest::Damaged).await?;
    all.extend(records.into_iter().map(|record| damaged(app, record)));
    all.sort_by(|one, other| (&one.volume, &one.id).cmp(&(&other.volume, &other.id)));
    Ok(of_here(app, all))
}

/// A slice that this member has.
fn held(app: &App, SliceShown { record, fate, used_bytes, not_served }: &SliceShown) -> Slice {
    let (state, why) = match (fate, not_served) {
        (SliceFate::LeftOver(why), _) => {
            (SliceState::LeftOver, Some(home_in(app, why, record.home)))
        }
        (SliceFate::Going, _) => (SliceState::Going, None),
        (SliceFate::Kept, Some(why)) => (SliceState::NotServed, Some(why.clone())),
        (SliceFate::Kept, None) => (SliceState::Served, None),
    };
    Slice {
        id: record.id.to_string(),
        volume: record.name.clone(),
        home: bare_name(app, record.home),
        on: bare_name(app, record.me),
        state,
        is_in_vain: false,
        why,
        used_bytes: Some(*used_bytes),
        member: None,
    }
}

/// The own slice of a volume that this member has stored as the home that it was once: it is served to nobody.
fn left_at_home(app: &App, shown: &SpreadShown) -> Option<Slice> {
    let (record, own) = (&shown.record, shown.record.seats.first()?);
    if shown.is_of || matches!(record.stage, SpreadStage::Going { .. }) {
        return None;
    }
    let why = "this server was the home of its volume as another member of a group than it is now, so that it is served to \
               nobody: it stays until you discard it, which deletes what is here of the volume";
    // Numbers of members say nothing in another group.
    let home = record.home().to_string();
    let on = app.roll.now().map_or_else(|| home.clone(), |now| now.name.clone());
    Some(Slice {
        id: own.slice.to_string(),
        volume: record.name.clone(),
        home,
        on,
        state: SliceState::LeftOver,
        is_in_vain: false,
        why: Some(why.to_owned()),
        used_bytes: None,
        member: None,
    })
}

/// What this member has stored of a spread volume, and cannot read.
fn damaged(app: &App, DamagedRecord { id, is_home, why }: DamagedRecord) -> Slice {
    let on = app.roll.now().map_or_else(String::new, |now| now.name.clone());
    let what = match is_home {
        true => {
            "this server is the home of the volume: make it anew of a part that another member has ('drystone volume \
             rebuild'), or discard this record if nobody needs it; what the disks have of it stays"
        }
        false => {
            "discard this record if nobody needs the volume that it is of; what the disks have of that stays"
        }
    };
    Slice {
        id,
        volume: String::new(),
        home: if is_home { on.clone() } else { String::new() },
        on,
        state: SliceState::Damaged,
        is_in_vain: false,
        why: Some(format!("{why}; {what}")),
        used_bytes: None,
        member: None,
    }
}

/// The slices of a volume that goes which other members have not said to have gone.
fn awaited(app: &App, shown: &SpreadShown) -> Vec<Slice> {
    let record = &shown.record;
    let SpreadStage::Going { gone } = record.stage else { return Vec::new() };
    let others = (0_u8..).zip(&record.seats).skip(1).filter(|(number, _)| !gone.has(*number));
    let slice = |(_, seat): (u8, &group::spread::Seat)| {
        let on = name_of(app, seat.member);
        let is_member = shown.is_of
            && app.roll.now().is_none_or(|now| now.roll.members.contains_key(&seat.member));
        let why = match is_member {
            true => format!("the volume is deleted: {on} deletes its part when it is reached"),
            false => format!(
                "the volume is deleted, and {on} is no member any more, which could say that its part has gone: discard \
                 it if that server does not come back"
            ),
        };
        Slice {
            id: seat.slice.to_string(),
            volume: record.name.clone(),
            home: bare_name(app, record.home()),
            on: bare_name(app, seat.member),
            state: SliceState::Awaited,
            is_in_vain: !is_member,
            why: Some(why),
            used_bytes: None,
            member: None,
        }
    };
    others.map(slice).collect()
}

/// An operator discards a slice: one that is left over here, what is stored of one and is damaged, or one that is awaited in
/// vain.
pub(in crate::server) async fn discard(app: &Arc<App>, id: &str) -> Result<(), Problem> {
    let List(slices) = here::<List<SliceShown>>(app, SpreadRequest::Slices).await?;
    if let Some(slice) = slices.into_iter().find(|slice| slice.record.id.as_str() == id) {
        let request = SpreadRequest::Discard { slice: slice.record.id };
        return here::<Nothing>(app, request).await.map(drop);
    }
    for shown in stored(app).await? {
        let mut seats = (0_u8..).zip(&shown.record.seats);
        if let Some((slice, _)) = seats.find(|(_, seat)| seat.slice.as_str() == id) {
            return discard_at_home(app, &shown, slice).await;
        }
    }
    let List(records) = here::<List<DamagedRecord>>(app, SpreadRequest::Damaged).await?;
    if records.iter().any(|record| record.id == id) {
        let request = SpreadRequest::DiscardDamaged { id: id.to_owned() };
        return here::<Nothing>(app, request).await.map(drop);
    }
    let sentence = "this member has no such slice, and is the home of no volume that waits for it: see 'drystone volume \
                    slices' for where it is";
    Err(Problem::new(Code::NoSuchSlice, sentence))
}

/// At a home: waits for a slice no more, or deletes what is here of a volume that nobody can use any more.
async fn discard_at_home(app: &Arc<App>, shown: &SpreadShown, slice: u8) -> Result<(), Problem> {
    let (id, name) = (shown.record.id.clone(), shown.record.name.clone());
    let mut forgotten = vec![slice];
    if slice == 0 && !shown.is_of {
        here::<SpreadShown>(app, SpreadRequest::Delete { name }).await?;
        // Nobody is asked for the others, so nobody is waited for.
        forgotten = (0_u8..).zip(&shown.record.seats).skip(1).map(|(number, _)| number).collect();
    }
    for slice in forgotten {
        here::<Nothing>(app, SpreadRequest::ForgetSeat { id: id.clone(), slice }).await?;
    }
    drive(app, &id);
    Ok(())
}
