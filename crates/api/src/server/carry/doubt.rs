//! What is answered where not all members could be asked that may have what is meant: that something is nowhere is not
//! said then.

use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::way::volume_in;
use super::whose::{Whose, whose};
use crate::headers::{ALL_OTHERS, MEMBER, MEMBERS_MISSING};
use crate::problem::{Code, Problem};

/// Bytes of a problem.
const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// What a member answers that is in a group and has heard nothing of it since it was started: what it has itself.
pub(super) async fn deaf(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let whose = route.map_or(Whose::Here, |route| whose(request.method(), route.as_str()));
    let is_of_all = match whose {
        Whose::Merged => true,
        Whose::SnapshotsAsked => volume_in(request.uri()).is_none(),
        _ => false,
    };
    // Whoever names this member means what it has.
    let is_here = whose.is_of_asked() || request.headers().contains_key(MEMBER);
    let mut response = next.run(request).await;
    if is_here {
        return response;
    }
    if is_of_all && response.status().is_success() {
        response.headers_mut().insert(MEMBERS_MISSING, HeaderValue::from_static(ALL_OTHERS));
        return response;
    }
    unless_missing(response, unheard).await
}

fn unheard() -> Problem {
    let sentence = "this member has heard nothing of its group since it was started: only what it has itself is found";
    Problem::new(Code::Unavailable, sentence)
}

/// This answer, unless it says that there is no such volume or schedule: then why nobody knows that.
pub(super) async fn unless_missing(
    response: Response,
    why: impl FnOnce() -> Problem + Send,
) -> Response {
    if response.status() != StatusCode::NOT_FOUND {
        return response;
    }
    let (parts, body) = response.into_parts();
    match to_bytes(body, PROBLEM_BYTES_MAX).await {
        Ok(said) if !says_missing(&said) => Response::from_parts(parts, Body::from(said)),
        _ => why().into_response(),
    }
}

fn says_missing(said: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Said {
        code: Code,
    }
    let said = serde_json::from_slice::<Said>(said);
    said.is_ok_and(|said| matches!(said.code, Code::NoSuchVolume | Code::NoSuchSchedule))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn code(code: Code) -> StatusCode {
        let said = Problem::new(code, "so it is").into_response();
        unless_missing(said, unheard).await.status()
    }

    #[tokio::test]
    async fn that_there_is_no_volume_is_not_said_by_who_cannot_know() {
        for missing in [Code::NoSuchVolume, Code::NoSuchSchedule] {
            assert_eq!(code(missing).await, StatusCode::SERVICE_UNAVAILABLE, "{missing:?}");
        }
        // The volume of the snapshot is here.
        for other in [Code::NoSuchSnapshot, Code::NoSuchPath] {
            assert_eq!(code(other).await, StatusCode::NOT_FOUND, "{other:?}");
        }
        assert_eq!(code(Code::NameTaken).await, StatusCode::CONFLICT);
        let said = Problem::new(Code::NoSuchSnapshot, "there is no snapshot 's'");
        let kept = unless_missing(said.into_response(), unheard).await;
        let kept = to_bytes(kept.into_body(), PROBLEM_BYTES_MAX).await.unwrap();
        assert!(String::from_utf8_lossy(&kept).contains("no snapshot 's'"), "{kept:?}");
    }
}
