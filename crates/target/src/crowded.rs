//! Logins that were refused as hosts have as many connections as they may have, until somebody asks for them.
//!
//! They are counted here and not told one by one as other refusals are, so that whoever tells of them leaves none out
//! however fast they come.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many pairs of a host and a target are told apart between two questions; further ones are counted together.
const PAIRS_MAX: usize = 1024;

/// Logins of one host to one target that were refused for want of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdedOut {
    /// The initiator's name; `None` of those that are not told apart.
    pub initiator: Option<Arc<str>>,
    /// The target's name; `None` likewise.
    pub target: Option<Arc<str>>,
    /// Where the last of them came from.
    pub from: SocketAddr,
    /// The last of them came from an address that had [as many as one may
    /// have](crate::Targets::set_connections_of_one_max).
    pub is_of_one: bool,
    /// How many there were.
    pub count: u64,
}

type Pair = Option<(Arc<str>, Arc<str>)>;

/// The refusals of a pair.
#[derive(Debug)]
struct Noted {
    last: (SocketAddr, bool),
    count: u64,
}

/// Those of which nobody has asked yet.
#[derive(Debug, Default)]
pub(crate) struct Crowded(Mutex<HashMap<Pair, Noted>>);

impl Crowded {
    fn pairs(&self) -> MutexGuard<'_, HashMap<Pair, Noted>> {
        // A count is no worse for being one less.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, of an initiator to a target; `is_of_one` where others could still come.
    pub(crate) fn note(
        &self,
        (initiator, target): (&str, &str),
        from: SocketAddr,
        is_of_one: bool,
    ) {
        let mut pairs = self.pairs();
        let mut pair = Some((initiator.into(), target.into()));
        if pairs.len() >= PAIRS_MAX && !pairs.contains_key(&pair) {
            pair = None;
        }
        let last = (from, is_of_one);
        let noted = pairs.entry(pair).or_insert(Noted { last, count: 0 });
        (noted.last, noted.count) = (last, noted.count.saturating_add(1));
        debug_assert!(pairs.len() <= PAIRS_MAX + 1, "those together are one more");
    }

    /// All of them, each once.
    pub(crate) fn take(&self) -> Vec<CrowdedOut> {
        let pairs = std::mem::take(&mut *self.pairs());
        let told = pairs.into_iter().map(|(pair, Noted { last: (from, is_of_one), count })| {
            let (initiator, target) = pair.unzip();
            CrowdedOut { initiator, target, from, is_of_one, count }
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_in_one_count() {
        let crowded = Crowded::default();
        let from: SocketAddr = "192.0.2.1:4000".parse().expect("an address");
        assert_eq!(crowded.take(), []);
        (0..3).for_each(|number| crowded.note(("host", "vm"), from, number == 2));
        let (initiator, target) = (Some("host".into()), Some("vm".into()));
        assert_eq!(
            crowded.take(),
            [CrowdedOut { initiator, target, from, is_of_one: true, count: 3 }]
        );
        assert_eq!(crowded.take(), [], "they are told once");
        let hosts = PAIRS_MAX + 10;
        (0..hosts).for_each(|host| crowded.note((&format!("h{host}"), "vm"), from, false));
        let told = crowded.take();
        assert_eq!(told.iter().map(|it| it.count).sum::<u64>(), hosts as u64);
        assert_eq!(told.len(), PAIRS_MAX + 1);
        let together = told.iter().find(|it| it.initiator.is_none()).expect("the last ones");
        assert_eq!((together.count, &together.target), (10, &None));
    }
}
