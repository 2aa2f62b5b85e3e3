//! `If-Match` of operations that do not take it. To pass over it would change a thing that has been changed by
//! others, which is what whoever sends it wants to be safe from.

use std::collections::HashSet;
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::http::header::IF_MATCH;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, Parameter, PathItem};

use super::all;
use crate::problem::{Code, Problem};

/// Method and path of all operations that do not take it: those that do say so in the OpenAPI document.
static NOT_TAKING: LazyLock<HashSet<(Method, String)>> = LazyLock::new(|| {
    let mut not_taking = HashSet::new();
    for (path, item) in all().into_openapi().paths.paths {
        for (method, operation) in operations(&item) {
            let mut parameters = operation.parameters.iter().flatten();
            let is_it = |it: &RefOr<Parameter>| matches!(it, RefOr::T(it) if it.name == "If-Match");
            if !parameters.any(is_it) {
                not_taking.insert((method, path.clone()));
            }
        }
    }
    not_taking
});

/// Those that change something.
fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// Refuses a change under a condition that it does not look at.
pub(super) async fn check(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    if let Some(path) = path
        && request.headers().contains_key(IF_MATCH)
        && NOT_TAKING.contains(&(request.method().clone(), path.to_owned()))
    {
        let sentence = format!(
            "{} {path} takes no If-Match: leave it out, nothing was changed",
            request.method()
        );
        return Problem::new(Code::Invalid, sentence).into_response();
    }
    next.run(request).await
}
