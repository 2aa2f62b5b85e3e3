//! How to choose among paths that are equally good.

use std::fmt;
use std::str::FromStr;

/// The policy of a disk. It chooses among the usable paths of the best ALUA state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// One path until it fails or a better group of paths appears.
    Failover,
    /// Each in turn, for so many commands.
    RoundRobin {
        /// Commands on one path before the next one's turn; at least 1.
        ios_per_path: u32,
    },
    /// The path with the fewest commands under way.
    LeastQueueDepth,
    /// The path on which the command should be done first, by what its last commands took.
    ServiceTime,
    /// Paths that lead to the owner of the page, the one with the fewest commands under way of
    /// these; others where there are none, or where the owner is not known.
    Routed,
}

/// A text that names no [`Policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a policy is failover, round-robin[:COMMANDS], least-queue-depth, service-time or routed")]
pub struct PolicyError;

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("failover", "") => Ok(Self::Failover),
            ("round-robin", "") => Ok(Self::RoundRobin { ios_per_path: 1 }),
            ("round-robin", number) => match number.parse() {
                Ok(ios_per_path) if ios_per_path > 0 => Ok(Self::RoundRobin { ios_per_path }),
                _ => Err(PolicyError),
            },
            ("least-queue-depth", "") => Ok(Self::LeastQueueDepth),
            ("service-time", "") => Ok(Self::ServiceTime),
            ("routed", "") => Ok(Self::Routed),
            _ => Err(PolicyError),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failover => f.write_str("failover"),
            Self::RoundRobin { ios_per_path } => write!(f, "round-robin:{ios_per_path}"),
            Self::LeastQueueDepth => f.write_str("least-queue-depth"),
            Self::ServiceTime => f.write_str("service-time"),
            Self::Routed => f.write_str("routed"),
        }
    }
}
