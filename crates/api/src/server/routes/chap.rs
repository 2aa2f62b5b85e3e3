//! `/v1/chap` and `/v1/chap-mutual`. Secrets come in here and never go out.

use axum::extract::State;
use axum::http::header::ETAG;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::{ChapRequest, Request};

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::volumes::PageQuery;
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::body::{Asked, Named, SentSecret, json};
use crate::server::pages::cut;
use crate::server::tags::{Kept, Tagged, Wanted, find_user, header};
use crate::types::{ChapUser, ChapUsers, Login, NewSecret, Nothing, Secret};

/// The longest secret.
const SECRET_BYTES_MAX: usize = 255;

/// List CHAP users
///
/// Without their secrets, which are never shown. Each page tells what volumes prove, and has the tag of all users.
#[utoipa::path(
    get, path = "/v1/chap", tag = "access", params(PageQuery),
    responses(
        (status = 200, description = "The users.", body = ChapUsers,
         headers(("ETag" = String, description = "Their tag, and that of what volumes prove."),
                 ("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_chap_users(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let all: ChapUsers = app.ask(Request::Chap(ChapRequest::List)).await?;
    let cut = cut(&all.users, query.page(), &uri)?;
    let tag = [(ETAG, header(&all.tag()))];
    let shown = ChapUsers { users: all.users[cut.range()].to_vec(), mutual: all.mutual };
    Ok(cut.lead_on((tag, json(&shown)).into_response()))
}

/// Show a CHAP user
///
/// Without its secret, which is never shown.
#[utoipa::path(
    get, path = "/v1/chap/{user}", tag = "access",
    params(("user" = String, Path, description = "The user.")),
    responses(
        (status = 200, description = "The user.", body = ChapUser,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_chap_user(
    State(app): Shared,
    Named(user): Named<String>,
) -> Result<Response, Problem> {
    Ok(tagged(StatusCode::OK, &find_user(&app, &user).await?))
}

/// Add a CHAP user
#[utoipa::path(
    post, path = "/v1/chap", tag = "access", params(IdempotencyKey), request_body = Login,
    responses((status = 204, description = "It is there."), ChangeRefusals),
)]
pub(super) async fn add_chap_user(
    State(app): Shared,
    SentSecret(Login { user, secret }): SentSecret<Login>,
) -> Result<StatusCode, Problem> {
    let request = Request::Chap(ChapRequest::Add { user, secret: checked(secret)? });
    app.change::<Nothing>(Kept::ChapUsers, None, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a CHAP user another secret
///
/// Sessions that it had logged in end.
#[utoipa::path(
    put, path = "/v1/chap/{user}", tag = "access", request_body = NewSecret,
    params(("user" = String, Path, description = "The user."), IfMatch),
    responses((status = 204, description = "It has the new secret."), ChangeRefusals),
)]
pub(super) async fn set_chap_secret(
    State(app): Shared,
    Named(user): Named<String>,
    Wanted(tag): Wanted,
    SentSecret(NewSecret { secret }): SentSecret<NewSecret>,
) -> Result<StatusCode, Problem> {
    let kept = Kept::ChapUser(user.clone());
    let request = Request::Chap(ChapRequest::Set { user, secret: checked(secret)? });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete a CHAP user
///
/// No access record may name it.
#[utoipa::path(
    delete, path = "/v1/chap/{user}", tag = "access",
    params(("user" = String, Path, description = "The user."), IfMatch),
    responses((status = 204, description = "It is gone."), ChangeRefusals),
)]
pub(super) async fn delete_chap_user(
    State(app): Shared,
    Named(user): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::ChapUser(user.clone());
    let request = Request::Chap(ChapRequest::Delete { user });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Set what volumes prove
///
/// Volumes with an access list prove it to hosts that ask for it (mutual CHAP). Its tag is that of
/// `GET /v1/chap`.
#[utoipa::path(
    put, path = "/v1/chap-mutual", tag = "access", request_body = Login, params(IfMatch),
    responses((status = 204, description = "They prove it."), ChangeRefusals),
)]
pub(super) async fn set_chap_mutual(
    State(app): Shared,
    Wanted(tag): Wanted,
    SentSecret(Login { user, secret }): SentSecret<Login>,
) -> Result<StatusCode, Problem> {
    let request = Request::Chap(ChapRequest::SetMutual { user, secret: checked(secret)? });
    app.change::<Nothing>(Kept::ChapUsers, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Have volumes prove nothing any more
#[utoipa::path(
    delete, path = "/v1/chap-mutual", tag = "access", params(IfMatch),
    responses((status = 204, description = "They prove nothing."), ChangeRefusals),
)]
pub(super) async fn clear_chap_mutual(
    State(app): Shared,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let request = Request::Chap(ChapRequest::ClearMutual);
    app.change::<Nothing>(Kept::ChapUsers, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Hosts with Linux take no longer one. How short it may be is checked where it is kept.
fn checked(secret: Secret) -> Result<member::SecretText, Problem> {
    if secret.0.len() > SECRET_BYTES_MAX {
        let sentence = "a CHAP secret has 12 to 255 bytes: this one is longer";
        return Err(Problem::new(Code::Invalid, sentence));
    }
    Ok(secret.into())
}
