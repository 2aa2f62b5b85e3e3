//! `/v1/accounts`. Passwords come in here and never go out; what goes on to the member is their hash.

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use member::{AccountRequest, Request};

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::volumes::PageQuery;
use super::{Shared, tagged};
use crate::problem::Problem;
use crate::server::body::{Asked, Named, SentSecret};
use crate::server::pages::page;
use crate::server::tags::{Kept, Wanted, find_account};
use crate::types::{Account, AccountChange, List, NewAccount, Nothing, Password};

/// List accounts
#[utoipa::path(
    get, path = "/v1/accounts", tag = "logins", params(PageQuery),
    responses(
        (status = 200, description = "The accounts.", body = Vec<Account>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_accounts(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<Account>>(Request::Account(AccountRequest::List)).await?;
    page(&all, query.page(), &uri)
}

/// Show an account
#[utoipa::path(
    get, path = "/v1/accounts/{name}", tag = "logins",
    params(("name" = String, Path, description = "The account.")),
    responses(
        (status = 200, description = "The account.", body = Account,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_account(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    Ok(tagged(StatusCode::OK, &find_account(&app, &name).await?))
}

/// Add an account
#[utoipa::path(
    post, path = "/v1/accounts", tag = "logins", params(IdempotencyKey), request_body = NewAccount,
    responses(
        (status = 201, description = "The account.", body = Account,
         headers(("ETag" = String, description = "Its tag."),
                 ("Location" = String, description = "Its path."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn add_account(
    State(app): Shared,
    SentSecret(new): SentSecret<NewAccount>,
) -> Result<Response, Problem> {
    let NewAccount { name, role, password: Password(password) } = new;
    let password = app.doorkeeper.passwords.hash(password).await?;
    let role = role.into();
    let kept = Kept::Account(name.clone());
    let request = Request::Account(AccountRequest::Add { name, role, password });
    let made: Account = app.change(kept, None, request).await?;
    let location = [(LOCATION, format!("/v1/accounts/{}", made.name))];
    Ok((location, tagged(StatusCode::CREATED, &made)).into_response())
}

/// Change an account
///
/// Its role, its password, whether it may log in: what is sent. It is so from its next request on, and what it
/// follows ends if it may not any more.
#[utoipa::path(
    patch, path = "/v1/accounts/{name}", tag = "logins", request_body = AccountChange,
    params(("name" = String, Path, description = "The account."), IfMatch),
    responses(
        (status = 200, description = "The account after the change.", body = Account,
         headers(("ETag" = String, description = "Its tag."))),
        ChangeRefusals,
    ),
)]
pub(super) async fn change_account(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
    SentSecret(change): SentSecret<AccountChange>,
) -> Result<Response, Problem> {
    let AccountChange { role, password, disabled } = change;
    let password = match password {
        Some(Password(password)) => Some(app.doorkeeper.passwords.hash(password).await?),
        None => None,
    };
    let role = role.map(Into::into);
    let change = group::settings::AccountChange { role, password, disabled };
    let kept = Kept::Account(name.clone());
    let request = Request::Account(AccountRequest::Set { name, change });
    let changed: Account = app.change(kept, tag, request).await?;
    Ok(tagged(StatusCode::OK, &changed))
}

/// Remove an account
#[utoipa::path(
    delete, path = "/v1/accounts/{name}", tag = "logins",
    params(("name" = String, Path, description = "The account."), IfMatch),
    responses((status = 204, description = "It is gone."), ChangeRefusals),
)]
pub(super) async fn remove_account(
    State(app): Shared,
    Named(name): Named<String>,
    Wanted(tag): Wanted,
) -> Result<StatusCode, Problem> {
    let kept = Kept::Account(name.clone());
    let request = Request::Account(AccountRequest::Remove { name });
    app.change::<Nothing>(kept, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}
