//! Volumes that lie on several members of the group: their home's side, that of the members that have slices, and what
//! looks after what is left.
//!
//! ```text
//!  POST /v1/volumes ─▶ placing ─▶ driver ─▶ member: what this one has of it (Make, Step, Heard, GiveUp)
//!                                   │
//!                                   ╰────▶ remote ══ TLS ══▶ routes::slices ─▶ member: what another one has
//!
//!  janitor, at homes: what is not at rest after a start; at members with slices: what the home says of each
//!  openers: how a member that is a home has slices opened
//! ```
//!
//! Nothing here decides what becomes of a slice: that the members do, by the rules of `group::spread`. What is done here may
//! break off anywhere.
//!
//! 1. An answer is a member's own, to an order that was sent to it as the member that it is: who is silent has said
//!    nothing, and what it is asked for may have been done.
//! 2. A volume is driven once at a time. Whoever waits for a change looks at what is stored when the driver ends: it may have
//!    ended just before.

mod driver;
mod janitor;
mod openers;
mod placing;
mod reach;
mod rebuild;
mod remote;
mod shown;
pub(super) mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use group::membership::SpreadId;
use group::ownership::MemberId;
use group::spread::SpreadStage;
use member::{Request, SpreadRequest, SpreadShown, VolumeRequest};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use driver::{End, Progress, drive};
pub(super) use janitor::look_after;
pub(super) use openers::Openers;
pub(super) use reach::Told;
pub(super) use rebuild::rebuild;
pub(super) use shown::{discard, own_slices, with_slices};

use super::app::{App, stopping};
use super::carry::one_here;
use super::tags::{Kept, Tag};
use crate::problem::{Code, Problem};
use crate::types::{List, NewVolume, Nothing, OfAnswer, Volume};

/// How long whoever asked for a change that was given up waits until what was made of it is gone, too.
const GIVE_UP_TIME: Duration = Duration::from_secs(2);

/// How long whoever deletes a volume waits for its slices on other members. They go on to go behind that.
const DELETE_TIME: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });

/// After how long it is looked again at a volume that somebody else has driven.
const PAUSE: Duration = Duration::from_millis(100);

/// The volumes that are driven here, and who hears how far they are.
#[derive(Debug, Default)]
pub(super) struct Driven {
    all: Mutex<BTreeMap<SpreadId, watch::Receiver<Progress>>>,
    /// A volume was made, so that there is something to look after.
    made: Notify,
}

impl Driven {
    fn all(&self) -> MutexGuard<'_, BTreeMap<SpreadId, watch::Receiver<Progress>>> {
        // Each change is one call.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A volume is driven as long as this is there.
struct Driving(Arc<App>, SpreadId);

impl Driving {
    /// From now on; the error is who hears of one that is driven already.
    fn begin(
        app: &Arc<App>,
        id: &SpreadId,
        hears: &watch::Receiver<Progress>,
    ) -> Result<Self, watch::Receiver<Progress>> {
        let mut all = app.spreads.all();
        match all.get(id) {
            Some(driven) => Err(driven.clone()),
            None => {
                all.insert(id.clone(), hears.clone());
                Ok(Self(app.clone(), id.clone()))
            }
        }
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.spreads.all().remove(&self.1);
    }
}

/// Has this member do its part.
async fn here<T: OfAnswer>(app: &App, request: SpreadRequest) -> Result<T, Problem> {
    let (_, coming) = app.begin(Request::Spread(request));
    app.outcome(coming).await
}

/// The volumes whose home this member is, as it is now.
async fn own(app: &App) -> Result<Vec<SpreadShown>, Problem> {
    Ok(stored(app).await?.into_iter().filter(|shown| shown.is_of).collect())
}

/// The same, and those that it has stored as the home that it was once.
async fn stored(app: &App) -> Result<Vec<SpreadShown>, Problem> {
    let List(all) = here::<List<SpreadShown>>(app, SpreadRequest::List).await?;
    Ok(all)
}

/// One of them, by its name. While they cannot be read there is none: the member refuses whatever is asked of one.
pub(super) async fn named(app: &App, name: &str) -> Option<SpreadShown> {
    // A member without a group is the home of nothing.
    app.roll.now()?;
    let all = own(app).await.ok()?;
    let is_going = |shown: &SpreadShown| matches!(shown.record.stage, SpreadStage::Going { .. });
    let named = all.into_iter().filter(|shown| shown.record.name == name);
    named.min_by_key(is_going)
}

/// Makes a volume that lies on several members. It goes on also when nobody waits any more.
pub(super) async fn create(app: &Arc<App>, new: NewVolume) -> Result<Volume, Problem> {
    app.check_not_ending()?;
    let (plan, shortage) = placing::plan(app, new)?;
    let app = app.clone();
    let making = tokio::spawn(async move {
        let (id, name) = (plan.id.clone(), plan.spec.name.clone());
        let make = SpreadRequest::Make { plan: Box::new(plan) };
        if let Err(problem) = here::<SpreadShown>(&app, make).await {
            // It may be stored although the answer says no.
            if here::<Nothing>(&app, SpreadRequest::GiveUp { id: id.clone() }).await.is_ok() {
                drive(&app, &id);
            }
            return Err(problem);
        }
        match whole(&app, &id).await {
            Ok(true) => {
                app.spreads.made.notify_one();
                let mut made = show(&app, name).await?;
                made.spread.iter_mut().for_each(|spread| spread.shortage.clone_from(&shortage));
                Ok(made)
            }
            Ok(false) => Err(deleted_meanwhile(&name)),
            Err(problem) => Err(not_done(&format!("volume '{name}' is not made"), problem)),
        }
    });
    making.await.unwrap_or_else(|_| Err(stopping()))
}

/// Makes such a volume larger.
pub(super) async fn grow(
    app: &Arc<App>,
    shown: &SpreadShown,
    (tag, size_bytes): (Option<Tag>, u64),
) -> Result<Volume, Problem> {
    let (id, name) = (shown.record.id.clone(), shown.record.name.clone());
    let app = app.clone();
    let growing = tokio::spawn(async move {
        let grow = SpreadRequest::Grow { name: name.clone(), size_bytes };
        let kept = Kept::Volume(name.clone());
        app.change::<SpreadShown>(kept, tag, Request::Spread(grow)).await?;
        match whole(&app, &id).await {
            Ok(true) => show(&app, name).await,
            Ok(false) => Err(deleted_meanwhile(&name)),
            Err(problem) => Err(not_done(&format!("volume '{name}' keeps its size"), problem)),
        }
    });
    growing.await.unwrap_or_else(|_| Err(stopping()))
}

/// Deletes such a volume for good. It is gone for hosts and operators when it is stored that it goes; slices of members that
/// cannot be reached go when they are.
pub(super) async fn delete(
    app: &Arc<App>,
    shown: &SpreadShown,
    tag: Option<Tag>,
) -> Result<(), Problem> {
    let (id, name) = (shown.record.id.clone(), shown.record.name.clone());
    let app = app.clone();
    let deleting = tokio::spawn(async move {
        let delete = SpreadRequest::Delete { name: name.clone() };
        // What goes has no tag any more.
        app.change::<SpreadShown>(Kept::Volume(name), tag, Request::Spread(delete)).await?;
        // Whether it is gone everywhere is not what was asked.
        drop(timeout(DELETE_TIME, gone(&app, &id)).await);
        Ok(())
    });
    deleting.await.unwrap_or_else(|_| Err(stopping()))
}

/// Waits until a volume is whole; false of one that was deleted meanwhile.
async fn whole(app: &Arc<App>, id: &SpreadId) -> Result<bool, Problem> {
    loop {
        match ended(app, id).await? {
            End::CutOff(problem) => return Err(problem),
            End::Forgotten => return Ok(false),
            End::Rest => {}
        }
        let found = own(app).await?.into_iter().find(|shown| shown.record.id == *id);
        match found.map(|shown| shown.record.stage) {
            Some(SpreadStage::Whole) => return Ok(true),
            None => return Ok(false),
            // It was driven for another change, which had ended before this one.
            Some(_) => sleep(PAUSE).await,
        }
    }
}

/// Waits until a volume is driven no more. One that is given up is not waited for as long as it takes.
async fn ended(app: &Arc<App>, id: &SpreadId) -> Result<End, Problem> {
    let mut driven = drive(app, id);
    let is_known = |progress: &Progress| progress.end.is_some() || progress.why.is_some();
    let progress = driven.wait_for(is_known).await.map_err(|_| stopping())?.clone();
    match progress {
        Progress { why: None, end: Some(end) } => Ok(end),
        Progress { why: Some(why), end } => {
            if end.is_none() {
                drop(timeout(GIVE_UP_TIME, driven.wait_for(|it| it.end.is_some())).await);
            }
            Err(why)
        }
        Progress { why: None, end: None } => Err(stopping()),
    }
}

/// Waits until nothing is left of a volume.
async fn gone(app: &Arc<App>, id: &SpreadId) {
    loop {
        let mut driven = drive(app, id);
        let end = match driven.wait_for(|progress| progress.end.is_some()).await {
            Ok(progress) => progress.end.clone(),
            Err(_) => return,
        };
        if end != Some(End::Rest) {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// A volume as it is shown.
async fn show(app: &Arc<App>, name: String) -> Result<Volume, Problem> {
    let shown: Volume = app.ask(Request::Volume(VolumeRequest::Show { name })).await?;
    let mut shown = [one_here(app, shown)];
    with_slices(app, &mut shown).await;
    let [shown] = shown;
    Ok(shown)
}

fn deleted_meanwhile(name: &str) -> Problem {
    Problem::new(Code::WrongState, format!("volume '{name}' was deleted meanwhile"))
}

fn not_done(what: &str, problem: Problem) -> Problem {
    let detail = format!("{what}: {}", problem.detail);
    Problem { detail, ..problem }
}

/// A member, as operators know it.
fn name_of(app: &App, member: MemberId) -> String {
    super::moving::name_of(app, member)
}
