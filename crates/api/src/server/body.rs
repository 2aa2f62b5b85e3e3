//! What comes with a request: the body, the words of the path and of the query. What does not read is a
//! problem.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Query, Request};
use axum::http::Method;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::timeout;

use super::admission::{ADMISSION_BYTES_MAX, JOIN_PATH};
use super::transit::{FRAME_BYTES_MAX, PIECES_PATH};
use crate::problem::{Code, Problem};

/// The longest body.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

/// The longest one that changes the whole configuration: more than one transaction of the store takes.
pub(super) const CONFIGURATION_BYTES_MAX: usize = 4 << 20;

/// How long a body may take to come.
pub(super) const BODY_TIME: Duration = Duration::from_secs(10);

/// Reads the body of a request up to its end.
pub(super) async fn read(parts: &Parts, body: Body) -> Result<Bytes, Problem> {
    let max = bytes_max(parts);
    let told = parts.headers.get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    if told.is_some_and(|len: usize| len > max) {
        return Err(too_large(max));
    }
    match timeout(BODY_TIME, Limited::new(body, max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(max)),
        Ok(Err(error)) => {
            Err(Problem::new(Code::BadRequest, format!("the body breaks off: {error}")))
        }
        Err(_) => {
            let sentence = format!(
                "the body did not come within {} seconds: send it again",
                BODY_TIME.as_secs()
            );
            Err(Problem::new(Code::BodyTimeout, sentence))
        }
    }
}

/// How long the body of a request may be.
fn bytes_max(parts: &Parts) -> usize {
    let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    match path {
        Some("/v1/configuration") if parts.method == Method::PATCH => CONFIGURATION_BYTES_MAX,
        Some(JOIN_PATH) => ADMISSION_BYTES_MAX,
        Some(PIECES_PATH) => FRAME_BYTES_MAX,
        _ => BODY_BYTES_MAX,
    }
}

fn too_large(max: usize) -> Problem {
    let (max, unit) = if max < 1 << 20 { (max >> 10, "KiB") } else { (max >> 20, "MiB") };
    let sentence = format!("the body has more than {max} {unit}: ask for less at a time");
    Problem::new(Code::BodyTooLarge, sentence)
}

/// A body as JSON; one that is empty is an object without fields.
#[derive(Debug)]
pub(super) struct Sent<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        parsed(&json_of(request).await?).map(Self)
    }
}

/// The same of a body that holds a secret: no refusal repeats any of it.
#[derive(Debug)]
pub(super) struct SentSecret<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for SentSecret<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        parsed_silently(&json_of(request).await?).map(Self)
    }
}

/// The bytes of a body that is said to be JSON.
async fn json_of(request: Request) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    let bytes = read(&parts, body).await?;
    if bytes.is_empty() {
        return Ok(Bytes::from_static(b"{}"));
    }
    let media = parts.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let media = media.and_then(|media| media.split(';').next()).unwrap_or_default();
    if !media.trim().eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            Code::NotJson,
            "the body is not said to be JSON: send it with Content-Type: application/json",
        ));
    }
    Ok(bytes)
}

/// A list is no object, whatever it holds: serde would take its items for the fields in their order.
fn check_object(bytes: &[u8]) -> Result<(), Problem> {
    if bytes.trim_ascii_start().first() == Some(&b'[')
        && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
    {
        let sentence =
            "the body does not read: it is a list, and has to be an object with named fields";
        return Err(Problem::new(Code::Invalid, sentence));
    }
    Ok(())
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check_object(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| {
        let code = unread(&error, bytes);
        // As of `{}` where one of several words has to be: serde_json takes that for no JSON.
        let is_empty = code == Code::Invalid && !error.is_data();
        let what =
            if is_empty { "something is missing in it".to_owned() } else { error.to_string() };
        Problem::new(code, format!("the body does not read: {what}"))
    })
}

/// What is wrong is often told by what is there: here only where it is.
fn parsed_silently<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check_object(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| {
        let sentence = format!(
            "the body does not read at line {} column {}: send what GET /v1/openapi.json describes, with \
             the secret as a text",
            error.line(),
            error.column()
        );
        Problem::new(unread(&error, bytes), sentence)
    })
}

/// Whether a body is no JSON, or JSON of another form than was asked for.
fn unread(error: &serde_json::Error, bytes: &[u8]) -> Code {
    let is_json = || serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    if error.is_data() || is_json() { Code::Invalid } else { Code::BadRequest }
}

/// Words of the query.
#[derive(Debug)]
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(words)) => Ok(Self(words)),
            Err(error) => {
                let sentence = format!("the query does not read: {}", error.body_text());
                Err(Problem::new(Code::BadRequest, sentence))
            }
        }
    }
}

/// Words of the path.
#[derive(Debug)]
pub(super) struct Named<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(words)) => Ok(Self(words)),
            Err(_) => Err(no_such_path(parts.uri.path())),
        }
    }
}

/// There is nothing there.
pub(super) fn no_such_path(path: &str) -> Problem {
    let sentence = format!("there is nothing at '{path}': see GET /v1/openapi.json");
    Problem::new(Code::NoSuchPath, sentence)
}

/// An answer as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Response {
    Json(value).into_response()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Word {
        _word: Option<String>,
    }

    #[test]
    fn what_is_no_json_and_what_is_not_asked_for_are_two_things() {
        assert!(parsed::<Word>(b"{}").is_ok());
        let code = |bytes: &[u8]| parsed::<Word>(bytes).unwrap_err().code;
        assert_eq!(code(b"{"), Code::BadRequest);
        assert_eq!(code(b"what"), Code::BadRequest);
        assert_eq!(code(b"{\"other\":1}"), Code::Invalid);
        assert_eq!((code(b"[]"), code(b" [\"a\"]")), (Code::Invalid, Code::Invalid));
        assert_eq!(code(b"["), Code::BadRequest);
        let nobody = parsed::<crate::types::Entry>(b"{}").unwrap_err();
        assert_eq!(nobody.code, Code::Invalid, "it is JSON, whatever serde_json says");
        assert_eq!(nobody.detail, "the body does not read: something is missing in it");
    }

    #[test]
    fn what_holds_a_secret_is_refused_without_a_word_of_it() {
        use crate::types::Login;
        for body in [
            &b"\"hush-hush\""[..],
            b"{\"user\": \"al\", \"secret\": [\"hush-hush\"]}",
            b"{\"user\": \"al\", \"hush-hush\": 1}",
            b"{\"user\": \"al\", \"secret\": \"hush-hush",
        ] {
            let problem = parsed_silently::<Login>(body).unwrap_err();
            assert!(!problem.detail.contains("hush"), "{}", problem.detail);
        }
        let code = |bytes: &[u8]| parsed_silently::<Login>(bytes).unwrap_err().code;
        assert_eq!((code(b"{"), code(b"{}")), (Code::BadRequest, Code::Invalid));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_limit_and_a_time() {
        let (parts, ()) = Request::new(()).into_parts();
        let read = |body: Body| async { read(&parts, body).await };
        let code = |outcome: Result<Bytes, Problem>| outcome.unwrap_err().code;
        assert_eq!(read(Body::from("a")).await.unwrap(), "a");
        assert_eq!(code(read(Body::from(vec![0; BODY_BYTES_MAX + 1])).await), Code::BodyTooLarge);
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        assert_eq!(code(read(Body::from_stream(never)).await), Code::BodyTimeout);
    }
}
