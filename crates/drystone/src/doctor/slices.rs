//! Parts of volumes that lie on several members, at the member that runs here, which only an operator ends.

use super::Finding;
use crate::advice::slices::Left;
use crate::cli::up::SocketArgs;
use crate::up;
use api::client::{Client, HERE};
use api::types::Slice;

const ABOUT: &str = "slices";

/// Asks the member, if one runs. Where none does, or it has none, there is nothing to be found: what is said of moves says
/// why it cannot be asked.
pub(super) fn look(socket: &SocketArgs) -> Vec<Finding> {
    let Ok(socket) = up::socket_of_member(socket) else { return Vec::new() };
    let member = Client::new(socket).on(Some(HERE.to_owned()));
    member.slices().map_or_else(|_| Vec::new(), |slices| judge(&slices))
}

fn judge(slices: &[Slice]) -> Vec<Finding> {
    let left = slices.iter().filter_map(Left::of);
    let found: Vec<Finding> =
        left.map(|Left { found, advice }| Finding::warning(ABOUT, found, advice)).collect();
    match found.is_empty() && !slices.is_empty() {
        true => vec![Finding::good(ABOUT, "the member that runs has none that is left over")],
        false => found,
    }
}
