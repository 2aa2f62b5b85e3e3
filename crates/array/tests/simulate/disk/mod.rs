//! A simulated disk: a cache that a loss of power empties, and faults on order.
//!
//! A [`Drive`] is the hardware, which outlives the machine that uses it; a [`SimDisk`] is the
//! handle that one boot of the machine has on it, and is dead once the drive was unplugged.

mod handle;
mod media;
mod page;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use block::Geometry;

use crate::content::{self, Content};
use crate::env::SimEnv;
use crate::random::Random;
use media::{Media, Mishap};
use page::PAGE_BYTES;

pub(crate) use handle::SimDisk;

/// How a drive does, apart from its contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Nothing gets through, in either direction; the drive keeps its power.
    pub(crate) unreachable: bool,
    /// Everything takes a hundred times as long.
    pub(crate) slow: bool,
    /// There is no room for pages that hold nothing yet.
    pub(crate) full: bool,
    /// Nothing is answered until this ends.
    pub(crate) silent: bool,
    /// So many of the next writes, reads and flushes fail.
    pub(crate) failing_writes: u32,
    pub(crate) failing_reads: u32,
    pub(crate) failing_flushes: u32,
}

impl Condition {
    /// As it should be, however slow.
    pub(crate) fn is_well(self) -> bool {
        self == Self { slow: self.slow, ..Self::default() }
    }
}

/// Where chunks begin on the small disks of a simulation, or a little behind that.
const CHUNKS: u64 = 0x61_0000;
/// Labels, checkpoints and the redo area end here.
const TELLING_END: u64 = 0x21_0000;

#[derive(Debug)]
struct State {
    media: Media,
    condition: Condition,
    /// Counts how often the drive was unplugged: handles of before are dead.
    plug: u64,
    /// Counts how often another drive took its place.
    swaps: u64,
    /// It is in the machine, not on the shelf.
    installed: bool,
    /// It belongs into the machine and is not there now.
    absent: bool,
    /// It holds the journal and nothing else.
    journal: bool,
    /// Something was done to it since the machine started, so the array may complain of it.
    hurt: bool,
    /// It held something else than it was given, and nobody has made sure of everything since: a
    /// parity that it lost may have gone into what it holds now.
    lied: bool,
    /// What the drive that comes in its place was: a disk of another life of the array.
    past: Option<Media>,
    /// What it was when the machine started, if nothing was wrong with it.
    image: Option<Media>,
}

impl State {
    fn new(media: Media, swaps: u64) -> Self {
        let condition = Condition::default();
        Self {
            media,
            condition,
            plug: 0,
            swaps,
            installed: true,
            absent: false,
            journal: false,
            hurt: false,
            lied: false,
            past: None,
            image: None,
        }
    }
}

/// The hardware. Clones are the same drive.
#[derive(Clone)]
pub(crate) struct Drive(Arc<Inner>);

struct Inner {
    env: SimEnv,
    number: usize,
    geometry: Geometry,
    random: Random,
    /// One operation in so many ends within its call.
    immediate_one_in: u64,
    state: Mutex<State>,
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {}", self.0.number)
    }
}

impl Drive {
    /// A blank drive of `size_bytes`.
    pub(crate) fn new(env: &SimEnv, number: usize, size_bytes: u64) -> Self {
        assert!(size_bytes.is_multiple_of(PAGE_BYTES as u64), "a drive has whole pages");
        let random = env.fork_random();
        let block_bytes = *random.pick(&[512_u32, 4096]);
        let geometry = Geometry {
            physical_block_bytes: *random.pick(&[block_bytes, 4096]),
            ..Geometry::new(block_bytes, size_bytes / u64::from(block_bytes))
        };
        let media = Media::new((size_bytes / PAGE_BYTES as u64) as usize);
        let state = State::new(media, 0);
        Self(Arc::new(Inner {
            env: env.clone(),
            number,
            geometry,
            immediate_one_in: *random.pick(&[2, 8, 64]),
            random,
            state: Mutex::new(state),
        }))
    }

    pub(crate) fn number(&self) -> usize {
        self.0.number
    }

    /// A name as an operator would see it; another one after each swap.
    pub(crate) fn name(&self) -> String {
        format!("disk{}.{}", self.0.number, self.state().swaps)
    }

    /// Whether it is in the machine.
    pub(crate) fn is_installed(&self) -> bool {
        self.state().installed
    }

    pub(crate) fn is_for_journal(&self) -> bool {
        self.state().journal
    }

    /// An array is made that keeps its journal on it, until another drive stands in its place.
    pub(crate) fn set_for_journal(&self) {
        self.state().journal = true;
    }

    /// Whether it is where it belongs.
    pub(crate) fn is_absent(&self) -> bool {
        self.state().absent
    }

    /// Somebody takes it out of the machine, or puts it back.
    pub(crate) fn set_absent(&self, absent: bool) {
        self.0.env.note(format!("{self:?} is absent: {absent}"));
        let mut state = self.state();
        state.absent = absent;
        state.hurt = true;
    }

    /// Whether the array may complain of it.
    pub(crate) fn is_hurt(&self) -> bool {
        self.state().hurt
    }

    /// A machine starts: of what was wrong before it knows only what still is.
    pub(crate) fn begins(&self) {
        let mut state = self.state();
        let media = &state.media;
        let is_damaged = media.damaged() > 0 || media.is_armed();
        state.hurt = is_damaged || state.lied || !state.condition.is_well() || state.absent;
        state.image = (!is_damaged && !state.lied).then(|| state.media.clone());
    }

    pub(crate) fn set_installed(&self, installed: bool) {
        self.0.env.note(format!("{self:?} is installed: {installed}"));
        self.state().installed = installed;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn hurt(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        (state.hurt, state.lied) = (true, true);
        state
    }

    /// A handle for the machine, good until the drive loses its power.
    pub(crate) fn plug(&self) -> Arc<SimDisk> {
        Arc::new(SimDisk { drive: self.clone(), plug: self.state().plug })
    }

    /// The drive loses its power: all handles are dead, what was not durable may be gone.
    pub(crate) fn unplug(&self) {
        let mut state = self.state();
        state.plug += 1;
        state.media.power_cut(&self.0.random);
    }

    /// Somebody pulls it.
    pub(crate) fn pull(&self) {
        self.0.env.note(format!("{self:?} is unplugged"));
        self.state().hurt = true;
        self.unplug();
    }

    /// What it holds is from now on what it held when the machine started. It must be pulled.
    pub(crate) fn turn_back(&self) {
        let state = &mut *self.state();
        if let Some(image) = state.image.take() {
            self.0.env.note(format!("{self:?} is an old image of itself"));
            state.media.restore(&image);
        }
    }

    /// The process that used the drive ends; the drive keeps its power and its cache.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        state.plug += 1;
        state.media.process_ends(&self.0.random);
    }

    pub(crate) fn condition(&self) -> Condition {
        self.state().condition
    }

    pub(crate) fn set_condition(&self, condition: Condition) {
        let mut state = self.state();
        if state.condition == condition {
            return;
        }
        state.condition = condition;
        state.hurt |= !condition.is_well();
        drop(state);
        self.0.env.note(format!("{self:?} {condition:?}"));
    }

    /// A share of what is stored, or all of it, is something else from now on. The areas before
    /// the chunks are spared, unless `labels` too.
    pub(crate) fn rot(&self, percent: u64, labels: bool) {
        let first = if labels { 0 } else { CHUNKS / PAGE_BYTES as u64 };
        let pages = self.hurt().media.rot(first, percent, &self.0.random);
        self.0.env.note(format!("{pages} pages of {self:?} rot, {percent} % of what it holds"));
    }

    /// Pages become unreadable until they are written. False if none was found.
    pub(crate) fn latent_error(&self) -> bool {
        let page = self.hurt().media.latent_error(&self.0.random);
        self.0.env.note(format!("{self:?} cannot read page {page:x?}"));
        page.is_some()
    }

    /// A stored bit turns over. False if nothing is stored.
    pub(crate) fn flip_bit(&self) -> bool {
        let page = self.hurt().media.flip_bit(&self.0.random);
        self.0.env.note(format!("{self:?} flips a bit of page {page:x?}"));
        page.is_some()
    }

    /// The next write is acknowledged and does not arrive.
    pub(crate) fn lose_write(&self) {
        self.0.env.note(format!("{self:?} will lose a write"));
        self.hurt().media.arm(Some(Mishap::Lost));
    }

    /// The next write lands at another place of this drive.
    pub(crate) fn misdirect_write(&self) {
        let mut state = self.hurt();
        let page = self.0.random.below(state.media.pages());
        self.0.env.note(format!("{self:?} will misdirect a write to page {page:#x}"));
        state.media.arm(Some(Mishap::Misdirected(page)));
    }

    /// No mishap is to come any more.
    pub(crate) fn disarm(&self) {
        self.state().media.arm(None);
    }

    /// A page as it lies there, of the areas before the chunks if possible, for hosts to write.
    /// `None` if it holds data of hosts already.
    pub(crate) fn peek(&self) -> Option<Content> {
        let system = self.0.random.one_in(2).then_some(TELLING_END / PAGE_BYTES as u64);
        let bytes = self.state().media.peek(system, &self.0.random)?;
        content::copy(&bytes)
    }

    /// A drive like this one, with the same contents, for another machine.
    pub(crate) fn copy(&self) -> Self {
        let state = self.state();
        let copy = State::new(state.media.clone(), state.swaps);
        Self(Arc::new(Inner {
            env: self.0.env.clone(),
            number: self.0.number,
            geometry: self.0.geometry,
            random: self.0.random.fork(),
            immediate_one_in: self.0.immediate_one_in,
            state: Mutex::new(copy),
        }))
    }

    /// How many pages are not what was written.
    pub(crate) fn damaged(&self) -> usize {
        self.state().media.damaged()
    }

    /// Nothing is wrong any more: right only once nobody refers to the damaged pages. Before the
    /// chunks that makes them what they should be. In chunks what lies there counts from now on: a
    /// scrub has proved the parity with it, and who uses the space again comes upon it.
    pub(crate) fn forgive(&self) {
        let mut state = self.state();
        state.lied = false;
        state.media.forgive(CHUNKS / PAGE_BYTES as u64);
    }

    /// Whether it could stand in the place of `other`.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.0.geometry.size_bytes() == other.0.geometry.size_bytes()
    }

    /// The next drive that comes in the place of this one is that one, without its labels.
    pub(crate) fn set_past(&self, other: &Self) {
        let past = other.state().media.clone();
        self.state().past = Some(past);
    }

    /// Another drive of the same make stands in its place: a new one, or one that has nothing left to show
    /// what it was. A third of those that nobody has anything of are this one itself, wiped.
    pub(crate) fn wipe(&self) {
        let mut state = self.state();
        state.plug += 1;
        state.swaps += 1;
        let own = self.0.random.one_in(3).then(|| state.media.clone());
        match state.past.take().or(own) {
            Some(past) => state.media.begin_as(&past),
            None => state.media.wipe(),
        }
        (state.journal, state.hurt, state.lied) = (false, false, false);
        state.image = None;
        state.condition = Condition::default();
    }
}
