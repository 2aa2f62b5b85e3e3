//! What each path does. An operation is declared once, with its description: the router and the
//! OpenAPI document both come from [`all`]. Who may ask for it stands in [`roles`](super::roles).

mod access;
mod accounts;
mod array;
mod chap;
mod conditional;
mod configuration;
mod connections;
mod described;
mod destinations;
mod disks;
mod events;
mod figures;
mod group;
mod interface;
mod metrics;
mod moves;
mod policies;
mod pools;
mod reservations;
mod runs;
mod schedules;
mod sets;
mod slices;
mod snapshots;
mod tokens;
mod transits;
mod volumes;

use std::sync::{Arc, LazyLock};

use axum::extract::{Request, State};
use axum::http::header::ETAG;
use axum::http::{StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde::Serialize;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use ::group::access::AccessError;
use described::Refusals;

use super::app::App;
use super::body::{json, no_such_path};
use super::tags::{self, Tagged};
use super::{admit, carry, idempotency};
use crate::problem::{Code, Problem, of_access};

/// What handlers share.
type Shared = State<Arc<App>>;

/// All operations.
fn all() -> OpenApiRouter<Arc<App>> {
    of_the_member(of_volumes(OpenApiRouter::new()))
}

/// What hosts see, and who may.
fn of_volumes(router: OpenApiRouter<Arc<App>>) -> OpenApiRouter<Arc<App>> {
    router
        .routes(routes!(volumes::list_volumes, volumes::create_volume))
        .routes(routes!(volumes::show_volume, volumes::change_volume, volumes::delete_volume))
        .routes(routes!(volumes::undelete_volume))
        .routes(routes!(volumes::purge_volume))
        .routes(routes!(volumes::move_volume))
        .routes(routes!(transits::list_transits))
        .routes(routes!(transits::settle_transit))
        .routes(routes!(slices::list_slices))
        .routes(routes!(slices::discard_slice))
        .routes(routes!(slices::rebuild_volume))
        .routes(routes!(reservations::show_reservations))
        .routes(routes!(reservations::clear_reservations))
        .routes(routes!(volumes::list_changes))
        .routes(routes!(access::show_access, access::add_access, access::clear_access))
        .routes(routes!(access::remove_access))
        .routes(routes!(policies::list_policies, policies::create_policy))
        .routes(routes!(policies::show_policy, policies::delete_policy))
        .routes(routes!(policies::add_policy_record))
        .routes(routes!(policies::remove_policy_record))
        .routes(routes!(chap::list_chap_users, chap::add_chap_user))
        .routes(routes!(chap::show_chap_user, chap::set_chap_secret, chap::delete_chap_user))
        .routes(routes!(chap::set_chap_mutual, chap::clear_chap_mutual))
        .routes(routes!(snapshots::list_snapshots, snapshots::create_snapshots))
        .routes(routes!(
            snapshots::show_snapshot,
            snapshots::change_snapshot,
            snapshots::delete_snapshot
        ))
        .routes(routes!(snapshots::roll_back))
        .routes(routes!(reservations::show_snapshot_reservations))
        .routes(routes!(reservations::clear_snapshot_reservations))
        .routes(routes!(snapshots::clone_snapshot))
        .routes(routes!(schedules::list_schedules, schedules::create_schedule))
        .routes(routes!(
            schedules::show_schedule,
            schedules::change_schedule,
            schedules::delete_schedule
        ))
}

/// What they lie on, and who looks after it.
fn of_the_member(router: OpenApiRouter<Arc<App>>) -> OpenApiRouter<Arc<App>> {
    router
        .routes(routes!(disks::list_disks, disks::add_disk))
        .routes(routes!(disks::show_disk))
        .routes(routes!(disks::replace_disk))
        .routes(routes!(disks::fail_disk))
        .routes(routes!(disks::retire_disk))
        .routes(routes!(disks::cancel_retire))
        .routes(routes!(disks::clear_disk))
        .routes(routes!(array::show_array, array::change_array))
        .routes(routes!(array::scrub))
        .routes(routes!(array::check))
        .routes(routes!(array::rebalance))
        .routes(routes!(runs::list_jobs))
        .routes(routes!(runs::follow_jobs))
        .routes(routes!(runs::list_runs))
        .routes(routes!(runs::show_run))
        .routes(routes!(runs::follow_run))
        .routes(routes!(runs::cancel_run))
        .routes(routes!(connections::list_connections))
        .routes(routes!(events::list_events))
        .routes(routes!(events::follow_events))
        .routes(routes!(events::list_audit))
        .routes(routes!(destinations::list_destinations, destinations::add_destination))
        .routes(routes!(
            destinations::show_destination,
            destinations::change_destination,
            destinations::delete_destination
        ))
        .routes(routes!(destinations::test_destination))
        .routes(routes!(figures::show_figures))
        .routes(routes!(figures::follow_figures))
        .routes(routes!(accounts::list_accounts, accounts::add_account))
        .routes(routes!(accounts::show_account, accounts::change_account, accounts::remove_account))
        .routes(routes!(configuration::show_configuration, configuration::change_configuration))
        .routes(routes!(tokens::list_tokens, tokens::create_token))
        .routes(routes!(tokens::show_token, tokens::revoke_token))
        .routes(routes!(
            group::show_group,
            group::create_group,
            group::rename_group,
            group::delete_group
        ))
        .routes(routes!(group::set_group_address, group::clear_group_address))
        .routes(routes!(group::show_group_certificate))
        .routes(routes!(group::set_group_connections))
        .routes(routes!(group::join_group))
        .routes(routes!(group::list_join_tokens, group::create_join_token))
        .routes(routes!(group::revoke_join_token))
        .routes(routes!(group::list_group_volumes))
        .routes(routes!(group::list_members))
        .routes(routes!(group::show_member, group::change_member, group::remove_member))
        .routes(routes!(group::share_settings))
        .routes(routes!(pools::list_pools, pools::create_pool))
        .routes(routes!(pools::show_pool, pools::delete_pool))
        .routes(routes!(pools::set_pool_connections))
        .routes(routes!(pools::merge_pool))
        .routes(routes!(interface::show_interface))
        .routes(routes!(metrics::show_metrics))
        .routes(routes!(show_document))
}

/// The OpenAPI document of all operations.
#[must_use]
pub fn document() -> OpenApi {
    described::complete(all().into_openapi())
}

/// Show the OpenAPI document
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "figures",
    responses((status = 200, description = "This document.", body = Object), Refusals),
)]
async fn show_document() -> Json<&'static OpenApi> {
    static DOCUMENT: LazyLock<OpenApi> = LazyLock::new(document);
    Json(&DOCUMENT)
}

/// Answers all requests, by whichever member of the group they are to be answered.
pub(crate) fn router(app: Arc<App>) -> Router {
    done_here(&app)
        .layer(from_fn_with_state(app.clone(), carry::carry))
        .layer(from_fn_with_state(app.clone(), admit::admit))
        .with_state(app)
}

/// Answers all requests that another member has been asked and carries here. They are done here and carried no further.
/// What a member asks for itself is answered nowhere else, and is in no document.
pub(super) fn carried_router(app: Arc<App>) -> Router {
    let admission = from_fn_with_state(app.clone(), carry::admit_carried);
    let of_itself = from_fn_with_state(app.clone(), carry::admit_member);
    let members = moves::router().merge(sets::router()).merge(slices::router());
    let moves = members.layer(of_itself);
    done_here(&app).layer(admission).merge(moves).with_state(app)
}

/// Answers all requests of those who were let in.
fn done_here(app: &Arc<App>) -> Router<Arc<App>> {
    let (router, _) = all().split_for_parts();
    router
        .fallback(|uri: Uri| async move { no_such_path(uri.path()) })
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(app.clone(), idempotency::once))
        .layer(from_fn(conditional::check))
}

async fn not_allowed(request: Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    let sentence = format!("'{path}' knows no {method}: see GET /v1/openapi.json");
    Problem::new(Code::MethodNotAllowed, sentence)
}

/// What is asked for cannot be part of an access list.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn refused(error: AccessError) -> Problem {
    Problem::new(of_access(&error), error.to_string())
}

/// One thing, with its tag.
fn tagged<T: Serialize + Tagged>(status: StatusCode, thing: &T) -> Response {
    (status, [(ETAG, tags::header(&thing.tag()))], json(thing)).into_response()
}
