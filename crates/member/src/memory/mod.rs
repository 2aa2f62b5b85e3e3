//! How much memory the cache of blocks may take: what an operator says, and how it gives way when the machine
//! runs short.

mod machine;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::spec::size::{self, SizeError};

pub use machine::Machine;

const MIB: u64 = 1 << 20;

/// The least that the cache is given, also when memory runs short.
pub const LEAST_BYTES: u64 = 16 * MIB;

/// The least that it is given where nobody says how much.
const USUAL_BYTES_MIN: u64 = 64 * MIB;

/// What an operator says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheMemory {
    /// A quarter of the memory that the member may use, at least 64 MiB.
    #[default]
    Auto,
    /// So many bytes.
    Bytes(u64),
}

/// Why the cache is not given so much memory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CacheMemoryError {
    /// It is no size.
    #[error("{0}; or write auto, for a quarter of the memory")]
    Size(#[from] SizeError),
    /// A cache of that size would hold next to nothing.
    #[error("{} is too little memory for the read cache: write at least {}, or auto", size::short(*.0), size::short(LEAST_BYTES))]
    TooLittle(u64),
    /// There would be too little left for all else.
    #[error(
        "{} for the read cache is more than three quarters of the memory that the member may use: write at most {}M, or auto",
        size::short(*.asked_bytes), .most_bytes / MIB
    )]
    TooMuch {
        /// As asked for.
        asked_bytes: u64,
        /// What it may have.
        most_bytes: u64,
    },
}

impl CacheMemory {
    /// How many bytes that is on this machine, if that is known.
    ///
    /// # Errors
    /// It is too little or too much.
    pub fn bytes_on(self, machine: Option<Machine>) -> Result<u64, CacheMemoryError> {
        match (self, machine) {
            (Self::Auto, None) => Ok(USUAL_BYTES_MIN),
            (Self::Auto, Some(machine)) => Ok((machine.total_bytes / 4).max(USUAL_BYTES_MIN)),
            (Self::Bytes(bytes), _) if bytes < LEAST_BYTES => {
                Err(CacheMemoryError::TooLittle(bytes))
            }
            (Self::Bytes(bytes), None) => Ok(bytes),
            (Self::Bytes(asked_bytes), Some(machine)) => {
                let most_bytes = machine.total_bytes / 4 * 3;
                match asked_bytes > most_bytes {
                    true => Err(CacheMemoryError::TooMuch { asked_bytes, most_bytes }),
                    false => Ok(asked_bytes),
                }
            }
        }
    }
}

impl FromStr for CacheMemory {
    type Err = CacheMemoryError;

    fn from_str(text: &str) -> Result<Self, CacheMemoryError> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match size::parse(text)? {
            bytes if bytes < LEAST_BYTES => Err(CacheMemoryError::TooLittle(bytes)),
            bytes => Ok(Self::Bytes(bytes)),
        }
    }
}

impl fmt::Display for CacheMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Bytes(bytes) => f.write_str(&size::short(*bytes)),
        }
    }
}

/// How large the cache is, and is to be where there is memory for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// What it holds.
    pub(crate) bytes: u64,
    /// What it may hold now.
    pub(crate) limit_bytes: u64,
    /// What it may hold where nothing is short.
    pub(crate) wanted_bytes: u64,
}

/// What the machine keeps for all else: a sixteenth of its memory, 128 MiB to 2 GiB.
fn reserve_bytes(machine: Machine) -> u64 {
    (machine.total_bytes / 16).clamp(128 * MIB, 2048 * MIB)
}

/// What the cache may hold from now on.
///
/// While less is available than the machine is to keep, it gives up what is short of what it holds: a limit above that
/// would free nothing. When there is room again it may take it, but for what it may take already, and by an eighth at
/// most each time; never more than there is.
pub(crate) fn next_limit(held: Held, machine: Machine) -> u64 {
    let Held { bytes, limit_bytes, wanted_bytes } = held;
    let reserve = reserve_bytes(machine);
    let next = match reserve.checked_sub(machine.available_bytes) {
        // What it is giving up already, beyond the limit, frees some of that.
        Some(short) if short > 0 => bytes.saturating_sub(short).min(limit_bytes),
        _ => {
            let room = machine.available_bytes - reserve;
            let untaken = limit_bytes.saturating_sub(bytes);
            let grown = limit_bytes + room.saturating_sub(untaken).min(limit_bytes / 8);
            // Hosts that read fast fill it before the next look.
            grown.min(bytes.saturating_add(room))
        }
    };
    // One that was set to less than the least has that.
    next.max(LEAST_BYTES).min(wanted_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * MIB;

    fn machine(total_bytes: u64, available_bytes: u64) -> Machine {
        Machine { total_bytes, available_bytes }
    }

    fn held(bytes: u64, limit_bytes: u64) -> Held {
        Held { bytes, limit_bytes, wanted_bytes: 4 * GIB }
    }

    #[test]
    fn what_operators_write_is_read() {
        assert_eq!("auto".parse::<CacheMemory>(), Ok(CacheMemory::Auto));
        assert_eq!("16M".parse::<CacheMemory>(), Ok(CacheMemory::Bytes(16 * MIB)));
        for (text, memory) in [("auto", CacheMemory::Auto), ("2G", CacheMemory::Bytes(2 * GIB))] {
            assert_eq!(memory.to_string(), text);
        }
        let said = |text: &str| text.parse::<CacheMemory>().expect_err(text).to_string();
        assert_eq!(
            said("8M"),
            "8M is too little memory for the read cache: write at least 16M, or auto"
        );
        assert!(said("much").ends_with("; or write auto, for a quarter of the memory"));
    }

    #[test]
    fn a_cache_has_a_quarter_and_at_most_three_of_the_machine() {
        let eight = Some(machine(8 * GIB, GIB));
        assert_eq!(CacheMemory::Auto.bytes_on(eight), Ok(2 * GIB));
        assert_eq!(CacheMemory::Auto.bytes_on(Some(machine(128 * MIB, 0))), Ok(64 * MIB));
        assert_eq!(CacheMemory::Auto.bytes_on(None), Ok(64 * MIB));
        let of = |bytes| CacheMemory::Bytes(bytes).bytes_on(eight);
        assert_eq!((of(16 * MIB), of(6 * GIB)), (Ok(16 * MIB), Ok(6 * GIB)));
        assert_eq!(CacheMemory::Bytes(100 * GIB).bytes_on(None), Ok(100 * GIB));
        assert_eq!(of(16 * MIB - 1), Err(CacheMemoryError::TooLittle(16 * MIB - 1)));
        assert_eq!(
            of(7 * GIB).expect_err("too much").to_string(),
            "7G for the read cache is more than three quarters of the memory that the member may use: write at most \
             6144M, or auto"
        );
    }

    #[test]
    fn a_machine_keeps_a_sixteenth_within_bounds() {
        assert_eq!(reserve_bytes(machine(GIB, 0)), 128 * MIB);
        assert_eq!(reserve_bytes(machine(16 * GIB, 0)), GIB);
        assert_eq!(reserve_bytes(machine(256 * GIB, 0)), 2 * GIB);
    }

    #[test]
    fn what_is_short_is_given_up_of_what_is_held() {
        let of = |held, available| next_limit(held, machine(16 * GIB, available));
        assert_eq!(of(held(4 * GIB, 4 * GIB), GIB - 300 * MIB), 4 * GIB - 300 * MIB);
        // A limit that is far above what is held would free nothing.
        assert_eq!(of(held(GIB, 4 * GIB), GIB - 300 * MIB), GIB - 300 * MIB);
        assert_eq!(of(held(100 * MIB, 4 * GIB), 0), LEAST_BYTES);
        assert_eq!(of(held(4 * GIB, 4 * GIB), GIB), 4 * GIB, "nothing is short");
        // It takes some looks to give up gigabytes: what is still held beyond the limit is on its way.
        let mut limit = of(held(4 * GIB, 4 * GIB), GIB - 1024 * MIB);
        for gone in [256, 512, 768, 1024] {
            let bytes = 4 * GIB - gone * MIB;
            limit = of(held(bytes, limit), GIB - (1024 - gone) * MIB);
            assert_eq!(limit, 3 * GIB, "{gone} MiB later");
        }
    }

    #[test]
    fn room_is_taken_again_by_an_eighth_at_most() {
        let of = |held, available| next_limit(held, machine(16 * GIB, available));
        assert_eq!(of(held(GIB, GIB), 8 * GIB), GIB + GIB / 8);
        assert_eq!(of(held(GIB, GIB), GIB + 10 * MIB), GIB + 10 * MIB, "no more than there is");
        assert_eq!(of(held(GIB - 10 * MIB, GIB), GIB + 10 * MIB), GIB, "it may take that already");
        assert_eq!(of(held(4 * GIB, 4 * GIB), 8 * GIB), 4 * GIB, "no more than is wanted");
        assert_eq!(
            of(held(0, 4 * GIB), GIB + 100 * MIB),
            100 * MIB,
            "an empty one has what there is"
        );
        let mut limit = LEAST_BYTES;
        let mut seconds = 0;
        while limit < 4 * GIB {
            limit = of(held(limit, limit), 8 * GIB);
            seconds += 1;
        }
        assert!((40..60).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_cache_that_gives_way_comes_to_rest() {
        // Others take 3 of 4 GiB, and the cache what it may.
        let (mut limit, wanted_bytes) = (2 * GIB, 2 * GIB);
        for _ in 0..200 {
            let machine = machine(4 * GIB, GIB.saturating_sub(limit));
            limit = next_limit(Held { bytes: limit, limit_bytes: limit, wanted_bytes }, machine);
        }
        assert_eq!(limit, GIB - 256 * MIB, "all but what the machine keeps");
    }

    #[test]
    fn whatever_the_machine_says_the_limit_stays_between_its_bounds() {
        for bytes in [0, LEAST_BYTES, GIB, 4 * GIB] {
            for limit in [LEAST_BYTES, GIB, 4 * GIB] {
                for available in [0, GIB - 1, GIB, GIB + 1, u64::MAX] {
                    let next = next_limit(held(bytes, limit), machine(16 * GIB, available));
                    assert!((LEAST_BYTES..=4 * GIB).contains(&next), "{next}");
                }
            }
        }
    }
}
