//! Which member a request names, and where it has to name one.

use axum::extract::{MatchedPath, Request};
use axum::http::HeaderMap;

use super::whose::{changes, whose};
use crate::headers::{HERE, MEMBER};
use crate::mutants::{self, Mutant};
use crate::problem::{Code, Problem};
use crate::server::connections::Means;

/// Refuses what is about one member where the group is asked, and the request does not say which: whoever looked at one
/// there before may be asking another one now. `@here` says as little.
pub(super) fn check_at_group(request: &Request) -> Result<(), Problem> {
    let is_group = request.extensions().get::<Means>() == Some(&Means::Group);
    if !is_group || mutants::is(Mutant::UnnamedAtGroup) {
        return Ok(());
    }
    let method = request.method();
    let is_of_one = match member_in(request.headers())? {
        Some(HERE) if changes(method) => true,
        Some(HERE) | None => {
            let route = request.extensions().get::<MatchedPath>();
            route.is_some_and(|route| whose(method, route.as_str()).is_of_one(method))
        }
        Some(_) => false,
    };
    if !is_of_one {
        return Ok(());
    }
    let sentence = "this is about one member, and another one may have the address of the group by the next request: \
                    say which with --on MEMBER (the header Drystone-Member)";
    Err(Problem::new(Code::SeveralMembers, sentence))
}

/// Refuses to send something on where no other member is known.
pub(super) fn check_alone(headers: &HeaderMap) -> Result<(), Problem> {
    match member_in(headers)? {
        None | Some(HERE) => Ok(()),
        Some(name) => {
            let sentence = format!(
                "member '{name}' cannot be asked from here: this member is in no group, or has heard nothing of its \
                 group since it was started"
            );
            Err(Problem::new(Code::NoGroup, sentence))
        }
    }
}

/// Which member a request names.
pub(super) fn member_in(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut all = headers.get_all(MEMBER).iter();
    let Some(first) = all.next() else { return Ok(None) };
    let name = first.to_str().ok().map(str::trim).filter(|name| !name.is_empty());
    name.filter(|_| all.next().is_none()).map(Some).ok_or_else(|| {
        let sentence = "Drystone-Member does not read: send the name of one member";
        Problem::new(Code::BadRequest, sentence)
    })
}
