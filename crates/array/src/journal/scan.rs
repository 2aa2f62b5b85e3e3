//! Recovery: what the journal holds beyond the last checkpoint.

use std::io;

use block::BlockError;
use ring::Region;

use super::batch::Head;
use super::{BATCH_BLOCKS_MAX, BLOCK, Holder, Mark, Record};
use crate::join::join_all;
use crate::label::{ArrayId, Layout};
use crate::mutants::{self, Mutant};
use crate::{BLOCK_BYTES, DiskId};

/// What of each holder is in memory at a time; holds any batch.
const WINDOW_BYTES: u64 = BATCH_BLOCKS_MAX * BLOCK;
/// How far beyond the end later batches are looked for: more than any damage that leaves the rest
/// of a disk readable, and a fraction of a second to read.
const LOOK_AHEAD_BYTES: u64 = 16 << 20;

// Every batch that may be left behind one that is lost is seen.
const _: () = assert!(LOOK_AHEAD_BYTES >= 2 * super::IN_DOUBT_BYTES_MAX);

/// What was found.
#[derive(Debug)]
pub struct Scanned {
    /// The ring in memory, filled with what is in use.
    pub image: Region,
    /// Where the next batch goes.
    pub end: Mark,
    /// Larger than all that this ring has seen.
    pub next_sequence: u64,
    /// Holders that lack something of it. Nothing may be acknowledged before each of them is
    /// [filled](super::Journal::fill) or, by the labels, no holder any more.
    pub lagging: Vec<DiskId>,
}

/// Why the journal cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JournalDamage {
    /// There are acknowledged batches behind one that is on no holder.
    #[error(
        "the journal is damaged at position {position}: writes up to position {acknowledged} were \
         acknowledged, and no disk that is there has them; add the missing disks"
    )]
    Lost {
        /// Of the first batch that is not there.
        position: u64,
        /// What came before this was answered.
        acknowledged: u64,
    },
    /// What the holders have ends before the last checkpoint.
    #[error("the journal ends at position {position}, before the last checkpoint")]
    Old {
        /// Where it ends.
        position: u64,
    },
    /// No holder could be read where the next batch would be.
    #[error(
        "the journal cannot be read at position {position} on any disk that holds it: {error}; \
         add the missing disks"
    )]
    Unreadable {
        /// Of the batch.
        position: u64,
        /// What a disk said.
        error: BlockError,
    },
    /// A batch is whole and makes no sense.
    #[error("the journal at position {position} was written by another version of Drystone")]
    Unknown {
        /// Of the batch.
        position: u64,
    },
    /// No memory for the ring.
    #[error("no memory for the journal")]
    NoMemory,
}

/// A part of the ring on one holder.
struct Window<'a> {
    holder: &'a Holder,
    /// Positions `start..start + bytes.len()`.
    start: u64,
    bytes: Vec<u8>,
    /// Blocks that could not be read; zero in `bytes`.
    bad: Vec<u64>,
    error: BlockError,
}

/// What one holder has at a position.
enum Verdict {
    Whole(Head),
    Absent,
    Unreadable,
    /// The window ends before the batch does.
    Beyond,
}

/// One scan.
struct Scan<'a> {
    layout: &'a Layout,
    array: ArrayId,
    from: Mark,
    /// Border behind the last batch that was taken.
    end: Mark,
    windows: Vec<Window<'a>>,
    lagging: Vec<DiskId>,
    image: Region,
}

/// More batches than a journal has between two checkpoints. By so much each life's numbers are
/// behind those that the one before can have used, also on disks that nobody looks at now: none of
/// its batches fits behind one of this life.
pub(super) const LIFE: u64 = 1 << 32;

/// So far apart are the numbers of two lives that each gave up a journal under another label: more than those
/// of a hundred lives that came after the last checkpoint and are lost with the journal.
const GIVEN_UP: u64 = 1 << 40;

/// No number of a life that gave up a journal is larger for that: two billion lives come after it.
const GIVEN_UP_MAX: u64 = 1 << 63;

/// A journal that nobody has any more, and that is given up: it begins anew where the last
/// checkpoint ended. Whoever had it counted on from there, in several lives maybe, of which one may have given
/// up a journal too: none of that must ever fit again, or be taken for something that is missing. Each giving
/// up changes the labels, so the `generation` of the one that is opened tells them apart. What these `holders`
/// have is not it.
///
/// # Errors
/// [`JournalDamage::NoMemory`].
pub fn given_up(
    holders: &[Holder],
    layout: &Layout,
    from: Mark,
    generation: u64,
) -> Result<Scanned, JournalDamage> {
    let image = Region::new(layout.journal_bytes as usize).map_err(|_| JournalDamage::NoMemory)?;
    let apart = match mutants::is(Mutant::NearLife) {
        true => LIFE,
        false => generation.max(1).saturating_mul(GIVEN_UP),
    };
    let far = from.sequence.saturating_add(apart).min(GIVEN_UP_MAX);
    // In no case does it go back.
    let next_sequence = far.max(from.sequence + LIFE);
    let lagging = holders.iter().map(|holder| holder.disk).collect();
    Ok(Scanned { image, end: from, next_sequence, lagging })
}

/// What the last checkpoint says of the journal.
#[derive(Debug, Clone)]
pub struct Believed {
    /// Where it begins.
    pub from: Mark,
    /// All before this position was durable on all holders before the checkpoint was.
    pub since: u64,
    /// Disks that have the checkpoint, and so what was before it. Of others that has to be seen.
    pub holders: Vec<DiskId>,
}

/// Reads what the journal has, and calls `each` for every record in order, with the position of its payload.
/// A holder that has neither the last checkpoint nor the batch before it nor the one behind is not believed,
/// and where nobody has all that the checkpoint relied on the journal is an old one. Memory besides the
/// image: 1 MiB for each holder.
///
/// # Errors
/// [`JournalDamage`]; what `each` got must then be forgotten.
pub async fn scan(
    holders: &[Holder],
    layout: &Layout,
    array: ArrayId,
    believed: &Believed,
    each: &mut dyn FnMut(Record, u64),
) -> Result<Scanned, JournalDamage> {
    let image = Region::new(layout.journal_bytes as usize).map_err(|_| JournalDamage::NoMemory)?;
    let windows = holders.iter().map(Window::new).collect();
    let from = believed.from;
    let mut scan = Scan { layout, array, from, end: from, windows, lagging: Vec::new(), image };
    scan.leave_old_ones(&believed.holders).await?;
    while scan.take_batch(each).await? {}
    let last_sequence = scan.look_ahead().await?;
    if scan.end.position < believed.since && !mutants::is(Mutant::OldJournal) {
        return Err(JournalDamage::Old { position: scan.end.position });
    }
    Ok(Scanned {
        image: scan.image,
        end: scan.end,
        next_sequence: last_sequence + LIFE,
        lagging: scan.lagging,
    })
}

impl Scanned {
    /// Numbers of this life begin `chance` further on: two lives that go on from one image of the disks do
    /// not use the same ones, and no batch of the one fits behind one of the other.
    pub fn stand_apart(&mut self, chance: u64) {
        self.next_sequence += chance % LIFE;
    }

    /// A journal in which nothing was ever written.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn empty(layout: &Layout) -> io::Result<Self> {
        Ok(Self {
            image: Region::new(layout.journal_bytes as usize)?,
            end: Mark::default(),
            next_sequence: 1,
            lagging: Vec::new(),
        })
    }
}

impl Scan<'_> {
    /// Holders that do not know of what the last checkpoint relied on are not asked: copies of a disk of
    /// long ago, and the like.
    async fn leave_old_ones(&mut self, believed: &[DiskId]) -> Result<(), JournalDamage> {
        let (array, layout, from) = (self.array, self.layout, self.from);
        let mut knowing = Vec::new();
        for mut window in std::mem::take(&mut self.windows) {
            let is_known = believed.contains(&window.holder.disk);
            if is_known
                || window.knows(array, layout, from).await
                || mutants::is(Mutant::OldJournal)
            {
                knowing.push(window);
            } else {
                self.lagging.push(window.holder.disk);
            }
        }
        self.windows = knowing;
        match self.windows.is_empty() && !self.lagging.is_empty() {
            true => Err(JournalDamage::Old { position: from.position }),
            false => Ok(()),
        }
    }

    /// Takes the batch at the end; `false` when there is none.
    async fn take_batch(
        &mut self,
        each: &mut dyn FnMut(Record, u64),
    ) -> Result<bool, JournalDamage> {
        let verdicts = self.verdicts().await;
        let whole = |verdict: &Verdict| match verdict {
            Verdict::Whole(head) => Some(*head),
            _ => None,
        };
        let Some((index, head)) =
            verdicts.iter().enumerate().find_map(|(index, verdict)| Some((index, whole(verdict)?)))
        else {
            // A batch that was acknowledged is whole on every holder: one that can be read and
            // does not have it proves that it never was.
            let absent = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Absent));
            let error = self.windows.first().map_or(BlockError::Busy, |window| window.error);
            let position = self.end.position;
            return if absent {
                Ok(false)
            } else {
                Err(JournalDamage::Unreadable { position, error })
            };
        };
        for (verdict, window) in verdicts.iter().zip(&self.windows) {
            let disk = window.holder.disk;
            if whole(verdict) != Some(head) && !self.lagging.contains(&disk) {
                self.lagging.push(disk);
            }
        }
        let bytes = self.windows[index].batch(self.end.position, &head);
        self.image.write((self.end.position % self.layout.journal_bytes) as usize, bytes);
        let end = next_of(&head, self.end);
        assert!(end.position > self.end.position, "every batch has a length");
        if !head.each_record(self.end.position, bytes, each) {
            return Err(JournalDamage::Unknown { position: self.end.position });
        }
        self.end = end;
        Ok(true)
    }

    /// What each holder has at the end.
    async fn verdicts(&mut self) -> Vec<Verdict> {
        let (array, end, from) = (self.array, self.end, self.from);
        let layout = self.layout;
        if end.position - from.position >= layout.journal_bytes {
            return self.windows.iter().map(|_| Verdict::Absent).collect();
        }
        let look = self.windows.iter_mut().map(|window| {
            Box::pin(async move {
                match window.verdict(array, layout, end) {
                    Verdict::Beyond => {
                        window.load(layout, end.position).await;
                        window.verdict(array, layout, end)
                    }
                    verdict => verdict,
                }
            })
        });
        let verdicts = join_all(look.collect()).await;
        // A whole window reaches to the end of the ring or is as long as any batch.
        let settle = |verdict| match verdict {
            Verdict::Beyond => Verdict::Absent,
            verdict => verdict,
        };
        verdicts.into_iter().map(settle).collect()
    }

    /// Looks for batches beyond the end that prove damage; gives the largest sequence number seen.
    async fn look_ahead(&mut self) -> Result<u64, JournalDamage> {
        let ring_bytes = self.layout.journal_bytes;
        let end = self.end.position;
        let free = ring_bytes - (end - self.from.position).min(ring_bytes);
        let stop = end + free.min(LOOK_AHEAD_BYTES);
        let mut last_sequence = self.end.sequence;
        let mut at = end;
        while at < stop {
            let load = self.windows.iter_mut().map(|window| {
                let layout = self.layout;
                Box::pin(async move { window.load(layout, at).await })
            });
            join_all(load.collect()).await;
            for window in &self.windows {
                for block in window.bytes.chunks_exact(BLOCK_BYTES) {
                    let Some(head) = Head::decode(block, self.array) else { continue };
                    last_sequence = last_sequence.max(head.sequence);
                    // What an opening gave up lies there still, with smaller numbers.
                    let is_later = head.sequence > self.end.sequence;
                    if head.durable > end && is_later && !mutants::is(Mutant::NoSequence) {
                        return Err(JournalDamage::Lost {
                            position: end,
                            acknowledged: head.durable,
                        });
                    }
                }
            }
            at += WINDOW_BYTES.min(ring_bytes - at % ring_bytes);
        }
        Ok(last_sequence)
    }
}

/// Where the batch after this one starts, which was found at `at`.
fn next_of(head: &Head, at: Mark) -> Mark {
    let position = at.position + (head.end().position - head.start);
    Mark { position, sequence: head.sequence }
}

impl<'a> Window<'a> {
    fn new(holder: &'a Holder) -> Self {
        Self { holder, start: 0, bytes: Vec::new(), bad: Vec::new(), error: BlockError::Busy }
    }

    /// Reads from `position` on, at most to the end of the ring.
    async fn load(&mut self, layout: &Layout, position: u64) {
        let offset = position % layout.journal_bytes;
        let len = WINDOW_BYTES.min(layout.journal_bytes - offset);
        let at = layout.journal_at() + offset;
        self.start = position;
        self.bad.clear();
        self.bytes.resize(len as usize, 0);
        if self.read(at, 0..len as usize).await.is_ok() {
            return;
        }
        // A sector that cannot be read must not hide its neighbours.
        for block in 0..len / BLOCK {
            let from = (block * BLOCK) as usize;
            if let Err(error) = self.read(at + block * BLOCK, from..from + BLOCK_BYTES).await {
                self.error = error;
                self.bad.push(block);
                self.bytes[from..from + BLOCK_BYTES].fill(0);
            }
        }
    }

    async fn read(&mut self, at: u64, range: std::ops::Range<usize>) -> Result<(), BlockError> {
        let data = self.holder.device.read(at, range.len()).await?;
        data.copy_to(0, &mut self.bytes[range]);
        Ok(())
    }

    /// Whether the batch that ends at `mark` is here, or the one behind it, which may lie where that one
    /// did. What cannot be read may be either.
    async fn knows(&mut self, array: ArrayId, layout: &Layout, mark: Mark) -> bool {
        if mark.sequence == 0 {
            return true;
        }
        self.load(layout, mark.position).await;
        let next = Head::decode(&self.bytes[..BLOCK_BYTES], array);
        if self.bad.contains(&0) || next.is_some_and(|head| follows(&head, layout, mark)) {
            return true;
        }
        let in_ring = (mark.position - 1) % layout.journal_bytes + 1;
        let before = in_ring.min(BATCH_BLOCKS_MAX * BLOCK);
        self.load(layout, mark.position - before).await;
        let blocks = self.bytes[..before as usize].chunks_exact(BLOCK_BYTES);
        let heads = blocks.filter_map(|block| Head::decode(block, array));
        let is_here = heads.map(|head| head.end()).any(|end| end == mark);
        is_here || self.bad.iter().any(|block| block * BLOCK < before)
    }

    /// Whether the batch that follows `end` is here.
    fn verdict(&self, array: ArrayId, layout: &Layout, end: Mark) -> Verdict {
        let Some(from) = end.position.checked_sub(self.start) else { return Verdict::Beyond };
        let Some(rest) = self.bytes.get(from as usize..).filter(|rest| !rest.is_empty()) else {
            return Verdict::Beyond;
        };
        let first = from / BLOCK;
        if self.bad.contains(&first) {
            return Verdict::Unreadable;
        }
        let Some(head) = Head::decode(rest, array) else { return Verdict::Absent };
        if !follows(&head, layout, end) {
            return Verdict::Absent;
        }
        let Some(bytes) = rest.get(..(head.blocks * BLOCK) as usize) else {
            return Verdict::Beyond;
        };
        if self.bad.iter().any(|bad| (first..first + head.blocks).contains(bad)) {
            return Verdict::Unreadable;
        }
        if head.is_whole(bytes) { Verdict::Whole(head) } else { Verdict::Absent }
    }

    /// The bytes of a batch that was found at `position`.
    fn batch(&self, position: u64, head: &Head) -> &[u8] {
        let from = (position - self.start) as usize;
        &self.bytes[from..from + (head.blocks * BLOCK) as usize]
    }
}

/// Whether this is the batch after `end`, and not one of a former lap or of a former life.
fn follows(head: &Head, layout: &Layout, end: Mark) -> bool {
    let next = next_of(head, end).position;
    let ends_well = head.skip_blocks == 0 || next.is_multiple_of(layout.journal_bytes);
    let is_next =
        head.start == end.position && head.previous == end.sequence && head.sequence > end.sequence;
    ends_well && (is_next || mutants::is(Mutant::NoSequence))
}
