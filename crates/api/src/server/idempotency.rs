//! `Idempotency-Key`: a request that is sent again because its answer was lost is not done again.
//!
//! A key belongs to one user, account or token, and to one request. The answer is kept in memory, among the last
//! [`KEYS_MAX`], of which whoever has most loses the oldest, and given again; who asks while the first one is still at work waits for the same
//! answer. What failed through no fault of the request (5xx) is not kept, so that it can be tried again, and
//! neither is an answer with a secret (`no-store`).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use super::admit::Caller;
use super::app::App;
use super::body;
use super::tags::hash_of;
use crate::problem::{Code, Problem};

/// The header.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Keys that are remembered.
const KEYS_MAX: usize = 1024;

/// Bytes of answers that are remembered.
const ANSWERS_BYTES_MAX: usize = 16 << 20;

/// The longest key.
const KEY_BYTES_MAX: usize = 255;

/// An answer that can be given again.
#[derive(Debug, Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        (self.status, self.headers, self.body).into_response()
    }
}

/// Nothing was done: the answer to a request of before was given again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeated;

/// Who used a key, and the key.
type Key = (String, String);

/// One request.
#[derive(Debug)]
struct Entry {
    /// Of the method, the path and the body.
    hash: String,
    /// The answer, when there is one.
    answer: watch::Receiver<Option<Answer>>,
    /// Its place in the order of age.
    number: u64,
}

/// What was answered to the last keys.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Keys>);

/// Invariant: `by_age` names each entry once, and `bytes` is the sum of the bodies that are kept.
#[derive(Debug, Default)]
struct Keys {
    entries: HashMap<Key, Entry>,
    by_age: BTreeMap<u64, Key>,
    next: u64,
    bytes: usize,
}

/// What a request with a key is to do.
enum Place {
    /// It is the first: do it, and give the answer here.
    First(watch::Sender<Option<Answer>>),
    /// It comes again: the answer comes here.
    Again(watch::Receiver<Option<Answer>>),
}

impl Keys {
    fn enter(&mut self, key: &Key, hash: &str) -> Result<Place, Problem> {
        if let Some(entry) = self.entries.get(key) {
            if entry.hash != hash {
                return Err(Problem::new(
                    Code::KeyReused,
                    "this Idempotency-Key was sent with another request: draw a new one for each request",
                ));
            }
            return Ok(Place::Again(entry.answer.clone()));
        }
        if self.entries.len() >= KEYS_MAX && !self.forget_oldest() {
            return Err(Problem::new(
                Code::TooBusy,
                "too many requests with an Idempotency-Key are under way: try again when some have ended",
            ));
        }
        let (sender, answer) = watch::channel(None);
        let (hash, number) = (hash.to_owned(), self.next);
        self.next += 1;
        self.by_age.insert(number, key.clone());
        self.entries.insert(key.clone(), Entry { hash, answer, number });
        Ok(Place::First(sender))
    }

    /// Forgets the oldest that has an answer, of whoever has most of them.
    fn forget_oldest(&mut self) -> bool {
        let is_answered = |key: &&Key| self.entries[*key].answer.borrow().is_some();
        let mut by_owner = BTreeMap::<&str, (usize, &Key)>::new();
        for key in self.by_age.values().filter(is_answered) {
            by_owner.entry(&key.0).or_insert((0, key)).0 += 1;
        }
        let most = by_owner.into_values().max_by_key(|(count, _)| *count);
        let Some(key) = most.map(|(_, oldest)| oldest.clone()) else { return false };
        self.forget(&key);
        true
    }

    fn forget(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_age.remove(&entry.number);
            self.bytes -= entry.answer.borrow().as_ref().map_or(0, |answer| answer.body.len());
        }
    }

    /// There is an answer.
    fn settle(&mut self, key: &Key, answer: Answer, sender: &watch::Sender<Option<Answer>>) {
        let is_secret = answer.headers.get(CACHE_CONTROL).is_some_and(|value| value == "no-store");
        let is_small = answer.body.len() <= ANSWERS_BYTES_MAX;
        let is_kept = !answer.status.is_server_error() && !is_secret && is_small;
        if !is_kept {
            self.forget(key);
            sender.send_replace(Some(answer));
            return;
        }
        self.bytes += answer.body.len();
        sender.send_replace(Some(answer));
        while self.bytes > ANSWERS_BYTES_MAX && self.forget_oldest() {}
    }
}

impl Remembered {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        // Each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a key back that got no answer, because its work was cut off.
struct Undo(Arc<App>, Option<Key>);

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(key) = self.1.take() {
            self.0.remembered.keys().forget(&key);
        }
    }
}

/// Answers requests that come again by what was answered before.
pub(super) async fn once(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    // What has no route does nothing once or twice, and pushes out no key.
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let is_meant = route.is_some_and(|route| may_make(request.method(), route));
    if !is_meant || !request.headers().contains_key(IDEMPOTENCY_KEY) {
        return Ok(next.run(request).await);
    }
    let owner = request.extensions().get::<Caller>().map(Caller::owner).unwrap_or_default();
    let key = (owner, key_of(request.headers())?);
    let (parts, sent) = request.into_parts();
    let sent = body::read(&parts, sent).await?;
    let head = format!("{} {}\n", parts.method, parts.uri);
    let hash = hash_of(&[head.as_bytes(), &sent].concat());
    let place = app.remembered.keys().enter(&key, &hash)?;
    match place {
        Place::Again(mut answer) => {
            let answer = answer.wait_for(Option::is_some).await.ok().and_then(|one| one.clone());
            let again = |answer: Answer| (Extension(Repeated), answer).into_response();
            answer.map(again).ok_or_else(|| {
                Problem::new(
                    Code::Unavailable,
                    "the first request with this key has no answer: send it again",
                )
            })
        }
        Place::First(sender) => {
            let request = Request::from_parts(parts, Body::from(sent));
            // To its end, also when nobody waits any more: the answer is for whoever comes again.
            let work = tokio::spawn(async move {
                let mut undo = Undo(app.clone(), Some(key.clone()));
                let answer = answer_of(next.run(request).await).await?;
                app.remembered.keys().settle(&key, answer.clone(), &sender);
                undo.1 = None;
                Ok::<_, Problem>(answer)
            });
            let answer = work.await.unwrap_or_else(|_| Err(cut_off()))?;
            Ok(answer.into_response())
        }
    }
}

/// Whether it may make something, which is there when it comes again. All else is the same when it is done twice.
fn may_make(method: &Method, route: &str) -> bool {
    *method == Method::POST || (*method == Method::PATCH && route == "/v1/configuration")
}

async fn answer_of(response: Response) -> Result<Answer, Problem> {
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.map_err(|_| cut_off())?;
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}

fn cut_off() -> Problem {
    Problem::new(Code::Failed, "the work ended without a result")
}

fn key_of(headers: &HeaderMap) -> Result<String, Problem> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = keys.next().filter(|_| keys.next().is_none()).and_then(|key| key.to_str().ok());
    let key = key.map(str::trim).filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    key.map(str::to_owned).ok_or_else(|| {
        Problem::new(
            Code::BadRequest,
            "Idempotency-Key does not read: send one of 1 to 255 printable ASCII characters",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: StatusCode, len: usize) -> Answer {
        Answer { status, headers: HeaderMap::new(), body: vec![0; len].into() }
    }

    fn key(name: usize) -> Key {
        ("user 0".to_owned(), name.to_string())
    }

    fn first(keys: &mut Keys, name: usize) -> watch::Sender<Option<Answer>> {
        match keys.enter(&key(name), "hash") {
            Ok(Place::First(sender)) => sender,
            _ => panic!("{name} is known"),
        }
    }

    #[test]
    fn a_key_stands_for_one_request_of_one_user() {
        let mut keys = Keys::default();
        let sender = first(&mut keys, 1);
        assert!(matches!(keys.enter(&key(1), "hash"), Ok(Place::Again(_))), "under way");
        keys.settle(&key(1), answer(StatusCode::CREATED, 3), &sender);
        let Ok(Place::Again(again)) = keys.enter(&key(1), "hash") else { panic!("it is known") };
        assert_eq!(again.borrow().as_ref().map(|one| one.status), Some(StatusCode::CREATED));
        let refused = keys.enter(&key(1), "other").err().map(|problem| problem.code);
        assert_eq!(refused, Some(Code::KeyReused));
        assert!(matches!(keys.enter(&("user 7".into(), "1".into()), "other"), Ok(Place::First(_))));
    }

    #[test]
    fn who_has_most_keys_loses_them_and_nobody_else() {
        let mut keys = Keys::default();
        let others = ("user 7".to_owned(), "nightly".to_owned());
        let Ok(Place::First(sender)) = keys.enter(&others, "hash") else { panic!("it is new") };
        keys.settle(&others, answer(StatusCode::CREATED, 3), &sender);
        for name in 0..2 * KEYS_MAX {
            let sender = first(&mut keys, name);
            keys.settle(&key(name), answer(StatusCode::NOT_FOUND, 3), &sender);
        }
        assert_eq!(keys.entries.len(), KEYS_MAX);
        assert!(matches!(keys.enter(&others, "hash"), Ok(Place::Again(_))));
        assert!(matches!(keys.enter(&key(0), "hash"), Ok(Place::First(_))), "it was the oldest");
    }

    #[test]
    fn what_is_kept_is_bounded_and_failures_can_be_tried_again() {
        let mut keys = Keys::default();
        let sender = first(&mut keys, 0);
        keys.settle(&key(0), answer(StatusCode::SERVICE_UNAVAILABLE, 3), &sender);
        first(&mut keys, 0);
        let waiting: Vec<_> = (1..KEYS_MAX).map(|name| first(&mut keys, name)).collect();
        let full = keys.enter(&key(KEYS_MAX), "hash").err().map(|problem| problem.code);
        assert_eq!(full, Some(Code::TooBusy), "none may be forgotten");
        for (at, sender) in waiting.iter().enumerate() {
            keys.settle(&key(at + 1), answer(StatusCode::CREATED, 1 << 20), sender);
        }
        assert_eq!(keys.bytes, ANSWERS_BYTES_MAX);
        assert_eq!((keys.entries.len(), keys.by_age.len()), (17, 17));
        assert!(matches!(keys.enter(&key(KEYS_MAX - 1), "hash"), Ok(Place::Again(_))));
    }
}
