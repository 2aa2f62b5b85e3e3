//! A connection from its login to its end: the reader, and the watch that knows the time, beside the sender
//! of its datamover.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connection::{Connection, Ending};
use super::receive::{Receiver, Want};

/// Looking more often than this costs more than it finds.
const LOOK_MIN: Duration = Duration::from_millis(20);

/// Sending as often in a row without an acknowledgement takes the kernel 1.4 s and more.
const RETRANSMITS_CUT: u8 = 3;

/// Looks without a command under way after which the next ones are rare.
const IDLE_LOOKS: u32 = 8;

/// Runs a connection to its end. `early` holds bytes that came with the last login PDU.
pub(super) async fn serve(conn: &Rc<Connection>, early: &[u8]) -> Ending {
    let sending = conn.clone();
    ring::spawn(async move {
        if sending.mover.send_all().await.is_err() {
            sending.end(Ending::Closed);
        }
        sending.drained.set(true);
        sending.ended.ring();
    });
    ring::spawn(watch(conn.clone()));
    let ending = match read_loop(conn, early).await {
        Ok(()) => Ending::Closed,
        Err(ending) => ending,
    };
    conn.end(ending);
    // Only then is it certain that nothing more of this connection leaves.
    conn.ended.until(|| conn.drained.get()).await;
    conn.ending()
}

async fn read_loop(conn: &Rc<Connection>, early: &[u8]) -> Result<(), Ending> {
    let mut receiver = Receiver::new(conn.clone());
    let mut want = receiver.feed(early)?;
    while !conn.is_ending() {
        want = match want {
            Want::Direct(place, range) => {
                let (place, result) = conn.mover.receive_into(place, range.clone()).await;
                let want = receiver.direct_done(place, range, result.is_ok())?;
                result.map_err(|_| Ending::Closed)?;
                want
            }
            Want::Chunk => {
                let chunk = conn.mover.receive().await.map_err(|_| Ending::Closed)?;
                if chunk.is_empty() {
                    return Ok(());
                }
                receiver.feed(&chunk)?
            }
        };
    }
    Ok(())
}

/// Watches what only time can tell: a silent target, one that stopped reading, commands whose time
/// is up. While commands are under way it looks often.
async fn watch(conn: Rc<Connection>) {
    let mut idle_looks = 0;
    loop {
        let session = conn.session.clone();
        let rest = session.look_interval().max(LOOK_MIN);
        if idle_looks < IDLE_LOOKS {
            ring::sleep(rest.min(session.options.probe_interval / 2)).await;
        } else {
            conn.is_watched.set(false);
            ring::timeout(rest, conn.busy.rung()).await;
            conn.is_watched.set(true);
        }
        if conn.is_ending() {
            return;
        }
        let is_busy = conn.in_flight.get() > 0;
        idle_looks = if is_busy { 0 } else { idle_looks + 1 };
        let now = ring::now();
        if let Err(ending) = listen(&conn, is_busy, now) {
            return conn.end(ending);
        }
        session.abort_late(&conn, now);
    }
}

/// Whether something is heard of the target, which is asked for a sign of life where it is not.
fn listen(conn: &Connection, is_busy: bool, now: Instant) -> Result<(), Ending> {
    let (session, options) = (&conn.session, &conn.session.options);
    if past(conn.mover.sending_since(), options.nop_timeout, now) {
        return Err(Ending::Stalled("stopped reading"));
    }
    let silent = now.saturating_duration_since(conn.mover.heard_at());
    let interval = if is_busy { options.probe_interval } else { options.nop_interval };
    match conn.ping_since.get() {
        // A target that sends anything at all is alive.
        Some(since) if past(Some(since.max(conn.mover.heard_at())), options.nop_timeout, now) => {
            return Err(Ending::Stalled("did not answer a NOP-Out"));
        }
        None if silent >= interval => session.ping(conn),
        _ => {}
    }
    let asked =
        conn.ping_since.get().filter(|_| is_busy).map(|since| since.max(conn.mover.heard_at()));
    if past(asked, options.cut_timeout, now) && conn.mover.is_undelivered(RETRANSMITS_CUT) {
        return Err(Ending::Stalled("cannot be reached"));
    }
    session.set_silent(conn, past(asked, options.silence, now));
    Ok(())
}

fn past(since: Option<Instant>, limit: Duration, now: Instant) -> bool {
    since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
}
