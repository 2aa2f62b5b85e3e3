//! `/v1/group` and `/v1/members`: members that are one group. Tokens to join with go out once, when they are made, and
//! what the group gives a new member goes to that member alone.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use group::address::{GroupAddress, GroupAddressError};
use group::connections::{ConnectionLimit, ConnectionLimitError, GroupLimit};
use group::membership::MembershipError;
use group::pki::{fingerprint, only_certificate};
use member::{GroupError, GroupRequest, JoinTicket, Request, RequestError};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Shared;
use super::described::{ChangeRefusals, IdempotencyKey, Refusals};
use super::volumes::PageQuery;
use crate::problem::{Code, Problem};
use crate::server::app::{App, stopping};
use crate::server::at_group::Management;
use crate::server::body::{Asked, Named, Sent, SentSecret, json};
use crate::server::pages::page;
use crate::server::{addresses, joining};
use crate::types::{
    ConnectionsProfile, CreatedJoinToken, Group, GroupCertificate, GroupChange, GroupConnections,
    GroupVolume, JoinGroup, JoinToken, KnownGroup, List, Member, MemberChange, NewGroup,
    NewGroupAddress, NewJoinToken, Nothing, ShareSettings,
};

/// How long a token to join with is worth something, if nobody says how long.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Show the group that the member is in
///
/// As this member knows it: `store_fault` says why it may be of before.
#[utoipa::path(
    get, path = "/v1/group", tag = "group",
    responses((status = 200, description = "The group.", body = Group), Refusals),
)]
pub(super) async fn show_group(State(app): Shared) -> Result<Response, Problem> {
    let shown: KnownGroup = app.ask(Request::Group(GroupRequest::Show)).await?;
    Ok(json(&in_one(&app, shown)?))
}

/// Make a group
///
/// Its first member is the one that is asked, which then runs the store of the group.
#[utoipa::path(
    post, path = "/v1/group", tag = "group", params(IdempotencyKey), request_body = NewGroup,
    responses((status = 201, description = "The group.", body = Group), ChangeRefusals),
)]
pub(super) async fn create_group(
    State(app): Shared,
    Sent(new): Sent<NewGroup>,
) -> Result<Response, Problem> {
    let NewGroup { name, member, listen, address } = new;
    let listen = addresses::listen(&listen)
        .map_err(|error| Problem::new(Code::Invalid, error.to_string()))?;
    let address = address.map(|text| address_of(&text)).transpose()?;
    let create = GroupRequest::Create { name, member, listen, address };
    let made: KnownGroup = app.ask(Request::Group(create)).await?;
    Ok((StatusCode::CREATED, json(&in_one(&app, made)?)).into_response())
}

/// Show by what the group is known at its address
///
/// The certificate of the group's authority, which is no secret. Who trusts it is sure to talk to a member of the group
/// at the address of that, whichever has it.
#[utoipa::path(
    get, path = "/v1/group/certificate", tag = "group",
    responses((status = 200, description = "The certificate.", body = GroupCertificate), Refusals),
)]
pub(super) async fn show_group_certificate(State(app): Shared) -> Result<Response, Problem> {
    let Some(certificate) = app.authority() else {
        // In none, or in one whose files do not read: the member says which.
        let shown: KnownGroup = app.ask(Request::Group(GroupRequest::Show)).await?;
        return Err(in_one(&app, shown).err().unwrap_or_else(stopping));
    };
    let der = only_certificate(&certificate).map_err(|why| Problem::new(Code::Failed, why))?;
    let certificate_sha256 = fingerprint(&der);
    Ok(json(&GroupCertificate { certificate, certificate_sha256 }))
}

/// Give the group another name
#[utoipa::path(
    patch, path = "/v1/group", tag = "group", request_body = GroupChange,
    responses(
        (status = 200, description = "The group after the change.", body = Group), ChangeRefusals,
    ),
)]
pub(super) async fn rename_group(
    State(app): Shared,
    Sent(GroupChange { name }): Sent<GroupChange>,
) -> Result<Response, Problem> {
    let renamed: KnownGroup = app.ask(Request::Group(GroupRequest::Rename { name })).await?;
    Ok(json(&in_one(&app, renamed)?))
}

/// Give the group an address
///
/// Hosts that discover or log in there find the volumes of all members. One member at a time has the address, beside its
/// own; when it fails another one takes it over, within seconds.
#[utoipa::path(
    put, path = "/v1/group/address", tag = "group", request_body = NewGroupAddress,
    responses(
        (status = 200, description = "The group after the change.", body = Group), ChangeRefusals,
    ),
)]
pub(super) async fn set_group_address(
    State(app): Shared,
    Sent(NewGroupAddress { address }): Sent<NewGroupAddress>,
) -> Result<Response, Problem> {
    let address = Some(address_of(&address)?);
    let set: KnownGroup = app.ask(Request::Group(GroupRequest::SetAddress { address })).await?;
    Ok(json(&in_one(&app, set)?))
}

/// Take the address of the group away
///
/// Hosts find volumes by the members that have them; sessions go on.
#[utoipa::path(
    delete, path = "/v1/group/address", tag = "group",
    responses((status = 204, description = "The group has no address."), ChangeRefusals),
)]
pub(super) async fn clear_group_address(State(app): Shared) -> Result<StatusCode, Problem> {
    let clear = GroupRequest::SetAddress { address: None };
    app.ask::<KnownGroup>(Request::Group(clear)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reads an address that a group is to have.
fn address_of(text: &str) -> Result<GroupAddress, Problem> {
    let refused = |error: GroupAddressError| Problem::new(Code::Invalid, error.to_string());
    text.parse().map_err(refused)
}

/// Say how many connections of hosts the group takes
///
/// A login that would be one more is answered that the target is out of resources, and an event names the host and the
/// volume. Those that are there stay.
#[utoipa::path(
    put, path = "/v1/group/connections", tag = "group", request_body = GroupConnections,
    responses(
        (status = 200, description = "The group after the change.", body = Group), ChangeRefusals,
    ),
)]
pub(super) async fn set_group_connections(
    State(app): Shared,
    Sent(new): Sent<GroupConnections>,
) -> Result<Response, Problem> {
    let limit = match new {
        GroupConnections::Limit(number) => GroupLimit::Number(limit_of(number)?),
        GroupConnections::Profile(ConnectionsProfile::Default) => GroupLimit::Usual,
        GroupConnections::Profile(ConnectionsProfile::Small) => GroupLimit::Small,
        GroupConnections::Profile(ConnectionsProfile::None) => GroupLimit::None,
    };
    let set: KnownGroup = app.ask(Request::Group(GroupRequest::SetConnections { limit })).await?;
    Ok(json(&in_one(&app, set)?))
}

/// Reads how many connections of hosts there may be.
pub(super) fn limit_of(number: u32) -> Result<ConnectionLimit, Problem> {
    let refused = |error: ConnectionLimitError| Problem::new(Code::Invalid, error.to_string());
    number.try_into().map_err(refused)
}

/// End the group
///
/// Its last member alone can do so, which is in no group then and keeps its array.
#[utoipa::path(
    delete, path = "/v1/group", tag = "group",
    responses((status = 204, description = "There is no group any more."), ChangeRefusals),
)]
pub(super) async fn delete_group(State(app): Shared) -> Result<StatusCode, Problem> {
    app.ask::<Nothing>(Request::Group(GroupRequest::Delete)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a token to join the group with
///
/// It lets one server in, once. What it is comes in the answer and never again: it is not kept. So an
/// `Idempotency-Key` does not bring the answer back; one whose answer was lost expires, and another is made.
#[utoipa::path(
    post, path = "/v1/group/tokens", tag = "group", request_body = NewJoinToken,
    responses((status = 201, description = "The token.", body = CreatedJoinToken), ChangeRefusals),
)]
pub(super) async fn create_join_token(
    State(app): Shared,
    Sent(new): Sent<NewJoinToken>,
) -> Result<Response, Problem> {
    let lifetime = new.expires_seconds.map_or(LIFETIME, Duration::from_secs);
    let create = GroupRequest::CreateTicket { lifetime };
    let JoinTicket { ticket, expires_unix_seconds } = app.ask(Request::Group(create)).await?;
    let token = ticket.as_text().as_str().to_owned();
    let created = CreatedJoinToken { token, id: ticket.id, expires_unix_seconds };
    let headers = [(CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, headers, json(&created)).into_response())
}

/// List the tokens to join the group with
///
/// Those that were made and not used. What they are is not kept. One that has expired may be among them for a while.
#[utoipa::path(
    get, path = "/v1/group/tokens", tag = "group", params(PageQuery),
    responses(
        (status = 200, description = "The tokens, by their ids.", body = Vec<JoinToken>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_join_tokens(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<JoinToken>>(Request::Group(GroupRequest::Tickets)).await?;
    page(&all, query.page(), &uri)
}

/// Revoke a token to join the group with
///
/// Nobody joins with it any more. A server that has joined with it stays a member.
#[utoipa::path(
    delete, path = "/v1/group/tokens/{id}", tag = "group",
    params(("id" = String, Path, description = "What the token is known by.")),
    responses((status = 204, description = "It is worth nothing any more."), ChangeRefusals),
)]
pub(super) async fn revoke_join_token(
    State(app): Shared,
    Named(id): Named<String>,
) -> Result<StatusCode, Problem> {
    app.ask::<Nothing>(Request::Group(GroupRequest::RevokeTicket { id })).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Join a group
///
/// The member asks at another member of the group, and takes nothing but the token for a proof that it is one. It keeps
/// its array and its volumes, and shares the settings of the group where its own do not differ from them. An
/// `Idempotency-Key` does not bring the answer back.
#[utoipa::path(
    post, path = "/v1/group/join", tag = "group", request_body = JoinGroup,
    responses((status = 200, description = "The group.", body = Group), ChangeRefusals),
)]
pub(super) async fn join_group(
    State(app): Shared,
    SentSecret(join): SentSecret<JoinGroup>,
) -> Result<Response, Problem> {
    let joined = joining::join(&app, join).await?;
    Ok(([(CACHE_CONTROL, "no-store")], json(&in_one(&app, joined)?)).into_response())
}

/// List the volumes of all members
///
/// As their members told last, also of those that are away; a volume is served by its member alone.
#[utoipa::path(
    get, path = "/v1/group/volumes", tag = "group", params(PageQuery),
    responses(
        (status = 200, description = "The volumes.", body = Vec<GroupVolume>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_group_volumes(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<GroupVolume>>(Request::Group(GroupRequest::Volumes)).await?;
    page(&all, query.page(), &uri)
}

/// List the members of the group
#[utoipa::path(
    get, path = "/v1/members", tag = "group", params(PageQuery),
    responses(
        (status = 200, description = "The members.", body = Vec<Member>,
         headers(("Link" = String, description = "The next page, if there is one."))),
        Refusals,
    ),
)]
pub(super) async fn list_members(
    State(app): Shared,
    Asked(query): Asked<PageQuery>,
    uri: Uri,
) -> Result<Response, Problem> {
    let List(all) = app.ask::<List<Member>>(Request::Group(GroupRequest::Members)).await?;
    page(&all, query.page(), &uri)
}

/// Show a member of the group
#[utoipa::path(
    get, path = "/v1/members/{name}", tag = "group",
    params(("name" = String, Path, description = "The member.")),
    responses((status = 200, description = "The member.", body = Member), Refusals),
)]
pub(super) async fn show_member(
    State(app): Shared,
    Named(name): Named<String>,
) -> Result<Response, Problem> {
    Ok(json(&find_member(&app, name).await?))
}

/// Put a member into another pool
///
/// New volumes are put there with those of the pool. Those that it has stay on it.
#[utoipa::path(
    patch, path = "/v1/members/{name}", tag = "group", request_body = MemberChange,
    params(("name" = String, Path, description = "The member.")),
    responses(
        (status = 200, description = "The member after the change.", body = Member), ChangeRefusals,
    ),
)]
pub(super) async fn change_member(
    State(app): Shared,
    Named(name): Named<String>,
    Sent(MemberChange { pool }): Sent<MemberChange>,
) -> Result<Response, Problem> {
    let moved = GroupRequest::MoveMember { member: name.clone(), pool };
    app.ask::<Nothing>(Request::Group(moved)).await?;
    Ok(json(&find_member(&app, name).await?))
}

/// A member tells of all members, not of one of them.
async fn find_member(app: &App, name: String) -> Result<Member, Problem> {
    let List(all) = app.ask::<List<Member>>(Request::Group(GroupRequest::Members)).await?;
    // Whatever the case of its letters: no two differ in that alone.
    let found = all.into_iter().find(|member| member.name.eq_ignore_ascii_case(&name));
    found.ok_or_else(|| of_group(app, MembershipError::NoSuchMember(name).into()))
}

/// Share the settings of the group
///
/// Policies, CHAP users, what volumes prove, accounts, tokens and destinations of events, which members of a group have
/// in common. A member does so by itself unless it has set something in another way than the group: then it keeps
/// settings of its own until they do not differ, or until this is asked of it with `replace`.
#[utoipa::path(
    post, path = "/v1/group/share", tag = "group", params(IdempotencyKey),
    request_body = ShareSettings,
    responses(
        (status = 200, description = "The group, as this member is in it.", body = Group),
        ChangeRefusals,
    ),
)]
pub(super) async fn share_settings(
    State(app): Shared,
    Sent(ShareSettings { replace }): Sent<ShareSettings>,
) -> Result<Response, Problem> {
    let shared: KnownGroup = app.ask(Request::Group(GroupRequest::Share { replace })).await?;
    Ok(json(&in_one(&app, shared)?))
}

/// How a member is removed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[into_params(parameter_in = Query, rename_all = "kebab-case")]
pub(super) struct RemoveQuery {
    /// Also if it has a part in moving volumes: an operator may have to settle each of these moves then.
    despite_moves: Option<bool>,
    /// Also if volumes that lie on several members lie on it, too: what they have there is lost.
    despite_spreads: Option<bool>,
}

/// Remove a member from the group
///
/// It keeps its array and serves its volumes, in no group. One that is gone for good can be removed as well. One that is
/// there and has a part in moving volumes is not, unless that is said, and neither is one that has a part of volumes that lie on
/// several members.
#[utoipa::path(
    delete, path = "/v1/members/{name}", tag = "group",
    params(("name" = String, Path, description = "The member."), RemoveQuery),
    responses((status = 204, description = "It is no member any more."), ChangeRefusals),
)]
pub(super) async fn remove_member(
    State(app): Shared,
    Named(member): Named<String>,
    Asked(RemoveQuery { despite_moves, despite_spreads }): Asked<RemoveQuery>,
) -> Result<StatusCode, Problem> {
    let is_said = |despite: Option<bool>| despite.unwrap_or(false);
    let (despite_moves, despite_spreads) = (is_said(despite_moves), is_said(despite_spreads));
    let request = GroupRequest::Remove { member, despite_moves, despite_spreads };
    app.ask::<Nothing>(Request::Group(request)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The group, or why there is none to be shown.
fn in_one(app: &App, known: KnownGroup) -> Result<Box<Group>, Problem> {
    match known {
        KnownGroup::In(mut group) => {
            let Management { url, fault } = app.at_group.management();
            // The interface may hear of the address before or after the member has answered.
            let has_address = group.address.is_some();
            group.management = url.filter(|_| has_address);
            group.management_fault = fault.filter(|_| has_address);
            Ok(group)
        }
        KnownGroup::None => Err(of_group(app, GroupError::NotInGroup)),
        KnownGroup::Broken(why) => Err(of_group(app, GroupError::Broken(why))),
    }
}

fn of_group(app: &App, error: GroupError) -> Problem {
    app.problem(&RequestError::Group(error))
}
