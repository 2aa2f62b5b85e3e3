//! Long lists in pages: `limit` and `page`, and the way to the next one in `Link` (RFC 8288).

use std::ops::Range;

use axum::http::header::LINK;
use axum::http::{HeaderValue, Uri};
use axum::response::Response;
use serde::Serialize;

use super::body::json;
use super::tags::hash_of;
use crate::problem::{Code, Problem};
use crate::types::{
    Account, AuditEntry, ChapUser, Connection, Destination, Disk, Event, Extent, GroupVolume, Job,
    JoinToken, Member, Policy, Pool, Schedule, Slice, Snapshot, Token, Transit, Volume,
};

/// Things on a page, at most, and if nobody says how many.
const ITEMS_MAX: usize = 1000;

/// Ranges on a page: each page has to be counted out anew.
const EXTENTS_MAX: usize = 100_000;

/// What a list is made of.
pub(super) trait Item: Serialize {
    /// How many a page holds at most.
    const MAX: usize = ITEMS_MAX;

    /// What tells it from the others.
    fn key(&self) -> String;
}

/// What is told apart by `key` on one member, on several by that, too: `of` is its name.
fn on_member(of: Option<&String>, key: String) -> String {
    match of {
        Some(of) => format!("{key} {of}"),
        None => key,
    }
}

impl Item for Volume {
    fn key(&self) -> String {
        on_member(self.member.as_ref(), self.id.to_string())
    }
}

impl Item for Policy {
    fn key(&self) -> String {
        self.name.clone()
    }
}

impl Item for Schedule {
    fn key(&self) -> String {
        on_member(self.member.as_ref(), self.name.clone())
    }
}

impl Item for Destination {
    fn key(&self) -> String {
        self.name.clone()
    }
}

impl Item for Account {
    fn key(&self) -> String {
        self.name.clone()
    }
}

impl Item for Token {
    fn key(&self) -> String {
        self.name.clone()
    }
}

impl Item for ChapUser {
    fn key(&self) -> String {
        self.user.clone()
    }
}

impl Item for Snapshot {
    fn key(&self) -> String {
        on_member(self.member.as_ref(), format!("{}@{}", self.volume, self.id))
    }
}

impl Item for Disk {
    fn key(&self) -> String {
        self.id.to_string()
    }
}

impl Item for JoinToken {
    fn key(&self) -> String {
        self.id.clone()
    }
}

impl Item for Member {
    fn key(&self) -> String {
        self.number.to_string()
    }
}

impl Item for Pool {
    fn key(&self) -> String {
        self.name.clone()
    }
}

impl Item for GroupVolume {
    fn key(&self) -> String {
        format!("{} {}", self.member, self.name)
    }
}

impl Item for Job {
    fn key(&self) -> String {
        on_member(self.member.as_ref(), format!("{} {}", self.kind.word(), self.subject))
    }
}

impl Item for Connection {
    fn key(&self) -> String {
        let key = format!("{} {} {} {}", self.iqn, self.session, self.connection, self.address);
        on_member(self.member.as_ref(), key)
    }
}

impl Item for Slice {
    fn key(&self) -> String {
        on_member(self.member.as_ref(), self.id.clone())
    }
}

impl Item for Transit {
    fn key(&self) -> String {
        on_member(self.member.as_ref(), self.id.clone())
    }
}

/// Each member counts its own: by the number alone a page would go on in the list of another one that has the address
/// of the group by then.
impl Item for Event {
    fn key(&self) -> String {
        format!("{} {} {}", self.number, self.time_unix_seconds, self.text)
    }
}

/// The same, where nothing changes either once it is recorded.
impl Item for AuditEntry {
    fn key(&self) -> String {
        let Self { number, time_unix_seconds, action, from, object, operation, .. } = self;
        format!("{number} {time_unix_seconds} {from} {} {operation} {object}", action.word())
    }
}

impl Item for Extent {
    const MAX: usize = EXTENTS_MAX;

    fn key(&self) -> String {
        self.at.to_string()
    }
}

/// Which page.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Page<'a> {
    /// Things on it.
    pub(super) limit: Option<usize>,
    /// Where it begins, as `Link` told.
    pub(super) token: Option<&'a str>,
}

/// What of a list is on a page, and the way to the next one.
#[derive(Debug)]
pub(super) struct Cut {
    range: Range<usize>,
    next: Option<HeaderValue>,
}

impl Cut {
    /// The places of those that are on it.
    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The page, made of these.
    pub(super) fn show<T: Serialize>(self, items: &[T]) -> Response {
        self.lead_on(json(&items))
    }

    /// A response that holds what is on it, with the way to the next one.
    pub(super) fn lead_on(self, mut response: Response) -> Response {
        if let Some(link) = self.next {
            response.headers_mut().insert(LINK, link);
        }
        response
    }
}

/// One page of a list, with the way to the next.
pub(super) fn page<T: Item>(all: &[T], page: Page<'_>, uri: &Uri) -> Result<Response, Problem> {
    let cut = cut(all, page, uri)?;
    let shown = &all[cut.range()];
    Ok(cut.show(shown))
}

/// What of a list is on a page.
pub(super) fn cut<T: Item>(all: &[T], page: Page<'_>, uri: &Uri) -> Result<Cut, Problem> {
    let limit = page.limit.unwrap_or(T::MAX);
    if !(1..=T::MAX).contains(&limit) {
        let sentence =
            format!("a page cannot have {limit} things: write a limit of 1 to {}", T::MAX);
        return Err(Problem::new(Code::Invalid, sentence));
    }
    let from = page.token.map_or(Ok(0), |token| begin(all, token))?;
    let end = all.len().min(from + limit);
    let mut next = None;
    if end < all.len() {
        let token = format!("{end}-{}", hash_of(all[end - 1].key().as_bytes()));
        let link = format!("<{}>; rel=\"next\"", with_page(uri, &token));
        next = Some(HeaderValue::try_from(link).map_err(|_| bad_token())?);
    }
    Ok(Cut { range: from..end, next })
}

/// Where the page behind a token begins: behind the last one of the page before, which may be elsewhere
/// by now.
fn begin<T: Item>(all: &[T], token: &str) -> Result<usize, Problem> {
    let (end, hash) = token.split_once('-').ok_or_else(bad_token)?;
    let end: usize = end.parse().map_err(|_| bad_token())?;
    let is_last = |item: &T| hash_of(item.key().as_bytes()) == hash;
    if end.checked_sub(1).and_then(|last| all.get(last)).is_some_and(is_last) {
        return Ok(end);
    }
    let last = all.iter().position(is_last);
    last.map(|last| last + 1).ok_or_else(|| {
        Problem::new(Code::PageGone, "the list has changed: begin again with the first page")
    })
}

fn bad_token() -> Problem {
    Problem::new(Code::BadRequest, "this is no page: take it from the Link of the page before")
}

/// The same request for another page.
fn with_page(uri: &Uri, token: &str) -> String {
    let words = uri.query().unwrap_or_default().split('&');
    let kept = words.filter(|word| !word.is_empty() && !word.starts_with("page="));
    let page = format!("page={token}");
    let words: Vec<&str> = kept.chain([page.as_str()]).collect();
    format!("{}?{}", uri.path(), words.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{AuditAction, AuditActor, EventObject, Severity};

    fn extents(at: impl IntoIterator<Item = u64>) -> Vec<Extent> {
        at.into_iter().map(|at| Extent { at, len_bytes: 1 }).collect()
    }

    fn token(response: &Response) -> Option<String> {
        let link = response.headers().get(LINK)?.to_str().unwrap().to_owned();
        Some(link.split_once("page=").unwrap().1.split('>').next().unwrap().to_owned())
    }

    fn ask(all: &[Extent], limit: usize, token: Option<&str>) -> Result<Response, Problem> {
        page(
            all,
            Page { limit: Some(limit), token },
            &"/v1/x?limit=2&page=old&a=b".parse().unwrap(),
        )
    }

    #[test]
    fn pages_follow_each_other_also_when_the_list_changes() {
        let all = extents(0..5);
        let first = ask(&all, 2, None).unwrap();
        let link = first.headers()[LINK].to_str().unwrap();
        assert!(
            link.starts_with("</v1/x?limit=2&a=b&page=2-") && link.ends_with(">; rel=\"next\"")
        );
        let next = token(&first).unwrap();
        assert_eq!(begin(&all, &next).unwrap(), 2);
        assert_eq!(begin(&extents(1..5), &next).unwrap(), 1, "the first one is gone");
        let gone = begin(&extents([0, 2, 3]), &next).unwrap_err();
        assert_eq!(gone.code, Code::PageGone);
        let last = ask(&all, 3, Some(&next)).unwrap();
        assert_eq!(token(&last), None);
        assert_eq!(token(&ask(&all, 5, None).unwrap()), None);
    }

    /// The list of a member that began then, where all that is recorded by number is recorded alike.
    fn events(begun: u64, of: &str) -> Vec<Event> {
        let event = |number| Event {
            number,
            time_unix_seconds: begun + number,
            severity: Severity::Info,
            kind: "started".to_owned(),
            object: EventObject { kind: "member".to_owned(), name: String::new() },
            text: format!("{of} has begun"),
            advice: String::new(),
            count: 1,
        };
        (1..=5).map(event).collect()
    }

    fn entries(begun: u64, from: &str, action: AuditAction) -> Vec<AuditEntry> {
        let entry = |number| AuditEntry {
            number,
            time_unix_seconds: begun + number,
            action,
            who: AuditActor {
                host: None,
                chap_user: None,
                account: None,
                uid: None,
                user: None,
                pid: None,
            },
            from: from.to_owned(),
            object: String::new(),
            operation: String::new(),
            done: true,
            reason: String::new(),
            outcome: String::new(),
            count: 1,
        };
        (1..=5).map(entry).collect()
    }

    /// The first page is of one list, and the next one is asked for in each of the others.
    fn goes_on_in_none_of<T: Item>(list: &[T], others: &[Vec<T>]) {
        let uri = "/v1/x".parse().unwrap();
        let first = page(list, Page { limit: Some(2), token: None }, &uri).unwrap();
        let next = token(&first).unwrap();
        assert_eq!(begin(list, &next).unwrap(), 2);
        assert_eq!(begin(&list[1..], &next).unwrap(), 1, "the first one is gone");
        for (nth, other) in others.iter().enumerate() {
            assert_eq!(begin(other, &next).unwrap_err().code, Code::PageGone, "{nth}");
        }
    }

    /// At the address of a group the next page may be asked of another member, which counts its own from 1 as well.
    #[test]
    fn what_two_members_recorded_is_never_one_list() {
        let begun = 1_700_000_000;
        goes_on_in_none_of(
            &events(begun, "left"),
            &[events(begun + 1, "left"), events(begun, "right")],
        );
        let socket = "control socket";
        goes_on_in_none_of(
            &entries(begun, socket, AuditAction::Change),
            &[
                entries(begun + 1, socket, AuditAction::Change),
                entries(begun, "192.0.2.7", AuditAction::Change),
                entries(begun, socket, AuditAction::Login),
            ],
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let all = extents(0..5);
        for (limit, token, code) in [
            (0, None, Code::Invalid),
            (EXTENTS_MAX + 1, None, Code::Invalid),
            (1, Some("x"), Code::BadRequest),
            (1, Some("-1-x"), Code::BadRequest),
            (1, Some("9-x"), Code::PageGone),
        ] {
            assert_eq!(ask(&all, limit, token).unwrap_err().code, code, "{limit} {token:?}");
        }
    }
}
