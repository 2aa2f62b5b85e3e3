//! The driver of a volume that lies on several members, at its home.
//!
//! ```text
//!            ╭──────────────────────────────────────────────╮
//!            ▼                                              │
//!  Step here ─▶ Ask ─▶ each member is asked at once ─▶ Heard of each that has answered
//!     │          ╰ silent: again, at a growing pace; what is made or made larger is given up in the end
//!     ├▶ Rest: nothing more
//!     ╰▶ Forgotten: nothing of it is left anywhere
//! ```
//!
//! What goes is asked to go for as long as it takes: this ends with the member alone, and the next start begins anew.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use group::membership::SpreadId;
use group::ownership::MemberId;
use group::spread::{Answer, Order};
use member::{SliceLetter, SpreadRequest, SpreadStep};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::remote::{self, Obeyed};
use super::{Driving, here};
use crate::mutants::{self, Mutant};
use crate::problem::{Code, Problem};
use crate::server::app::{App, stopping};
use crate::types::Nothing;

/// How long members have to make a slice or to make it larger, which is a matter of moments: somebody waits for it.
const OTHERS_TIME: Duration = Duration::from_secs(if cfg!(test) { 6 } else { 20 });

/// After how long it is gone on with that has not come further, at first and at last. A member that comes back is asked
/// within the last of these.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How a volume ends to be driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// All of it is as it is to be.
    Rest,
    /// It is gone.
    Forgotten,
    /// This member cannot go on with it.
    CutOff(Problem),
}

/// How far a volume is that is driven.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Why it was given up, if it was.
    pub(super) why: Option<Problem>,
    /// There when it is driven no more.
    pub(super) end: Option<End>,
}

/// Drives a volume unless that is done already, until nothing more is to be done. It goes on also when nobody waits.
pub(super) fn drive(app: &Arc<App>, id: &SpreadId) -> watch::Receiver<Progress> {
    let (told, hears) = watch::channel(Progress::default());
    let driving = match Driving::begin(app, id, &hears) {
        Ok(driving) => driving,
        Err(driven) => return driven,
    };
    let drive = Drive { app: app.clone(), id: id.clone(), told, others_end: None };
    tokio::spawn(async move {
        let (end, told) = drive.finish().await;
        // First: whoever asks from now on begins anew.
        drop(driving);
        told.send_modify(|progress| progress.end = Some(end));
    });
    hears
}

/// A volume that is driven.
struct Drive {
    app: Arc<App>,
    id: SpreadId,
    told: watch::Sender<Progress>,
    /// Until when members are waited for that are to make a slice, or to make it larger.
    others_end: Option<Instant>,
}

impl Drive {
    async fn finish(mut self) -> (End, watch::Sender<Progress>) {
        let mut pause = PAUSE_MIN;
        let end = loop {
            if self.app.check_not_ending().is_err() {
                break End::CutOff(stopping());
            }
            let is_further = match here::<SpreadStep>(&self.app, self.step()).await {
                Ok(SpreadStep::Rest) => break End::Rest,
                Ok(SpreadStep::Forgotten) => break End::Forgotten,
                Ok(SpreadStep::Ask { letters }) => self.ask(letters).await,
                // Nothing is stored of it.
                Err(problem) if problem.code == Code::NoSuchVolume => break End::Forgotten,
                // It is of another group, or this member was removed: nobody is asked any more.
                Err(problem) if problem.code == Code::OtherGroup => break End::CutOff(problem),
                Err(problem) => {
                    self.give_up(problem).await;
                    false
                }
            };
            pause = if is_further { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
            if !is_further {
                sleep(self.within(pause / 2)).await;
            }
        };
        (end, self.told)
    }

    fn step(&self) -> SpreadRequest {
        SpreadRequest::Step { id: self.id.clone() }
    }

    /// No longer than members are waited for.
    fn within(&self, pause: Duration) -> Duration {
        let left = self.others_end.map(|end| end.saturating_duration_since(Instant::now()));
        left.filter(|left| !left.is_zero()).map_or(pause, |left| left.min(pause))
    }

    /// Asks all members that have not answered, and says whether the volume is further by that.
    async fn ask(&mut self, letters: Vec<(u8, MemberId, SliceLetter)>) -> bool {
        let is_awaited = letters.iter().any(|(.., letter)| letter.letter.order != Order::Go);
        let end = is_awaited.then(|| *self.others_end.get_or_insert(Instant::now() + OTHERS_TIME));
        let asks = letters.into_iter().map(|(slice, member, letter)| {
            let app = self.app.clone();
            async move { (slice, letter.letter.order, obeyed(&app, member, &letter, end).await) }
        });
        let (mut is_further, mut silent) = (false, None);
        for (slice, order, obeyed) in join_all(asks).await {
            let answer = match obeyed {
                Obeyed::Done => Answer::Done,
                Obeyed::Refused(problem) => {
                    self.note_refusal(order, problem);
                    Answer::Refused
                }
                Obeyed::Silent(problem) if mutants::is(Mutant::SilenceIsDone) => {
                    tracing::debug!("a member that is silent is said to have done it: {problem}");
                    Answer::Done
                }
                Obeyed::Silent(problem) => {
                    silent = Some(problem);
                    continue;
                }
            };
            // What goes and is refused is asked for again, as late as what is not answered.
            is_further |= answer == Answer::Done || order != Order::Go;
            let heard = SpreadRequest::Heard { id: self.id.clone(), slice, order, answer };
            if let Err(problem) = here::<Nothing>(&self.app, heard).await {
                tracing::warn!("a spread volume is not driven on yet: {problem}");
                is_further = false;
            }
        }
        match (silent, end) {
            (Some(problem), Some(end)) if Instant::now() >= end => {
                let seconds = OTHERS_TIME.as_secs();
                let detail = format!("it was waited for {seconds} s: {}", problem.detail);
                self.give_up(Problem { detail, ..problem }).await;
                true
            }
            (Some(problem), _) => {
                tracing::debug!("a spread volume waits for a member: {problem}");
                is_further
            }
            (None, _) => is_further,
        }
    }

    /// A member refuses what it was asked for. The rules give the change up by that; whoever waits hears why.
    fn note_refusal(&self, order: Order, problem: Problem) {
        match order {
            Order::Go => tracing::warn!("a slice of a spread volume does not go yet: {problem}"),
            Order::Make { .. } | Order::Grow { .. } => self.tell(problem),
        }
    }

    /// Nobody is waited for any more. Of what goes, and of what is whole, that changes nothing.
    async fn give_up(&mut self, why: Problem) {
        let given_up = SpreadRequest::GiveUp { id: self.id.clone() };
        match here::<Nothing>(&self.app, given_up).await {
            Ok(Nothing) => self.tell(why),
            Err(problem) => tracing::warn!("a spread volume is not given up yet: {problem}"),
        }
    }

    /// The first reason is what counts: others come of it.
    fn tell(&self, why: Problem) {
        tracing::debug!("a spread volume is not made, or not made larger: {why}");
        self.told.send_if_modified(|progress| {
            let is_first = progress.why.is_none();
            progress.why.get_or_insert(why);
            is_first
        });
    }
}

/// What comes of an order, until a moment if somebody waits for it.
async fn obeyed(
    app: &Arc<App>,
    member: MemberId,
    letter: &SliceLetter,
    end: Option<Instant>,
) -> Obeyed {
    let asked = remote::obey(app, member, letter);
    let Some(end) = end else { return asked.await };
    timeout_at(end, asked).await.unwrap_or_else(|_| {
        let sentence = format!("{} has not answered", super::name_of(app, member));
        Obeyed::Silent(Problem::new(Code::Unavailable, sentence))
    })
}
