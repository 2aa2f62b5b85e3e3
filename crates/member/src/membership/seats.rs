//! Who runs the store: each member looks after its own part of it, and the eldest that is present works the plan of
//! [`cluster`] for all.
//!
//! A member that is to be removed and runs a part of the store announces it under `group/leaving/NNNNN`, with a lease:
//! others take its part over before, so that the store is not lost with it. One member works the plan, whoever is asked
//! to remove which other; so two that are removed at the same moment lose their seats one after the other. A member
//! that is present is removed when it has no seat any more, and not before: what it runs ends with its membership.
//!
//! That a member is present says nothing of its etcd. Whoever takes a vote away asks the others first whether they
//! answer: etcd's own check (`--strict-reconfig-check`) counts connections, and lets two of three become one of two.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use group::cluster::{self, Begin, Seat, ServerState, Step};
use group::membership::{MembershipError, Roll};
use group::ownership::MemberId;
use group::store::{
    Batch, EtcdMember, EtcdMemberError, LeaseId, Op, Selection, Store, StoreError, Transaction,
};

use super::GroupError;
use super::joined::{Joined, peer_url, present, seats_of};
use super::trouble::Trouble;

/// How long the removal of a member waits for the end of moves.
const MOVES_TIME: Duration = Duration::from_secs(15);

/// Members that are to be removed.
const LEAVING: &str = "group/leaving/";

/// Between two looks while something is to be done.
const WORK_PAUSE: Duration = Duration::from_secs(2);

/// Between two looks while nothing is, and nothing changes.
const REST_PAUSE: Duration = Duration::from_secs(30);

/// A member that is away for longer keeps no part of the store that another one can have.
const AWAY_LONG: Duration = Duration::from_secs(10 * 60);

/// A member whose etcd has not begun after that is not waited for: it may have none.
const BEGIN_TIME: Duration = Duration::from_secs(60);

/// So often the store must say that it has no part for this member before what it kept of one is deleted: a member of
/// the store that lags behind does not say so again and again.
const GONE_LOOKS: usize = 5;

/// An etcd that has not come to have data in this time was told of members that are others by now.
const RESTART_TIME: Duration = Duration::from_secs(10);

/// How long a member that is to be removed waits for others to take its part over.
const TAKE_OVER_TIME: Duration = Duration::from_secs(60);

/// What says that it is to be removed ends by itself if nobody ends it.
const LEAVING_TIME: Duration = Duration::from_secs(90);

const TAKE_OVER_PAUSE: Duration = Duration::from_secs(1);

/// For so long a store that fails may be one whose members are changing, before anything was asked of them here.
const CHANGING_TIME: Duration = Duration::from_secs(5);

/// What is remembered from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// How many looks in a row have found no part of this member.
    gone_looks: usize,
    /// Since when the own etcd has ended again and again without data.
    failing_since: Option<Instant>,
    /// Since when a seat is there whose etcd has not begun.
    awaited_since: BTreeMap<MemberId, Instant>,
    /// When a member was given up whose etcd did not.
    given_up: BTreeMap<MemberId, Instant>,
    /// What was said last of the own part.
    told: Option<String>,
}

/// Looks after the store. It never ends by itself.
pub(super) async fn keep(joined: &Rc<Joined>, keeper: &mut Keeper) -> Trouble {
    loop {
        let mark = joined.mark();
        let pause = match keeper.look(joined).await {
            Ok(true) => REST_PAUSE,
            Ok(false) => WORK_PAUSE,
            Err(error) => {
                tracing::debug!("nothing was done about who runs the store: {error}");
                WORK_PAUSE
            }
        };
        // Each look costs a few requests, however fast things change.
        ring::sleep(WORK_PAUSE).await;
        ring::timeout(pause - WORK_PAUSE, joined.change_after(mark)).await;
    }
}

/// Whether who is to be removed has changed.
pub(super) fn concerns_leaving(batch: &Batch) -> bool {
    batch.events.iter().any(|event| event.key().starts_with(LEAVING.as_bytes()))
}

impl Keeper {
    /// Does one step of what is to be done. Says whether nothing is.
    async fn look(&mut self, joined: &Rc<Joined>) -> Result<bool, GroupError> {
        let etcds = joined.etcd().members().await?;
        joined.hear_etcds(etcds.clone());
        let noted = note_endpoints(joined, &etcds).await;
        let roll = joined.roll()?;
        let seats = seats_of(&roll, &etcds);
        // What goes wrong here keeps this member from nothing that it does for all.
        let looked_after = self.look_after_own(joined, &roll, &seats).await;
        joined.part().note_refusal(looked_after.as_ref().err().map(ToString::to_string));
        self.tell_once(noted.and(looked_after));
        let leaving = leaving(joined).await?;
        let away_long = self.not_waited_for(joined, &seats);
        let members = present(&roll);
        let step = cluster::next(&members, &seats, &away_long, &leaving);
        let eldest = members.iter().find(|(_, is_present)| **is_present).map(|(id, _)| *id);
        if let Some(step) = step
            && eldest == Some(joined.me())
        {
            let sure = match step {
                Step::Remove(_) => {
                    let seats = asked(joined, &etcds, &seats).await?;
                    cluster::next(&members, &seats, &away_long, &leaving)
                }
                Step::Add(_) | Step::Promote(_) => Some(step),
            };
            if let Some(step) = sure {
                work(joined, &roll, step).await?;
            }
        }
        let is_whole = seats.iter().all(|seat| seat.is_started && !seat.is_learner);
        Ok(step.is_none() && is_whole && self.gone_looks == 0 && self.failing_since.is_none())
    }

    fn tell_once(&mut self, done: Result<(), GroupError>) {
        let failed = done.err().map(|error| error.to_string());
        if let Some(why) = failed.as_ref().filter(|why| Some(*why) != self.told.as_ref()) {
            tracing::warn!("this member does not run its part of the store as it should: {why}");
        }
        self.told = failed;
    }

    /// Starts the part of this member that it is to have, and stops and deletes one that it has no more.
    async fn look_after_own(
        &mut self,
        joined: &Rc<Joined>,
        roll: &Roll,
        seats: &[Seat],
    ) -> Result<(), GroupError> {
        let part = joined.part();
        let (state, has_data) = (part.state(), part.has_data().await);
        let mine = seats.iter().find(|seat| seat.member == Some(joined.me()));
        if matches!(state, Some(ServerState::Removed)) {
            return self.give_up_own(joined).await;
        }
        let state = match state {
            // What was there is given up below: it does not begin anew under the same number.
            Some(ServerState::DataGone) => {
                part.stop().await;
                None
            }
            state => state,
        };
        let Some(mine) = mine else {
            if state.is_some() || has_data || joined.file().has_seat {
                self.gone_looks += 1;
                if self.gone_looks >= GONE_LOOKS {
                    return self.give_up_own(joined).await;
                }
            }
            return Ok(());
        };
        self.gone_looks = 0;
        match state {
            Some(state) => {
                if matches!(state, ServerState::Running { .. }) && mine.is_started {
                    joined.change_file(|file| file.has_seat = true).await?;
                }
                self.look_after_failing(joined, &state, has_data).await;
                Ok(())
            }
            None if has_data || !mine.is_started => {
                let begin = Begin::Existing(cluster_of(joined, roll));
                let file = joined.file().clone();
                part.start(&file, begin).await
            }
            None => forsake(joined, mine, seats).await,
        }
    }

    /// An etcd that never began, and ends whenever it is started, is begun anew with what the cluster is now.
    async fn look_after_failing(&mut self, joined: &Joined, state: &ServerState, has_data: bool) {
        if has_data || matches!(state, ServerState::Running { .. }) {
            self.failing_since = None;
            return;
        }
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= RESTART_TIME {
            self.failing_since = None;
            joined.part().stop().await;
        }
    }

    /// The member has no part of the store any more.
    async fn give_up_own(&mut self, joined: &Joined) -> Result<(), GroupError> {
        self.gone_looks = 0;
        self.failing_since = None;
        joined.part().forget().await?;
        tracing::info!("this member runs no part of the store of its group any more");
        joined.change_file(|file| file.has_seat = false).await
    }

    /// Whose seats others can have, and who gets none.
    fn not_waited_for(&mut self, joined: &Joined, seats: &[Seat]) -> BTreeSet<MemberId> {
        let now = Instant::now();
        let not_begun = seats.iter().filter(|seat| !seat.is_started).filter_map(|seat| seat.member);
        let not_begun: BTreeSet<MemberId> = not_begun.collect();
        self.awaited_since.retain(|member, _| not_begun.contains(member));
        for member in not_begun {
            let since = *self.awaited_since.entry(member).or_insert(now);
            if now.duration_since(since) >= BEGIN_TIME && !self.given_up.contains_key(&member) {
                tracing::warn!(
                    "{member} does not start its part of the store of the group: is etcd installed there?"
                );
                self.given_up.insert(member, now);
            }
        }
        self.given_up.retain(|_, since| now.duration_since(*since) < AWAY_LONG);
        let silent = joined.silent_for(AWAY_LONG);
        silent.into_iter().chain(self.given_up.keys().copied()).collect()
    }
}

/// Takes the seat away whose data this member has lost: it cannot begin with an empty memory under the same number, as
/// it might take back what it has agreed to. It is given a new one then.
async fn forsake(joined: &Joined, mine: &Seat, seats: &[Seat]) -> Result<(), GroupError> {
    let is_others = |seat: &&Seat| seat.etcd_id != mine.etcd_id && !seat.is_learner;
    let seats = asked(joined, &joined.etcds(), seats).await?;
    let answering = seats.iter().filter(is_others).filter(|seat| seat.answers).count();
    if answering * 2 <= seats.iter().filter(is_others).count() {
        return Ok(());
    }
    tracing::warn!(
        "the data of this member's part of the store are gone: it gives the part up, and is given a new one"
    );
    done(joined.etcd().remove(mine.etcd_id).await)
}

/// The seats of these members of the store, with who of them answers now.
async fn asked(
    joined: &Joined,
    etcds: &[EtcdMember],
    seats: &[Seat],
) -> Result<Vec<Seat>, StoreError> {
    Ok(cluster::heard(seats, &joined.etcd().answering(etcds).await?))
}

/// Works one step of the plan.
async fn work(joined: &Joined, roll: &Roll, step: Step) -> Result<(), GroupError> {
    let changed = match step {
        Step::Add(member) => {
            // The plan knows members of this roll alone.
            let Some(record) = roll.members.get(&member) else { return Ok(()) };
            joined.etcd().add_learner(peer_url(record)).await.map(drop)
        }
        Step::Promote(id) => joined.etcd().promote(id).await,
        Step::Remove(id) => joined.etcd().remove(id).await,
    };
    if changed.is_ok() {
        tracing::info!("who runs the store of the group has changed: {step:?}");
    }
    done(changed)
}

/// What passes by itself is tried again.
fn done(changed: Result<(), EtcdMemberError>) -> Result<(), GroupError> {
    match changed {
        Ok(()) => Ok(()),
        Err(error @ (EtcdMemberError::NotReady | EtcdMemberError::Unhealthy)) => {
            tracing::debug!("{error}");
            Ok(())
        }
        Err(EtcdMemberError::Store(error)) => Err(error.into()),
    }
}

/// Has requests go to whoever runs the store now, also after the next start.
pub(super) async fn note_endpoints(
    joined: &Joined,
    etcds: &[EtcdMember],
) -> Result<(), GroupError> {
    let mut endpoints = cluster::endpoints(etcds);
    if endpoints.is_empty() {
        return Ok(());
    }
    endpoints.sort_unstable();
    joined.found_store(endpoints).await
}

/// The members of the store, as an etcd is told that joins them.
fn cluster_of(joined: &Joined, roll: &Roll) -> Vec<(String, String)> {
    let names: BTreeMap<String, MemberId> =
        roll.members.iter().map(|(id, record)| (peer_url(record), *id)).collect();
    let mut all = Vec::new();
    for etcd in joined.etcds() {
        for url in etcd.peer_urls {
            // One that has not begun has no name yet, and gets the one that it will have.
            let name = match names.get(&url) {
                _ if !etcd.name.is_empty() => etcd.name.clone(),
                Some(member) => cluster::etcd_name(*member),
                None => format!("{:x}", etcd.id),
            };
            all.push((name, url));
        }
    }
    all
}

/// Who is to be removed.
async fn leaving(joined: &Joined) -> Result<BTreeSet<MemberId>, StoreError> {
    let found = joined.etcd().range(Selection::prefix(LEAVING)).await?;
    let number = |key: &[u8]| {
        let digits = std::str::from_utf8(key).ok()?.strip_prefix(LEAVING)?;
        digits.parse().ok().map(MemberId)
    };
    Ok(found.kvs.iter().filter_map(|kv| number(&kv.key)).collect())
}

/// Removes a member, once others have its part of the store. One that is away and whose vote the others do not need
/// goes at once, and its seat after it.
///
/// # Errors
/// It is not removed: nobody else can take the store over, or the group says no.
pub(super) async fn remove_member(joined: &Joined, name: &str) -> Result<(), GroupError> {
    let mut departure = Departing { joined, name, begun: Instant::now(), announced: None };
    let removed = match departure.make_way().await {
        Ok(()) => departure.remove().await,
        Err(error) => Err(error),
    };
    if let Some(lease) = departure.announced
        && let Err(error) = joined.etcd().revoke(lease).await
    {
        tracing::debug!("that '{name}' is to be removed is forgotten by its time: {error}");
    }
    removed
}

/// Waits for the end of what a member has still to do for volumes that move, as long as that takes moments: one that has
/// moved is deleted behind the end of its move.
///
/// # Errors
/// It has a part in a move that takes longer, or the store does not answer.
pub(super) async fn until_no_moves(joined: &Joined, name: &str) -> Result<(), GroupError> {
    let begun = Instant::now();
    loop {
        let looked = check_no_moves(&joined.read_roll().await?, name);
        if looked.is_ok() || begun.elapsed() >= MOVES_TIME {
            return looked;
        }
        ring::sleep(TAKE_OVER_PAUSE).await;
    }
}

/// Refuses to remove a member, while it is there, that has a part in moving a volume: whose that is its other member could
/// not find out. Nothing is waited for that one has which is away, as it may never come back.
fn check_no_moves(roll: &Roll, name: &str) -> Result<(), GroupError> {
    let Some((member, _)) = roll.find(name).filter(|(member, _)| roll.is_present(*member)) else {
        return Ok(());
    };
    let inventories = roll.inventories.iter().filter(|(id, _)| roll.is_present(**id));
    let moves =
        inventories.flat_map(|(id, inventory)| inventory.moves.iter().map(move |it| (*id, it)));
    let its = moves.filter(|(id, it)| *id == member || it.other == member);
    let volumes: BTreeSet<String> = its.map(|(_, it)| it.volume.clone()).collect();
    match volumes.is_empty() {
        true => Ok(()),
        false => {
            let volumes = volumes.into_iter().collect();
            Err(GroupError::MovesInHand { member: name.to_owned(), volumes })
        }
    }
}

/// A member that is being removed.
struct Departing<'a> {
    joined: &'a Joined,
    name: &'a str,
    begun: Instant,
    /// What says that to the others.
    announced: Option<LeaseId>,
}

impl Departing<'_> {
    /// Waits until the store goes on without the member.
    async fn make_way(&mut self) -> Result<(), GroupError> {
        loop {
            match self.try_to_make_way().await {
                Ok(true) => return Ok(()),
                Ok(false) if self.is_over() => return Err(self.nobody_left()),
                Ok(false) => {}
                // Who runs the store is changing: requests may fail for a moment.
                Err(error) if self.may_pass(&error) => tracing::debug!("{error}"),
                Err(error) => return Err(error),
            }
            ring::sleep(TAKE_OVER_PAUSE).await;
        }
    }

    /// Whether it does already. Those who are to take the store over hear of it otherwise.
    async fn try_to_make_way(&mut self) -> Result<bool, GroupError> {
        let (joined, name) = (self.joined, self.name);
        let roll = joined.read_roll().await?;
        let member = roll.find(name).map(|(member, _)| member);
        let member = member.ok_or_else(|| MembershipError::NoSuchMember(name.to_owned()))?;
        // Why the last one stays is said where members are removed.
        if roll.members.len() < 2 {
            return Ok(true);
        }
        let members = present(&roll);
        let is_there = |(id, is_present): (&MemberId, &bool)| *id != member && *is_present;
        if !members.iter().any(is_there) {
            let why = "no other member is there".to_owned();
            return Err(GroupError::NobodyLeft { member: name.to_owned(), why });
        }
        let etcds = joined.etcd().members().await?;
        let seats = seats_of(&roll, &etcds);
        if seats.iter().all(|seat| seat.member != Some(member)) {
            return Ok(true);
        }
        if !roll.is_present(member) {
            let seats = asked(joined, &etcds, &seats).await?;
            if cluster::survives_without(member, &members, &seats) {
                return Ok(true);
            }
        }
        if self.announced.is_none() {
            self.announced = Some(announce(joined, member).await?);
        }
        Ok(false)
    }

    async fn remove(&self) -> Result<(), GroupError> {
        let mut is_unknown = false;
        loop {
            let error = match self.joined.membership().remove(self.name).await {
                Ok(_) => return Ok(()),
                Err(MembershipError::NoSuchMember(_)) if is_unknown => return Ok(()),
                Err(error) => error,
            };
            is_unknown |= matches!(error, MembershipError::Unknown(_));
            let error = GroupError::from(error);
            if !self.may_pass(&error) {
                return Err(error);
            }
            ring::sleep(TAKE_OVER_PAUSE).await;
        }
    }

    /// Whether it is worth to ask again.
    fn may_pass(&self, error: &GroupError) -> bool {
        let is_changing = self.announced.is_some() || self.begun.elapsed() < CHANGING_TIME;
        is_of_store(error) && is_changing && !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.begun.elapsed() >= TAKE_OVER_TIME
    }

    fn nobody_left(&self) -> GroupError {
        let seconds = TAKE_OVER_TIME.as_secs();
        let why = format!(
            "no other member has taken its part of the store over within {seconds} s; is etcd installed on another \
             one, and are enough of those there that run the store?"
        );
        GroupError::NobodyLeft { member: self.name.to_owned(), why }
    }
}

/// Whether the store has failed, and may answer when it is asked again.
const fn is_of_store(error: &GroupError) -> bool {
    matches!(error, GroupError::Membership(MembershipError::Store(_) | MembershipError::Unknown(_)))
}

/// Lets whoever works the plan know that a member is to be removed.
async fn announce(joined: &Joined, member: MemberId) -> Result<LeaseId, StoreError> {
    let lease = joined.etcd().grant(LEAVING_TIME).await?;
    let key = format!("{LEAVING}{:05}", member.0).into_bytes();
    let put = Op::Put { key, value: b"1".to_vec(), lease: Some(lease) };
    joined.etcd().commit(Transaction::always(vec![put])).await?;
    Ok(lease)
}
