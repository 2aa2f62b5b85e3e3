//! Headers of a group of members, which both sides of the interface know.

use axum::http::header::HeaderName;

/// In a request the member that it is for, alone; in an answer the member that it is from.
pub(crate) const MEMBER: HeaderName = HeaderName::from_static("drystone-member");

/// What stands there for the member that is asked, in no group too. No member can have this name.
pub const HERE: &str = "@here";

/// In a list of all members the names of those of which nothing is in it, with commas between them.
pub(crate) const MEMBERS_MISSING: HeaderName = HeaderName::from_static("drystone-members-missing");

/// What stands there for all but the one that is asked, which does not know their names: it has heard nothing of its
/// group since it was started. No member can have this name.
pub const ALL_OTHERS: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_member_has_a_name_that_means_something_else() {
        for word in [HERE, ALL_OTHERS] {
            assert!(group::membership::check_name(word).is_err(), "{word}");
        }
    }
}
