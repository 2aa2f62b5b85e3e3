//! Reading back all that was written.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::bench::{Bench, BenchError};
use super::worker::compare;
use super::{Event, Listener};
use crate::measure::{Figures, IoError, Pair, StepFigures, Validation, own_cpu};
use crate::nbd::take_faults;

/// How much is read at once.
const READ_BYTES: u64 = 256 << 10;
/// How often it is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// Reads all that the ledger knows and compares it; `when` names the step.
pub(super) async fn check_all(
    bench: &Rc<Bench>,
    when: &str,
    listener: &Listener,
) -> Result<StepFigures, BenchError> {
    let (started, cpu) = (Instant::now(), own_cpu());
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut sweep = Sweep { pair: Pair::new(3), errors: Vec::new(), compared: 0, unknown: 0 };
    let ranges = ranges(bench);
    let all: u64 = ranges.iter().map(|(_, _, len)| len).sum();
    let (mut seen, mut told) = (0, Instant::now());
    for (volume, at, len) in ranges {
        let is_over = bench.options().stop.load(Ordering::Relaxed)
            || sweep.errors.len() as u64 + bench.mismatch_count() >= bench.options().mismatches_max;
        if is_over {
            break;
        }
        sweep.read(bench, volume, (at, len), started).await;
        seen += len;
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            listener(&Event::Checking(seen, all));
        }
    }
    listener(&Event::Checking(seen, all));
    let seconds = started.elapsed().as_secs_f64();
    let total = Figures::of(&sweep.pair.read, seconds);
    let wrong = bench.take_wrong();
    let figures = StepFigures {
        name: format!("validate-{when}"),
        what: format!("read all that was written and compare it: {all} bytes"),
        started_unix_s,
        seconds,
        asked_iops: None,
        read: total.clone(),
        write: Figures::default(),
        mean_queue_depth: 1.0,
        lab_cpu_us_per_io: (own_cpu() - cpu).as_secs_f64() * 1e6 / total.ios.max(1) as f64,
        target_cpu_us_per_io: None,
        total,
        volumes: Vec::new(),
        paths: Vec::new(),
        retries: 0,
        intervals: Vec::new(),
        sessions: None,
        error_count: sweep.errors.len() as u64,
        errors: sweep.errors,
        stalls: Vec::new(),
        longest_pause_s: 0.0,
        longest_pause_frozen_s: 0.0,
        freezes: Vec::new(),
        target_faults: take_faults(),
        validation: Validation {
            is_on: true,
            compared_bytes: sweep.compared,
            unknown_bytes: sweep.unknown,
            mismatch_count: wrong.count,
            again_count: wrong.again_count,
            mismatches: wrong.first,
        },
        was_stopped: bench.options().stop.load(Ordering::Relaxed),
    };
    listener(&Event::Ended(&figures));
    Ok(figures)
}

/// All written ranges, with their volumes.
fn ranges(bench: &Bench) -> Vec<(usize, u64, u64)> {
    let Some(ledger) = bench.ledger() else { return Vec::new() };
    let ledger = ledger.borrow();
    let of = |volume: usize| {
        let number = u16::try_from(volume).expect("a run has fewer than 65,536 volumes");
        let ranges = ledger.written(number, READ_BYTES);
        ranges.into_iter().map(move |(at, len)| (volume, at, len))
    };
    (0..bench.volumes().len()).flat_map(of).collect()
}

struct Sweep {
    pair: Pair,
    errors: Vec<IoError>,
    compared: u64,
    unknown: u64,
}

impl Sweep {
    async fn read(&mut self, bench: &Bench, index: usize, place: (u64, u64), started: Instant) {
        let (volumes, (at, len)) = (bench.volumes(), place);
        let volume = &volumes[index];
        let began = Instant::now();
        let error = match bench.wait_for(volume.device.read(at, len as usize)).await {
            None => "it did not come back".to_owned(),
            Some(data) => {
                let compared = data.and_then(|data| {
                    self.pair.read.add(len as u32, began.elapsed());
                    compare(bench, index, at, &data)
                });
                match compared {
                    Ok(compared) => {
                        self.compared += compared.bytes;
                        self.unknown += len - compared.bytes;
                        let Some(late) = compared.late else { return };
                        late.to_string()
                    }
                    Err(error) => error.to_string(),
                }
            }
        };
        self.errors.push(IoError {
            at_s: started.elapsed().as_secs_f64(),
            volume: volume.name.clone(),
            operation: "read".to_owned(),
            at_bytes: at,
            len_bytes: len,
            error,
        });
    }
}
