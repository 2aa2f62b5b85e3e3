//! Tests of the load client's parts; the whole is tested against the plain server in `plain`.

use std::io::{self, Write};
use std::time::Duration;

use super::plan::{IoStream, XorShift};
use super::*;

fn plan() -> Plan {
    Plan {
        read_percent: 67,
        order: Order::Random,
        io_bytes: 4096,
        depth: 4,
        sessions: 2,
        warmup: Duration::ZERO,
        measure: Duration::from_millis(10),
        area_bytes: 1 << 20,
        verify: false,
        ios_max: None,
    }
}

/// A socket that takes at most `take` bytes per call, and says "would block" every other time.
struct Narrow {
    took: Vec<u8>,
    take: usize,
    blocked: bool,
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.blocked = !self.blocked;
        if !self.blocked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let before = self.took.len();
        for slice in slices {
            let room = self.take - (self.took.len() - before);
            self.took.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        Ok(self.took.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn output_leaves_whole_and_in_order_whatever_the_socket_takes() {
    let table: Vec<u8> = (0..=255).collect();
    for take in [1, 3, 48, 49, 100, 1000, 100_000] {
        let mut socket = Narrow { took: Vec::new(), take, blocked: false };
        let mut out = Output::default();
        let mut expected = Vec::new();
        let mut random = XorShift::new(take as u64);
        for round in 0..3000_u64 {
            let head = [round as u8; 48];
            out.push_head(&head);
            expected.extend_from_slice(&head);
            let len = (random.draw() % 40) as usize;
            out.push_table(len..2 * len);
            expected.extend_from_slice(&table[len..2 * len]);
            if round % 7 == 0 {
                out.flush(&mut socket, &table).unwrap();
            }
        }
        while out.queued_bytes() > 0 {
            out.flush(&mut socket, &table).unwrap();
        }
        assert!(socket.took == expected, "{take} bytes per call");
    }
}

#[test]
fn output_sends_a_turn_in_one_call() {
    let mut out = Output::default();
    for _ in 0..100 {
        out.push_head(&[1; 48]);
        out.push_table(0..10);
    }
    let calls = out.flush(&mut Vec::new(), &[7; 10]).unwrap();
    assert_eq!(calls, 1);
    assert_eq!(out.queued_bytes(), 0);
}

#[test]
fn frames_are_the_same_however_the_stream_is_cut() {
    let mut stream = Vec::new();
    for (index, len) in [0_usize, 5, 0, 100, 1].into_iter().enumerate() {
        let mut head = [index as u8; HEAD_BYTES];
        head[47] = len as u8;
        stream.extend_from_slice(&head);
        stream.extend(std::iter::repeat_n(0xaa, len));
    }
    for cut in 1..=stream.len() {
        let mut frames = Frames::<HEAD_BYTES>::default();
        let (mut heads, mut payload, mut ends) = (Vec::new(), 0, 0);
        for chunk in stream.chunks(cut) {
            let mut input = chunk;
            while let Some(frame) = frames.next(&mut input) {
                match frame {
                    Frame::Head(head) => {
                        heads.push(head[0]);
                        frames.expect_payload(usize::from(head[47]));
                    }
                    Frame::Payload { bytes, last } => {
                        assert!(bytes.iter().all(|&byte| byte == 0xaa));
                        payload += bytes.len();
                        ends += usize::from(last);
                    }
                }
            }
            assert!(input.is_empty());
        }
        assert_eq!((heads, payload, ends), (vec![0, 1, 2, 3, 4], 106, 3), "cut {cut}");
    }
}

#[test]
fn pattern_tells_addresses_apart() {
    let pattern = Pattern::new(8192);
    let bytes = pattern.bytes()[Pattern::range(40_960, 0, 8192)].to_vec();
    assert!(pattern.matches(40_960, 0, &bytes));
    assert!(pattern.matches(40_960, 512, &bytes[512..]));
    let same = (0..1000_u64).filter(|at| pattern.matches(at * 4096, 0, &bytes)).count();
    assert!(same <= 5, "{same} of 1000 addresses have the content of one");
    let mut wrong = bytes;
    wrong[8191] ^= 1;
    assert!(!pattern.matches(40_960, 0, &wrong));
}

#[test]
fn streams_stay_in_their_area_and_keep_their_mix() {
    let mut stream = IoStream::new(&plan(), 0);
    let ios: Vec<Io> = (0..10_000).map(|_| stream.draw()).collect();
    assert!(ios.iter().all(|io| io.at % 4096 == 0 && io.at + 4096 <= 1 << 20));
    let reads = ios.iter().filter(|io| io.read).count();
    assert!((6400..7000).contains(&reads), "{reads} of 10000 are reads");
    for (percent, reads) in [(0, 0), (100, 50)] {
        let mut stream = IoStream::new(&Plan { read_percent: percent, ..plan() }, 0);
        assert_eq!((0..50).filter(|_| stream.draw().read).count(), reads);
    }
}

#[test]
fn sequential_sessions_start_apart_and_wrap() {
    let plan = Plan { order: Order::Sequential, ..plan() };
    let mut first = IoStream::new(&plan, 0);
    let mut second = IoStream::new(&plan, 1);
    assert_eq!(first.draw().at, 0);
    assert_eq!(first.draw().at, 4096);
    assert_eq!(second.draw().at, 512 << 10);
    let last = (0..127).map(|_| second.draw().at).last();
    assert_eq!(last, Some((1 << 20) - 4096));
    assert_eq!(second.draw().at, 0);
}

#[test]
fn tally_reports_rates_shares_and_quantiles() {
    let mut tally = Tally::new(2);
    for us in 1..=100 {
        let failure = (us == 7).then(|| "sense".to_owned());
        tally.complete(usize::from(us > 25), Duration::from_micros(us), failure);
    }
    tally.elapsed = Duration::from_secs(2);
    tally.client_cpu = Duration::from_micros(300);
    let report = tally.report(4096);
    assert_eq!((report.ios, report.errors), (100, 1));
    assert_eq!(report.first_error.as_deref(), Some("sense"));
    assert!((report.iops - 50.0).abs() < 1e-9);
    assert!((report.mb_per_s - 0.2048).abs() < 1e-9);
    assert!((report.latency_us_p50 - 50.0).abs() < 0.2);
    assert!((report.latency_us_p99 - 99.0).abs() < 0.2);
    assert!((report.client_cpu_us_per_io - 3.0).abs() < 1e-9);
    assert!((report.session_share_min - 0.5).abs() < 1e-9);
    assert!((report.latency_us_max - 100.0).abs() < 1e-9);
    assert!(report.to_text().contains("first error: sense"));
    let back: LoadReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(back, report);
}

#[test]
fn tally_knows_the_longest_answer_and_the_seconds_without_one() {
    let mut tally = Tally::new(1);
    let ms = Duration::from_millis;
    tally.complete(0, ms(900), None);
    tally.answered_at(ms(100));
    tally.reset();
    for at in [50, 990, 3200, 4001, 6100] {
        tally.complete(0, ms(2), None);
        tally.answered_at(ms(at));
    }
    tally.elapsed = ms(6150);
    let report = tally.report(4096);
    // Seconds 0, 3 and 4 of six had answers; second 6 is not whole, the warm-up does not count.
    assert_eq!((report.ios, report.silent_seconds), (5, 3));
    assert!((report.latency_us_max - 2000.0).abs() < 1e-9);
    assert!(report.to_text().contains("3 whole seconds without an answer"));
    tally.complete_late(ms(700), true);
    let report = tally.report(4096);
    assert_eq!((report.ios, report.errors), (5, 1), "what is late is none of the I/Os");
    assert!((report.latency_us_max - 700_000.0).abs() < 1e-9, "but somebody waited for it");
}

#[test]
fn an_empty_tally_has_no_nonsense_in_it() {
    let report = Tally::new(0).report(4096);
    for value in [report.iops, report.latency_us_mean, report.client_cpu_us_per_io] {
        assert!(value.abs() < 1e-9);
    }
}
