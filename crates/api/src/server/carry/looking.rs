//! Whether another member has something.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use group::ownership::MemberId;
use tokio::time::timeout;

use super::send;
use super::whereabouts::Kind;
use crate::client::encoded;
use crate::problem::Code;
use crate::server::admit::Caller;
use crate::server::app::App;

/// How long another member may take to say whether it has something.
const LOOK_TIME: Duration = Duration::from_secs(5);

/// What another member says of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Has,
    HasNot,
    /// It says nothing: it may have it.
    Silent,
}

/// Asks a member for a thing.
pub(super) async fn look(
    app: &Arc<App>,
    member: MemberId,
    caller: &Caller,
    (kind, name): (Kind, &str),
) -> Look {
    let mut request = Request::new(Body::empty());
    let path = format!("{}/{}", kind.path(), encoded(name));
    let Ok(uri) = path.parse() else { return Look::HasNot };
    *request.uri_mut() = uri;
    match timeout(LOOK_TIME, send(app, member, caller, request)).await {
        Ok(Ok(response)) if response.status().is_success() => Look::Has,
        Ok(Ok(response)) if response.status() == StatusCode::NOT_FOUND => Look::HasNot,
        // It was removed a moment ago.
        Ok(Err(problem)) if problem.code == Code::NoSuchMember => Look::HasNot,
        _ => Look::Silent,
    }
}
