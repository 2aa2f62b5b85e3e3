//! Server-sent events (HTML, section 9.2): how work goes on, and how it ended.
//!
//! Each event has a name and a line of JSON. `jobs` tells how the work does, whenever that changes;
//! then comes one last event, `done` or `problem`. A comment comes every two seconds while there is
//! nothing to tell: it is the member that gives this sign of life, not the thread that passes it on.
//! `event` tells what happened and `figures` what hosts have had done; neither has an end of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use member::Request;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use super::app::{App, Coming, stopping};
use crate::problem::Problem;
use crate::types::{Event as Happened, Figures, Job, JobKind, Nothing, RunState};

/// How often a sign of life is passed on.
const PULSE: Duration = Duration::from_secs(2);

/// What has been told.
struct Told {
    jobs: Option<Vec<Job>>,
    at: Instant,
}

impl Told {
    fn nothing() -> Self {
        Self { jobs: None, at: Instant::now() }
    }

    /// What is to be told of a sign of life.
    fn event(&mut self, jobs: Vec<Job>) -> Option<Event> {
        let is_news = self.jobs.as_ref() != Some(&jobs);
        if !is_news && self.at.elapsed() < PULSE {
            return None;
        }
        self.at = Instant::now();
        let event = if is_news { named("jobs", &jobs) } else { Event::default().comment("") };
        self.jobs = Some(jobs);
        Some(event)
    }
}

fn named(name: &str, value: &impl Serialize) -> Event {
    let text = serde_json::to_string(value).expect("plain values can be written out");
    Event::default().event(name).data(text)
}

/// A response of the events that `next` makes of `state`; it ends when there is no state left.
fn events<S, W>(state: S, mut next: impl FnMut(S) -> W + Send + 'static) -> Response
where
    S: Send + 'static,
    W: Future<Output = (Event, Option<S>)> + Send + 'static,
{
    let stream = unfold(Some(state), move |state| {
        let next = state.map(&mut next);
        async move {
            let (event, state) = next?.await;
            Some((Ok::<_, std::convert::Infallible>(event), state))
        }
    });
    Sse::new(stream).into_response()
}

/// Work of some kinds, followed until there is none.
struct Watched {
    app: Arc<App>,
    progress: watch::Receiver<Vec<array::api::JobInfo>>,
    coming: Coming,
    told: Told,
    _place: OwnedSemaphorePermit,
}

/// Tells of work of these kinds until there is none.
pub(super) fn jobs(app: Arc<App>, kinds: &[JobKind]) -> Result<Response, Problem> {
    let _place = app.follows()?;
    let kinds = kinds.iter().filter_map(|kind| kind.of_array()).collect();
    let (progress, coming) = app.begin(Request::Watch { kinds });
    let watched = Watched { app, progress, coming, told: Told::nothing(), _place };
    Ok(events(watched, Watched::next))
}

impl Watched {
    async fn next(mut self) -> (Event, Option<Self>) {
        // It ends when the work does, also while nothing is told.
        while self.progress.changed().await.is_ok() {
            let jobs = self.progress.borrow_and_update().iter().cloned().map(Into::into).collect();
            if let Some(event) = self.told.event(jobs) {
                return (event, Some(self));
            }
        }
        let ended: Result<Nothing, Problem> = self.app.outcome(self.coming).await;
        let event = match ended {
            Ok(Nothing) => named("done", &serde_json::json!({})),
            Err(problem) => named("problem", &problem),
        };
        (event, None)
    }
}

/// How often it is looked whether there are new events, and whether the member stops.
const EVENTS_PAUSE: Duration = Duration::from_millis(250);

/// Tells of events behind this number that are `wanted`, those to come too.
pub(super) fn events_after(
    app: Arc<App>,
    number: u64,
    wanted: impl Fn(&Happened) -> bool + Send + Sync + 'static,
) -> Result<Response, Problem> {
    let place = app.follows()?;
    let wanted = Arc::new(wanted);
    let followed = Followed { app, wanted, number, due: VecDeque::new(), _place: place };
    Ok(events(followed, Followed::next))
}

/// Events that one who follows holds at once, however slowly it reads.
const EVENTS_AT_ONCE: usize = 256;

/// Events that somebody follows.
struct Followed<W> {
    app: Arc<App>,
    wanted: Arc<W>,
    /// The last one that was looked at.
    number: u64,
    /// What is to be told of them.
    due: VecDeque<Happened>,
    _place: OwnedSemaphorePermit,
}

impl<W: Fn(&Happened) -> bool> Followed<W> {
    async fn next(mut self) -> (Event, Option<Self>) {
        let begun = Instant::now();
        loop {
            if let Some(next) = self.due.pop_front() {
                return (named("event", &next).id(next.number.to_string()), Some(self));
            }
            if let Err(problem) = self.app.check_not_ending() {
                return (named("problem", &problem), None);
            }
            if self.app.last_event() > self.number {
                let news = self.app.events_after(self.number, EVENTS_AT_ONCE);
                self.number = news.last().map_or(self.number, |event| event.number);
                self.due = news.into_iter().filter(|event| (self.wanted)(event)).collect();
            } else if begun.elapsed() >= PULSE {
                return (Event::default().comment(""), Some(self));
            } else {
                tokio::time::sleep(EVENTS_PAUSE).await;
            }
        }
    }
}

/// Tells the figures now, and again after each `interval`.
pub(super) fn figures(app: Arc<App>, interval: Duration) -> Result<Response, Problem> {
    let place = app.follows()?;
    let measured = Measured { app, interval, due: Instant::now(), _place: place };
    Ok(events(measured, Measured::next))
}

/// Figures that somebody follows. The member is asked for them when they are due and all that was told before has been
/// taken: nothing is counted for one that has left, or does not read.
struct Measured {
    app: Arc<App>,
    interval: Duration,
    /// When they are told next.
    due: Instant,
    _place: OwnedSemaphorePermit,
}

impl Measured {
    async fn next(mut self) -> (Event, Option<Self>) {
        let pulse = Instant::now() + PULSE;
        loop {
            if let Err(problem) = self.app.check_not_ending() {
                return (named("problem", &problem), None);
            }
            let now = Instant::now();
            if now >= self.due {
                break;
            }
            if now >= pulse {
                return (Event::default().comment(""), Some(self));
            }
            sleep_until(self.due.min(pulse).min(now + EVENTS_PAUSE)).await;
        }
        self.due = Instant::now() + self.interval;
        match self.app.ask::<Figures>(Request::Figures).await {
            Ok(figures) => (named("figures", &figures), Some(self)),
            Err(problem) => (named("problem", &problem), None),
        }
    }
}

/// Tells how a run goes on; `done` and `problem` hold the run and why it failed.
pub(super) fn run(app: &App, id: &str) -> Result<Response, Problem> {
    let (run, place) = (app.runs.find(id)?, app.follows()?);
    Ok(events((run, Told::nothing(), place), |(mut run, mut told, place)| async move {
        loop {
            let now = run.borrow_and_update().clone();
            match (now.state, &now.problem) {
                (RunState::Running, _) => {
                    if let Some(event) = told.event(now.jobs) {
                        return (event, Some((run, told, place)));
                    }
                }
                (_, Some(problem)) => return (named("problem", problem), None),
                (_, None) => return (named("done", &now), None),
            }
            if run.changed().await.is_err() {
                return (named("problem", &stopping()), None);
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use group::accounts::Logins;
    use member::Answer;
    use member::events::{Event as Told, Kind, ObjectKind};

    use super::super::app::{Ask, Done, Follower};
    use super::super::testing::config;
    use super::*;

    struct Nobody;

    impl Ask for Nobody {
        fn ask(&self, _request: Request, _follower: Follower, _done: Done) {}

        fn logins(&self) -> Option<Arc<Logins>> {
            None
        }
    }

    /// Who follows from the beginning hears all in order, and holds a part of it however much there is.
    #[test]
    fn who_follows_events_holds_a_few_of_them_at_once() {
        const EVENTS: u64 = 3 * EVENTS_AT_ONCE as u64 + 7;
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        for number in 0..EVENTS {
            let name = format!("v{number}");
            let event = Told::about(Kind::VolumeNotServed, ObjectKind::Volume, &name, "it is not");
            config.logs.events.hear(event);
        }
        let app = App::new(Arc::new(Nobody), &config, 1, crate::types::Interface::default());
        let place = app.follows().unwrap();
        // Some are not wanted: they are passed over.
        let is_wanted = |number: u64| !number.is_multiple_of(300);
        let wanted = Arc::new(|event: &Happened| is_wanted(event.number));
        let mut followed =
            Followed { app: Arc::new(app), wanted, number: 0, due: VecDeque::new(), _place: place };
        let mut heard = 0;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for number in (1..=EVENTS).filter(|number| is_wanted(*number)) {
                let (event, rest) = followed.next().await;
                followed = rest.expect("it goes on");
                assert!(followed.due.len() < EVENTS_AT_ONCE, "{}", followed.due.len());
                assert!(format!("{event:?}").contains(&format!("id: {number}")), "{event:?}");
                heard += 1;
            }
            let (comment, _) = followed.next().await;
            assert!(!format!("{comment:?}").contains("id:"), "that was all: {comment:?}");
        });
        assert!(heard > 2 * EVENTS_AT_ONCE);
    }

    /// Tells figures at once, and counts how often it was asked.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Ask for Counting {
        fn ask(&self, request: Request, _follower: Follower, done: Done) {
            assert_eq!(request, Request::Figures);
            self.0.fetch_add(1, Ordering::Relaxed);
            done(Ok(Answer::Figures(Box::default())));
        }

        fn logins(&self) -> Option<Arc<Logins>> {
            None
        }
    }

    #[test]
    fn figures_are_counted_once_an_interval_and_a_sign_of_life_comes_between() {
        let dir = tempfile::tempdir().unwrap();
        let member = Arc::new(Counting::default());
        let asked = || member.0.load(Ordering::Relaxed);
        let config = config(dir.path());
        let app = App::new(member.clone(), &config, 1, crate::types::Interface::default());
        let app = Arc::new(app);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let place = app.follows().unwrap();
            let (begun, interval) = (Instant::now(), Duration::from_secs(5));
            let mut followed = Measured { app: app.clone(), interval, due: begun, _place: place };
            for (name, at, times) in
                [("figures", 0, 1), ("", 2, 1), ("", 4, 1), ("figures", 5, 2), ("", 7, 2)]
            {
                let (event, rest) = followed.next().await;
                followed = rest.expect("it goes on");
                let text = format!("{event:?}");
                assert_eq!(text.contains("event: figures"), name == "figures", "{at} {text}");
                assert_eq!((begun.elapsed().as_secs(), asked()), (at, times), "{text}");
            }
            // Whoever has taken nothing for long hears of one moment, not of all that went by.
            tokio::time::sleep(4 * interval).await;
            for times in [3, 3] {
                let (_, rest) = followed.next().await;
                followed = rest.expect("it goes on");
                assert_eq!(asked(), times);
            }
            app.end();
            let (event, rest) = followed.next().await;
            assert!(rest.is_none() && format!("{event:?}").contains("stopping"), "{event:?}");
        });
        assert_eq!(asked(), 3);
    }
}
