//! The life of a member in its group: it enters, shows that it is alive, hears of the others, and says what it serves.
//!
//! Whatever fails is told once and tried again, with pauses that grow; the member serves meanwhile. Only one word ends
//! it: the store was reached, has this group, and the member is not in it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use group::cluster::{self, Begin};
use group::membership::{MembershipError, Roll, is_routine, pause_behind};
use group::store::{Batch, LeaseId, Store, StoreError};

use super::address;
use super::connections;
use super::files::MembershipFile;
use super::health;
use super::joined::Joined;
use super::making::Departure;
use super::naming;
use super::seats::{self, Keeper};
use super::sharing;
use super::trouble::Trouble;
use super::{GroupError, InGroup};
use crate::events::Kind;

/// Others take a member for present so long after its last sign of life.
const LEASE_TIME: Duration = Duration::from_secs(10);

/// Between two signs of life.
const KEEP_ALIVE_PAUSE: Duration = Duration::from_secs(3);

/// Between two looks who is away.
const PRESENCE_PAUSE: Duration = Duration::from_secs(2);

/// Between two looks at the own part of the store.
const PART_PAUSE: Duration = Duration::from_secs(1);

/// Between two words about what the member serves, if that changes all the time and is not very much.
const PUBLISH_PAUSE: Duration = Duration::from_secs(5);

/// And while nothing has been said for a while.
const PUBLISH_PAUSE_MIN: Duration = Duration::from_millis(500);

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// What was told already.
#[derive(Debug, Default)]
struct Told {
    is_unreachable: bool,
    damage: Option<String>,
    /// Why the member's part of the store does not start.
    part: Option<String>,
}

impl Told {
    /// Why the store does not answer, with what is wrong with the member's own part of it.
    fn with_part(&self, why: &str, joined: &Joined) -> String {
        let ended = || joined.part().state().and_then(|state| state.fault());
        match self.part.clone().or_else(ended) {
            Some(part) => format!("{why}; of the part of it that this member runs: {part}"),
            None => why.to_owned(),
        }
    }
}

/// Takes part in the group until the member stops or leaves.
pub(super) async fn run(here: Rc<InGroup>, joined: Rc<Joined>) {
    let mut keeper = Keeper::default();
    let mut told = Told::default();
    let mut pause = PAUSE_MIN;
    loop {
        let attending = attend(&here, &joined, (&mut keeper, &mut told));
        let Some(trouble) = joined.or_end(attending).await else { return };
        let was_reached = joined.fault().is_none();
        match trouble {
            Trouble::Again => {}
            Trouble::Store(why) => {
                let why = told.with_part(&why, &joined);
                joined.lost(why.clone());
                joined.look_for_store();
                if !std::mem::replace(&mut told.is_unreachable, true) {
                    let text = format!(
                        "the store of the group '{}' does not answer: {why}",
                        joined.group_name()
                    );
                    here.tell(Kind::StoreUnreachable, text);
                }
            }
            Trouble::Damaged(why) => {
                joined.lost(why.clone());
                if told.damage.as_ref() != Some(&why) {
                    let text = format!("this member takes no part in its group: {why}");
                    here.tell(Kind::GroupDamaged, text);
                    told.damage = Some(why);
                }
            }
            Trouble::Removed => return depart(&here, &joined, Departure::Removed).await,
            Trouble::Deleted => return depart(&here, &joined, Departure::Deleted).await,
        }
        pause = if was_reached { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
        if joined.or_end(ring::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Tells when the part of the store that this member runs does not run, whether others' answer or not, and when the
/// address of the group is not here any more.
pub(super) async fn watch_part(here: Rc<InGroup>, joined: Rc<Joined>) {
    while joined.or_end(ring::sleep(PART_PAUSE)).await.is_some() {
        address::look(&here, &joined).await;
        let news = joined.part().look(Instant::now());
        let what = format!(
            "the part of the store of the group '{}' that this member runs",
            joined.group_name()
        );
        match news {
            Some(health::News::Down(why)) => {
                here.tell(Kind::StorePartDown, format!("{what} does not run: {why}"));
            }
            Some(health::News::Up) => here.tell(Kind::StorePartUp, format!("{what} runs again")),
            None => {}
        }
    }
}

/// Leaves, unless the operator has the member leave already.
async fn depart(here: &InGroup, joined: &Rc<Joined>, departure: Departure) {
    joined.begin_to_leave();
    here.note_answering();
    let _turn = here.turn.take().await;
    let is_in = here.in_one().is_some_and(|now| Rc::ptr_eq(&now, joined));
    if is_in && !here.is_ending.get() {
        here.leave(joined, departure).await;
    }
}

/// Takes part for as long as nothing goes wrong.
async fn attend(
    here: &Rc<InGroup>,
    joined: &Rc<Joined>,
    (keeper, told): (&mut Keeper, &mut Told),
) -> Trouble {
    // Another member's part may answer all the same.
    let failed = start_part(joined).await.err().map(|error| error.to_string());
    if let Some(why) = failed.as_ref().filter(|why| Some(*why) != told.part.as_ref()) {
        tracing::warn!("the part of the store that this member runs does not start: {why}");
    }
    joined.part().note_refusal(failed.clone());
    told.part = failed;
    if let Err(error) = find_store(joined).await {
        return error.into();
    }
    let lease = match enter(here, joined).await {
        Ok(lease) => lease,
        Err(trouble) => return trouble,
    };
    joined.reached();
    told.damage = None;
    if std::mem::take(&mut told.is_unreachable) {
        let text = format!("the store of the group '{}' answers again", joined.group_name());
        here.tell(Kind::StoreReachable, text);
    }
    first_of([
        Box::pin(hear(here, joined)),
        Box::pin(keep_alive(joined, lease)),
        Box::pin(look_at_others(here, joined)),
        Box::pin(publish(here, joined)),
        Box::pin(connections::keep(here, joined, lease)),
        Box::pin(naming::keep(here, joined)),
        Box::pin(address::keep(here, joined)),
        Box::pin(seats::keep(joined, keeper)),
        Box::pin(sharing::keep(here, joined)),
    ])
    .await
}

/// Hears from any member who runs the store now, where those do not answer who did.
async fn find_store(joined: &Joined) -> Result<(), StoreError> {
    if !joined.is_looking_for_store() {
        return Ok(());
    }
    let etcds = joined.etcd().members().await?;
    if let Err(error) = seats::note_endpoints(joined, &etcds).await {
        tracing::warn!("{error}");
    }
    Ok(())
}

type Task<'a> = Pin<Box<dyn Future<Output = Trouble> + 'a>>;

/// Runs all until one of them is in trouble.
async fn first_of<const N: usize>(mut tasks: [Task<'_>; N]) -> Trouble {
    poll_fn(|cx| {
        let mut polled = tasks.iter_mut().map(|task| task.as_mut().poll(cx));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Starts the member's part of the store, where it has begun before.
async fn start_part(joined: &Joined) -> Result<(), GroupError> {
    if joined.part().state().is_some() {
        return Ok(());
    }
    let file = joined.file().clone();
    if joined.part().has_data().await {
        // It goes on with its data, whatever it is told to begin with.
        let own = cluster::peer_url(file.address, file.port + 2);
        let begin = Begin::Existing(vec![(cluster::etcd_name(file.member), own)]);
        return joined.part().start(&file, begin).await;
    }
    if file.has_seat {
        let (path, gone) = (joined.part().place(), "its data are gone".to_owned());
        return Err(GroupError::Files { path, source: io::Error::other(gone) });
    }
    Ok(())
}

/// What a roll says of this member.
pub(super) fn judge(roll: &Roll, file: &MembershipFile) -> Result<(), Trouble> {
    let name = &file.group_name;
    match &roll.about {
        None if file.is_ending => Err(Trouble::Deleted),
        None => Err(Trouble::Damaged(format!(
            "its store answers and has no group, so that of '{name}' was lost or made anew"
        ))),
        Some(about) if about.id != file.group => Err(Trouble::Damaged(format!(
            "its store has the group '{}' with the identity {}, and this member is in '{name}' with {}",
            about.name, about.id, file.group
        ))),
        Some(_) if !roll.members.contains_key(&file.member) => Err(Trouble::Removed),
        Some(_) => Ok(()),
    }
}

/// The member begins its life in the group, or goes on with it.
async fn enter(here: &InGroup, joined: &Joined) -> Result<LeaseId, Trouble> {
    let membership = joined.membership();
    let roll = membership.read().await?;
    let file = joined.file().clone();
    judge(&roll, &file)?;
    let incarnation = here.incarnation().map_err(|error| Trouble::Damaged(error.to_string()))?;
    let me = file.member;
    let known = roll.members.get(&me).map(|record| record.incarnation);
    if known != Some(incarnation) {
        // After a start, it may be the life before that has not expired yet.
        if joined.has_entered() && roll.is_present(me) {
            return Err(Trouble::Damaged(format!(
                "another server runs as the member '{}', with a copy of its data directory: stop one of the two",
                file.name
            )));
        }
        membership.enter(me, incarnation, env!("CARGO_PKG_VERSION")).await?;
    }
    let lease = joined.etcd().grant(LEASE_TIME).await?;
    membership.appear(me, incarnation, lease).await?;
    joined.has_appeared(lease);
    let roll = membership.read().await?;
    judge(&roll, &file)?;
    if file.is_ending {
        // It was to end, and has not.
        not_ending(joined).await;
    }
    joined.hear_roll(roll);
    here.heard.ring();
    note_about(joined).await;
    connections::note_limits(joined, &mut None).await;
    Ok(lease)
}

async fn not_ending(joined: &Joined) {
    if let Err(error) = joined.change_file(|file| file.is_ending = false).await {
        tracing::warn!("{error}");
    }
}

/// Notes how the group is called now, and which address it has.
async fn note_about(joined: &Joined) {
    let about = |roll: &Roll| Some((roll.about.as_ref()?.name.clone(), roll.address));
    let Some((name, address)) = joined.with_roll(about).flatten() else { return };
    let noted = joined.change_file(move |file| {
        (file.group_name, file.group_address) = (name, address);
    });
    if let Err(error) = noted.await {
        tracing::warn!("{error}");
    }
}

/// Hears what changes.
async fn hear(here: &InGroup, joined: &Joined) -> Trouble {
    let mut watch = joined.membership().watch(joined.revision() + 1);
    let mut unkept_limits = None;
    loop {
        let mut is_quiet = true;
        let heard = match watch.next().await {
            Some(Ok(batch)) => {
                is_quiet = is_routine(&batch);
                take(here, joined, &batch)
            }
            Some(Err(error)) => Err(error.into()),
            None => Err(Trouble::Again),
        };
        if let Err(trouble) = heard {
            return trouble;
        }
        let is_changed = joined.with_roll(|roll| {
            let file = joined.file();
            let is_renamed = roll.about.as_ref().is_some_and(|about| about.name != file.group_name);
            is_renamed || roll.address != file.group_address
        });
        if is_changed == Some(true) {
            note_about(joined).await;
        }
        if !is_quiet {
            connections::note_limits(joined, &mut unkept_limits).await;
        }
    }
}

fn take(here: &InGroup, joined: &Joined, batch: &Batch) -> Result<(), Trouble> {
    joined.hear_batch(batch)?;
    here.heard.ring();
    if seats::concerns_leaving(batch) {
        joined.note_change();
    }
    let judged = joined.with_roll(|roll| judge(roll, &joined.file()));
    judged.unwrap_or(Err(Trouble::Again))?;
    here.tell_news(&joined.group_name(), joined.news());
    // Somebody else has entered as this member since.
    let (me, mine) = (joined.me(), here.incarnation.get());
    let entered = joined.with_roll(|roll| roll.members.get(&me).map(|record| record.incarnation));
    if entered.flatten() == mine { Ok(()) } else { Err(Trouble::Again) }
}

/// Shows that the member is alive.
async fn keep_alive(joined: &Joined, lease: LeaseId) -> Trouble {
    loop {
        ring::sleep(KEEP_ALIVE_PAUSE).await;
        if let Err(error) = joined.etcd().keep_alive(lease).await {
            return error.into();
        }
    }
}

/// Tells of others who are away: nothing is heard when time passes.
async fn look_at_others(here: &InGroup, joined: &Joined) -> Trouble {
    loop {
        here.tell_news(&joined.group_name(), joined.news());
        ring::sleep(PRESENCE_PAUSE).await;
    }
}

/// Says what the member serves whenever that is something else.
async fn publish(here: &InGroup, joined: &Joined) -> Trouble {
    let me = joined.me();
    let mut said = joined.with_roll(|roll| roll.inventories.get(&me).cloned()).flatten();
    let (mut pause, mut longest, mut since) = (PUBLISH_PAUSE_MIN, PUBLISH_PAUSE, Instant::now());
    loop {
        let own = here.announcer.own_beside(said.as_deref()).await;
        // What changes now and then is said soon, and what changes all the time now and then.
        let is_busy = since.elapsed() < 2 * longest;
        pause = if is_busy { (pause * 2).min(longest) } else { PUBLISH_PAUSE_MIN };
        since = Instant::now();
        match joined.membership().publish(me, &own).await {
            Ok(bytes) => longest = PUBLISH_PAUSE.max(pause_behind(bytes)),
            // Others keep what was said before; trying the same again is no use.
            Err(MembershipError::Store(error @ StoreError::TooLarge { .. })) => {
                tracing::error!("the other members do not hear what this one serves now: {error}");
            }
            Err(error) => return error.into(),
        }
        said = Some(own);
        ring::sleep(pause).await;
    }
}
