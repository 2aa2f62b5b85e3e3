//! TCP congestion control: whether the kernel has the one that is asked for.

use rustix::net::{AddressFamily, SocketType, socket, sockopt};
use std::fs;

/// Where the kernel lists what it offers.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Tries `name` on a socket of its own; the error is a sentence for the user.
pub(crate) fn probe(name: &str) -> Result<(), String> {
    // Without a socket of this family the start fails later, with the reason at hand.
    let Ok(socket) = socket(AddressFamily::INET, SocketType::STREAM, None) else { return Ok(()) };
    sockopt::set_tcp_congestion(&socket, name).map_err(|error| {
        let offered = fs::read_to_string(AVAILABLE).unwrap_or_default();
        let offered = offered.split_whitespace().collect::<Vec<_>>().join(", ");
        format!(
            "the TCP congestion control '{name}' cannot be set ({error}): write --congestion system, or one that the kernel offers: {offered}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::probe;

    #[test]
    fn reno_is_in_every_kernel() {
        assert_eq!(probe("reno"), Ok(()));
    }

    #[test]
    fn one_that_is_not_there_is_refused_with_those_that_are() {
        let sentence = probe("no-such-thing").unwrap_err();
        assert!(sentence.contains("'no-such-thing' cannot be set"), "{sentence}");
        assert!(sentence.contains("reno"), "{sentence}");
    }
}
