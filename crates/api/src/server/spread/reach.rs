//! What is told of slices: those that a home cannot reach for long, and those that are left over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use group::membership::{SliceId, SpreadId};
use member::events::{Event, Kind, ObjectKind};
use member::{SliceFate, SliceShown, SpreadShown};

use super::name_of;
use super::shown::home_in;
use crate::server::app::App;

/// Seconds after which it is told that a slice cannot be reached: a member that restarts is back before, and no request of a
/// host has failed by then.
const LONG_SECONDS: u64 = 30;

/// What was told of.
#[derive(Debug, Default)]
pub(in crate::server) struct Told(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    /// Slices that cannot be reached, by volume and number.
    away: BTreeSet<(SpreadId, u8)>,
    /// Slices that are left over here.
    left: BTreeSet<SliceId>,
}

/// Tells of the slices of these volumes that cannot be reached for long, and of those that can be again.
pub(super) fn tell_of_homes(app: &App, own: &[SpreadShown]) {
    let mut away = BTreeMap::new();
    for shown in own {
        for (number, slice) in (0_u8..).zip(&shown.slices) {
            if let Some((seconds, why)) = &slice.trouble
                && *seconds >= LONG_SECONDS
            {
                away.insert((shown.record.id.clone(), number), why.as_str());
            }
        }
    }
    let keys: BTreeSet<(SpreadId, u8)> = away.keys().cloned().collect();
    let before = {
        let mut told = app.told_of_slices.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut told.away, keys)
    };
    for shown in own {
        let name = &shown.record.name;
        for (number, slice) in (0_u8..).zip(&shown.slices) {
            let (key, on) = ((shown.record.id.clone(), number), name_of(app, slice.seat.member));
            let (kind, text) = match (away.get(&key), before.contains(&key)) {
                (Some(why), false) => (
                    Kind::SliceUnreachable,
                    format!(
                        "the part of volume '{name}' on {on} cannot be reached: {why}; hosts have an error for what lies \
                         there, and go on with the rest"
                    ),
                ),
                (None, true) => (
                    Kind::SliceReachable,
                    format!("the part of volume '{name}' on {on} can be reached again"),
                ),
                _ => continue,
            };
            app.logs.events.tell(Event::about(kind, ObjectKind::Volume, name, &text));
        }
    }
}

/// Tells of the slices here that are left over.
pub(super) fn tell_of_slices(app: &App, slices: &[SliceShown]) {
    let left = slices.iter().filter_map(|slice| match &slice.fate {
        SliceFate::LeftOver(why) => Some((&slice.record, why)),
        SliceFate::Kept | SliceFate::Going => None,
    });
    let left: Vec<_> = left.collect();
    let ids = left.iter().map(|(record, _)| record.id.clone()).collect();
    let before = {
        let mut told = app.told_of_slices.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut told.left, ids)
    };
    for (record, why) in left.into_iter().filter(|(record, _)| !before.contains(&record.id)) {
        let (name, why) = (&record.name, home_in(app, why, record.home));
        let text = format!("a part of the spread volume '{name}' is left over here: {why}");
        app.logs.events.tell(Event::about(Kind::SliceLeftOver, ObjectKind::Volume, name, &text));
    }
}
