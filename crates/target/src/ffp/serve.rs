//! A connection from its login to its end: the reader, and the supervisor that watches time, beside the
//! sender of its datamover.

use std::rc::Rc;
use std::time::{Duration, Instant};

use ring::RecvBuf;

use super::receive::{Receiver, Want};
use crate::quiet::{PROTOCOL, STALL, quietly};
use crate::session::{Connection, Ending, Pace};

/// How often a payload that found no memory looks again.
const MEMORY_PAUSE: Duration = Duration::from_millis(2);

/// How long a command waits for memory for the data that came with it, and the connection with it.
/// What holds the memory could wait for what is behind it.
const COMMAND_PATIENCE: Duration = Duration::from_secs(2);

/// And anything else, of which a host cannot be told to send it again: its connection ends then. Nobody
/// sees meanwhile that the host has gone, and there may never be as much as it asks for.
const DATA_PATIENCE: Duration = Duration::from_secs(5);

/// How long a peer may take its last answers when the target stops: it was asked to go before that.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs a connection to its end. `early` holds bytes that came with the last login PDU.
pub(crate) async fn serve(conn: Rc<Connection>, early: Vec<u8>) {
    let sending = conn.clone();
    ring::spawn(async move {
        if sending.mover.send_all().await.is_err() {
            sending.end(Ending::Closed);
        }
        // Wakes a reader that still waits, whatever ended the connection.
        sending.mover.close();
        sending.mover.drained.set();
    });
    ring::spawn(supervise(conn.clone()));
    let ending = read_loop(&conn, &early).await;
    conn.end(ending);
    conn.mover.drained.wait().await;
    report(&conn);
    conn.session.connection_ended(&conn);
}

fn report(conn: &Connection) {
    let peer = conn.peer;
    let initiator = &conn.session.initiator;
    match conn.ending() {
        Some(Ending::Fault(fault)) => {
            quietly!(PROTOCOL, warn, "dropped the connection of {initiator} at {peer}: {fault}");
        }
        Some(Ending::Stalled(what)) => {
            quietly!(STALL, warn, "dropped the connection of {initiator} at {peer}: {what}");
        }
        Some(ending) => tracing::debug!("connection of {initiator} at {peer} ended: {ending:?}"),
        None => {}
    }
}

async fn read_loop(conn: &Rc<Connection>, early: &[u8]) -> Ending {
    let mut receiver = Receiver::new(conn.clone());
    match read_until_end(conn, &mut receiver, early).await {
        Ok(()) => Ending::Closed,
        Err(ending) => ending,
    }
}

async fn read_until_end(
    conn: &Rc<Connection>,
    receiver: &mut Receiver,
    early: &[u8],
) -> Result<(), Ending> {
    let mut want = feed(conn, receiver, early).await?;
    let mut pdu = None;
    while !conn.is_ending() {
        if !conn.mover.has_room() {
            // It cannot go on sending while nobody reads.
            (pdu, _) = (None, conn.mover.receiving_since.take());
            conn.wait_for_room().await;
        }
        want = match want {
            Want::Direct(place, range) => {
                let (place, result) = conn.mover.receive_into(place, range.clone()).await;
                result.map_err(|_| Ending::Closed)?;
                receiver.direct_done(place, range).map_err(Ending::Fault)?
            }
            Want::Chunk | Want::Memory => {
                let chunk = conn.mover.receive().await.map_err(|_| Ending::Closed)?;
                if chunk.is_empty() {
                    return Ok(());
                }
                take_in(conn, receiver, chunk).await?
            }
        };
        // All of a PDU must come in time, not only the next bit of it.
        let current = receiver.current_pdu();
        if std::mem::replace(&mut pdu, current) != current {
            conn.mover.receiving_since.set(current.map(|_| ring::now()));
        }
    }
    Ok(())
}

/// Feeds a chunk. What has to wait does so outside the receive buffer, of which a core has few.
async fn take_in(
    conn: &Rc<Connection>,
    receiver: &mut Receiver,
    chunk: RecvBuf,
) -> Result<Want, Ending> {
    let (used, want) = receiver.feed(&chunk).map_err(Ending::Fault)?;
    if used == chunk.len() && !matches!(want, Want::Memory) {
        return Ok(want);
    }
    let rest = chunk[used..].to_vec();
    drop(chunk);
    feed(conn, receiver, &rest).await
}

/// Feeds all of `bytes`, waiting where a payload finds no memory, or the peer does not take the
/// answers.
async fn feed(
    conn: &Rc<Connection>,
    receiver: &mut Receiver,
    mut bytes: &[u8],
) -> Result<Want, Ending> {
    let mut starved_at = None;
    loop {
        let (used, want) = receiver.feed(bytes).map_err(Ending::Fault)?;
        bytes = &bytes[used..];
        if matches!(want, Want::Memory) {
            let since = *starved_at.get_or_insert_with(ring::now);
            let waited = ring::now() - since;
            if waited >= conn.session.shared.limits.stall_timeout.min(DATA_PATIENCE) {
                return Err(Ending::Stalled("there was no memory for its data"));
            }
            if waited >= COMMAND_PATIENCE {
                receiver.give_up();
            }
            ring::sleep(MEMORY_PAUSE).await;
        } else if bytes.is_empty() || conn.is_ending() {
            return Ok(want);
        } else {
            conn.wait_for_room().await;
        }
        if used > 0 {
            starved_at = None;
        }
    }
}

/// Watches what only time can tell: peers that went silent, stopped reading, or never send the
/// data they announced.
async fn supervise(conn: Rc<Connection>) {
    let limits = conn.session.shared.limits.clone();
    let mut pace = Pace::of(&conn);
    loop {
        let pause = next_look(&conn, limits.nop_interval, limits.stall_timeout);
        if ring::timeout(pause, conn.mover.ended.wait()).await.is_some() {
            // What is still to be sent must go in time, too.
            let patience = match conn.ending() {
                Some(Ending::Shutdown | Ending::NotAdmitted) => {
                    LAST_WORDS.min(limits.stall_timeout)
                }
                _ => limits.stall_timeout,
            };
            if ring::timeout(patience, conn.mover.drained.wait()).await.is_none() {
                conn.mover.close();
            }
            return;
        }
        let now = ring::now();
        if past(conn.mover.sending_since(), limits.stall_timeout, now) {
            return conn.end(Ending::Stalled("it stopped reading"));
        }
        if past(conn.mover.receiving_since.get(), limits.stall_timeout, now) {
            return conn.end(Ending::Stalled("it stopped in the middle of a PDU"));
        }
        if pace.is_below(limits.stall_timeout, &conn, conn.session.missing_bytes(&conn)) {
            return conn.end(Ending::Stalled("it never sent the data it announced"));
        }
        if past(conn.session.early.borrow().waiting_since(&conn), limits.stall_timeout, now) {
            return conn.end(Ending::Stalled("the commands before its own never came"));
        }
        match conn.ping.get() {
            // A peer that sends anything at all is alive.
            Some(ping) if now - ping.since.max(conn.mover.heard_at.get()) >= limits.nop_timeout => {
                return conn.end(Ending::Stalled("it did not answer a NOP-In"));
            }
            Some(_) => {}
            None if now - conn.mover.heard_at.get() >= limits.nop_interval => conn.push_ping(),
            None => {}
        }
    }
}

/// Idle connections are looked at once per NOP interval; others as often as their limits need.
fn next_look(conn: &Connection, nop_interval: Duration, stall: Duration) -> Duration {
    let limits = &conn.session.shared.limits;
    if conn.mover.sending_since().is_some() || conn.mover.receiving_since.get().is_some() {
        return stall.min(nop_interval) / 2;
    }
    match conn.ping.get() {
        Some(_) => limits.nop_timeout,
        None => {
            let silent = ring::now() - conn.mover.heard_at.get();
            nop_interval.saturating_sub(silent).max(nop_interval / 16).min(stall)
        }
    }
}

fn past(since: Option<Instant>, limit: Duration, now: Instant) -> bool {
    since.is_some_and(|since| now - since >= limit)
}
