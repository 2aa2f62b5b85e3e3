//! Snapshots that are taken together show one moment: if a write is in one of them, every write
//! that was answered before that one began is there too, whichever volume it went to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::block::Op;
use super::volume::Blocks;
use crate::content::{BLOCK_SECTORS, Tag};

/// A write of data in the order of all events.
#[derive(Debug, Clone)]
struct Span {
    volume: String,
    /// Sectors.
    range: Range<u64>,
    begun: u64,
    /// `None`: never, or without success.
    answered: Option<u64>,
}

/// All writes of data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    spans: BTreeMap<Op, Span>,
    time: u64,
}

/// A set of snapshots of which that is still to be shown: volume and name of each, and when it
/// was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    pub(crate) snapshots: Vec<(String, String)>,
    pub(crate) begun: u64,
}

impl Log {
    pub(crate) fn now(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    pub(crate) fn begin(&mut self, op: Op, volume: &str, range: Range<u64>) {
        let (volume, begun) = (volume.to_owned(), self.now());
        self.spans.insert(op, Span { volume, range, begun, answered: None });
    }

    pub(crate) fn answered(&mut self, op: Op) {
        let now = self.now();
        if let Some(span) = self.spans.get_mut(&op) {
            span.answered = Some(now);
        }
    }

    /// Compares the snapshots of a set, given by volume, with each other.
    pub(crate) fn check(
        &self,
        set: &Set,
        blocks: &BTreeMap<String, &Blocks>,
    ) -> Result<(), String> {
        let visible = blocks.values().flat_map(|blocks| tags(blocks));
        let visible: BTreeSet<Op> = visible.collect();
        let last = visible.iter().filter_map(|op| self.spans.get_key_value(op));
        let Some((last, latest)) = last.max_by_key(|(_, span)| span.begun) else { return Ok(()) };
        // Older ones are the business of each snapshot alone.
        let racing = |span: &Span| span.answered.is_some_and(|time| time >= set.begun);
        for (op, span) in self.spans.iter().filter(|(_, span)| racing(span)) {
            let early = span.answered.is_some_and(|time| time < latest.begun);
            let Some(blocks) = blocks.get(&span.volume).filter(|_| early) else { continue };
            if self.is_absent(span, blocks) {
                return Err(format!(
                    "snapshots {:?} show write {last} to {}, but not write {op} to {}, which was \
                     answered before that began",
                    set.snapshots, latest.volume, span.volume
                ));
            }
        }
        Ok(())
    }

    /// Whether some sector still holds what was there before that write began.
    fn is_absent(&self, span: &Span, blocks: &Blocks) -> bool {
        let older = |sector: u64| {
            let content = blocks.get(sector as usize / BLOCK_SECTORS)?.sure()?;
            let Tag(tag) = content[sector as usize % BLOCK_SECTORS];
            // Zeroes say nothing: they may be younger.
            self.spans.get(&tag)?.answered.map(|time| time < span.begun)
        };
        span.range.clone().any(|sector| older(sector) == Some(true))
    }
}

/// The writes that a snapshot shows.
fn tags(blocks: &Blocks) -> Vec<Op> {
    let contents = blocks.iter().filter_map(|block| block.sure());
    contents.flatten().map(|tag| tag.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::volume::{Change, Contents, Outcome, zeroes};

    /// Writes 1 and 2 to volume a, then 3 to volume b; a shows the first `a` of its writes.
    fn check(a: u32, b: bool) -> Result<(), String> {
        let mut log = Log::default();
        let mut contents = [Contents::new(zeroes(4096)), Contents::new(zeroes(4096))];
        let mut set = Set { snapshots: Vec::new(), begun: 0 };
        for (op, volume) in [(1, 0), (2, 0), (3, 1)] {
            if op == 2 {
                set.begun = log.now();
            }
            log.begin(op, ["a", "b"][volume], 0..8);
            log.answered(op);
            if (volume == 0 && op <= a) || (volume == 1 && b) {
                let change = Change { op, range: 0..8, content: [Tag(op); 8] };
                contents[volume].begin(&change);
                contents[volume].end(&change, Outcome::Done);
            }
        }
        let [a, b] = &contents;
        let blocks = [("a".to_owned(), a.blocks()), ("b".to_owned(), b.blocks())];
        log.check(&set, &blocks.into())
    }

    #[test]
    fn a_set_that_lacks_an_earlier_write_is_no_moment() {
        assert_eq!(check(1, false), Ok(()), "before both");
        assert_eq!(check(2, false), Ok(()), "between");
        assert_eq!(check(2, true), Ok(()), "after both");
        assert!(check(1, true).unwrap_err().contains("but not write 2 to a"));
    }
}
