//! What all requests share: the way to the member.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use array::api::JobInfo;
use group::accounts::Logins;
use member::events::Kind;
use member::{
    Answer, Asker, CurrentDestinations, CurrentDoor, CurrentRoll, Logs, MoveError, Request,
    RequestError, SliceOpeners, Wish, events,
};
use tokio::sync::{Mutex, OwnedSemaphorePermit, RwLock, Semaphore, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::at_group::AtGroup;
use super::carry::{Lines, Whereabouts};
use super::followers::{Followers, Following};
use super::idempotency::Remembered;
use super::login::{Doorkeeper, Login};
use super::moving::Moves;
use super::pace::Paces;
use super::runs::Runs;
use super::sets::Driven;
use super::signal::Signal;
use super::spread;
use super::tags::{Family, Kept, Tag};
use super::walks::{WALKS_MAX, WALKS_OF_OWNER_MAX, Walking, Walks};
use super::{Config, Identity};
use crate::problem::{Code, Problem, code_of};
use crate::types::{Event, Interface, OfAnswer};

/// How long a request is waited for. What takes longer goes on.
const PATIENCE: Duration = Duration::from_secs(600);

/// How soon after one began the next one takes its place: each makes disks write down what they hold.
const WALK_REST: Duration = Duration::from_millis(100);

/// Lists of the whole group that are put together at once, each of which keeps what all members have of a kind, and of
/// these those of one that asks.
const GATHERINGS_MAX: usize = 4;
const GATHERINGS_OF_OWNER_MAX: usize = 2;

/// How long one waits for a place among these: several times what one takes whose members all answer late.
const GATHERING_WAIT: Duration = Duration::from_secs(30);

/// Who is asked.
pub trait Ask: Send + Sync + 'static {
    /// Has a request carried out, to its end whoever waits for it. Returns at once; `done` is called at the
    /// end, or dropped if there is nobody to ask.
    fn ask(&self, request: Request, follower: Follower, done: Done);

    /// Who may ask from afar, as it is set now; `None` while that is not known. Waits for nobody.
    fn logins(&self) -> Option<Arc<Logins>>;

    /// Has the member reach slices that other members have by these. One that is asked nothing else has none.
    fn open_slices_by(&self, openers: Arc<dyn SliceOpeners>) {
        drop(openers);
    }
}

/// What is called with an answer, from another thread.
pub type Done = Box<dyn FnOnce(Result<Answer, RequestError>) + Send>;

impl Ask for member::Remote {
    fn ask(&self, request: Request, follower: Follower, done: Done) {
        Self::ask(self, request, follower, done);
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        Self::logins(self)
    }

    fn open_slices_by(&self, openers: Arc<dyn SliceOpeners>) {
        Self::open_slices_by(self, openers);
    }
}

/// Hears how long work goes on, and passes on the last of it.
#[derive(Debug)]
pub struct Follower {
    jobs: watch::Sender<Vec<JobInfo>>,
    is_ending: Arc<AtomicBool>,
    is_cancelled: Arc<AtomicBool>,
}

impl Asker for Follower {
    async fn tell(&self, jobs: Vec<JobInfo>) -> bool {
        self.jobs.send(jobs).is_ok()
    }

    fn wish(&self) -> Wish {
        match (self.is_ending.load(Ordering::Relaxed), self.is_cancelled.load(Ordering::Relaxed)) {
            (true, _) => Wish::End,
            (false, true) => Wish::Cancel,
            (false, false) => Wish::GoOn,
        }
    }
}

/// Tests of destinations, and within how long: enough to set one up, and too few to fill a mailbox.
pub(super) const TESTS_MAX: usize = 6;
const TESTS_TIME: Duration = Duration::from_secs(60);

/// The answer to a request, when it comes.
pub(super) type Coming = oneshot::Receiver<Result<Answer, RequestError>>;

/// What all requests share.
pub(super) struct App {
    member: Arc<dyn Ask>,
    sentence: fn(&RequestError) -> String,
    ending: Signal,
    turns: [RwLock<()>; Family::ALL.len()],
    pub(super) runs: Runs,
    pub(super) remembered: Remembered,
    pub(super) doorkeeper: Doorkeeper,
    /// Where it is asked from afar.
    pub(super) interface: Interface,
    /// What is proved there.
    pub(super) identity: Option<Identity>,
    started: SystemTime,
    walks: Arc<Walks>,
    gatherings: Arc<Walks>,
    streams: Arc<Semaphore>,
    /// Of these, those of who asks from afar: the socket keeps the rest.
    from_afar: Arc<Followers>,
    pub(super) logs: Logs,
    advice: fn(&events::Event) -> String,
    /// Where events go on to.
    pub(super) destinations: CurrentDestinations,
    /// How that does.
    pub(super) statuses: notify::Statuses,
    /// Who tries it out.
    pub(super) sender: notify::Sender,
    /// How often.
    pub(super) tests: Paces,
    /// Held while the member joins a group: it joins one.
    pub(super) joining: Arc<Mutex<()>>,
    /// The members of the group, as this one knows them now.
    pub(super) roll: CurrentRoll,
    /// The address of the group, as the interface stands to it.
    pub(super) at_group: AtGroup,
    /// The door of members, which is there as long as this one is in a group.
    door: CurrentDoor,
    /// Where in the group is what was made a moment ago.
    pub(super) whereabouts: Whereabouts,
    /// What is under way to them.
    pub(super) lines: Lines,
    /// Volumes that move, as far as this side has to know.
    pub(super) moves: Moves,
    /// Snapshots of several members that this one drives.
    pub(super) sets: Driven,
    /// Volumes on several members that this one drives.
    pub(super) spreads: spread::Driven,
    /// What was told of their slices.
    pub(super) told_of_slices: spread::Told,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl App {
    /// `streams_max` may be followed at once: they take their connections for long.
    pub(super) fn new(
        member: Arc<dyn Ask>,
        config: &Config,
        streams_max: usize,
        interface: Interface,
    ) -> Self {
        Self {
            member,
            sentence: config.sentence,
            ending: Signal::default(),
            turns: Default::default(),
            runs: Runs::default(),
            remembered: Remembered::default(),
            doorkeeper: Doorkeeper::default(),
            interface,
            identity: None,
            started: SystemTime::now(),
            walks: Walks::new(WALKS_MAX, WALKS_OF_OWNER_MAX),
            gatherings: Walks::new(GATHERINGS_MAX, GATHERINGS_OF_OWNER_MAX),
            streams: Arc::new(Semaphore::new(streams_max)),
            from_afar: Followers::new(streams_max.div_ceil(2)),
            logs: config.logs.clone(),
            advice: config.advice,
            destinations: config.notifications.destinations.clone(),
            statuses: config.notifications.statuses.clone(),
            sender: config.notifications.sender.clone(),
            tests: Paces::new(TESTS_MAX, TESTS_TIME),
            joining: Arc::default(),
            roll: config.roll.clone(),
            at_group: AtGroup::new(config.group_address.clone(), config.listens()),
            door: config.door.clone(),
            whereabouts: Whereabouts::default(),
            lines: Lines::default(),
            moves: Moves::default(),
            sets: Driven::default(),
            spreads: spread::Driven::default(),
            told_of_slices: spread::Told::default(),
        }
    }

    /// Where it is asked from afar, as it is now.
    pub(super) fn interface_now(&self) -> Interface {
        Interface {
            certificate_sha256: self.identity.as_ref().map(Identity::fingerprint),
            logs_not_written: self.logs.faults(),
            ..self.interface.clone()
        }
    }

    /// Takes the certificate anew if it was renewed, and tells of it.
    pub(super) fn renew_identity(&self) {
        let Some(identity) = &self.identity else { return };
        let event = match identity.renew() {
            None => return,
            Some(Ok(())) => {
                let sha256 = identity.fingerprint();
                let text =
                    format!("another certificate for TLS is in use, with the SHA-256 {sha256}");
                (Kind::CertificateRenewed, text)
            }
            Some(Err(error)) => {
                let text = format!("{error}: the certificate from before stays in use");
                (Kind::CertificateNotUsed, text)
            }
        };
        self.logs.events.tell(events::Event::of_member(event.0, event.1));
    }

    /// The certificate of the authority of the member's group, in PEM, if it is in one.
    pub(super) fn authority(&self) -> Option<String> {
        self.door.now().map(|door| door.authority.clone())
    }

    /// Whether the member is in a group of which it has heard nothing since it was started.
    pub(super) fn is_deaf(&self) -> bool {
        self.roll.now().is_none() && self.door.now().is_some()
    }

    /// Who may ask from afar, as it is set now.
    pub(super) fn logins(&self) -> Result<Arc<Logins>, Problem> {
        self.member.logins().ok_or_else(|| {
            let sentence = "nobody can log in for now, as the settings of the member cannot be read: ask at \
                            its own machine, where its status says what to do";
            Problem::new(Code::Unavailable, sentence)
        })
    }

    /// Nothing more is begun, and long work ends with a word about that.
    pub(super) fn end(&self) {
        self.ending.give();
    }

    /// Waits until that is said.
    pub(super) async fn ended(&self) {
        self.ending.given().await;
    }

    /// Refuses what comes too late.
    pub(super) fn check_not_ending(&self) -> Result<(), Problem> {
        if self.ending.is_given() { Err(stopping()) } else { Ok(()) }
    }

    /// Has the member reach slices that other members have, from this runtime on.
    pub(super) fn open_slices(self: &Arc<Self>) {
        self.member.open_slices_by(Arc::new(spread::Openers::here(self)));
    }

    /// Has a request carried out: how its work goes on, and the answer.
    pub(super) fn begin(&self, request: Request) -> (watch::Receiver<Vec<JobInfo>>, Coming) {
        self.begin_cancellable(request, Arc::default())
    }

    /// The same of work that is to be cancelled once `is_cancelled` is set.
    pub(super) fn begin_cancellable(
        &self,
        request: Request,
        is_cancelled: Arc<AtomicBool>,
    ) -> (watch::Receiver<Vec<JobInfo>>, Coming) {
        let (jobs, progress) = watch::channel(Vec::new());
        let (done, coming) = oneshot::channel();
        let follower = Follower { jobs, is_ending: self.ending.flag(), is_cancelled };
        // Whoever waited may have gone.
        self.member.ask(request, follower, Box::new(move |answer| drop(done.send(answer))));
        (progress, coming)
    }

    /// The answer as what it should be, or the problem.
    pub(super) async fn outcome<T: OfAnswer>(&self, coming: Coming) -> Result<T, Problem> {
        match coming.await {
            Ok(Ok(answer)) => T::of_answer(answer).ok_or_else(strange),
            Ok(Err(error)) => Err(self.problem(&error)),
            Err(_) => Err(stopping()),
        }
    }

    /// Asks for what changes nothing, and waits for the answer.
    pub(super) async fn ask<T: OfAnswer>(&self, request: Request) -> Result<T, Problem> {
        let (_, coming) = self.begin(request);
        timeout(PATIENCE, self.outcome(coming)).await.unwrap_or_else(|_| Err(still_at_work()))
    }

    /// Asks for what is found by walking over whole maps, which keeps a core and much memory busy: two at once and
    /// twenty a second, one of them of each `owner`, also when those who asked have left. A walk that has begun is ended, one that waits is not
    /// begun for who has left.
    pub(super) async fn ask_walk<T: OfAnswer + Send + 'static>(
        self: &Arc<Self>,
        owner: String,
        request: Request,
    ) -> Result<T, Problem> {
        let end = Instant::now() + PATIENCE;
        let place = timeout_at(end, self.walks.enter(owner)).await;
        let place = place.map_err(|_| too_many_walk())?.ok_or_else(stopping)?;
        let (app, rested) = (self.clone(), Instant::now() + WALK_REST);
        let walk = tokio::spawn(async move {
            let (_, coming) = app.begin(request);
            let outcome = app.outcome(coming).await;
            tokio::spawn(async move {
                sleep_until(rested).await;
                drop(place);
            });
            outcome
        });
        match timeout_at(end, walk).await {
            Ok(walked) => walked.unwrap_or_else(|_| Err(stopping())),
            Err(_) => Err(still_at_work()),
        }
    }

    /// A place for one more list of the whole group, for as long as it is put together.
    pub(super) async fn gathers(&self, owner: String) -> Result<Walking, Problem> {
        let place = timeout(GATHERING_WAIT, self.gatherings.enter(owner)).await;
        place.map_err(|_| too_many_gather())?.ok_or_else(stopping)
    }

    /// Has something of one family changed, if it is as `tag` says: no other change of the family comes
    /// between the look and the change. What was begun is ended also when nobody waits any more.
    pub(super) async fn change<T: OfAnswer + Send + 'static>(
        self: &Arc<Self>,
        kept: Kept,
        tag: Option<Tag>,
        request: Request,
    ) -> Result<T, Problem> {
        let app = self.clone();
        let changed = tokio::spawn(async move {
            let (mut alone, mut beside) = (Vec::new(), Vec::new());
            for family in kept.families() {
                let turn = &app.turns[*family as usize];
                match tag {
                    Some(_) => alone.push(turn.write().await),
                    None => beside.push(turn.read().await),
                }
            }
            if let Some(tag) = tag {
                tag.check(&kept.tag(&app).await?)?;
            }
            let (_, coming) = app.begin(request);
            app.outcome(coming).await
        });
        match timeout(PATIENCE, changed).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Problem::new(Code::Failed, "the change ended without a result")),
            Err(_) => Err(still_at_work()),
        }
    }

    /// A place for one that follows work, for as long as it does.
    pub(super) fn follows(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.streams.clone().try_acquire_owned().map_err(|_| too_many_follow())
    }

    /// One more that whoever follows from afar takes.
    pub(super) fn follows_from_afar(&self, login: &Login) -> Result<Following, Problem> {
        self.from_afar.enter(login.to_string()).ok_or_else(too_many_follow)
    }

    /// One more that another member follows for somebody.
    pub(super) fn follows_carried(&self, member: String) -> Result<Following, Problem> {
        self.from_afar.enter(member).ok_or_else(too_many_follow)
    }

    /// The first events behind this number, so many at most.
    pub(super) fn events_after(&self, number: u64, at_most: usize) -> Vec<Event> {
        let records = self.logs.events.after(number);
        let records = &records[..records.len().min(at_most)];
        records.iter().map(|record| Event::new(record, (self.advice)(&record.what))).collect()
    }

    /// The number of the last event.
    pub(super) fn last_event(&self) -> u64 {
        self.logs.events.last_number()
    }

    /// When this was started.
    pub(super) fn started_unix_seconds(&self) -> f64 {
        self.started.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
    }

    /// What is said of a volume that has moved from here, to a member that has not heard of it yet: not that there is none.
    fn moved_away(&self, error: &RequestError) -> Option<Problem> {
        let RequestError::NoSuchVolume(name) = error else { return None };
        let (on, now) = (self.whereabouts.moved_to(name)?, self.roll.now()?);
        let to = now.roll.members.get(&on).filter(|_| on != now.me)?.name.clone();
        Some(self.problem(&RequestError::Move(MoveError::MovedAway { name: name.clone(), to })))
    }

    /// What is said of a refusal.
    pub(super) fn problem(&self, error: &RequestError) -> Problem {
        self.moved_away(error)
            .unwrap_or_else(|| Problem::new(code_of(error), (self.sentence)(error)))
    }
}

pub(super) fn strange() -> Problem {
    Problem::new(Code::Failed, "the member answered something else than it was asked")
}

pub(super) fn stopping() -> Problem {
    Problem::new(Code::Stopping, "the member is stopping")
}

fn still_at_work() -> Problem {
    let sentence = format!(
        "the member has worked on it for {} minutes and goes on: look later what came of it",
        PATIENCE.as_secs() / 60
    );
    Problem::new(Code::StillAtWork, sentence)
}

fn too_many_follow() -> Problem {
    let sentence = "as much work is followed as can be at once: ask for it now and then instead, or try again \
                    when others have ended";
    Problem::new(Code::TooBusy, sentence)
}

fn too_many_gather() -> Problem {
    let sentence = format!(
        "nothing was listed, as {GATHERINGS_MAX} lists of the whole group, or {GATHERINGS_OF_OWNER_MAX} of yours, were \
         put together for {} seconds: try again when they have ended, or ask one member alone",
        GATHERING_WAIT.as_secs()
    );
    Problem::new(Code::TooBusy, sentence)
}

fn too_many_walk() -> Problem {
    let sentence = format!(
        "nothing was looked up, as {WALKS_MAX} questions that go through whole volumes, or one of yours, were at work \
         for {} minutes: ask again when they have ended",
        PATIENCE.as_secs() / 60
    );
    Problem::new(Code::TooBusy, sentence)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use member::SnapshotRequest;

    use super::*;
    use crate::types::{List, Snapshot};

    /// Answers nobody, and keeps what was asked.
    #[derive(Default)]
    struct Silent(Mutex<Vec<Done>>);

    impl Ask for Silent {
        fn ask(&self, _request: Request, _follower: Follower, done: Done) {
            self.0.lock().expect("no test has failed").push(done);
        }

        fn logins(&self) -> Option<Arc<Logins>> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_lists_of_the_group_put_together_all_the_time_leaves_room_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let config = super::super::testing::config(dir.path());
        let app = App::new(Arc::new(Silent::default()), &config, 1, Interface::default());
        let enter = async |owner: &str| app.gathers(owner.to_owned()).await;
        let greedy = [enter("greedy").await.unwrap(), enter("greedy").await.unwrap()];
        let refused = enter("greedy").await.map(|_| ()).unwrap_err();
        assert_eq!(refused.code, Code::TooBusy);
        assert!(refused.detail.starts_with("nothing was listed"), "{refused}");
        let other = [enter("other").await.unwrap(), enter("third").await.unwrap()];
        assert!(enter("fourth").await.is_err(), "there is a place for no more");
        drop((greedy, other));
        assert!(enter("greedy").await.is_ok());
    }

    type Walked = Result<List<Snapshot>, Problem>;

    #[test]
    fn who_waits_in_vain_for_a_walk_hears_that_none_was_begun() {
        let member = Arc::new(Silent::default());
        let dir = tempfile::tempdir().unwrap();
        let config = super::super::testing::config(dir.path());
        let app = App::new(member.clone(), &config, 1, Interface::default());
        let app = Arc::new(app);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let ask = |who: &str| {
                let who = who.to_owned();
                let app = app.clone();
                let list = SnapshotRequest::Count { snapshots: Vec::new() };
                tokio::spawn(
                    async move { app.ask_walk(who, Request::Snapshot(list)).await as Walked },
                )
            };
            let asked = [ask("a"), ask("b"), ask("c")];
            let mut codes = Vec::new();
            for one in asked {
                let problem = one.await.unwrap().unwrap_err();
                codes.push((problem.code, problem.detail.starts_with("nothing was looked up")));
            }
            let at_work = (Code::StillAtWork, false);
            assert_eq!(codes, [at_work, at_work, (Code::TooBusy, true)]);
        });
        assert_eq!(member.0.lock().unwrap().len(), WALKS_MAX);
    }
}
