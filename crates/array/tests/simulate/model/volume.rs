//! What a volume may hold, block by block, and what readers and snapshots may see of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use array::BLOCK_BYTES;

use super::block::{Block, Op, Patch};
use crate::content::{BLOCK_SECTORS, Content, SECTOR_BYTES, Tag, recognise};

/// The blocks of a volume or of a snapshot. Equal ones are shared.
pub(crate) type Blocks = Vec<Rc<Block>>;

/// Zeroes, `size_bytes` of them.
pub(crate) fn zeroes(size_bytes: u64) -> Blocks {
    vec![Rc::default(); size_bytes.div_ceil(BLOCK_BYTES as u64) as usize]
}

/// Sees whatever blocks may hold while it is open: a read, or a snapshot that is being taken.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    id: u64,
    first: usize,
    /// At its begin.
    blocks: Blocks,
    /// What came up since.
    since: BTreeMap<usize, Vec<Content>>,
}

impl Watch {
    fn saw(&self, block: usize, content: Content) -> bool {
        let since = self.since.get(&block);
        self.blocks[block - self.first].contents().any(|possible| possible == content)
            || since.is_some_and(|since| since.contains(&content))
    }

    /// Whether nothing began on any of its blocks meanwhile.
    pub(crate) fn undisturbed(&self) -> bool {
        self.since.is_empty()
    }

    /// All that was seen, as the blocks of a snapshot.
    pub(crate) fn into_blocks(self) -> Blocks {
        let Self { first, blocks, since, .. } = self;
        let seen = |(index, block): (usize, Rc<Block>)| {
            let since = since.get(&(first + index));
            if since.is_none() && block.sure().is_some() && !block.has_past() {
                return block;
            }
            let since = since.into_iter().flatten().copied();
            Rc::new(Block::new(block.contents().chain(since)))
        };
        blocks.into_iter().enumerate().map(seen).collect()
    }
}

/// The contents of a volume with all its doubts.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    blocks: Blocks,
    watches: Vec<Watch>,
    /// Counts events, for the order of writes and flushes.
    time: u64,
    next_watch: u64,
}

/// A write as the model follows it.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) op: Op,
    /// Sectors.
    pub(crate) range: Range<u64>,
    /// What each sector of a block gets.
    pub(crate) content: Content,
}

impl Change {
    /// The blocks it touches, and what it does to each.
    fn patches(&self) -> impl Iterator<Item = (usize, Patch)> + use<> {
        let (range, content) = (self.range.clone(), self.content);
        blocks_of(&range).map(move |block| {
            let inside = |at: usize| range.contains(&((block * BLOCK_SECTORS + at) as u64));
            let sectors = (0..BLOCK_SECTORS).fold(0, |sum, at| sum | u8::from(inside(at)) << at);
            (block, Patch { sectors, content })
        })
    }
}

fn blocks_of(sectors: &Range<u64>) -> Range<usize> {
    let per = BLOCK_SECTORS as u64;
    (sectors.start / per) as usize..sectors.end.div_ceil(per) as usize
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A loss of power may undo it.
    Done,
    /// Nothing can undo it.
    DoneDurable,
    /// With an error: it may have happened, and a loss of power may undo that.
    Failed,
    /// With an error: it may have happened, and if it was seen nothing can undo it.
    FailedDurable,
    /// It cannot have happened.
    Refused,
}

impl Contents {
    pub(crate) fn new(blocks: Blocks) -> Self {
        Self { blocks, watches: Vec::new(), time: 1, next_watch: 1 }
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn sectors(&self) -> u64 {
        (self.blocks.len() * BLOCK_SECTORS) as u64
    }

    /// The most open writes that any block of the range has: their orders multiply.
    pub(crate) fn crowd(&self, sectors: &Range<u64>) -> usize {
        self.blocks[blocks_of(sectors)].iter().map(|block| block.open()).max().unwrap_or(0)
    }

    pub(crate) fn begin(&mut self, change: &Change) {
        assert!(change.range.end <= self.sectors(), "a write inside the volume");
        for (index, patch) in change.patches() {
            let block = Rc::make_mut(&mut self.blocks[index]);
            block.begin(change.op, patch);
            for watch in &mut self.watches {
                if (watch.first..watch.first + watch.blocks.len()).contains(&index) {
                    watch.since.entry(index).or_default().extend(block.contents());
                }
            }
        }
    }

    pub(crate) fn end(&mut self, change: &Change, outcome: Outcome) {
        self.time += 1;
        for (index, _) in change.patches() {
            let block = Rc::make_mut(&mut self.blocks[index]);
            let durable = outcome == Outcome::DoneDurable;
            match outcome {
                Outcome::Done | Outcome::DoneDurable => {
                    block.answered(change.op, self.time, durable);
                }
                Outcome::Failed => block.failed(change.op, self.time, false),
                Outcome::FailedDurable => block.failed(change.op, self.time, true),
                Outcome::Refused => block.refused(change.op),
            }
        }
    }

    /// Opens a view of these sectors.
    pub(crate) fn watch(&mut self, sectors: &Range<u64>) -> u64 {
        let range = blocks_of(sectors);
        let (first, blocks) = (range.start, self.blocks[range].to_vec());
        let id = self.next_watch;
        self.next_watch += 1;
        self.watches.push(Watch { id, first, blocks, since: BTreeMap::new() });
        id
    }

    /// Ends a view.
    pub(crate) fn unwatch(&mut self, id: u64) -> Watch {
        let at = self.watches.iter().position(|watch| watch.id == id);
        self.watches.swap_remove(at.expect("only an open view can end"))
    }

    /// Checks what a read of `bytes` from `sector` on gave, which ran while `watch` was open.
    pub(crate) fn check_read(
        &mut self,
        watch: &Watch,
        sector: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let end = sector + (bytes.len() / SECTOR_BYTES) as u64;
        for index in blocks_of(&(sector..end)) {
            let first = (index * BLOCK_SECTORS) as u64;
            let inside = first.max(sector)..(first + BLOCK_SECTORS as u64).min(end);
            if inside.end - inside.start < BLOCK_SECTORS as u64 {
                // Part of a block: some possible content must agree on it.
                check_part(watch, index, inside, sector, bytes)?;
                continue;
            }
            let at = (first - sector) as usize * SECTOR_BYTES;
            let content = content(first, &bytes[at..at + BLOCK_BYTES])?;
            if !watch.saw(index, content) {
                return Err(unexpected(watch, index, content));
            }
            let still = Rc::ptr_eq(&watch.blocks[index - watch.first], &self.blocks[index]);
            if still && self.blocks[index].sure().is_none() {
                Rc::make_mut(&mut self.blocks[index]).observe(content);
            }
        }
        Ok(())
    }

    /// What a flush that begins now will make durable.
    pub(crate) fn flush_begins(&self) -> u64 {
        self.time
    }

    pub(crate) fn flushed(&mut self, begun: u64) {
        for block in self.blocks.iter_mut().filter(|block| block.has_past()) {
            Rc::make_mut(block).flushed(begun);
        }
    }

    /// Everything is durable: the array was closed.
    pub(crate) fn closed(&mut self) {
        self.flushed(u64::MAX);
    }

    pub(crate) fn process_ended(&mut self) {
        self.watches.clear();
        for block in self.blocks.iter_mut().filter(|block| block.open() > 0) {
            Rc::make_mut(block).process_ended();
        }
    }

    pub(crate) fn power_cut(&mut self) {
        self.watches.clear();
        for block in &mut self.blocks {
            if block.open() > 0 || block.has_past() {
                Rc::make_mut(block).power_cut();
            }
        }
    }

    /// Other contents, as after a rollback.
    pub(crate) fn replace(&mut self, blocks: Blocks) {
        self.blocks = blocks;
    }

    /// Grows with zeroes, or forgets the end.
    pub(crate) fn resize(&mut self, size_bytes: u64) {
        self.blocks.resize(zeroes(size_bytes).len(), Rc::default());
    }
}

/// Compares all of something that stands still with what it may hold, and remembers what it does.
pub(crate) fn observe(blocks: &mut Blocks, first: usize, bytes: &[u8]) -> Result<(), String> {
    for (index, bytes) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let index = first + index;
        let content = content((index * BLOCK_SECTORS) as u64, bytes)?;
        let block = &mut blocks[index];
        if block.sure() == Some(content) {
            continue;
        }
        if !Rc::make_mut(block).observe(content) {
            return Err(format!("block {index} holds {}, not {}", tags(&content), list(block)));
        }
    }
    Ok(())
}

fn check_part(
    watch: &Watch,
    index: usize,
    inside: Range<u64>,
    sector: u64,
    bytes: &[u8],
) -> Result<(), String> {
    let mut found = Vec::new();
    for at in inside.clone() {
        let start = (at - sector) as usize * SECTOR_BYTES;
        found.push(sector_tag(at, &bytes[start..start + SECTOR_BYTES])?);
    }
    let start = inside.start as usize % BLOCK_SECTORS;
    let part = |content: Content| content[start..start + found.len()] == found[..];
    let since = watch.since.get(&index).into_iter().flatten().copied();
    let mut seen = watch.blocks[index - watch.first].contents().chain(since);
    if seen.any(part) {
        return Ok(());
    }
    let mut shown = [Tag(u32::MAX); BLOCK_SECTORS];
    shown[start..start + found.len()].copy_from_slice(&found);
    Err(unexpected(watch, index, shown))
}

fn sector_tag(sector: u64, bytes: &[u8]) -> Result<Tag, String> {
    recognise(sector, bytes).map_err(|strange| {
        format!("block {}: sector {sector} holds {strange}", sector / BLOCK_SECTORS as u64)
    })
}

fn content(first: u64, bytes: &[u8]) -> Result<Content, String> {
    let mut content = Content::default();
    for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
        content[at] = sector_tag(first + at as u64, sector)?;
    }
    Ok(content)
}

fn unexpected(watch: &Watch, index: usize, found: Content) -> String {
    let block = &watch.blocks[index - watch.first];
    let since = watch.since.get(&index).into_iter().flatten().map(tags).collect::<Vec<_>>();
    format!("block {index} reads {}, not {}, then {since:?}", tags(&found), list(block))
}

/// One number if the block is of one write, else all eight; `_` for what was not read.
fn tags(content: &Content) -> String {
    if content.iter().all(|tag| tag == &content[0]) {
        return content[0].0.to_string();
    }
    let word = |tag: &Tag| if tag.0 == u32::MAX { "_".into() } else { tag.0.to_string() };
    content.iter().map(word).collect::<Vec<_>>().join("/")
}

fn list(block: &Block) -> String {
    block.contents().map(|content| tags(&content)).collect::<Vec<_>>().join(" or ")
}
