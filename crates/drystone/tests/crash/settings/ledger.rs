//! What one client has set and was told of, and what there may be of it after a crash: all that was answered, and of the
//! change under way all or nothing.

use super::things::{Things, fits};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Moments in the order in which they were, over all clients.
static MOMENT: AtomicU64 = AtomicU64::new(1);

fn now() -> u64 {
    MOMENT.fetch_add(1, Ordering::SeqCst)
}

/// A request that changes something.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
    /// Things as they are afterwards; nothing where one goes.
    pub(crate) after: BTreeMap<String, Option<Value>>,
    /// A volume that may be there without the rest of the change, which was cut off: the next start completes it.
    pub(crate) alone: Option<String>,
    /// Somebody else may be in the way: then it is refused with this status, and nothing has changed.
    pub(crate) may_be_refused: Option<u16>,
    /// By which it is known again.
    pub(crate) key: Option<String>,
}

impl Change {
    /// Of one thing.
    pub(crate) fn new(method: &'static str, path: String, body: Option<Value>) -> Self {
        let after = BTreeMap::new();
        Self { method, path, body, after, alone: None, may_be_refused: None, key: None }
    }

    /// What this thing becomes.
    pub(crate) fn makes(mut self, thing: &str, is: Option<Value>) -> Self {
        self.after.insert(thing.to_owned(), is);
        self
    }

    /// All that is there once it is made.
    fn made_in(&self, told: &Things) -> Things {
        let mut things = told.clone();
        for (path, thing) in &self.after {
            match thing {
                Some(thing) => things.insert(path.clone(), thing.clone()),
                None => things.remove(path),
            };
        }
        things
    }

    /// What there is if only the volume was made, and completed by the next start.
    fn made_alone_in(&self, told: &Things) -> Option<Things> {
        let volume = self.alone.clone()?;
        let thing = self.after.get(&volume).cloned().flatten()?;
        let mut things = told.clone();
        things.insert(volume, thing);
        Some(things)
    }
}

/// What was asked for, and when; `answered` is none while it is under way.
#[derive(Debug, Clone)]
struct Asked {
    method: &'static str,
    path: String,
    begun: u64,
    answered: Option<u64>,
}

/// How a change that was under way has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There was none.
    Nothing,
    NotMade,
    Made,
    /// The volume of it alone is there.
    MadeAlone,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) told: Things,
    under_way: Option<Change>,
    /// What was asked for in this round.
    asked: Vec<Asked>,
}

impl Ledger {
    pub(crate) fn begin(&mut self, change: &Change) {
        let Change { method, path, .. } = change;
        self.under_way = Some(change.clone());
        self.asked.push(Asked { method, path: path.clone(), begun: now(), answered: None });
    }

    /// The member has answered that it is done.
    pub(crate) fn done(&mut self) {
        let change = self.under_way.take().expect("one was begun");
        self.told = change.made_in(&self.told);
        self.asked.last_mut().expect("one was begun").answered = Some(now());
    }

    /// It was refused.
    pub(crate) fn refused(&mut self) {
        self.under_way = None;
        self.asked.pop();
    }

    /// Judges what there is after a crash, and takes it as what there has to be from now on.
    pub(crate) fn judge(&mut self, found: Things) -> Result<Ended, String> {
        let under_way = self.under_way.take();
        let made = under_way.as_ref().map(|change| change.made_in(&self.told));
        let alone = under_way.as_ref().and_then(|change| change.made_alone_in(&self.told));
        let is_told = difference(&self.told, &found);
        let is = |wanted: &Option<Things>| {
            wanted.as_ref().is_some_and(|wanted| difference(wanted, &found).is_empty())
        };
        let ended = if is(&made) {
            Ended::Made
        } else if is_told.is_empty() {
            if under_way.is_some() { Ended::NotMade } else { Ended::Nothing }
        } else if is(&alone) {
            Ended::MadeAlone
        } else {
            return Err(format!("{} while {under_way:#?} was under way", is_told.join("\n")));
        };
        self.told = found;
        Ok(ended)
    }

    /// Holds the audit log against what was asked for of things of its own, by the methods and paths of its changes. Says
    /// which are missing that were answered, and when; and makes `newest` the moment at which the last was asked for
    /// that is not, if that is later.
    pub(crate) fn judge_audit(
        &mut self,
        audited: &[(u64, String, String)],
        newest: &mut u64,
    ) -> Result<Vec<(u64, String)>, String> {
        let mut by_path: BTreeMap<(&str, &str), Vec<&Asked>> = BTreeMap::new();
        // Lists of all, such as `/v1/policies`, are everybody's.
        for asked in self.asked.iter().filter(|asked| asked.path.matches('/').count() > 2) {
            by_path.entry((asked.method, &asked.path)).or_default().push(asked);
        }
        let mut missing = Vec::new();
        for ((method, path), asked) in by_path {
            let is_it = |entry: &&(u64, String, String)| entry.1 == method && entry.2 == path;
            let found = audited.iter().filter(is_it).count();
            if found > asked.len() {
                return Err(format!("{method} {path} was recorded {found} times: {asked:?}"));
            }
            let (kept, lost) = asked.split_at(found);
            *newest = kept.iter().map(|asked| asked.begun).fold(*newest, u64::max);
            let answered = lost.iter().filter_map(|asked| asked.answered);
            missing.extend(answered.map(|at| (at, format!("{method} {path}"))));
        }
        self.asked.clear();
        Ok(missing)
    }
}

/// In which things the one differs from the other.
fn difference(wanted: &Things, found: &Things) -> Vec<String> {
    let mut all: Vec<&String> = wanted.keys().chain(found.keys()).collect();
    all.sort();
    all.dedup();
    let differs = |path: &&String| match (wanted.get(*path), found.get(*path)) {
        (Some(wanted), Some(found)) => !fits(wanted, found),
        _ => true,
    };
    let told = |path: &String| {
        let shown =
            |things: &Things| things.get(path).map_or("nothing".to_owned(), Value::to_string);
        format!("{path} is {}, and was {}", shown(found), shown(wanted))
    };
    all.into_iter().filter(differs).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn things(all: &[(&str, Value)]) -> Things {
        all.iter().map(|(path, thing)| ((*path).to_owned(), thing.clone())).collect()
    }

    fn change() -> Change {
        let change = Change::new("PATCH", "/v1/things/a".to_owned(), None);
        change.makes("a", Some(json!(2))).makes("b", None).makes("v", Some(json!("list")))
    }

    /// A ledger of `a` and `b`, with a change under way, or answered.
    fn ledger(is_answered: bool) -> Ledger {
        let mut ledger =
            Ledger { told: things(&[("a", json!(1)), ("b", json!(1))]), ..Ledger::default() };
        ledger.begin(&Change { alone: Some("v".to_owned()), ..change() });
        if is_answered {
            ledger.done();
        }
        ledger
    }

    #[test]
    fn what_was_answered_is_there_and_what_was_under_way_wholly_or_not_at_all() {
        let before = things(&[("a", json!(1)), ("b", json!(1))]);
        let after = things(&[("a", json!(2)), ("v", json!("list"))]);
        let mut alone = before.clone();
        alone.insert("v".to_owned(), json!("list"));
        assert_eq!(ledger(false).judge(before.clone()), Ok(Ended::NotMade));
        assert_eq!(ledger(false).judge(after.clone()), Ok(Ended::Made));
        assert_eq!(ledger(false).judge(alone.clone()), Ok(Ended::MadeAlone));
        assert_eq!(ledger(true).judge(after), Ok(Ended::Nothing));
        assert!(ledger(true).judge(before).is_err() && ledger(true).judge(alone).is_err());
        for half in [
            things(&[("a", json!(2)), ("b", json!(1))]),
            things(&[("a", json!(1)), ("v", json!("list"))]),
            things(&[("a", json!(1)), ("b", json!(1)), ("v", json!("none"))]),
            things(&[]),
        ] {
            assert!(ledger(false).judge(half.clone()).is_err(), "{half:?}");
        }
    }

    #[test]
    fn a_secret_is_told_by_its_tag_once_that_is_known() {
        let tagged = |tag: &str| things(&[("chap/u", json!({"tag": tag}))]);
        let mut ledger = Ledger { told: tagged("?"), ..Ledger::default() };
        assert_eq!(ledger.judge(tagged("1")), Ok(Ended::Nothing));
        assert!(ledger.judge(tagged("2")).is_err());
    }

    #[test]
    fn only_the_end_of_the_audit_log_may_be_missing() {
        let entry = |number| (number, "PATCH".to_owned(), "/v1/things/a".to_owned());
        let mut newest = 0;
        let mut twice = ledger(true);
        twice.begin(&change());
        let missing = twice.judge_audit(&[entry(1)], &mut newest).expect("it is no more");
        assert!(missing.is_empty() && newest > 0, "{missing:?}: the other one was not answered");
        assert_eq!(ledger(true).judge_audit(&[], &mut newest).map(|all| all.len()), Ok(1));
        assert!(ledger(true).judge_audit(&[entry(1), entry(2)], &mut newest).is_err());
    }
}
