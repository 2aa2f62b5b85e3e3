//! The least role that each operation needs. This is the one place that says so: requests are held against
//! it, and the OpenAPI document tells it.
//!
//! The rule: who looks needs `read-only`; who changes what is stored, `operator`; who says who may do what, or
//! looks at who did, or says which devices and files of the machine are taken, or where events go, or which members
//! are one group, `administrator`. What is not in the table is for administrators; a test fails then.

use axum::http::Method;
use group::accounts::Role;

use Role::{Administrator, Operator, ReadOnly};

/// Method, path as the router has it, and the least role.
const LEAST: &[(&str, &str, Role)] = &[
    ("GET", "/metrics", ReadOnly),
    ("GET", "/v1/accounts", Administrator),
    ("POST", "/v1/accounts", Administrator),
    ("GET", "/v1/accounts/{name}", Administrator),
    ("PATCH", "/v1/accounts/{name}", Administrator),
    ("DELETE", "/v1/accounts/{name}", Administrator),
    ("GET", "/v1/array", ReadOnly),
    ("PATCH", "/v1/array", Operator),
    ("POST", "/v1/array/check", Operator),
    ("POST", "/v1/array/rebalance", Operator),
    ("POST", "/v1/array/scrub", Operator),
    ("GET", "/v1/audit", Administrator),
    ("GET", "/v1/chap", ReadOnly),
    ("POST", "/v1/chap", Administrator),
    ("PUT", "/v1/chap-mutual", Administrator),
    ("DELETE", "/v1/chap-mutual", Administrator),
    ("GET", "/v1/chap/{user}", ReadOnly),
    ("PUT", "/v1/chap/{user}", Administrator),
    ("DELETE", "/v1/chap/{user}", Administrator),
    ("GET", "/v1/configuration", Administrator),
    ("PATCH", "/v1/configuration", Administrator),
    ("GET", "/v1/connections", ReadOnly),
    ("GET", "/v1/destinations", ReadOnly),
    ("POST", "/v1/destinations", Administrator),
    ("GET", "/v1/destinations/{name}", ReadOnly),
    ("DELETE", "/v1/destinations/{name}", Administrator),
    ("PATCH", "/v1/destinations/{name}", Administrator),
    ("POST", "/v1/destinations/{name}/test", Operator),
    ("GET", "/v1/disks", ReadOnly),
    ("POST", "/v1/disks", Administrator),
    ("GET", "/v1/disks/{disk}", ReadOnly),
    ("POST", "/v1/disks/{disk}/cancel-retire", Operator),
    ("POST", "/v1/disks/{disk}/clear", Operator),
    ("POST", "/v1/disks/{disk}/fail", Operator),
    ("POST", "/v1/disks/{disk}/replace", Administrator),
    ("POST", "/v1/disks/{disk}/retire", Operator),
    ("GET", "/v1/events", ReadOnly),
    ("GET", "/v1/events/stream", ReadOnly),
    ("GET", "/v1/figures", ReadOnly),
    ("GET", "/v1/figures/stream", ReadOnly),
    ("GET", "/v1/group", ReadOnly),
    ("POST", "/v1/group", Administrator),
    ("DELETE", "/v1/group", Administrator),
    ("PATCH", "/v1/group", Administrator),
    ("DELETE", "/v1/group/address", Administrator),
    ("PUT", "/v1/group/address", Administrator),
    ("GET", "/v1/group/certificate", ReadOnly),
    ("PUT", "/v1/group/connections", Administrator),
    ("POST", "/v1/group/join", Administrator),
    ("POST", "/v1/group/share", Administrator),
    ("GET", "/v1/group/tokens", Administrator),
    ("POST", "/v1/group/tokens", Administrator),
    ("DELETE", "/v1/group/tokens/{id}", Administrator),
    ("GET", "/v1/group/volumes", ReadOnly),
    ("GET", "/v1/interface", ReadOnly),
    ("GET", "/v1/jobs", ReadOnly),
    ("GET", "/v1/jobs/stream", ReadOnly),
    ("GET", "/v1/members", ReadOnly),
    ("GET", "/v1/members/{name}", ReadOnly),
    ("DELETE", "/v1/members/{name}", Administrator),
    ("PATCH", "/v1/members/{name}", Administrator),
    ("GET", "/v1/openapi.json", ReadOnly),
    ("GET", "/v1/policies", ReadOnly),
    ("POST", "/v1/policies", Administrator),
    ("GET", "/v1/policies/{name}", ReadOnly),
    ("DELETE", "/v1/policies/{name}", Administrator),
    ("POST", "/v1/policies/{name}/records", Administrator),
    ("DELETE", "/v1/policies/{name}/records/{number}", Administrator),
    ("GET", "/v1/pools", ReadOnly),
    ("POST", "/v1/pools", Administrator),
    ("GET", "/v1/pools/{name}", ReadOnly),
    ("DELETE", "/v1/pools/{name}", Administrator),
    ("PUT", "/v1/pools/{name}/connections", Administrator),
    ("POST", "/v1/pools/{name}/merge", Administrator),
    ("GET", "/v1/runs", ReadOnly),
    ("GET", "/v1/runs/{id}", ReadOnly),
    ("POST", "/v1/runs/{id}/cancel", Operator),
    ("GET", "/v1/runs/{id}/stream", ReadOnly),
    ("GET", "/v1/schedules", ReadOnly),
    ("POST", "/v1/schedules", Operator),
    ("GET", "/v1/schedules/{name}", ReadOnly),
    ("DELETE", "/v1/schedules/{name}", Operator),
    ("PATCH", "/v1/schedules/{name}", Operator),
    ("GET", "/v1/slices", ReadOnly),
    ("DELETE", "/v1/slices/{id}", Operator),
    ("POST", "/v1/slices/{id}/rebuild", Operator),
    ("GET", "/v1/snapshots", ReadOnly),
    ("POST", "/v1/snapshots", Operator),
    ("GET", "/v1/snapshots/{volume}/{name}", ReadOnly),
    ("DELETE", "/v1/snapshots/{volume}/{name}", Operator),
    ("PATCH", "/v1/snapshots/{volume}/{name}", Operator),
    ("POST", "/v1/snapshots/{volume}/{name}/clone", Operator),
    ("GET", "/v1/snapshots/{volume}/{name}/reservations", ReadOnly),
    ("POST", "/v1/snapshots/{volume}/{name}/reservations/clear", Operator),
    ("POST", "/v1/snapshots/{volume}/{name}/rollback", Operator),
    ("GET", "/v1/tokens", Administrator),
    ("POST", "/v1/tokens", Administrator),
    ("GET", "/v1/tokens/{name}", Administrator),
    ("DELETE", "/v1/tokens/{name}", Administrator),
    ("GET", "/v1/transits", ReadOnly),
    ("POST", "/v1/transits/{id}/settle", Operator),
    ("GET", "/v1/volumes", ReadOnly),
    ("POST", "/v1/volumes", Operator),
    ("GET", "/v1/volumes/{name}", ReadOnly),
    ("DELETE", "/v1/volumes/{name}", Operator),
    ("PATCH", "/v1/volumes/{name}", Operator),
    ("GET", "/v1/volumes/{name}/access", ReadOnly),
    ("POST", "/v1/volumes/{name}/access", Administrator),
    ("DELETE", "/v1/volumes/{name}/access", Administrator),
    ("DELETE", "/v1/volumes/{name}/access/{number}", Administrator),
    ("GET", "/v1/volumes/{name}/changes", ReadOnly),
    ("POST", "/v1/volumes/{name}/move", Operator),
    ("POST", "/v1/volumes/{name}/purge", Operator),
    ("GET", "/v1/volumes/{name}/reservations", ReadOnly),
    ("POST", "/v1/volumes/{name}/reservations/clear", Operator),
    ("POST", "/v1/volumes/{name}/undelete", Operator),
];

/// The least role of what is in the table. HEAD is GET without a body.
pub(super) fn stated(method: &Method, path: &str) -> Option<Role> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let row = LEAST.iter().find(|(its, of, _)| *its == method.as_str() && *of == path);
    row.map(|(_, _, role)| *role)
}

/// The least role of anything.
pub(super) fn least(method: &Method, path: &str) -> Role {
    stated(method, path).unwrap_or(Administrator)
}

/// How many operations are stated.
#[cfg(test)]
pub(super) const fn count() -> usize {
    LEAST.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_stated_once_and_what_is_not_is_for_administrators() {
        let mut rows: Vec<_> = LEAST.iter().map(|(method, path, _)| (method, path)).collect();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), LEAST.len());
        assert_eq!(least(&Method::HEAD, "/v1/volumes"), ReadOnly);
        assert_eq!(least(&Method::PUT, "/v1/volumes"), Administrator);
        assert_eq!(stated(&Method::GET, "/v1/nothing"), None);
    }
}
