//! What is told of logins that were refused for a limit: each host is named with each volume, at most once in a minute,
//! with how often it was refused since it was named last. None is left out, whoever tries how fast.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::ownership::Moment;

/// In which a host is named once with a volume.
const PAUSE_MS: u64 = 60_000;

/// How many pairs of a host and a volume are told apart. Further ones are told of together, without names: names are
/// claimed, and as many of them as somebody likes would push all other events out of the log.
pub(super) const PAIRS_MAX: usize = 32;

/// Logins of a host to a volume that were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLogins {
    /// The name of the initiator; empty where it is one of many.
    pub host: String,
    /// The name of the target; empty where it is one of many.
    pub target: String,
    /// From where it came last; `None` where those are many hosts.
    pub from: Option<SocketAddr>,
    /// It was refused last as its address had as many as
    /// [one may have](super::Allowance::of_one_max).
    pub is_of_one: bool,
    /// How often it was refused since that was told last.
    pub count: u64,
}

#[derive(Debug)]
struct Named {
    since: Moment,
    from: Option<SocketAddr>,
    is_of_one: bool,
    held_back: u64,
}

/// Who was refused lately.
#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<(String, String), Named>);

impl Refusals {
    /// What is to be told now of these that were refused since the last call, and of what was held back before.
    pub fn hear(&mut self, refused: Vec<RefusedLogins>, now: Moment) -> Vec<RefusedLogins> {
        let mut told = Vec::new();
        for RefusedLogins { host, target, from, is_of_one, count } in refused {
            let mut key = (host, target);
            let mut from = from;
            if self.0.len() >= PAIRS_MAX && !self.0.contains_key(&key) {
                (key, from) = ((String::new(), String::new()), None);
            }
            match self.0.get_mut(&key) {
                Some(named) => {
                    named.held_back = named.held_back.saturating_add(count);
                    (named.from, named.is_of_one) = (from, is_of_one);
                }
                None => {
                    let (host, target) = key.clone();
                    told.push(RefusedLogins { host, target, from, is_of_one, count });
                    self.0.insert(key, Named { since: now, from, is_of_one, held_back: 0 });
                }
            }
        }
        self.0.retain(|(host, target), named| {
            if now < named.since.after_ms(PAUSE_MS) {
                return true;
            }
            let count = std::mem::take(&mut named.held_back);
            named.since = now;
            let (host, target) = (host.clone(), target.clone());
            if count > 0 {
                let Named { from, is_of_one, .. } = *named;
                told.push(RefusedLogins { host, target, from, is_of_one, count });
            }
            // Who was quiet for a minute is named at once when it comes again.
            count > 0
        });
        debug_assert!(self.0.len() <= PAIRS_MAX + 1, "the nameless ones are one more");
        told
    }
}
