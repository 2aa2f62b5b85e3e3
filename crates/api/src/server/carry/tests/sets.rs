//! Snapshots of one moment of volumes of two members, as the first one drives them.

use std::collections::BTreeMap;

use group::membership::About;
use member::{SetError, SetRequest};

use super::*;
use crate::server::sets::{Spread, take};
use crate::types::Snapshot;

/// How long a member holds back what hosts write, by itself.
const HOLD_TIME: Duration = Duration::from_secs(2);

/// What was asked of whom, and when.
type Notes = Arc<Mutex<Vec<(&'static str, Instant)>>>;

fn note(notes: &Notes, what: &'static str) {
    notes.lock().expect("no test has failed").push((what, Instant::now()));
}

/// When this was asked first.
fn noted(notes: &Notes, what: &str) -> Option<Instant> {
    let all = notes.lock().expect("no test has failed");
    all.iter().find(|(noted, _)| *noted == what).map(|(_, at)| *at)
}

/// What a member answers that takes part, or has the store decide.
fn takes_part(request: &Request) -> Option<Result<Answer, RequestError>> {
    let Request::Set(request) = request else { return Some(Err(RequestError::NoResult)) };
    Some(Ok(match request {
        SetRequest::List => Answer::Sets(Vec::new()),
        SetRequest::Take { .. } => Answer::Snapshots(Vec::new()),
        SetRequest::Decide { verdict, .. } => Answer::Decided(*verdict),
        SetRequest::Settle { .. } => Answer::SetSettled(true),
        _ => Answer::Done,
    }))
}

impl Pair {
    /// They are a group that has a name, and the first one drives a set.
    async fn of_set(
        left: impl Fn(&Request) -> Option<Result<Answer, RequestError>> + Send + Sync + 'static,
        right: impl Fn(&Request) -> Option<Result<Answer, RequestError>> + Send + Sync + 'static,
    ) -> Self {
        let pair = Self::with(left, right).await;
        pair.left.hears(|now| {
            now.roll.about = Some(About {
                id: "0".repeat(32).parse().expect("it is one"),
                name: "lab".to_owned(),
                created_unix_seconds: 7,
                last_member: 2,
            });
        });
        pair
    }

    async fn take(&self) -> Result<Vec<Snapshot>, Problem> {
        let of = |volume: &str| vec![volume.to_owned()];
        let spread = Spread(BTreeMap::from([(LEFT, of("vm1")), (RIGHT, of("vm2"))]));
        take(&self.left.app, spread, Some("s".to_owned())).await
    }
}

impl Site {
    /// Whether something of this kind was asked about a set.
    fn was_asked(&self, is_it: impl Fn(&SetRequest) -> bool) -> bool {
        self.asked().iter().any(|asked| matches!(asked, Request::Set(request) if is_it(request)))
    }
}

#[tokio::test]
async fn all_that_hold_take_their_snapshots() {
    let pair = Pair::of_set(takes_part, takes_part).await;
    assert!(pair.take().await.is_ok());
    for site in [&pair.left, &pair.right] {
        assert!(site.was_asked(|it| matches!(it, SetRequest::Take { .. })));
        assert!(!site.was_asked(|it| matches!(it, SetRequest::Release { .. })), "none is held");
    }
}

/// What hosts write after the first one has taken its own would be in the snapshot of the other one.
#[tokio::test]
async fn nobody_takes_before_all_hold() {
    let never_holds = |request: &Request| match request {
        Request::Set(SetRequest::Hold { .. }) => None,
        other => takes_part(other),
    };
    let pair = Pair::of_set(takes_part, never_holds).await;
    let Err(problem) = pair.take().await else { panic!("one of them does not hold") };
    assert_eq!(problem.code, Code::Unavailable);
    assert!(problem.detail.contains("have not taken them within 4 s"), "{}", problem.detail);
    for site in [&pair.left, &pair.right] {
        assert!(site.was_asked(|it| matches!(it, SetRequest::Hold { .. })), "it could hold");
        assert!(!site.was_asked(|it| matches!(it, SetRequest::Take { .. })), "not all hold");
        let lets_go = || site.was_asked(|it| matches!(it, SetRequest::Release { .. }));
        until("it lets hosts go on", async || lets_go()).await;
    }
}

/// Hosts of a member that holds would wait for all of its two seconds, whatever the store does.
#[tokio::test]
async fn a_refusal_lets_hosts_go_on_at_once() {
    let notes = Notes::default();
    let (of_left, of_right) = (notes.clone(), notes.clone());
    let holds = move |request: &Request| match request {
        Request::Set(SetRequest::Release { .. }) => {
            note(&of_left, "left released");
            takes_part(request)
        }
        Request::Set(SetRequest::Decide { .. }) => {
            note(&of_left, "decided");
            None
        }
        other => takes_part(other),
    };
    let refuses = move |request: &Request| match request {
        Request::Set(SetRequest::Hold { .. }) => {
            note(&of_right, "refused");
            Some(Err(RequestError::Set(SetError::TooLate { seconds: 2 })))
        }
        Request::Set(SetRequest::Release { .. }) => {
            note(&of_right, "right released");
            takes_part(request)
        }
        other => takes_part(other),
    };
    let pair = Pair::of_set(holds, refuses).await;
    let Err(problem) = pair.take().await else { panic!("one of them does not hold") };
    assert!(problem.detail.contains("member 'right'"), "{}", problem.detail);
    assert!(pair.left.was_asked(|it| matches!(it, SetRequest::Hold { .. })), "it holds");
    let refused = noted(&notes, "refused").expect("it was asked");
    for released in ["left released", "right released"] {
        let at = noted(&notes, released).unwrap_or_else(|| panic!("not {released}"));
        let waited = at - refused;
        assert!(waited < HOLD_TIME, "{released} after {waited:?}");
        // The store is silent: nobody waits for it before.
        assert!(at <= noted(&notes, "decided").expect("it was asked"), "{released}");
    }
}
