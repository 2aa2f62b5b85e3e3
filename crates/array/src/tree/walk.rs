//! Walks over trees, side by side and in steps of bounded length.
//!
//! A walk goes from the first leaf to the last, and steps over what it has no interest in without
//! reading it. A step that meets a missing page ends there and says where to go on; only when it
//! has got nowhere does it report the page. So a caller repeats: step, and load on [`Missing`].

use std::ops::Range;
use std::sync::Arc;

use super::node::{self, FANOUT, Span};
use super::{LEAVES_MAX, Missing, Page, PageAddr, PageRef, Pages, Parent, Root, leaf};
use crate::Place;

/// What a version holds alone: one step of [`exclusive`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owned {
    /// Clusters of data.
    pub places: Vec<Place>,
    /// Pages of the tree; an interior page comes with the last of its leaves.
    pub pages: Vec<PageAddr>,
    /// Where the next step begins; `None` at the end.
    pub next_leaf: Option<u32>,
}

/// What `target` shares neither with its parent nor with any of its children: what its deletion
/// gives back, if it has one child at most.
///
/// With two children or more a version must stay, hidden: what both have of it would belong to
/// each of them alone, and the first to overwrite it would take it from the other.
///
/// A step ends after `pages_max` pages; the answer may be shorter.
///
/// # Errors
/// [`Missing`] when a page has to be loaded before anything can be said.
pub fn exclusive(
    pages: &mut dyn Pages,
    target: Root,
    parent: impl Into<Parent>,
    children: &[Root],
    from_leaf: u32,
    pages_max: usize,
) -> Result<Owned, Missing> {
    let mut roots = vec![target];
    roots.extend_from_slice(children);
    let mut visitor = Exclusive { parent: parent.into(), out: Owned::default() };
    let next_leaf = walk(pages, &roots, from_leaf, pages_max, &mut visitor)?;
    Ok(Owned { next_leaf, ..visitor.out })
}

struct Exclusive {
    parent: Parent,
    out: Owned,
}

impl Visitor for Exclusive {
    fn enters(&mut self, span: Span, refs: &[Root]) -> bool {
        refs[0].is_some_and(|r| {
            !self.parent.shares(r.birth, span.last())
                && refs[1..].iter().flatten().all(|child| child.addr != r.addr)
        })
    }

    fn leaf(&mut self, number: u32, refs: &[Root], pages: &[Option<Arc<Page>>]) {
        let target = pages[0].as_deref().expect("entered because it is there");
        for (i, entry) in leaf::entries(target) {
            let shared = self.parent.shares(entry.birth, number)
                || pages[1..].iter().flatten().any(|p| leaf::place(p, i) == Some(entry.place));
            if !shared {
                self.out.places.push(entry.place);
            }
        }
        self.interior(refs);
    }

    fn interior(&mut self, refs: &[Root]) {
        self.out.pages.extend(refs[0].map(|r| r.addr));
    }
}

/// Where two trees differ: one step of [`diff`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changed {
    /// Clusters, in order, neighbours joined.
    pub clusters: Vec<Range<u64>>,
    /// Where the next step begins; `None` at the end.
    pub next_leaf: Option<u32>,
}

/// The clusters that are mapped in one of the trees and not in the other, or differently.
///
/// A step ends after `pages_max` pages, and before it names more than `clusters_max` clusters
/// (but it names those of one leaf always).
///
/// # Errors
/// [`Missing`] when a page has to be loaded before anything can be said.
pub fn diff(
    pages: &mut dyn Pages,
    a: Root,
    b: Root,
    from_leaf: u32,
    pages_max: usize,
    clusters_max: usize,
) -> Result<Changed, Missing> {
    let mut visitor = Diff { out: Changed::default(), clusters: 0, clusters_max };
    let next_leaf = walk(pages, &[a, b], from_leaf, pages_max, &mut visitor)?;
    Ok(Changed { next_leaf, ..visitor.out })
}

struct Diff {
    out: Changed,
    clusters: usize,
    clusters_max: usize,
}

impl Visitor for Diff {
    fn enters(&mut self, _: Span, refs: &[Root]) -> bool {
        refs[0].map(|a| a.addr) != refs[1].map(|b| b.addr)
    }

    fn leaf(&mut self, number: u32, _: &[Root], pages: &[Option<Arc<Page>>]) {
        let entry = |page: usize, i| pages[page].as_deref().and_then(|page| leaf::get(page, i));
        for i in (0..leaf::ENTRIES).filter(|i| entry(0, *i) != entry(1, *i)) {
            let cluster = leaf::cluster(number, i);
            self.clusters += 1;
            match self.out.clusters.last_mut() {
                Some(last) if last.end == cluster => last.end += 1,
                _ => self.out.clusters.push(cluster..cluster + 1),
            }
        }
    }

    fn full(&self) -> bool {
        self.clusters > 0 && self.clusters + leaf::ENTRIES > self.clusters_max
    }
}

/// How much a tree maps: one step of [`mapped`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mapped {
    /// Clusters.
    pub clusters: u64,
    /// Pages of the tree itself.
    pub pages: u64,
    /// Where the next step begins; `None` at the end.
    pub next_leaf: Option<u32>,
}

/// Counts what a tree maps.
///
/// # Errors
/// [`Missing`] when a page has to be loaded before anything can be said.
pub fn mapped(
    pages: &mut dyn Pages,
    root: Root,
    from_leaf: u32,
    pages_max: usize,
) -> Result<Mapped, Missing> {
    let mut out = Mapped::default();
    out.next_leaf = visit(pages, root, from_leaf, pages_max, |seen| {
        out.pages += 1;
        if let Seen::Leaf { page, .. } = seen {
            out.clusters += leaf::entries(page).count() as u64;
        }
    })?;
    Ok(out)
}

/// A page that [`visit`] came by.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// An interior page, after everything below it.
    Interior(PageRef),
    /// A leaf.
    Leaf {
        /// Its number.
        leaf: u32,
        /// What names it.
        r: PageRef,
        /// Its contents.
        page: &'a Page,
    },
}

/// Shows every page of a tree once; the answer is where the next step begins.
///
/// # Errors
/// [`Missing`] when a page has to be loaded first; nothing was shown then.
pub fn visit(
    pages: &mut dyn Pages,
    root: Root,
    from_leaf: u32,
    pages_max: usize,
    show: impl FnMut(Seen<'_>),
) -> Result<Option<u32>, Missing> {
    walk(pages, &[root], from_leaf, pages_max, &mut Show(show))
}

struct Show<F>(F);

impl<F: FnMut(Seen<'_>)> Visitor for Show<F> {
    fn enters(&mut self, _: Span, refs: &[Root]) -> bool {
        refs[0].is_some()
    }

    fn leaf(&mut self, leaf: u32, refs: &[Root], pages: &[Option<Arc<Page>>]) {
        let (r, page) = refs[0].zip(pages[0].as_deref()).expect("entered because it is there");
        (self.0)(Seen::Leaf { leaf, r, page });
    }

    fn interior(&mut self, refs: &[Root]) {
        (self.0)(Seen::Interior(refs[0].expect("entered because it is there")));
    }
}

/// What a walk looks for. `refs` and `pages` belong to the same position in each of its trees.
trait Visitor {
    /// Whether to look at what lies there; not asked again about anything below a `false`.
    fn enters(&mut self, span: Span, refs: &[Root]) -> bool;

    /// A leaf that was entered.
    fn leaf(&mut self, leaf: u32, refs: &[Root], pages: &[Option<Arc<Page>>]);

    /// An interior page that was entered, and is left for good.
    fn interior(&mut self, _refs: &[Root]) {}

    /// Whether the step should end.
    fn full(&self) -> bool {
        false
    }
}

/// Why a step ends before the last leaf.
enum Stop {
    /// It has done enough: the next one begins at this leaf.
    At(u32),
    /// It got nowhere without this page.
    Missing(Missing),
}

/// One step over `roots`, from `from_leaf` on.
fn walk(
    pages: &mut dyn Pages,
    roots: &[Root],
    from_leaf: u32,
    pages_max: usize,
    visitor: &mut dyn Visitor,
) -> Result<Option<u32>, Missing> {
    assert!(from_leaf < LEAVES_MAX, "leaf {from_leaf} is beyond the tree");
    assert!(pages_max > 0, "a step must get somewhere");
    let mut walk = Walk { pages, from_leaf, pages_max, done: 0, visitor };
    match walk.descend(Span::ALL, roots) {
        Ok(()) => Ok(None),
        Err(Stop::At(leaf)) => {
            assert!(leaf > from_leaf, "a step gets on");
            Ok(Some(leaf))
        }
        Err(Stop::Missing(missing)) => Err(missing),
    }
}

struct Walk<'a> {
    pages: &'a mut dyn Pages,
    from_leaf: u32,
    pages_max: usize,
    /// Pages that the visitor has been shown.
    done: usize,
    visitor: &'a mut dyn Visitor,
}

impl Walk<'_> {
    fn descend(&mut self, span: Span, refs: &[Root]) -> Result<(), Stop> {
        if span.last() < self.from_leaf || !self.visitor.enters(span, refs) {
            return Ok(());
        }
        if self.done >= self.pages_max || self.visitor.full() {
            return Err(Stop::At(span.first()));
        }
        let loaded = refs.iter().map(|r| r.map(|r| self.pages.page(r)).transpose());
        let loaded = loaded.collect::<Result<Vec<_>, _>>().map_err(|missing| {
            if self.done > 0 { Stop::At(span.first()) } else { Stop::Missing(missing) }
        })?;
        if span.height == 0 {
            self.visitor.leaf(span.index, refs, &loaded);
        } else {
            let mut below = vec![None; refs.len()];
            for slot in 0..FANOUT {
                for (below, page) in below.iter_mut().zip(&loaded) {
                    *below = page.as_deref().and_then(|page| node::get(page, slot));
                }
                self.descend(span.child(slot), &below)?;
            }
            self.visitor.interior(refs);
        }
        self.done += 1;
        Ok(())
    }
}
