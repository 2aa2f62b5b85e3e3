//! A world in which paths are lost and return, or return elsewhere, or are replaced; half-open ones
//! deliver what they were given long after; a host crashes and comes back; answers overtake each
//! other, and targets refuse, delay, hang, abort, and are reset. Time is virtual; one seed is one
//! history.
//!
//! The target has a write cache and loses it with its power; a flush empties it. What was acknowledged
//! before a flush that says all is well is there for good; what is lost is told by one flush that fails.
//!
//! What a command sends is first in a socket of this host, then at the target. A connection that is
//! lost throws away what is here; what is there may be done until its nexus is fenced.
//!
//! **The check.** Writes of a block are numbered in the order in which they were submitted. A write is
//! never applied after a later one, nor after a later one was acknowledged; a read never finds an older
//! write than one that was acknowledged, or seen by another read, before it was submitted; reads are
//! sent on a second path when the first is slow. Where all
//! writes of a block are ordered by the router this is linearizability, block by block.
//! [`Mistake`]s are planted, and each must be found.

mod power;
mod trouble;
mod world;

use proptest::prelude::*;

use super::super::{PathId, Policy};
use world::{Event, World};

/// What the world, or who drives the router, does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// Sockets keep what they hold when they are closed, and the kernel sends it later.
    QueuesOutliveTheirOwners,
    /// The successor of a crashed host writes without having ended what was left.
    LeftoversLive,
    /// A session that comes back in another portal group counts as fenced.
    AMoveIsAFence,
    /// A reset counts before it was done, and whatever comes of it.
    AResetAlwaysWorks,
    /// What was sent on a path that was lost counts as not sent.
    LostIsNotSent,
    /// What was aborted without the target's word is repeated at once.
    AHangIsAnEnd,
    /// A flush is answered here, and sends nothing.
    AFlushSendsNothing,
    /// That the target has restarted is heard, and nothing follows.
    APowerOnIsNoNews,
    /// What was answered while a flush was under way counts as flushed by it.
    AFlushCoversTooMuch,
    /// The second answer of a read that was sent twice is taken for that of the next command in its place.
    AStragglerAnswers,
}

/// One history of 200 commands.
fn history(seed: u64, paths: usize, policy: Policy, mistake: Mistake) -> u64 {
    let mut world = World::new(seed, paths, policy, mistake);
    world.run(200);
    world.check_medium();
    assert_eq!(world.done + world.failed.len() as u64, 200, "every command has its end");
    world.hedges
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_repeated_write_never_undoes_a_later_one(seed in any::<u64>(), paths in 1_usize..5, policy in 0_u8..4) {
        let policy = [
            Policy::Failover,
            Policy::RoundRobin { ios_per_path: 2 },
            Policy::LeastQueueDepth,
            Policy::ServiceTime,
        ][usize::from(policy)];
        history(seed, paths, policy, Mistake::None);
    }
}

/// Else nothing of the above would say anything of them.
#[test]
fn these_histories_have_reads_on_two_paths() {
    let count = |seed| history(seed, 3, Policy::LeastQueueDepth, Mistake::None);
    let hedges: u64 = (0..30).map(count).sum();
    assert!(hedges > 60, "{hedges} in 30 histories");
}

/// Each is found in a few hundred histories at most; without any, all of these are right.
#[test]
fn planted_mistakes_are_found() {
    const SEEDS: u64 = 300;
    let is_found = |mistake| {
        (0..SEEDS).find(|&seed| {
            let one = || history(seed, 3, Policy::LeastQueueDepth, mistake);
            std::panic::catch_unwind(one).is_err()
        })
    };
    assert_eq!(is_found(Mistake::None), None);
    for mistake in [
        Mistake::QueuesOutliveTheirOwners,
        Mistake::LeftoversLive,
        Mistake::AMoveIsAFence,
        Mistake::AResetAlwaysWorks,
        Mistake::LostIsNotSent,
        Mistake::AHangIsAnEnd,
        Mistake::AFlushSendsNothing,
        Mistake::APowerOnIsNoNews,
        Mistake::AFlushCoversTooMuch,
        Mistake::AStragglerAnswers,
    ] {
        let found = is_found(mistake);
        assert!(found.is_some(), "{mistake:?} does no harm in {SEEDS} histories");
    }
}

#[test]
fn all_paths_down_for_ten_seconds_is_no_error() {
    let mut world = World::new(1, 2, Policy::LeastQueueDepth, Mistake::None);
    world.is_calm = true;
    for at in 0..100 {
        world.after(at * 50, Event::Submit);
    }
    for path in [PathId(0), PathId(1)] {
        world.after(1000, Event::Lose(path, Some(10_000)));
    }
    world.run(0);
    world.check_medium();
    assert_eq!((world.done, world.failed.len()), (100, 0));
    assert!(
        world.links.values().all(|link| link.losses == 1),
        "they were away once, for all of it"
    );
}
