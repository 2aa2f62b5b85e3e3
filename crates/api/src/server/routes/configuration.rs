//! `/v1/configuration`. Secrets and passwords come in here and never go out.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use member::{AccountToDo, ConfigurationRequest, Request};

use super::described::{ChangeRefusals, IdempotencyKey, IfMatch, Refusals};
use super::{Shared, tagged};
use crate::problem::{Code, Problem};
use crate::server::app::App;
use crate::server::body::SentSecret;
use crate::server::tags::{Kept, Wanted};
use crate::types::{
    Configuration, ConfigurationChange, NamedAccountChange, NewAccount, Nothing, Password,
};

/// Show all that operators have set
///
/// All of it is of one moment. Its tag does not change with what goes on by itself.
#[utoipa::path(
    get, path = "/v1/configuration", tag = "access",
    responses(
        (status = 200, description = "What is set.", body = Configuration,
         headers(("ETag" = String, description = "Its tag."))),
        Refusals,
    ),
)]
pub(super) async fn show_configuration(State(app): Shared) -> Result<Response, Problem> {
    let request = Request::Configuration(ConfigurationRequest::Show);
    let shown: Configuration = app.ask(request).await?;
    Ok(tagged(StatusCode::OK, &shown))
}

/// Change what is set, all of it or nothing
///
/// Volumes are made first; access, policies, CHAP users, accounts, schedules and destinations of events are stored
/// in one transaction, and if that is refused the new volumes are taken back. Then volumes are taken offline, the rules come into force, and
/// read-ahead, the read cache, online and size follow: those are not taken back if one of them fails, and the answer says which did.
#[utoipa::path(
    patch, path = "/v1/configuration", tag = "access", request_body = ConfigurationChange,
    params(IfMatch, IdempotencyKey),
    responses((status = 204, description = "It is so."), ChangeRefusals),
)]
pub(super) async fn change_configuration(
    State(app): Shared,
    Wanted(tag): Wanted,
    SentSecret(change): SentSecret<ConfigurationChange>,
) -> Result<StatusCode, Problem> {
    let accounts = accounts(&app, &change).await?;
    let mut change = change.without_accounts().map_err(|why| Problem::new(Code::Invalid, why))?;
    change.accounts = accounts;
    let request = Request::Configuration(ConfigurationRequest::Change(Box::new(change)));
    app.change::<Nothing>(Kept::Configuration, tag, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is to be done with accounts: passwords are hashed here, where no core waits for it.
async fn accounts(app: &App, change: &ConfigurationChange) -> Result<Vec<AccountToDo>, Problem> {
    let mut all = Vec::new();
    for NewAccount { name, role, password: Password(password) } in change.accounts.clone() {
        let password = app.doorkeeper.passwords.hash(password).await?;
        all.push(AccountToDo::Add { name, role: role.into(), password });
    }
    for NamedAccountChange { name, change } in change.change_accounts.clone() {
        let password = match change.password {
            Some(Password(password)) => Some(app.doorkeeper.passwords.hash(password).await?),
            None => None,
        };
        let (role, disabled) = (change.role.map(Into::into), change.disabled);
        let change = group::settings::AccountChange { role, password, disabled };
        all.push(AccountToDo::Set { name, change });
    }
    all.extend(
        change.remove_accounts.iter().map(|name| AccountToDo::Remove { name: name.clone() }),
    );
    Ok(all)
}
