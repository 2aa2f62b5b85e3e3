//! Keeps the sessions of a disk as they are planned, while ports come and go.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use iscsi::discovery::PortalAddress;

use super::PlanOptions;
use super::core::{Core, PathSlot};
use super::survey::{Numbers, Survey, named_portals};
use super::ways::Share;
use crate::address::TargetAddress;
use crate::identity::{ClaimError, Identity};
use crate::options::SessionOptions;
use crate::paths::plan::{Planned, changes};
use crate::paths::{PathId, PathState};
use crate::session::Session;

/// Losses seldom come alone: the others of a switch that died follow within this time.
const GATHER: Duration = Duration::from_millis(200);

/// The pause after trouble; each further one is twice as long, up to the usual one. What was let go of
/// meanwhile, because nothing led there, is found again soon.
const TROUBLE_PAUSE: Duration = Duration::from_secs(5);

/// How long a path that takes the place of another one may take to work, and how often it is looked at.
const REPLACEMENT_TIME: Duration = Duration::from_secs(10);
const REPLACEMENT_LOOK: Duration = Duration::from_millis(10);

/// What the planner of one disk knows.
#[derive(Debug)]
pub(super) struct Planner {
    pub(super) volume: TargetAddress,
    pub(super) session: SessionOptions,
    pub(super) options: PlanOptions,
    pub(super) numbers: Numbers,
    /// Portals to ask for others.
    pub(super) known: Vec<PortalAddress>,
    /// Its sessions among those of the host.
    share: Share,
}

impl Planner {
    pub(super) fn new(
        volume: &TargetAddress,
        session: SessionOptions,
        options: PlanOptions,
    ) -> Self {
        let known = vec![volume.portal.clone()];
        let (numbers, share) = (Numbers::default(), options.ways.enter());
        Self { volume: volume.clone(), session, options, numbers, known, share }
    }

    /// The sessions that there should be, given those that are there: `paths`. The target is asked
    /// for its portals within one of them if it `tells_portals` there. Empty if nothing can be reached.
    pub(super) async fn look(
        &mut self,
        paths: &[(PathId, Rc<PathSlot>)],
        tells_portals: bool,
    ) -> Vec<Planned> {
        // One that lives at another portal for now says nothing of its own.
        let is_up = |slot: &PathSlot| {
            let session = slot.session.borrow();
            session.as_ref().is_some_and(|it| it.is_up() && it.detour().is_none())
        };
        let up = || paths.iter().map(|(_, slot)| slot).filter(|slot| is_up(slot));
        let asked = up().filter(|_| tells_portals).find_map(|slot| slot.session.borrow().clone());
        let named = named_portals(&self.volume, asked.as_ref(), &self.known, &self.session).await;
        let only = self.options.host_ports.clone();
        let mut survey = Survey::of(&self.volume.portal, named, only).await;
        self.known = survey.portals().cloned().collect();
        let works: Vec<_> =
            up().map(|slot| (slot.options.local, slot.address.portal.clone())).collect();
        survey.believe(&works);
        let current = planned_of(paths);
        let wanted = self.plan(&survey, &current);
        // What is wanted is tried first: mostly that is all, and mostly it works.
        let ends = self.numbers.session_ends(&wanted);
        if survey.prove(&self.options.ways, &ends).await {
            return wanted;
        }
        survey.prove_all(&self.options.ways).await;
        self.plan(&survey, &current)
    }

    fn plan(&mut self, survey: &Survey, current: &[Planned]) -> Vec<Planned> {
        let (numbers, options) = (RefCell::new(&mut self.numbers), &self.options);
        self.share.plan(
            |others| survey.plan(&mut numbers.borrow_mut(), options, current, others),
            |planned| numbers.borrow().session_ends(planned),
        )
    }

    /// The slot of a path for a planned session.
    pub(super) fn slot(&self, planned: &Planned) -> Result<PathSlot, ClaimError> {
        let (local, portal) = self.numbers.ends(planned);
        let mut options = self.session.clone();
        options.local = local;
        // The own portal, too: another port of this host may reach it.
        let group = self.known.iter().find(|it| is_same_place(it, &portal)).map(|it| it.group_tag);
        let in_group = self.known.iter().filter(|it| Some(it.group_tag) == group);
        let alternates = in_group.filter(|it| local.is_some() || !is_same_place(it, &portal));
        options.alternates = alternates.cloned().collect();
        let address = TargetAddress { portal, ..self.volume.clone() };
        let mut slot = PathSlot::new(address, options, Some(*planned));
        self.identify(&mut slot)?;
        Ok(slot)
    }

    /// Gives a new slot its ISID.
    pub(super) fn identify(&self, slot: &mut PathSlot) -> Result<(), ClaimError> {
        let Some(identities) = &self.options.identities else { return Ok(()) };
        let Identity { isid, hold } = identities.claim(&slot.address, slot.options.local)?;
        slot.options.isid = Some(isid);
        slot.hold.replace(Some(hold));
        Ok(())
    }
}

fn is_same_place(one: &PortalAddress, other: &PortalAddress) -> bool {
    (&one.host, one.port) == (&other.host, other.port)
}

/// Runs until the disk is closed.
pub(super) async fn keep(core: Rc<Core>, mut planner: Planner) {
    let interval = planner.options.look_interval;
    let mut pause = interval;
    while !core.is_closed() {
        let has_trouble = ring::timeout(pause, core.plan_bell.rung()).await.is_some();
        if has_trouble {
            ring::sleep(GATHER).await;
        }
        pause = if has_trouble { TROUBLE_PAUSE } else { pause * 2 }.min(interval);
        if core.is_closed() {
            return;
        }
        // Before the look, which may take longer than the target waits, and would ask a member that
        // wants to be left.
        if replace_leaving(&core, &planner) {
            continue;
        }
        let paths = core.all_paths();
        let planned = planner.look(&paths, core.facts.tells_portals).await;
        if core.is_closed() {
            return;
        }
        if !planned.is_empty() {
            turn_to(&core, &planner, &paths, &planned);
        }
    }
}

fn planned_of(paths: &[(PathId, Rc<PathSlot>)]) -> Vec<Planned> {
    paths.iter().filter_map(|(_, slot)| slot.planned).collect()
}

/// For a session whose target has asked it to log out, and beside which no other works, another one
/// between the same ends is opened before it leaves: a login is what a group sends elsewhere. Whether
/// there was one.
fn replace_leaving(core: &Rc<Core>, planner: &Planner) -> bool {
    let paths = core.all_paths();
    let mut is_any = false;
    for (path, slot) in &paths {
        let is_asked = slot.session.borrow().as_ref().is_some_and(Session::is_asked_to_leave);
        let same = paths.iter().filter(|(_, other)| other.planned == slot.planned);
        let Some(planned) = slot.planned.filter(|_| is_asked && same.count() == 1) else {
            continue;
        };
        match planner.slot(&planned) {
            Ok(next) => {
                tracing::info!("{} asks for a logout: one path in its place", slot.address);
                let next = core.add_path(Rc::new(next));
                ring::spawn(replace(core.clone(), *path, next));
                is_any = true;
            }
            Err(error) => tracing::warn!("no further path: {error}"),
        }
    }
    is_any
}

/// Lets go of the path `old` once `next` works, or of `next` if it does not.
async fn replace(core: Rc<Core>, old: PathId, next: PathId) {
    let is_there = async {
        while !core.is_closed() && !core.works(next) {
            ring::sleep(REPLACEMENT_LOOK).await;
        }
    };
    let came = ring::timeout(REPLACEMENT_TIME, is_there).await.is_some();
    if !core.is_closed() {
        core.retire(if came { old } else { next });
    }
}

/// Opens what is missing; lets go of what is too much, but never of the last path that works.
fn turn_to(
    core: &Rc<Core>,
    planner: &Planner,
    paths: &[(PathId, Rc<PathSlot>)],
    planned: &[Planned],
) {
    let changes = changes(&planned_of(paths), planned);
    for missing in &changes.open {
        match planner.slot(missing) {
            Ok(slot) => {
                tracing::info!("one more path, to {}", slot.address);
                core.add_path(Rc::new(slot));
            }
            Err(error) => tracing::warn!("no further path: {error}"),
        }
    }
    for (path, slot) in paths {
        let is_wanted = slot.planned.is_none_or(|planned| !changes.close.contains(&planned));
        let works = |path: PathId| core.status(path).state == PathState::Active;
        let others_work =
            || core.all_paths().iter().any(|(other, _)| other != path && works(*other));
        if !is_wanted && (core.has_failed(*path) || others_work()) {
            core.retire(*path);
        }
    }
}
