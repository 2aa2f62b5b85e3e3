//! Whose each request is: the member's that is asked, that of another one, or the whole group's. This is the one place
//! that says so, and a test fails for an operation that is not in the table.
//!
//! The rule: what is about a volume goes to the member that has it, and so do its snapshots, its access list and its
//! schedules; what lists such things lists those of all members; all else is of the member that is asked, which changes
//! what is set for the whole group by itself ([`Group`]). `Drystone-Member` in a request comes before all that, and what another
//! member has sent on is never sent on again: so no request goes in circles, whatever two members believe of each
//! other.
//!
//! At the address of the group whoever is asked may be another member by the next request. So what changes one member
//! ([`Here`]) and what is looked at or [`Followed`] by the numbers of one must name it there.

use axum::http::Method;

use Whose::{
    ChangedSchedule, Followed, Group, Here, Merged, NewSchedule, Placed, Schedule, SnapshotsAsked,
    Volume, VolumeAndNew, Volumes,
};

/// Whose a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of the member that is asked.
    Here,
    /// The same, which goes by numbers of its own: those of another member mean something else, or nothing.
    Followed,
    /// Of the whole group: the member that is asked changes it for all.
    Group,
    /// A list of all members.
    Merged,
    /// A volume to be made: of the member with most room for it.
    Placed,
    /// Of the member that has the volume in the path.
    Volume,
    /// The same, and the body may name a volume that is there afterwards.
    VolumeAndNew,
    /// Of the one member that has all volumes in the body.
    Volumes,
    /// Of the member that has the volume in the query, or a list of all members where there is none.
    SnapshotsAsked,
    /// Of the member that has the schedule in the path.
    Schedule,
    /// The same; that member has all volumes in the body, too.
    ChangedSchedule,
    /// A schedule to be made: of the one member that has all its volumes.
    NewSchedule,
}

impl Whose {
    /// Whether the member that is asked does it, if no other one is named.
    pub(super) const fn is_of_asked(self) -> bool {
        matches!(self, Here | Followed | Group)
    }

    /// Whether it is about one member, which is to be named where whoever is asked is the group.
    pub(super) fn is_of_one(self, method: &Method) -> bool {
        self == Followed || (self == Here && changes(method))
    }

    /// Whether the body says something about it.
    pub(super) const fn is_told_by_body(self) -> bool {
        matches!(self, Placed | VolumeAndNew | Volumes | ChangedSchedule | NewSchedule)
    }
}

/// Method, path as the router has it, and whose it is.
const WHOSE: &[(&str, &str, Whose)] = &[
    ("GET", "/metrics", Here),
    ("GET", "/v1/accounts", Group),
    ("POST", "/v1/accounts", Group),
    ("GET", "/v1/accounts/{name}", Group),
    ("PATCH", "/v1/accounts/{name}", Group),
    ("DELETE", "/v1/accounts/{name}", Group),
    ("GET", "/v1/array", Here),
    ("PATCH", "/v1/array", Here),
    ("POST", "/v1/array/check", Here),
    ("POST", "/v1/array/rebalance", Here),
    ("POST", "/v1/array/scrub", Here),
    ("GET", "/v1/audit", Here),
    ("GET", "/v1/chap", Group),
    ("POST", "/v1/chap", Group),
    ("PUT", "/v1/chap-mutual", Group),
    ("DELETE", "/v1/chap-mutual", Group),
    ("GET", "/v1/chap/{user}", Group),
    ("PUT", "/v1/chap/{user}", Group),
    ("DELETE", "/v1/chap/{user}", Group),
    ("GET", "/v1/configuration", Here),
    ("PATCH", "/v1/configuration", Here),
    ("GET", "/v1/connections", Merged),
    ("GET", "/v1/destinations", Group),
    ("POST", "/v1/destinations", Group),
    ("GET", "/v1/destinations/{name}", Group),
    ("PATCH", "/v1/destinations/{name}", Group),
    ("DELETE", "/v1/destinations/{name}", Group),
    ("POST", "/v1/destinations/{name}/test", Group),
    ("GET", "/v1/disks", Here),
    ("POST", "/v1/disks", Here),
    ("GET", "/v1/disks/{disk}", Here),
    ("POST", "/v1/disks/{disk}/cancel-retire", Here),
    ("POST", "/v1/disks/{disk}/clear", Here),
    ("POST", "/v1/disks/{disk}/fail", Here),
    ("POST", "/v1/disks/{disk}/replace", Here),
    ("POST", "/v1/disks/{disk}/retire", Here),
    ("GET", "/v1/events", Here),
    ("GET", "/v1/events/stream", Followed),
    ("GET", "/v1/figures", Here),
    ("GET", "/v1/figures/stream", Here),
    ("GET", "/v1/group", Group),
    ("POST", "/v1/group", Here),
    ("PATCH", "/v1/group", Group),
    ("DELETE", "/v1/group", Group),
    ("PUT", "/v1/group/address", Group),
    ("DELETE", "/v1/group/address", Group),
    ("GET", "/v1/group/certificate", Group),
    ("PUT", "/v1/group/connections", Group),
    ("POST", "/v1/group/join", Here),
    ("POST", "/v1/group/share", Here),
    ("GET", "/v1/group/tokens", Group),
    ("POST", "/v1/group/tokens", Group),
    ("DELETE", "/v1/group/tokens/{id}", Group),
    ("GET", "/v1/group/volumes", Group),
    ("GET", "/v1/interface", Here),
    ("GET", "/v1/jobs", Merged),
    ("GET", "/v1/jobs/stream", Here),
    ("GET", "/v1/members", Group),
    ("GET", "/v1/members/{name}", Group),
    ("PATCH", "/v1/members/{name}", Group),
    ("DELETE", "/v1/members/{name}", Group),
    ("GET", "/v1/openapi.json", Here),
    ("GET", "/v1/policies", Group),
    ("POST", "/v1/policies", Group),
    ("GET", "/v1/policies/{name}", Group),
    ("DELETE", "/v1/policies/{name}", Group),
    ("POST", "/v1/policies/{name}/records", Group),
    ("DELETE", "/v1/policies/{name}/records/{number}", Group),
    ("GET", "/v1/pools", Group),
    ("POST", "/v1/pools", Group),
    ("GET", "/v1/pools/{name}", Group),
    ("DELETE", "/v1/pools/{name}", Group),
    ("PUT", "/v1/pools/{name}/connections", Group),
    ("POST", "/v1/pools/{name}/merge", Group),
    ("GET", "/v1/runs", Here),
    ("GET", "/v1/runs/{id}", Followed),
    ("POST", "/v1/runs/{id}/cancel", Here),
    ("GET", "/v1/runs/{id}/stream", Followed),
    ("GET", "/v1/schedules", Merged),
    ("POST", "/v1/schedules", NewSchedule),
    ("GET", "/v1/schedules/{name}", Schedule),
    ("PATCH", "/v1/schedules/{name}", ChangedSchedule),
    ("DELETE", "/v1/schedules/{name}", Schedule),
    ("GET", "/v1/slices", Merged),
    ("DELETE", "/v1/slices/{id}", Here),
    ("POST", "/v1/slices/{id}/rebuild", Here),
    ("GET", "/v1/snapshots", SnapshotsAsked),
    ("POST", "/v1/snapshots", Volumes),
    ("GET", "/v1/snapshots/{volume}/{name}", Volume),
    ("PATCH", "/v1/snapshots/{volume}/{name}", Volume),
    ("DELETE", "/v1/snapshots/{volume}/{name}", Volume),
    ("POST", "/v1/snapshots/{volume}/{name}/clone", VolumeAndNew),
    ("GET", "/v1/snapshots/{volume}/{name}/reservations", Volume),
    ("POST", "/v1/snapshots/{volume}/{name}/reservations/clear", Volume),
    ("POST", "/v1/snapshots/{volume}/{name}/rollback", Volume),
    ("GET", "/v1/tokens", Group),
    ("POST", "/v1/tokens", Group),
    ("GET", "/v1/tokens/{name}", Group),
    ("DELETE", "/v1/tokens/{name}", Group),
    ("GET", "/v1/transits", Merged),
    ("POST", "/v1/transits/{id}/settle", Here),
    ("GET", "/v1/volumes", Merged),
    ("POST", "/v1/volumes", Placed),
    ("GET", "/v1/volumes/{name}", Volume),
    ("PATCH", "/v1/volumes/{name}", VolumeAndNew),
    ("DELETE", "/v1/volumes/{name}", Volume),
    ("GET", "/v1/volumes/{name}/access", Volume),
    ("POST", "/v1/volumes/{name}/access", Volume),
    ("DELETE", "/v1/volumes/{name}/access", Volume),
    ("DELETE", "/v1/volumes/{name}/access/{number}", Volume),
    ("GET", "/v1/volumes/{name}/changes", Volume),
    ("POST", "/v1/volumes/{name}/move", Volume),
    ("POST", "/v1/volumes/{name}/purge", Volume),
    ("GET", "/v1/volumes/{name}/reservations", Volume),
    ("POST", "/v1/volumes/{name}/reservations/clear", Volume),
    ("POST", "/v1/volumes/{name}/undelete", Volume),
];

/// Whether such a request changes anything.
pub(super) fn changes(method: &Method) -> bool {
    ![Method::GET, Method::HEAD].contains(method)
}

/// Whose it is, of what is in the table. HEAD is GET without a body.
pub(super) fn stated(method: &Method, path: &str) -> Option<Whose> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let row = WHOSE.iter().find(|(its, of, _)| *its == method.as_str() && *of == path);
    row.map(|(_, _, whose)| *whose)
}

/// Whose anything is.
pub(super) fn whose(method: &Method, path: &str) -> Whose {
    stated(method, path).unwrap_or(Here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::routes::document;

    /// All operations that there are.
    fn operations() -> Vec<(Method, String)> {
        let mut all = Vec::new();
        for (path, item) in document().paths.paths {
            let methods = [
                (Method::GET, item.get.is_some()),
                (Method::POST, item.post.is_some()),
                (Method::PUT, item.put.is_some()),
                (Method::PATCH, item.patch.is_some()),
                (Method::DELETE, item.delete.is_some()),
            ];
            let there = methods.into_iter().filter(|(_, is_there)| *is_there);
            all.extend(there.map(|(method, _)| (method, path.clone())));
        }
        all
    }

    #[test]
    fn each_operation_is_stated_once_and_nothing_else_is() {
        let all = operations();
        for (method, path) in &all {
            assert!(stated(method, path).is_some(), "{method} {path} has no row in whose.rs");
        }
        assert_eq!(WHOSE.len(), all.len(), "whose.rs states what there is not, or something twice");
    }

    #[test]
    fn what_is_about_a_volume_or_a_schedule_is_not_of_whoever_is_asked() {
        for (method, path) in operations() {
            let word = path.split('/').nth(2).unwrap_or_default();
            let is_of_things = ["volumes", "snapshots", "schedules"].contains(&word);
            let is_of_asked = whose(&method, &path).is_of_asked();
            assert_eq!(!is_of_asked, is_of_things || is_merged(&path), "{path}");
        }
    }

    /// What is not said here to be of the group is refused without a name.
    #[test]
    fn what_changes_one_member_is_to_name_it_where_the_group_is_asked() {
        let of_group =
            ["accounts", "chap", "chap-mutual", "destinations", "policies", "tokens", "pools"];
        let of_things = ["volumes", "snapshots", "schedules"];
        for (method, path) in operations() {
            let word = path.split('/').nth(2).unwrap_or_default();
            let is_about_self = method == "POST"
                && ["/v1/group", "/v1/group/join", "/v1/group/share"].contains(&&*path);
            let is_of_group = ["group", "members"].contains(&word) && !is_about_self;
            let is_free = of_group.contains(&word) || of_things.contains(&word) || is_of_group;
            let followed = ["/v1/events/stream", "/v1/runs/{id}", "/v1/runs/{id}/stream"];
            let is_followed = followed.contains(&&*path);
            let is_of_one = is_followed || (method != Method::GET && !is_free);
            assert_eq!(whose(&method, &path).is_of_one(&method), is_of_one, "{method} {path}");
        }
        assert!(!Here.is_of_one(&Method::HEAD) && Followed.is_of_one(&Method::HEAD));
    }

    fn is_merged(path: &str) -> bool {
        ["/v1/jobs", "/v1/connections", "/v1/slices", "/v1/transits"].contains(&path)
    }

    #[test]
    fn what_has_no_row_is_of_whoever_is_asked() {
        assert_eq!(whose(&Method::HEAD, "/v1/volumes"), Merged);
        assert_eq!(whose(&Method::PUT, "/v1/volumes"), Here);
        assert_eq!(stated(&Method::GET, "/v1/nothing"), None);
    }
}
