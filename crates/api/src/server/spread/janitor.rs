//! What looks after volumes that lie on several members: at their homes what is not at rest, as a start has cut it off, and
//! whether all slices are reached; at members with slices what the homes of these say. Where nothing of that is stored it
//! costs one look in a minute.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use group::ownership::MemberId;
use group::spread::{HomeSays, Question, SpreadStage};
use member::{RollNow, SliceFate, SliceShown, SpreadRequest};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::reach::{tell_of_homes, tell_of_slices};
use super::{drive, here, remote, stored};
use crate::mutants::{self, Mutant};
use crate::server::app::App;
use crate::server::carry::OwnLine;
use crate::server::connections::has_ended;
use crate::types::{List, Nothing};

/// How often homes are asked what of slices, and how often it is looked at all where there is nothing.
const MINUTE: Duration = Duration::from_secs(60);

/// How often a home looks whether its slices are reached.
const LOOK: Duration = Duration::from_secs(10);

/// How often it is looked whether the group is known, after a start.
const KNOWN: Duration = Duration::from_secs(2);

/// Looks after them, until the end.
pub(in crate::server) async fn look_after(app: Arc<App>, mut ending: watch::Receiver<bool>) {
    let looking = async {
        let mut asks_at = Instant::now();
        loop {
            let Some(now) = app.roll.now() else {
                sleep(KNOWN).await;
                continue;
            };
            let is_home = look_at_own(&app).await;
            if Instant::now() >= asks_at {
                asks_at = Instant::now() + MINUTE;
                ask_homes(&app, &now).await;
            }
            let pause = if is_home { LOOK } else { MINUTE };
            // A volume that was made is looked after from then on.
            drop(timeout(pause, app.spreads.made.notified()).await);
        }
    };
    tokio::select! {
        () = looking => {}
        () = has_ended(&mut ending) => {}
    }
}

/// Drives what is not at rest, and says whether this member is a home.
async fn look_at_own(app: &Arc<App>) -> bool {
    // While they cannot be read nothing is known of them.
    let Ok(mut stored) = stored(app).await else { return true };
    for shown in &stored {
        // What goes is forgotten when all of it has gone, also where nobody is asked for the rest any more.
        let is_going = matches!(shown.record.stage, SpreadStage::Going { .. });
        if is_going || (shown.is_of && shown.record.stage != SpreadStage::Whole) {
            drive(app, &shown.record.id);
        }
    }
    stored.retain(|shown| shown.is_of);
    tell_of_homes(app, &stored);
    !stored.is_empty()
}

/// Asks the homes of all slices that this member has, and has it act by what they say.
async fn ask_homes(app: &Arc<App>, now: &RollNow) {
    let Ok(List(slices)) = here::<List<SliceShown>>(app, SpreadRequest::Slices).await else {
        return;
    };
    tell_of_slices(app, &slices);
    let mut by_home = BTreeMap::<MemberId, Vec<SliceShown>>::new();
    for slice in slices.into_iter().filter(|slice| slice.fate != SliceFate::Going) {
        by_home.entry(slice.record.home).or_default().push(slice);
    }
    join_all(by_home.into_iter().map(|(home, slices)| ask_home(app, now, home, slices))).await;
}

/// Asks one home about all of its slices here, one after the other. One that is silent is not asked for the rest.
async fn ask_home(app: &Arc<App>, now: &RollNow, home: MemberId, slices: Vec<SliceShown>) {
    let group = now.roll.about.as_ref().map(|about| &about.id);
    let mut line = Some(OwnLine::new(app.clone(), home));
    for SliceShown { record, .. } in slices {
        // Nobody is asked for what another member had: numbers say nothing in another group.
        let is_its = group == Some(&record.group) && record.me == now.me && home != now.me;
        let question = Question::of(&record);
        let heard = match &mut line {
            Some(line) if is_its => remote::says(app, line, &question).await.ok(),
            _ => None,
        };
        if is_its && heard.is_none() {
            line = None;
        }
        let heard = heard.or_else(|| mutants::is(Mutant::SilenceIsGone).then_some(HomeSays::Gone));
        let heard = heard.map(|says| (home, says));
        let request = SpreadRequest::SliceHeard { slice: record.id, heard };
        if let Err(problem) = here::<Nothing>(app, request).await {
            tracing::debug!("what becomes of a slice is not known yet: {problem}");
        }
    }
}
