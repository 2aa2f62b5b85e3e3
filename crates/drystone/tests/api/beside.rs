//! What the data path feels of those who ask the interface: rounds with and without them take turns in one run.

use crate::common::member::Member;
use crate::host::Host;
use crate::http;
use crate::process::cpu_time;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// READ (10) of 4 KiB at the start of a volume.
const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];

/// Reads that are under way at once where what each costs is measured.
const DEPTH: usize = 16;

/// What one round found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// The 99th percentile of reads, one after the other.
    pub(crate) p99: Duration,
}

/// What reads cost in one round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Processor time of the member for each read, whatever it was spent on.
    pub(crate) cpu: Duration,
    /// Reads in a second.
    pub(crate) reads_per_second: f64,
}

/// What was found without, and with.
pub(crate) type Rounds<T> = (Vec<T>, Vec<T>);

/// Runs `one` in turns without and with somebody who does `ask` again and again, with this pause from one to the
/// next.
fn take_turns<T>(
    rounds: usize,
    pause: Duration,
    mut ask: impl FnMut() + Send,
    mut one: impl FnMut() -> T,
) -> Rounds<T> {
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(one());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let next = Instant::now() + pause;
                    ask();
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            });
            beside.push(one());
            is_over.store(true, Ordering::Relaxed);
        });
    }
    (alone, beside)
}

/// A request whose answer is good.
fn get(socket: &Path, path: &str) {
    assert_eq!(http::ask(socket, "GET", path, &[], None).status, 200, "{path}");
}

/// How long reads take, one after the other, without and with 100 requests a second.
pub(crate) fn requests(
    member: &Member<'_>,
    host: &mut Host,
    (rounds, time): (usize, Duration),
) -> Rounds<Round> {
    let socket = member.home.socket();
    let paths = ["/v1/volumes/v1", "/v1/figures", "/v1/jobs", "/v1/array"];
    let mut paths = paths.into_iter().cycle();
    let ask = move || get(&socket, paths.next().expect("they are without end"));
    take_turns(rounds, Duration::from_millis(10), ask, || Round { p99: p99(host, time) })
}

/// The 99th percentile of reads of 4 KiB, one after the other.
fn p99(host: &mut Host, time: Duration) -> Duration {
    let end = Instant::now() + time;
    let mut all = Vec::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let answer = host.run(0, &READ, 4096, &[]).expect("an answer");
        assert!(answer.is_good(), "{answer:?}");
        all.push(begun.elapsed());
    }
    all.sort();
    all[all.len() * 99 / 100]
}

/// What a read costs without and with metrics that are read once in each round.
pub(crate) fn metrics(
    member: &Member<'_>,
    host: &mut Host,
    (rounds, time): (usize, Duration),
) -> Rounds<Cost> {
    let socket = member.home.socket();
    let ask = move || get(&socket, "/metrics");
    take_turns(rounds, time, ask, || cost(member, host, time))
}

fn cost(member: &Member<'_>, host: &mut Host, time: Duration) -> Cost {
    let (begun, before) = (Instant::now(), cpu_time(member));
    let mut reads = 0_u32;
    for _ in 0..DEPTH {
        host.start(0, &READ, 4096, &[]).expect("it is sent");
    }
    let mut under_way = DEPTH;
    while under_way > 0 {
        let answer = host.finish().expect("an answer");
        assert!(answer.is_good(), "{answer:?}");
        reads += 1;
        under_way -= 1;
        if begun.elapsed() < time {
            host.start(0, &READ, 4096, &[]).expect("it is sent");
            under_way += 1;
        }
    }
    let reads_per_second = f64::from(reads) / begun.elapsed().as_secs_f64();
    Cost { cpu: (cpu_time(member) - before) / reads, reads_per_second }
}
