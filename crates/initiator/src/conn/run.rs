//! The three loops of a connection: the reader, the sender, and the watch that knows the time.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ring::SendBatch;

use super::receive::{Receiver, Want};
use super::{Connection, Ending};
use crate::answer::until;

/// Looking more often than this costs more than it finds.
const LOOK_MIN: Duration = Duration::from_millis(20);

/// Runs a connection to its end. `early` holds bytes that came with the last login PDU.
pub(crate) async fn serve(conn: &Rc<Connection>, early: &[u8]) -> Ending {
    let sending = conn.clone();
    ring::spawn(async move {
        if send_loop(&sending).await.is_err() {
            sending.end(Ending::Closed);
        }
        sending.drained.set(true);
        sending.ended.notify();
    });
    ring::spawn(watch(conn.clone()));
    let ending = match read_loop(conn, early).await {
        Ok(()) => Ending::Closed,
        Err(ending) => ending,
    };
    conn.end(ending);
    // Only then is it certain that nothing more of this connection leaves.
    until(&conn.ended, || conn.drained.get()).await;
    conn.ending()
}

async fn read_loop(conn: &Rc<Connection>, early: &[u8]) -> Result<(), Ending> {
    let mut receiver = Receiver::new(conn.clone());
    let mut want = receiver.feed(early)?;
    while !conn.is_ending() {
        want = match want {
            Want::Direct(place, range) => {
                let (place, result) = conn.stream.recv_exact(place, range.clone()).await;
                conn.heard_at.set(ring::now());
                receiver.give_back(place);
                result.map_err(|_| Ending::Closed)?;
                receiver.direct_done(&range)?
            }
            Want::Chunk => {
                let chunk = conn.stream.recv().await.map_err(|_| Ending::Closed)?;
                if chunk.is_empty() {
                    return Ok(());
                }
                conn.heard_at.set(ring::now());
                receiver.feed(&chunk)?
            }
        };
    }
    Ok(())
}

/// Sends what a turn has queued, in one piece at its end.
async fn send_loop(conn: &Connection) -> io::Result<()> {
    let mut spare = SendBatch::new();
    loop {
        until(&conn.out_bell, || conn.queued_bytes() > 0 || conn.is_ending()).await;
        if conn.is_ending() {
            return Ok(());
        }
        ring::turn_end().await;
        let batch = conn.out.replace(spare);
        conn.sending_since.set(Some(ring::now()));
        let (batch, result) = conn.stream.send(batch).await;
        conn.sending_since.set(None);
        spare = batch;
        result?;
    }
}

/// Watches what only time can tell: a silent target, one that stopped reading, commands whose time
/// is up.
async fn watch(conn: Rc<Connection>) {
    loop {
        let session = conn.session.clone();
        ring::sleep(session.look_interval().max(LOOK_MIN)).await;
        if conn.is_ending() {
            return;
        }
        let now = ring::now();
        let options = &session.options;
        if past(conn.sending_since.get(), options.nop_timeout, now) {
            return conn.end(Ending::Stalled("stopped reading"));
        }
        let silent = now.saturating_duration_since(conn.heard_at.get());
        match conn.ping_since.get() {
            // A target that sends anything at all is alive.
            Some(since) if past(Some(since.max(conn.heard_at.get())), options.nop_timeout, now) => {
                return conn.end(Ending::Stalled("did not answer a NOP-Out"));
            }
            None if silent >= options.nop_interval => session.ping(&conn),
            _ => {}
        }
        session.abort_late(&conn, now);
    }
}

fn past(since: Option<Instant>, limit: Duration, now: Instant) -> bool {
    since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
}
