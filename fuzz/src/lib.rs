//! Arbitrary bytes for everything that reads what comes from the wire.
//!
//! Each module is one target: `run` takes any input and panics if a promise of the code under it
//! is broken. libFuzzer drives them by `fuzz_targets/`; the tests of the `drystone` crate include
//! this file and drive them on stable Rust, with the seeds and with random changes to them.

pub mod assembly;
pub mod cdb;
mod input;
pub mod login;
pub mod params;
pub mod pdu;
pub mod seeds;
pub mod session;
pub mod text;
pub mod transfer;

/// One target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, as `fuzz_targets/` and the directories of `seeds/` name them.
pub const TARGETS: [Target; 8] = [
    ("assembly", assembly::run),
    ("cdb", cdb::run),
    ("login", login::run),
    ("params", params::run),
    ("pdu", pdu::run),
    ("session", session::run),
    ("text", text::run),
    ("transfer", transfer::run),
];
