//! The driver of a set, at its coordinator.
//!
//! ```text
//!  Prepare here ─▶ prepare all ─▶ hold all ─▶ take all ─▶ whole is decided ─▶ settle all ─▶ the snapshots
//!       │ refused      ╰────────────┴────────────╯ anything fails      │
//!       ▼                           ▼                                  ╰ unknown: each member looks by itself
//!   the refusal          release all ─▶ why it failed
//!                              ╰─▶ void is decided ─▶ settle all, whether somebody waits for it or not
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{join_all, try_join_all};
use group::membership::{SetId, Verdict};
use group::ownership::MemberId;
use group::sets::{may_be_whole, may_take};
use member::{SetPlan, SetRequest};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::remote::Participant;
use super::{Driving, here};
use crate::mutants::{self, Mutant};
use crate::problem::{Code, Problem};
use crate::server::app::{App, stopping};
use crate::types::{Nothing, Snapshot};

/// How long members have to get ready: nobody waits for anything meanwhile.
const PREPARE_TIME: Duration = Duration::from_secs(20);

/// How long all have to hold and to take. Each holds for two seconds at most, so what takes longer fails anyway.
const MOMENT_TIME: Duration = Duration::from_secs(4);

/// How long the store is asked what counts before it is said that nobody knows.
const DECIDE_TIME: Duration = Duration::from_secs(40);

/// After how long it is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long members are asked to let hosts go on: those that do not hear it do so by themselves soon.
const RELEASE_TIME: Duration = Duration::from_secs(1);

/// How long whoever asked waits until the name of a set that has failed is free again.
const GIVE_UP_TIME: Duration = Duration::from_secs(1);

/// How long members are waited for that do what was decided.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Which member has which of the volumes of a set.
#[derive(Debug, Clone)]
pub(in crate::server) struct Spread(pub(in crate::server) BTreeMap<MemberId, Vec<String>>);

/// Takes snapshots of one moment of volumes of several members. It goes on also when nobody waits any more.
pub(in crate::server) async fn take(
    app: &Arc<App>,
    Spread(volumes): Spread,
    name: Option<String>,
) -> Result<Vec<Snapshot>, Problem> {
    app.check_not_ending()?;
    let id = SetId::draw().map_err(|error| {
        Problem::new(Code::Failed, format!("the system gives no random numbers: {error}"))
    })?;
    let name = name.unwrap_or_else(|| named_by(SystemTime::now()));
    let drive = Drive::of(app, id, volumes, name)?;
    tokio::spawn(drive.finish()).await.unwrap_or_else(|_| Err(stopping()))
}

/// Has a participant hold, and take its snapshots when all do; with its number.
async fn take_with(
    it: &mut Participant,
    member: MemberId,
    held: &watch::Sender<BTreeSet<MemberId>>,
    participants: &BTreeSet<MemberId>,
) -> Result<(MemberId, Vec<Snapshot>), Problem> {
    it.hold().await?;
    held.send_modify(|held| {
        held.insert(member);
    });
    let all_hold =
        |held: &BTreeSet<MemberId>| may_take(participants, held) || mutants::is(Mutant::TakeEarly);
    // Who sends is here as long as it is waited for.
    held.subscribe().wait_for(all_hold).await.map_err(|_| stopping())?;
    Ok((member, it.take().await?))
}

/// A name that no member makes for snapshots of its own.
fn named_by(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!("set-at-{seconds}")
}

/// A set that is driven.
struct Drive {
    app: Arc<App>,
    /// Which of the volumes each member has, the coordinator too where it has none.
    plans: BTreeMap<MemberId, SetPlan>,
    me: MemberId,
    members: BTreeMap<MemberId, Participant>,
    id: SetId,
    name: String,
    _driving: Driving,
}

impl Drive {
    fn of(
        app: &Arc<App>,
        id: SetId,
        mut volumes: BTreeMap<MemberId, Vec<String>>,
        name: String,
    ) -> Result<Self, Problem> {
        let none = || Problem::new(Code::NoGroup, "this member is in no group any more");
        let now = app.roll.now().ok_or_else(none)?;
        let (me, about) = (now.me, now.roll.about.as_ref().ok_or_else(none)?);
        let participants: BTreeSet<MemberId> = volumes.keys().copied().collect();
        volumes.entry(me).or_default();
        let plan = |volumes| SetPlan {
            id: id.clone(),
            group: about.id.clone(),
            coordinator: me,
            participants: participants.clone(),
            volumes,
            name: name.clone(),
        };
        let plans = volumes.into_iter().map(|(member, volumes)| (member, plan(volumes))).collect();
        let participant = |member: &MemberId| (*member, Participant::new(app, &id, *member));
        let members = participants.iter().map(participant).collect();
        let driving = Driving::of(app, &id);
        Ok(Self { app: app.clone(), plans, me, members, id, name, _driving: driving })
    }

    async fn finish(mut self) -> Result<Vec<Snapshot>, Problem> {
        // This one first: it has to know of the set whatever becomes of it.
        let plan = self.plans[&self.me].clone();
        if let Err(problem) = here::<Nothing>(&self.app, SetRequest::Prepare { plan }).await {
            // It may be stored although the answer says no.
            return Err(self.voided(problem).await);
        }
        match self.take_all().await {
            Ok(taken) => self.whole(taken).await,
            Err(problem) => Err(self.given_up(problem).await),
        }
    }

    /// Has all take their snapshots, and says who has.
    async fn take_all(&mut self) -> Result<BTreeMap<MemberId, Vec<Snapshot>>, Problem> {
        let (me, plans) = (self.me, &self.plans);
        let others = self.members.iter_mut().filter(|(member, _)| **member != me);
        let prepare = others.map(|(member, it)| it.prepare(plans[member].clone()));
        match timeout(PREPARE_TIME, join_all(prepare)).await {
            Ok(prepared) => prepared.into_iter().collect::<Result<Vec<()>, _>>()?,
            Err(_) => return Err(self.too_slow("were not ready for it", PREPARE_TIME)),
        };
        self.app.check_not_ending()?;
        let participants: BTreeSet<MemberId> = self.members.keys().copied().collect();
        let (held, _) = watch::channel(BTreeSet::new());
        let members = self.members.iter_mut();
        let moment = members.map(|(member, it)| take_with(it, *member, &held, &participants));
        match timeout(MOMENT_TIME, try_join_all(moment)).await {
            Ok(taken) => Ok(taken?.into_iter().collect()),
            Err(_) => Err(self.too_slow("have not taken them", MOMENT_TIME)),
        }
    }

    fn too_slow(&self, what: &str, time: Duration) -> Problem {
        let sentence = format!(
            "no snapshot '{}' is taken, as some of the members {what} within {} s: try again when they and the network \
             between them have less to do",
            self.name,
            time.as_secs()
        );
        Problem::new(Code::Unavailable, sentence)
    }

    /// All have taken theirs, as far as they say.
    async fn whole(
        mut self,
        taken: BTreeMap<MemberId, Vec<Snapshot>>,
    ) -> Result<Vec<Snapshot>, Problem> {
        let participants = self.members.keys().copied().collect();
        if !may_be_whole(&participants, &taken.keys().copied().collect()) {
            let problem = self.too_slow("have not taken them", MOMENT_TIME);
            return Err(self.given_up(problem).await);
        }
        match self.decided(Verdict::Whole).await {
            Ok(Verdict::Whole) => {
                self.settle().await;
                let mut all: Vec<Snapshot> = taken.into_values().flatten().collect();
                all.sort_by(|one, other| one.volume.cmp(&other.volume));
                Ok(all)
            }
            Ok(Verdict::Void) => {
                self.settle().await;
                let sentence = format!(
                    "no snapshot '{}' is taken, as the store of the group was silent for so long that a member has given them \
                     up: take them again",
                    self.name
                );
                Err(Problem::new(Code::Unavailable, sentence))
            }
            Err(why) => Err(self.unknown(&why)),
        }
    }

    /// It is not known what the store has decided, or will.
    fn unknown(&self, why: &Problem) -> Problem {
        let sentence = format!(
            "it is not known yet whether the snapshots '{}' are taken, of all volumes or of none: {}; the members decide it \
             when the store of the group answers, and 'drystone snapshot list' shows them if they are",
            self.name, why.detail
        );
        Problem::new(Code::Unavailable, sentence)
    }

    /// Lets hosts go on, which needs no store, and has what was taken go.
    async fn given_up(mut self, problem: Problem) -> Problem {
        if !mutants::is(Mutant::KeepHolds) {
            let release = join_all(self.members.values_mut().map(Participant::release));
            drop(timeout(RELEASE_TIME, release).await);
        }
        self.voided(problem).await
    }

    /// Has what was taken go. Whoever waits hears why after a moment: it goes on without them.
    async fn voided(mut self, problem: Problem) -> Problem {
        let problem = self.not_taken(problem);
        let void = tokio::spawn(async move {
            if let Err(why) = self.void().await {
                tracing::warn!("a set of snapshots is void, and not given up yet: {why}");
            }
        });
        drop(timeout(GIVE_UP_TIME, void).await);
        problem
    }

    /// Why a set is void, as whoever asked for it is told: nobody but its driver could have it whole.
    fn not_taken(&self, problem: Problem) -> Problem {
        if problem.detail.starts_with("no snapshot") {
            return problem;
        }
        let detail = format!("no snapshot '{}' is taken: {}", self.name, problem.detail);
        Problem { detail, ..problem }
    }

    async fn void(&mut self) -> Result<(), Problem> {
        self.decided(Verdict::Void).await?;
        self.settle().await;
        Ok(())
    }

    /// Has the store decide so until it is known what counts.
    async fn decided(&self, verdict: Verdict) -> Result<Verdict, Problem> {
        let end = Instant::now() + DECIDE_TIME;
        loop {
            let request = SetRequest::Decide { id: self.id.clone(), verdict };
            match here::<Verdict>(&self.app, request).await {
                Ok(counts) => return Ok(counts),
                // This member knows nothing of it, or is another one: it was never asked for.
                Err(problem) if problem.code == Code::WrongState => return Err(problem),
                Err(problem) if Instant::now() >= end => return Err(problem),
                Err(problem) => tracing::debug!("a set of snapshots is not decided yet: {problem}"),
            }
            self.app.check_not_ending()?;
            sleep(PAUSE).await;
        }
    }

    /// Has all do what was decided. Whoever does not hear of it looks by itself.
    async fn settle(&mut self) {
        let own = SetRequest::Settle { id: self.id.clone(), is_told: true };
        let is_apart = !self.members.contains_key(&self.me);
        let all = async {
            join_all(self.members.values_mut().map(Participant::settle)).await;
            if is_apart {
                drop(here::<bool>(&self.app, own).await);
            }
        };
        drop(timeout(SETTLE_TIME, all).await);
    }
}
