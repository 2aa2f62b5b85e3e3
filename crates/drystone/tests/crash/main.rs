//! kill -9 under verified load: nothing that was acknowledged is lost.
//!
//! Hosts write to the disks of a real `drystone export`, remember what was acknowledged, and lose
//! it at a random moment. The next one on the same files must hold all of that. `make soak` runs
//! more rounds than the tests do.

mod array;
#[path = "../common/mod.rs"]
mod common;
mod disks;
mod fences;
mod host;
#[path = "../api/http.rs"]
#[allow(dead_code, reason = "the tests of the interface use more of it")]
mod http;
mod ledger;
mod load;
mod settings;

use common::{Export, file_spec};
use host::Host;
use ledger::{BLOCK_BYTES, Ledger};
use load::{Increments, Registered};
use std::env;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Set to run another number of rounds.
const ROUNDS: &str = "DRYSTONE_CRASH_ROUNDS";
const ROUNDS_DEFAULT: usize = 20;
/// How long the target lives under load.
const LIFE_MS: std::ops::Range<u64> = 5..300;
/// 4 MiB for the writers of each disk; its counter lies behind.
const LEDGER_BLOCKS: usize = 1024;
const COUNTER_LBA: usize = LEDGER_BLOCKS * BLOCK_BYTES / 512;
/// Hosts that compete for a counter.
const COUNTERS_PER_DISK: u8 = 2;
/// The disk with cache=durable, the one with cache=volatile, and the reserved one.
const WRITTEN: [u8; 2] = [0, 1];
const RESERVED: u8 = 2;

/// How many crashes there are to be.
fn rounds(usual: usize) -> usize {
    env::var(ROUNDS).map_or(usual, |rounds| rounds.parse().expect(ROUNDS))
}

/// What must be found after a crash.
struct Known {
    ledgers: [Ledger; 2],
    counters: [Increments; 2],
    registered: Registered,
}

fn start(dir: &Path) -> Export {
    let spec = |name, options| file_spec(dir, name, "8M") + options;
    let specs = [
        spec("durable", ",cache=durable"),
        spec("volatile", ",cache=volatile"),
        spec("reserved", ""),
    ];
    let state = dir.join("state");
    let state = state.to_str().expect("a temporary directory in UTF-8");
    Export::start(&specs.each_ref().map(String::as_str), &["--state-dir", state])
}

fn log_in(export: &Export, number: u8) -> Host {
    let host = Host::log_in(export.portal(), &export.iqn, number, &[0, 1, 2]);
    host.expect("a target that is ready lets hosts in")
}

impl Known {
    /// Loads the target until it is killed; returns how many writes it acknowledged.
    fn load(&mut self, export: Export) -> usize {
        let writers = WRITTEN.map(|lun| log_in(&export, 2 + lun));
        let counters: Vec<_> =
            (0..COUNTERS_PER_DISK * 2).map(|n| log_in(&export, 10 + n)).collect();
        let registrant = log_in(&export, 20);
        let life = Duration::from_millis(fastrand::u64(LIFE_MS));
        let Self { ledgers, counters: counted, registered } = self;
        thread::scope(|scope| {
            scope.spawn(move || load::register(registrant, RESERVED, registered, Duration::ZERO));
            let writing =
                writers.into_iter().zip(WRITTEN).zip(ledgers).map(|((host, lun), ledger)| {
                    scope.spawn(move || load::write(host, lun, ledger))
                });
            let writing: Vec<_> = writing.collect();
            let counting = counters
                .into_iter()
                .zip(WRITTEN.into_iter().cycle())
                .map(|(host, lun)| (lun, scope.spawn(move || load::count(host, lun, COUNTER_LBA))));
            let counting: Vec<_> = counting.collect();
            thread::sleep(life);
            export.crash();
            for (lun, host) in counting {
                counted[usize::from(lun)] += host.join().expect("a sound host");
            }
            writing.into_iter().map(|host| host.join().expect("a sound host")).sum()
        })
    }

    /// Looks for all that was acknowledged.
    fn verify(&mut self, host: &mut Host) -> Result<(), String> {
        for (lun, ledger) in WRITTEN.into_iter().zip(&mut self.ledgers) {
            load::verify(host, lun, ledger)?;
        }
        for (lun, known) in WRITTEN.into_iter().zip(&mut self.counters) {
            load::verify_counter(host, lun, COUNTER_LBA, known)?;
        }
        load::verify_registered(host, RESERVED, &mut self.registered)
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_kill_9() {
    let rounds = rounds(ROUNDS_DEFAULT);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut known = Known {
        ledgers: [Ledger::new(LEDGER_BLOCKS), Ledger::new(LEDGER_BLOCKS)],
        counters: Default::default(),
        registered: Registered::default(),
    };
    let mut writes = 0;
    for round in 0..=rounds {
        let export = start(dir.path());
        if let Err(what) = known.verify(&mut log_in(&export, 1)) {
            panic!("after crash {round} and {writes} writes: {what}");
        }
        if round < rounds {
            writes += known.load(export);
        }
    }
    let [durable, volatile] = known.counters.map(|known| known.acknowledged);
    let keys = known.registered.acknowledged;
    println!("{rounds} crashes: {writes} writes, {durable} + {volatile} increments, {keys} keys");
    assert!(writes > rounds && durable > 0 && volatile > 0 && keys > 0, "there was no load");
}
