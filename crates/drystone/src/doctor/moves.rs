//! Volumes of the member that runs here whose moves only an operator ends.

use super::Finding;
use crate::advice::transits::Undecided;
use crate::cli::up::SocketArgs;
use crate::up;
use api::client::{Client, ClientError, HERE};
use api::problem::Code;
use api::types::Transit;

const ABOUT: &str = "moves";

/// Asks the member, if one runs. Where none does there is nothing to be found: the rest needs none.
pub(super) fn look(socket: &SocketArgs) -> Vec<Finding> {
    let Ok(socket) = up::socket_of_member(socket) else { return Vec::new() };
    let member = Client::new(socket).on(Some(HERE.to_owned()));
    match member.transits() {
        Ok(transits) => judge(&transits),
        Err(error) if is_none(&error) => Vec::new(),
        Err(error) => {
            let found = format!("it is not known whether one has to be settled: {error}");
            vec![Finding::warning(ABOUT, found, "see 'drystone status'")]
        }
    }
}

/// Whether no member runs that this user may ask, or one of an earlier version, which knows of no moves.
fn is_none(error: &ClientError) -> bool {
    match error {
        ClientError::Nobody(_) | ClientError::Denied(_) => true,
        ClientError::Problem(problem) => problem.code == Code::NoSuchPath,
        _ => false,
    }
}

fn judge(transits: &[Transit]) -> Vec<Finding> {
    let undecided = transits.iter().filter_map(Undecided::of);
    let found: Vec<Finding> = undecided
        .map(|Undecided { found, advice }| Finding::warning(ABOUT, found, advice))
        .collect();
    match found.is_empty() {
        true => vec![Finding::good(ABOUT, "the member that runs has none that is to be settled")],
        false => found,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;
    use api::problem::Problem;
    use api::types::{TransitState, TransitWay};

    #[test]
    fn each_volume_that_is_to_be_settled_is_a_warning() {
        let transit = |volume: &str, state| Transit {
            id: "0".repeat(32),
            volume: volume.to_owned(),
            way: TransitWay::Leaves,
            other: "right".to_owned(),
            state,
            why: None,
            member: None,
        };
        let waits = transit("waits", TransitState::Waits);
        let good = judge(std::slice::from_ref(&waits));
        assert_eq!((good.len(), good[0].severity), (1, Severity::Good));
        let undecided = ["a", "b"].map(|name| transit(name, TransitState::Undecided));
        let [a, b] = undecided;
        let found = judge(&[a, waits, b]);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|it| it.severity == Severity::Warning));
        assert!(found[1].advice.as_ref().unwrap().contains("volume settle b --keep"));
    }

    #[test]
    fn where_no_member_runs_nothing_is_said_and_a_failure_is() {
        let socket = Some("/nonexistent/control.sock".into());
        assert!(look(&SocketArgs { socket }).is_empty());
        let problem = |code| ClientError::Problem(Box::new(Problem::new(code, "it is so")));
        assert!(is_none(&problem(Code::NoSuchPath)) && is_none(&ClientError::Denied("/s".into())));
        assert!(!is_none(&problem(Code::Unavailable)));
        assert!(!is_none(&ClientError::Silent("/s".into())));
    }
}
