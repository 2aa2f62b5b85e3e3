//! Which member owns which page of a volume.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::MemberId;

/// Why a page map is not made, read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageMapError {
    /// Nobody to deal pages to.
    #[error("a volume needs a member to lie on")]
    NoMembers,
    /// Runs of no pages.
    #[error("pages cannot be dealt in runs of none")]
    NoRun,
    /// Pages that the volume has not.
    #[error("pages {} to {} do not exist: the volume has {pages}", .range.start, .range.end)]
    NoSuchPages {
        /// Those asked for.
        range: Range<u32>,
        /// Those of the volume.
        pages: u32,
    },
    /// Exceptions that are empty, overlap, or lie behind the end.
    #[error("the page map is damaged: its exceptions are not in order")]
    Damaged,
}

/// The owner of each page of one volume, under one version.
///
/// Pages are dealt in turn, so many at a time, and those that moved are exceptions. A map says the same as long as
/// its version is the same; every change makes the next one.
///
/// ```text
/// members [a b c], runs of 4:   aaaa bbbb cccc aaaa bbbb ...
/// exceptions 5..7 at c:         aaaa bccb cccc aaaa bbbb ...
/// ```
///
/// Invariant: exceptions are in order, not empty, do not overlap, lie within the volume, do not name whom the dealing
/// names, and two that touch have different owners.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct PageMap {
    version: u64,
    pages: u32,
    dealt: Vec<MemberId>,
    run: u32,
    /// By the first page: the end, and the owner.
    exceptions: BTreeMap<u32, (u32, MemberId)>,
}

/// As it lies in the store.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    version: u64,
    pages: u32,
    members: Vec<MemberId>,
    run: u32,
    exceptions: Vec<(u32, u32, MemberId)>,
}

impl PageMap {
    /// A new volume of so many pages, dealt to `members` in turn, `run` pages at a time.
    ///
    /// # Errors
    /// [`PageMapError::NoMembers`], [`PageMapError::NoRun`].
    pub fn deal(pages: u32, members: Vec<MemberId>, run: u32) -> Result<Self, PageMapError> {
        if members.is_empty() {
            return Err(PageMapError::NoMembers);
        }
        if run == 0 {
            return Err(PageMapError::NoRun);
        }
        Ok(Self { version: 1, pages, dealt: members, run, exceptions: BTreeMap::new() })
    }

    /// Of this state of the map.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many the volume has.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// How many runs of pages are not where they were dealt to.
    #[must_use]
    pub fn exceptions(&self) -> usize {
        self.exceptions.len()
    }

    /// Who owns a page; none behind the end.
    #[must_use]
    pub fn owner(&self, page: u32) -> Option<MemberId> {
        (page < self.pages).then(|| self.span(page).1)
    }

    /// All runs of pages with their owners in order, from `page` on: what a reader of many pages wants.
    pub fn runs(&self, page: u32) -> impl Iterator<Item = (Range<u32>, MemberId)> {
        let mut next = page;
        std::iter::from_fn(move || {
            if next >= self.pages {
                return None;
            }
            let (end, owner) = self.span(next);
            let run = next..end;
            next = end;
            Some((run, owner))
        })
    }

    /// How many pages a member owns.
    #[must_use]
    pub fn owned_by(&self, member: MemberId) -> u64 {
        let runs = self.runs(0).filter(|(_, owner)| *owner == member);
        runs.map(|(run, _)| u64::from(run.end - run.start)).sum()
    }

    /// The owner of a page within the volume, and up to which page that is said by the same entry.
    fn span(&self, page: u32) -> (u32, MemberId) {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        if let Some((_, (end, owner))) = self.exceptions.range(..=page).next_back()
            && page < *end
        {
            return (*end, *owner);
        }
        let next = self.exceptions.range(page..).next().map_or(self.pages, |(first, _)| *first);
        let end = (page / self.run).saturating_add(1).saturating_mul(self.run);
        (end.min(next), self.dealt_to(page))
    }

    fn dealt_to(&self, page: u32) -> MemberId {
        self.dealt[(page / self.run) as usize % self.dealt.len()]
    }

    /// The next version, in which `member` owns these pages.
    ///
    /// # Errors
    /// [`PageMapError::NoSuchPages`]; nothing has changed then.
    pub fn give(&mut self, range: Range<u32>, member: MemberId) -> Result<(), PageMapError> {
        if range.is_empty() || range.end > self.pages {
            return Err(PageMapError::NoSuchPages { range, pages: self.pages });
        }
        self.cut(range.start);
        self.cut(range.end);
        self.exceptions.retain(|first, _| !range.contains(first));
        let mut page = range.start;
        while page < range.end {
            let end = self.span(page).0.min(range.end);
            if self.dealt_to(page) != member {
                self.exceptions.insert(page, (end, member));
            }
            page = end;
        }
        self.join_around(&range);
        self.version += 1;
        debug_assert!(self.is_sound(), "exceptions of {self:?}");
        Ok(())
    }

    /// No exception reaches over the border before `page`.
    fn cut(&mut self, page: u32) {
        let Some((first, entry)) = self.exceptions.range_mut(..page).next_back() else { return };
        let (end, owner) = *entry;
        if page < end {
            debug_assert!(*first < page, "cut at the beginning");
            entry.0 = page;
            self.exceptions.insert(page, (end, owner));
        }
    }

    /// Exceptions of the same owner that touch, in and around `range`, become one.
    fn join_around(&mut self, range: &Range<u32>) {
        let from = self
            .exceptions
            .range(..range.start)
            .next_back()
            .map_or(range.start, |(first, _)| *first);
        let found: Vec<_> = self
            .exceptions
            .range(from..=range.end)
            .map(|(first, entry)| (*first, *entry))
            .collect();
        let mut last: Option<(u32, (u32, MemberId))> = None;
        for (first, (end, owner)) in found {
            match &mut last {
                Some((start, entry)) if entry.0 == first && entry.1 == owner => {
                    entry.0 = end;
                    self.exceptions.remove(&first);
                    self.exceptions.insert(*start, *entry);
                }
                _ => last = Some((first, (end, owner))),
            }
        }
    }

    fn is_sound(&self) -> bool {
        let mut free = 0;
        let mut before = None;
        self.exceptions.iter().all(|(first, (end, owner))| {
            let is_apart = *first > free || before != Some(*owner) || *first == 0;
            let holds = *first >= free && first < end && *end <= self.pages && is_apart;
            free = *end;
            before = Some(*owner);
            holds
        })
    }
}

impl From<PageMap> for Stored {
    fn from(map: PageMap) -> Self {
        let exceptions =
            map.exceptions.into_iter().map(|(first, (end, owner))| (first, end, owner));
        Self {
            version: map.version,
            pages: map.pages,
            members: map.dealt,
            run: map.run,
            exceptions: exceptions.collect(),
        }
    }
}

impl TryFrom<Stored> for PageMap {
    type Error = PageMapError;

    fn try_from(stored: Stored) -> Result<Self, PageMapError> {
        let mut map = Self::deal(stored.pages, stored.members, stored.run)?;
        map.version = stored.version;
        map.exceptions =
            stored.exceptions.iter().map(|(first, end, owner)| (*first, (*end, *owner))).collect();
        let is_sound = map.exceptions.len() == stored.exceptions.len() && map.is_sound();
        is_sound.then_some(map).ok_or(PageMapError::Damaged)
    }
}
