//! The memory of the cache of blocks: set by operators, and given up while the machine runs short.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use array::api::CacheFigures;

use super::{Member, RequestError};
use crate::memory::{CacheMemory, Held, Machine, next_limit};
use crate::spec::size;

/// How often the machine is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks for as long as the core runs, whatever else the member waits for.
pub(crate) async fn run(member: Rc<Member>) {
    while !member.is_stopping() {
        member.give_way(member.array().info().cache_memory);
        ring::sleep(PAUSE).await;
    }
}

/// How much the cache is to have.
#[derive(Debug)]
pub(crate) struct CacheLimit {
    /// Where nothing is short.
    wanted_bytes: Cell<u64>,
    /// It has less for want of memory, and that was told.
    is_giving_way: Cell<bool>,
}

impl CacheLimit {
    pub(crate) fn new(wanted_bytes: u64) -> Self {
        Self { wanted_bytes: Cell::new(wanted_bytes), is_giving_way: Cell::new(false) }
    }
}

impl Member {
    /// How many bytes an operator means.
    ///
    /// # Errors
    /// It is too little, or too much for this machine.
    pub(super) fn checked_cache_memory(memory: CacheMemory) -> Result<u64, RequestError> {
        Ok(memory.bytes_on(Machine::look())?)
    }

    /// The cache has so much from now on, until the member stops.
    pub(super) fn set_cache_bytes(&self, bytes: u64) {
        self.cache_limit.wanted_bytes.set(bytes);
        self.cache_limit.is_giving_way.set(false);
        self.array().set_block_cache_bytes(bytes);
        tracing::info!("the read cache may have {} of memory", size::in_words(bytes));
    }

    /// Gives up memory of the cache while the machine is short of it, and takes it back later.
    pub(super) fn give_way(&self, cache: CacheFigures) {
        let CacheLimit { wanted_bytes, is_giving_way } = &self.cache_limit;
        let wanted_bytes = wanted_bytes.get();
        // What cannot be read says nothing of what there is.
        let Some(machine) = Machine::look() else { return };
        let held = Held { bytes: cache.bytes, limit_bytes: cache.bytes_max, wanted_bytes };
        let next = next_limit(held, machine);
        if next != cache.bytes_max {
            self.array().set_block_cache_bytes(next);
        }
        if next < cache.bytes_max && !is_giving_way.replace(true) {
            tracing::debug!(
                "the read cache gives way to others: it may have {} instead of {}, as {} are available",
                size::in_words(next),
                size::in_words(cache.bytes_max),
                size::in_words(machine.available_bytes)
            );
        }
        if next == wanted_bytes {
            is_giving_way.set(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use array::api::SettingsChange;

    use super::*;
    use crate::reply::Answer;
    use crate::request::{ArrayRequest, Request};
    use crate::testing::Rig;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_refused_sets_nothing_else_either() {
        let home = tempfile::tempdir().unwrap();
        let rig = Rig::start(home.path(), &home.path().join("data"));
        let set = |cache_bytes, scrub_days| {
            let settings = SettingsChange { scrub_days, ..SettingsChange::default() };
            let cache_memory = Some(CacheMemory::Bytes(cache_bytes));
            match rig.ask(Request::Array(ArrayRequest::Set { settings, cache_memory })) {
                Ok(Answer::Array(info)) => {
                    Ok((info.cache_memory.bytes_max, info.settings.scrub_days))
                }
                Ok(other) => panic!("{other:?}"),
                Err(refused) => Err(refused),
            }
        };
        assert_eq!(set(32 * MIB, Some(3)).unwrap(), (32 * MIB, 3));
        let refused = set(MIB, Some(4)).unwrap_err();
        assert!(matches!(refused, RequestError::CacheMemory(_)), "{refused}");
        assert_eq!(set(64 * MIB, None).unwrap(), (64 * MIB, 3));
        rig.stop();
    }

    #[test]
    fn a_cache_that_is_lower_than_it_may_be_grows_again_without_being_asked() {
        let home = tempfile::tempdir().unwrap();
        let rig = Rig::start(home.path(), &home.path().join("data"));
        let limit = rig.with(async |member| {
            member.set_cache_bytes(32 * MIB);
            member.array().set_block_cache_bytes(16 * MIB);
            for _ in 0..100 {
                member.give_way(member.array().info().cache_memory);
            }
            member.array().info().cache_memory.bytes_max
        });
        // No test runs where the machine has nothing left.
        assert_eq!(limit, 32 * MIB);
        rig.stop();
    }
}
