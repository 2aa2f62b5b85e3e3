//! `/v1/tokens`. What a token is goes out once, when it is made.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use group::accounts::{TokenHash, TokenText};
use member::{Request, TokenRequest};

use super::described::{ChangeRefusals, IfMatch, Refusals};
use super::volumes::PageQuery;
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::body::{Asked, Named, Sent, json};
use crate::server::pages::page;
use crate::server::tags::{Kept, Wanted, find_token};
use crate::types::{CreatedToken, List, NewToken, Nothing, Token};

/// List tokens
#[utoipa::path(
    get, path = "/v1/tokens", tag = "logins", params(PageQuery),
    responses(
        (status = 200, description = "The tokens.", body = Vec<Token>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_tokens(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<Token>>(Request::Token(TokenRequest::List)).await?;
    page(&all, query.page(), &uri)
}

/// Show a token
///
/// Not what it is: that is not kept.
#[utoipa::path(
    get, path = "/v1/tokens/{name}", tag = "logins",
    params(("name" = String, Path, description = "The token.")),
    responses(
        (status = 200, description = "The token.", body = Token,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_token(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    Ok(tagged(StatusCode::OK, &find_token(&app, &name).await?))
}

/// Make a token
///
/// What it is comes in the answer and never again: it is not kept. So an `Idempotency-Key` does not bring the
/// answer back; a token whose answer was lost is revoked and made again.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "logins", request_body = NewToken,
    responses(
        (status = 201, description = "The token.", body = CreatedToken,
         headers(("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn create_token(
    State(app): Shared,
    Sent(new): Sent<NewToken>,
) -> Result<Response, Problem> {
    let NewToken { name, role, expires_unix_seconds } = new;
    let text = TokenText::draw().map_err(|error| {
        Problem::new(Code::Failed, format!("no token can be drawn, try again: {error}"))
    })?;
    let kept = Kept::Token(name.clone());
    let (role, hash) = (role.into(), TokenHash::of(text.as_str()));
    let create = TokenRequest::Create { name, role, hash, expires_unix_seconds };
    let made: Token = app.change(kept, None, Request::Token(create)).await?;
    let Token { name, role, expires_unix_seconds, .. } = made;
    let headers =
        [(LOCATION, format!("/v1/tokens/{name}")), (CACHE_CONTROL, "no-store".to_owned())];
    let token = text.as_str().to_owned();
    let created = CreatedToken { name, role, expires_unix_seconds, token };
    Ok((StatusCode::CREATED, headers, json(&created)).into_response())
}

/// Revoke a token
///
/// Its next request is refused, and what it follows ends.
#[utoipa::path(
    delete, path = "/v1/tokens/{name}", tag = "logins",
    params(("name" = String, Path, description = "The token."), IfMatch),
    responses((status = 204, description = "It is worth nothing."), ChangeRefusals),
)]
pub(super) async fn revoke_token(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Token(name.clone());
    let request = Request::Token(TokenRequest::Revoke { name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}
