//! All that a block of 4 KiB may hold, given which writes were begun and which were answered.
//!
//! A block is atomic: a write to it happens at one moment between its begin and its answer. So
//! what is possible is the old contents with the open writes applied in any order, or not yet.

use std::collections::BTreeSet;

use crate::content::{Content, ZERO};

/// What a write does to a block: these sectors get what stands in their place here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) sectors: u8,
    pub(crate) content: Content,
}

impl Patch {
    pub(crate) fn apply(self, mut to: Content) -> Content {
        for (sector, tag) in to.iter_mut().enumerate() {
            if self.sectors >> sector & 1 == 1 {
                *tag = self.content[sector];
            }
        }
        to
    }
}

/// A number of each write, in the order in which they began.
pub(crate) type Op = u32;

/// A history that may be the true one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Possible {
    content: Content,
    /// Open writes that have happened in it.
    happened: BTreeSet<Op>,
}

/// A block and its open writes.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    possible: Vec<Possible>,
    open: Vec<(Op, Patch)>,
    /// Histories that are gone, but that a loss of power may bring back, and when they went.
    past: Vec<(Possible, u64)>,
}

impl Default for Block {
    fn default() -> Self {
        Self::new([ZERO])
    }
}

impl Block {
    /// A block that holds one of these.
    pub(crate) fn new(contents: impl IntoIterator<Item = Content>) -> Self {
        let contents: BTreeSet<Content> = contents.into_iter().collect();
        assert!(!contents.is_empty(), "a block holds something");
        let possible = contents.into_iter();
        let possible = possible.map(|content| Possible { content, happened: BTreeSet::new() });
        Self { possible: possible.collect(), open: Vec::new(), past: Vec::new() }
    }

    /// What a read at this moment may give; a content can come up more than once.
    pub(crate) fn contents(&self) -> impl Iterator<Item = Content> {
        self.possible.iter().map(|possible| possible.content)
    }

    /// The content, if there is no doubt.
    pub(crate) fn sure(&self) -> Option<Content> {
        match (&self.possible[..], &self.open[..]) {
            ([possible], []) => Some(possible.content),
            _ => None,
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// A write begins: it may happen from now on.
    pub(crate) fn begin(&mut self, op: Op, patch: Patch) {
        self.open.push((op, patch));
        // With the new write done, those that had not happened may happen after it.
        let mut fresh = self.possible.clone();
        let mut added = 0;
        let mut all: BTreeSet<Possible> = fresh.iter().cloned().collect();
        while let Some(before) = fresh.pop() {
            for &(op, patch) in &self.open {
                let mut after = before.clone();
                if after.happened.insert(op) {
                    after.content = patch.apply(after.content);
                    if all.insert(after.clone()) {
                        fresh.push(after);
                        added += 1;
                    }
                }
            }
        }
        assert!(added > 0, "a write that begins has not happened");
        self.possible = all.into_iter().collect();
    }

    /// The write was answered at `time`, so it has happened; unless it is `durable`, a loss of
    /// power may bring back what it replaced.
    pub(crate) fn answered(&mut self, op: Op, time: u64, durable: bool) {
        // What it may have replaced; beside other writes it may be there again, and yet go.
        let had_not = |possible: &&Possible| !possible.happened.contains(&op);
        let before: Vec<Possible> = self.possible.iter().filter(had_not).cloned().collect();
        let patch = self.close(op);
        self.possible.retain(|possible| possible.happened.contains(&op));
        if durable {
            // Other sectors may still go back to what they were, and all of them to what came after
            // this write.
            for (past, _) in &mut self.past {
                if !past.happened.contains(&op) {
                    past.content = patch.apply(past.content);
                }
            }
        } else {
            self.past.extend(before.into_iter().map(|possible| (possible, time)));
        }
        self.forget(op);
        self.tidy();
    }

    /// The write failed at `time`: it may have happened. Unless it was to be `durable`, a loss of power
    /// may bring back what it replaced.
    pub(crate) fn failed(&mut self, op: Op, time: u64, durable: bool) {
        if !durable {
            let had_not = self.possible.iter().filter(|possible| !possible.happened.contains(&op));
            self.past.extend(had_not.map(|possible| (possible.clone(), time)));
        }
        self.close(op);
        self.forget(op);
        self.tidy();
    }

    /// The write was refused: it has not happened.
    pub(crate) fn refused(&mut self, op: Op) {
        self.close(op);
        self.possible.retain(|possible| !possible.happened.contains(&op));
        self.past.retain(|(past, _)| !past.happened.contains(&op));
        self.tidy();
    }

    fn close(&mut self, op: Op) -> Patch {
        let at = self.open.iter().position(|open| open.0 == op);
        self.open.swap_remove(at.expect("only a write that began can end")).1
    }

    fn forget(&mut self, op: Op) {
        let past = self.past.iter_mut().map(|(possible, _)| possible);
        for possible in self.possible.iter_mut().chain(past) {
            possible.happened.remove(&op);
        }
    }

    fn tidy(&mut self) {
        assert!(!self.possible.is_empty(), "some history is the true one");
        self.possible.sort_unstable();
        self.possible.dedup();
        self.past.sort_unstable();
        // The latest time stands for all of one history.
        self.past.reverse();
        self.past.dedup_by(|later, first| later.0 == first.0);
    }

    /// All that was replaced before `time` is gone for good.
    pub(crate) fn flushed(&mut self, time: u64) {
        self.past.retain(|&(_, replaced)| replaced > time);
    }

    /// Whether there is something that a loss of power may bring back.
    pub(crate) fn has_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// The process is gone: open writes have happened or never will.
    pub(crate) fn process_ended(&mut self) {
        // What was seen is kept by whoever served it: only a loss of power takes it along.
        for (op, _) in self.open.clone() {
            self.failed(op, 0, true);
        }
    }

    /// The power went.
    pub(crate) fn power_cut(&mut self) {
        self.process_ended();
        let past: Vec<Content> = self.past.drain(..).map(|past| past.0.content).collect();
        *self = Self::new(self.contents().chain(past));
    }

    /// This is what it holds, beyond doubt; false if it cannot be.
    pub(crate) fn observe(&mut self, content: Content) -> bool {
        if self.contents().all(|possible| possible != content) {
            return false;
        }
        if self.open.is_empty() {
            self.possible.retain(|possible| possible.content == content);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Tag;

    const fn part(sectors: u8, tag: u32) -> Patch {
        Patch { sectors, content: [Tag(tag); 8] }
    }

    const fn whole(tag: u32) -> Patch {
        part(0xff, tag)
    }

    fn all(tag: u32) -> Content {
        [Tag(tag); 8]
    }

    fn contents(block: &Block) -> BTreeSet<Content> {
        block.contents().collect()
    }

    #[test]
    fn a_write_happens_between_its_begin_and_its_answer() {
        let mut block = Block::default();
        assert_eq!(block.sure(), Some(ZERO));
        block.begin(1, whole(1));
        assert_eq!((contents(&block), block.sure()), ([ZERO, all(1)].into(), None));
        block.answered(1, 1, true);
        assert_eq!(block.sure(), Some(all(1)));
    }

    #[test]
    fn what_a_volatile_write_replaced_may_come_back_though_it_could_be_there_still() {
        let mut block = Block::default();
        block.begin(1, whole(1));
        block.begin(2, whole(2));
        block.answered(1, 1, false);
        block.answered(2, 2, false);
        assert_eq!(contents(&block), [all(1), all(2)].into());
        assert!(block.observe(all(2)));
        block.flushed(1);
        block.power_cut();
        assert_eq!(contents(&block), [all(1), all(2)].into(), "the second was not flushed");
    }

    #[test]
    fn writes_that_overlap_in_time_happen_in_either_order() {
        let mut block = Block::default();
        block.begin(1, whole(1));
        block.begin(2, whole(2));
        block.answered(2, 1, true);
        assert_eq!(contents(&block), [all(1), all(2)].into());
        block.answered(1, 2, true);
        assert_eq!(contents(&block), [all(1), all(2)].into());
        assert_eq!(block.open(), 0);
        assert!(!block.observe(ZERO), "both have happened");
        assert!(block.observe(all(1)));
        assert!(!block.observe(all(2)), "what was seen stays");
    }

    #[test]
    fn writes_in_a_row_leave_the_last_one() {
        let mut block = Block::default();
        for op in 1..4 {
            block.begin(op, whole(op));
            block.answered(op, u64::from(op), true);
        }
        assert_eq!(block.sure(), Some(all(3)));
        block.power_cut();
        assert_eq!(block.sure(), Some(all(3)));
    }

    #[test]
    fn parts_of_a_block_are_merged_and_never_torn() {
        let mut block = Block::default();
        block.begin(1, part(0b0011, 1));
        block.begin(2, part(0b0110, 2));
        let tags = |list: [u32; 4]| {
            let mut content = ZERO;
            content.iter_mut().zip(list).for_each(|(to, tag)| *to = Tag(tag));
            content
        };
        block.power_cut();
        let expected = [
            tags([0, 0, 0, 0]),
            tags([1, 1, 0, 0]),
            tags([0, 2, 2, 0]),
            tags([1, 2, 2, 0]),
            tags([1, 1, 2, 0]),
        ];
        assert_eq!(contents(&block), expected.into());
    }

    #[test]
    fn a_failed_write_is_a_doubt_and_a_refused_one_is_none() {
        let mut block = Block::default();
        block.begin(1, whole(1));
        block.failed(1, 1, true);
        assert_eq!(contents(&block), [ZERO, all(1)].into());
        block.begin(2, whole(2));
        block.refused(2);
        assert_eq!(contents(&block), [ZERO, all(1)].into());
        assert!(block.observe(all(1)));
        assert_eq!(block.sure(), Some(all(1)));
        block.power_cut();
        assert_eq!(block.sure(), Some(all(1)), "it was durable");
    }

    #[test]
    fn what_a_failed_write_that_was_seen_replaced_may_come_back_until_a_flush() {
        let mut block = Block::default();
        block.begin(1, whole(1));
        block.failed(1, 1, false);
        assert!(block.observe(all(1)));
        let mut flushed = block.clone();
        flushed.flushed(1);
        flushed.power_cut();
        assert_eq!(flushed.sure(), Some(all(1)));
        block.power_cut();
        assert_eq!(contents(&block), [ZERO, all(1)].into());
    }

    #[test]
    fn a_loss_of_power_undoes_volatile_writes_back_to_the_last_flush() {
        let mut block = Block::default();
        for op in 1..5 {
            block.begin(op, whole(op));
            block.answered(op, u64::from(op), false);
            if op == 2 {
                block.flushed(2);
            }
        }
        assert!(block.has_past());
        let mut killed = block.clone();
        killed.process_ended();
        assert_eq!(killed.sure(), Some(all(4)), "the process alone takes nothing along");
        block.power_cut();
        assert_eq!(contents(&block), [all(2), all(3), all(4)].into());
        assert!(!block.has_past());
    }

    #[test]
    fn a_durable_write_may_have_happened_before_a_volatile_one_that_was_answered_first() {
        let mut block = Block::default();
        block.begin(1, whole(1));
        block.begin(2, whole(2));
        block.answered(2, 1, false);
        block.begin(3, whole(3));
        block.answered(3, 2, false);
        block.answered(1, 3, true);
        block.power_cut();
        assert_eq!(contents(&block), [all(1), all(2), all(3)].into(), "1, then 2, without 3");
    }

    #[test]
    fn a_durable_write_pins_its_sectors_on_a_volatile_volume() {
        let mut block = Block::default();
        block.begin(1, whole(1));
        block.answered(1, 1, false);
        block.begin(2, part(1, 2));
        block.answered(2, 2, true);
        block.power_cut();
        let first = |tag| {
            let mut content = all(tag);
            content[0] = Tag(2);
            content
        };
        assert_eq!(contents(&block), [first(0), first(1)].into());
    }
}
