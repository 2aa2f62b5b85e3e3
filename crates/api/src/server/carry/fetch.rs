//! What another member lists, to its last page.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::header::LINK;
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use group::ownership::MemberId;
use http_body_util::BodyExt;
use member::printable::printable;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::CarryError;
use super::{AnsweredBy, send};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::App;

/// Pages of a list: more than a member has volumes, a thousand on each.
const PAGES_MAX: usize = 256;

/// Bytes of all lists that are merged into one, which are kept for a moment.
const BYTES_MAX: usize = 64 << 20;

/// Letters of another member's sentence that are passed on.
const SENTENCE_LETTERS_MAX: usize = 500;

/// What is left of the bytes that all lists may have that are merged into one, from however many members they come.
#[derive(Debug)]
pub(in crate::server) struct Budget(AtomicUsize);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicUsize::new(BYTES_MAX))
    }
}

/// What one list has taken of it, which goes back with this value unless the list is kept.
#[derive(Debug)]
struct Taken<'a> {
    of: &'a Budget,
    bytes: usize,
}

impl<'a> Taken<'a> {
    const fn nothing(of: &'a Budget) -> Self {
        Self { of, bytes: 0 }
    }

    /// Takes so many more; false if there are not so many left.
    fn take(&mut self, bytes: usize) -> bool {
        // It is a number alone: nothing else is read by it.
        let left = |left: usize| left.checked_sub(bytes);
        let is_taken = self.of.0.try_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok();
        self.bytes += if is_taken { bytes } else { 0 };
        is_taken
    }

    /// The list is kept.
    const fn keep(&mut self) {
        self.bytes = 0;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.of.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// A problem as another version may write it.
#[derive(Deserialize)]
struct Refusal {
    code: String,
    detail: String,
}

/// All that another member lists there, page by page. Whoever asks bounds how long that may take, and how many bytes it
/// may have together with what others list.
pub(in crate::server) async fn fetch<T: DeserializeOwned>(
    app: &Arc<App>,
    to: MemberId,
    caller: &Caller,
    path_and_query: &str,
    budget: &Budget,
) -> Result<Vec<T>, Problem> {
    let (mut items, mut taken) = (Vec::new(), Taken::nothing(budget));
    let mut next = Some(path_and_query.to_owned());
    let mut name = to.to_string();
    for _ in 0..PAGES_MAX {
        let Some(path) = next else {
            taken.keep();
            return Ok(items);
        };
        let request = Request::get(path).body(Body::empty());
        let request = request.map_err(|_| CarryError::Strange(name.clone()))?;
        let answer = send(app, to, caller, request).await?;
        if let Some(AnsweredBy(member)) = answer.extensions().get() {
            name.clone_from(member);
        }
        let status = answer.status();
        next = next_page(answer.headers());
        // Who leads elsewhere would have anything asked on behalf of whoever wants to see a list.
        if next.as_deref().is_some_and(|next| only_path(next) != only_path(path_and_query)) {
            return Err(CarryError::Strange(name).into());
        }
        let page = collected(answer, &mut taken, &name).await?;
        if !status.is_success() {
            return Err(refusal(&page, name));
        }
        let page: Result<Vec<T>, _> = serde_json::from_slice(&page);
        items.append(&mut page.map_err(|_| CarryError::Strange(name.clone()))?);
    }
    match next {
        None => {
            taken.keep();
            Ok(items)
        }
        Some(_) => Err(CarryError::TooLong(name).into()),
    }
}

fn only_path(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// `</v1/volumes?page=...>; rel="next"`, as members write it.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let link = headers.get(LINK)?.to_str().ok()?;
    let (path, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("rel=\"next\"").then(|| path.to_owned())
}

/// The whole answer, whose bytes are taken as they come.
async fn collected(
    answer: Response,
    taken: &mut Taken<'_>,
    name: &str,
) -> Result<Vec<u8>, CarryError> {
    let (mut body, mut page) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| CarryError::NoAnswer(name.to_owned()))?;
        let Ok(data) = frame.into_data() else { continue };
        if !taken.take(data.len()) {
            return Err(CarryError::TooLong(name.to_owned()));
        }
        page.extend_from_slice(&data);
    }
    Ok(page)
}

/// What a member says that does not do it.
pub(super) fn refusal(body: &[u8], name: String) -> Problem {
    let Ok(Refusal { code, detail }) = serde_json::from_slice(body) else {
        return CarryError::Strange(name).into();
    };
    let known = Code::ALL.iter().copied().find(|known| known.word() == code);
    let detail: String = printable(&detail).chars().take(SENTENCE_LETTERS_MAX).collect();
    // A kind of a later version.
    Problem::new(known.unwrap_or(Code::Unavailable), detail)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[tokio::test]
    async fn lists_of_all_members_have_one_budget() {
        let budget = Budget(AtomicUsize::new(10));
        let answer = |bytes: usize| Response::new(Body::from(vec![b' '; bytes]));
        let (mut left, mut right) = (Taken::nothing(&budget), Taken::nothing(&budget));
        assert_eq!(collected(answer(6), &mut left, "left").await.unwrap().len(), 6);
        let too_long = Err(CarryError::TooLong("right".to_owned()));
        assert_eq!(collected(answer(6), &mut right, "right").await, too_long);
        assert_eq!(collected(answer(4), &mut right, "right").await.unwrap().len(), 4);
        // What is not kept, as it is begun again, takes nothing from others.
        drop(right);
        assert!(!left.take(5) && left.take(4));
        left.keep();
        drop(left);
        assert!(!Taken::nothing(&budget).take(1), "what is kept is there still");
    }

    #[test]
    fn the_next_page_is_where_the_member_says() {
        let headers =
            |text: &'static str| HeaderMap::from_iter([(LINK, HeaderValue::from_static(text))]);
        let next = next_page(&headers("</v1/volumes?page=7>; rel=\"next\""));
        assert_eq!(next.as_deref(), Some("/v1/volumes?page=7"));
        for none in ["</v1/volumes?page=7>; rel=\"prev\"", "</v1/volumes", "x"] {
            assert_eq!(next_page(&headers(none)), None, "{none}");
        }
        assert_eq!(only_path("/v1/volumes?page=7"), only_path("/v1/volumes"));
    }

    #[test]
    fn a_refusal_keeps_its_kind_and_is_obeyed_by_no_terminal() {
        let of = |body: &str| refusal(body.as_bytes(), "right".to_owned());
        let told = of(r#"{"code": "forbidden", "detail": "no\u001b[2J", "colour": "red"}"#);
        assert_eq!((told.code, &*told.detail), (Code::Forbidden, "no\\u{1b}[2J"));
        let later = of(r#"{"code": "no-room-on-the-moon", "detail": "no"}"#);
        assert_eq!(later.code, Code::Unavailable);
        let strange = of("<html>");
        assert_eq!(strange, CarryError::Strange("right".to_owned()).into());
        let long = format!(r#"{{"code": "failed", "detail": "{}"}}"#, "x".repeat(5000));
        assert_eq!(of(&long).detail.len(), SENTENCE_LETTERS_MAX);
    }
}
