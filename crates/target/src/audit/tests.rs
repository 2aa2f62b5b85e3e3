//! That nobody waits, and that nothing is lost without a count.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::feed::{Feed, QUEUE_LEN_MAX};
use super::flood::{Flood, REFUSALS_TIME, Verdict};
use super::{AccessEvent, AccessListener, Happened, Missed, REFUSALS_TOLD_MAX, RefusalKind, Who};

const PATIENCE: Duration = Duration::from_secs(20);

/// Takes an event when the test lets it.
#[derive(Debug)]
struct Slow {
    heard: Sender<Happened>,
    may_go_on: Mutex<Receiver<()>>,
}

impl AccessListener for Slow {
    fn hear(&self, event: &AccessEvent) {
        self.heard.send(event.what.clone()).ok();
        self.may_go_on.lock().expect("one thread").recv().ok();
    }
}

fn slow() -> (Feed, Receiver<Happened>, Sender<()>) {
    let ((heard, hears), (go_on, may_go_on)) = (channel(), channel());
    let listener = Slow { heard, may_go_on: Mutex::new(may_go_on) };
    (Feed::new(Some(Arc::new(listener))).expect("a thread"), hears, go_on)
}

fn who(last_byte: u8) -> Who {
    let from = SocketAddr::from(([192, 0, 2, last_byte], 1));
    Who { initiator: None, chap_user: None, target: None, from, portal: from }
}

fn logged_in(cid: u16) -> Happened {
    Happened::LoggedIn { who: who(1), tsih: 1, cid }
}

fn refused(last_byte: u8) -> Happened {
    let reason = "why".to_owned();
    Happened::Refused { who: who(last_byte), why: RefusalKind::Authentication, reason }
}

#[test]
fn a_listener_that_hangs_keeps_nobody_and_what_it_misses_is_counted() {
    let (feed, hears, go_on) = slow();
    feed.push(|| logged_in(0));
    assert_eq!(hears.recv_timeout(PATIENCE), Ok(logged_in(0)));
    // It has one in its hands: the queue takes so many, and then counts.
    for cid in 0..QUEUE_LEN_MAX + 7 {
        feed.push(|| logged_in(u16::try_from(cid).expect("a short queue")));
    }
    (0..3).for_each(|from| feed.push(|| refused(from)));
    feed.push(|| Happened::Ended { who: who(1), tsih: 1, reason: "it left".to_owned() });
    drop(go_on);
    let heard: Vec<_> =
        (0..=QUEUE_LEN_MAX).map(|_| hears.recv_timeout(PATIENCE).expect("it goes on")).collect();
    assert_eq!(
        heard.last(),
        Some(&Happened::Missed(Missed { logged_in: 7, refused: 3, ended: 1 }))
    );
    assert_eq!(heard[QUEUE_LEN_MAX - 1], logged_in(u16::try_from(QUEUE_LEN_MAX - 1).unwrap()));
    feed.push(|| logged_in(9));
    feed.end();
    assert_eq!(hears.try_recv(), Ok(logged_in(9)), "the end waits for the last");
}

#[test]
fn a_flood_of_one_address_is_a_count_and_others_are_told() {
    let (feed, hears, go_on) = slow();
    drop(go_on);
    for _ in 0..1000 {
        feed.push(|| refused(1));
    }
    feed.push(|| refused(2));
    feed.end();
    let heard: Vec<_> = hears.try_iter().collect();
    let told = |event: &Happened| heard.iter().filter(|heard| *heard == event).count() as u64;
    assert_eq!((told(&refused(1)), told(&refused(2))), (REFUSALS_TOLD_MAX, 1));
    let more = Happened::RefusedMore {
        from: IpAddr::from([192, 0, 2, 1]),
        count: 1000 - REFUSALS_TOLD_MAX,
    };
    assert_eq!(told(&more), 1, "{heard:?}");
    assert_eq!(heard.len() as u64, REFUSALS_TOLD_MAX + 2);
}

#[test]
fn a_host_that_sets_and_clears_write_protection_all_the_time_fills_no_queue() {
    let (feed, hears, go_on) = slow();
    drop(go_on);
    let changed = |on| Happened::WriteProtection { who: who(1), unit: "db".to_owned(), on };
    for n in 0..2 * QUEUE_LEN_MAX {
        feed.push(|| changed(n % 2 == 0));
    }
    feed.push(|| refused(1));
    feed.push(|| logged_in(1));
    feed.end();
    let heard: Vec<_> = hears.try_iter().collect();
    let told = heard.iter().filter(|event| matches!(event, Happened::WriteProtection { .. }));
    assert_eq!(told.count() as u64, REFUSALS_TOLD_MAX);
    assert_eq!(
        heard[REFUSALS_TOLD_MAX as usize..],
        [refused(1), logged_in(1)],
        "nothing is missed"
    );
}

#[test]
fn what_was_held_back_is_told_when_its_time_is_over() {
    let (mut flood, start) = (Flood::default(), Instant::now());
    let from = IpAddr::from([192, 0, 2, 1]);
    for _ in 0..REFUSALS_TOLD_MAX {
        assert_eq!(flood.may_tell(from, start), Verdict::Tell);
    }
    assert_eq!(flood.may_tell(from, start), Verdict::HoldBack);
    let mapped = "::ffff:192.0.2.1".parse().unwrap();
    assert_eq!(flood.may_tell(mapped, start), Verdict::HoldBack, "the same host");
    assert_eq!(flood.over(start), []);
    assert_eq!(flood.next(), Some(start + REFUSALS_TIME));
    assert_eq!(flood.over(start + REFUSALS_TIME), [(from, 2)]);
    assert_eq!((flood.next(), flood.may_tell(from, start)), (None, Verdict::Tell));
}

#[test]
fn addresses_are_told_apart_up_to_a_bound() {
    let (mut flood, now) = (Flood::default(), Instant::now());
    let verdicts: Vec<_> =
        (0..2000_u32).map(|n| flood.may_tell(IpAddr::V4(n.into()), now)).collect();
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Tell).count(), 1024);
    assert_eq!(verdicts.last(), Some(&Verdict::TooMany));
}

#[test]
fn without_a_listener_nothing_is_even_made() {
    let feed = Feed::new(None).expect("no thread is needed");
    feed.push(|| panic!("nobody hears it"));
    feed.end();
}
