//! One connection of a session in full-feature phase: what is shared by its reader, its supervisor and
//! the tasks that answer through it. Its bytes are moved by a [`datamover`](crate::datamover).

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::chap::Credentials;
use iscsi::discovery::TargetText;
use iscsi::framing::FrameError;
use iscsi::login::LoginOutcome;
use iscsi::params::ConnectionParams;
use iscsi::pdu::{BHS_LEN_BYTES, NopIn, RESERVED_TAG, Reject, RejectReason};
use ring::{Buf, Stream};
use thiserror::Error;

use super::{Session, shortage};
use crate::audit::Who;
use crate::datamover::{Close, Ends, Tcp};
use crate::figures::LatencyTally;
use crate::memory::{self, Held, Owner, Use, Way};

/// What is queued for a peer that has not even said what it wants to use.
const DISCOVERY_OUTPUT_BYTES: usize = 64 << 10;

/// How often a connection that may read no more for want of memory looks again.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);

/// Who waits for memory itself has taken all but what it is being sent now.
const TAKING_TIME: Duration = Duration::from_millis(100);

/// Why a connection must be dropped (RFC 7143 §7: at ErrorRecoveryLevel 0 a connection that broke
/// the protocol cannot be mended).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Transfer(#[from] iscsi::ffp::TransferError),
    #[error("{0}")]
    Protocol(&'static str),
}

/// Why a connection ends. The first reason stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The initiator closed it or it broke.
    Closed,
    /// The initiator logged out: what is queued is still sent.
    LoggedOut,
    /// The peer broke the protocol.
    Fault(Fault),
    /// The peer went silent, or stopped reading or sending.
    Stalled(&'static str),
    /// A new connection with the same CID takes its place.
    Replaced,
    /// The session was reinstated, reset or logged out over another connection.
    SessionEnded,
    /// The target stops.
    Shutdown,
    /// The target's rules do not let it in any more.
    NotAdmitted,
}

impl Ending {
    fn close(&self) -> Close {
        match self {
            Self::LoggedOut | Self::Shutdown | Self::NotAdmitted => Close::Drained,
            Self::Stalled(_) => Close::Aborted,
            Self::Closed | Self::Fault(_) | Self::Replaced | Self::SessionEnded => Close::Shut,
        }
    }

    /// For people: why a session ended.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Closed => "its connection was closed or broke".to_owned(),
            Self::LoggedOut => "it logged out".to_owned(),
            Self::Fault(fault) => format!("it broke the protocol: {fault}"),
            Self::Stalled(what) => (*what).to_owned(),
            Self::Replaced => "a new connection took the place of its last one".to_owned(),
            Self::SessionEnded => "a new session took its place, or it was reset".to_owned(),
            Self::Shutdown => "the target was taken away, or the server stops".to_owned(),
            Self::NotAdmitted => "the target's rules do not let it in any more".to_owned(),
        }
    }
}

/// An outstanding NOP-In that asks for a sign of life (RFC 7143 §11.19).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ping {
    pub(crate) ttt: u32,
    pub(crate) since: Instant,
}

/// StatSN and the command window, as every response carries them (RFC 7143 §11.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) stat_sn: u32,
    pub(crate) exp_cmd_sn: u32,
    pub(crate) max_cmd_sn: u32,
}

/// See the module's page. Lives on the session's core.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) cid: u16,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// In the figures of which address it counts.
    pub(crate) counted_at: SocketAddr,
    /// When it was logged in.
    pub(crate) since: Instant,
    /// Who authenticated it, where somebody had to.
    pub(crate) proved: Option<Arc<Credentials>>,
    pub(crate) session: Rc<Session>,
    /// Whom its memory is counted against.
    pub(crate) owner: Rc<Owner>,
    pub(crate) mover: Rc<Tcp>,
    stat_sn: Cell<u32>,
    ending: RefCell<Option<Ending>>,
    pub(crate) ping: Cell<Option<Ping>>,
    next_ping: Cell<u32>,
    /// When one of its commands last found no memory for output.
    missed_output_at: Cell<Option<Instant>>,
    /// SCSI commands that have come.
    commands: Cell<u64>,
    /// Bytes of data that came with them.
    immediate_bytes: Cell<u64>,
    /// Bytes of Data-Out that have come for commands.
    pub(super) data_out_bytes: Cell<u64>,
    /// How long commands took that were answered over it.
    pub(crate) latency: LatencyTally,
    pub(crate) text: RefCell<TargetText>,
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        ends: Ends,
        session: Rc<Session>,
        outcome: &LoginOutcome,
    ) -> Self {
        let owner = Owner::new(&session.initiator, ends.peer.ip());
        let output_bytes_max = match session.is_discovery() {
            true => DISCOVERY_OUTPUT_BYTES,
            false => session.shared.limits.output_bytes,
        };
        // Discovery sessions count nowhere, and take no address from those that do.
        let counted_at = match session.is_discovery() {
            true => ends.local,
            false => session.shared.counted_at(ends.local),
        };
        let mover = Tcp::new(stream, outcome.connection, owner.clone(), output_bytes_max);
        Self {
            cid: outcome.cid,
            peer: ends.peer,
            local: ends.local,
            counted_at,
            since: ring::now(),
            proved: outcome.proved.clone(),
            session,
            owner,
            mover: Rc::new(mover),
            stat_sn: Cell::new(outcome.next_stat_sn),
            ending: RefCell::new(None),
            ping: Cell::new(None),
            next_ping: Cell::new(1),
            missed_output_at: Cell::new(None),
            commands: Cell::new(0),
            immediate_bytes: Cell::new(0),
            data_out_bytes: Cell::new(0),
            latency: LatencyTally::default(),
            text: RefCell::default(),
        }
    }

    /// The name of who authenticated it.
    pub(crate) fn chap_user(&self) -> Option<String> {
        self.proved.as_ref().map(|proved| proved.user().to_owned())
    }

    /// Who is at its other end, for the record.
    pub(crate) fn who(&self) -> Who {
        let session = &self.session;
        Who {
            initiator: Some(session.initiator.to_string()),
            chap_user: self.chap_user(),
            target: session.target_name().map(str::to_owned),
            from: self.peer,
            portal: self.local,
        }
    }

    /// Whether the rules of the target, as they are now, let it in.
    pub(crate) fn is_admitted(&self) -> bool {
        let rules = self.session.target().rules();
        rules.admits(&self.session.initiator, self.peer.ip(), self.proved.as_deref())
    }

    /// What has been negotiated for it.
    #[inline]
    pub(crate) fn params(&self) -> ConnectionParams {
        self.mover.params.get()
    }

    /// A SCSI command has come, with so many bytes of data.
    #[inline]
    pub(crate) fn count_command(&self, immediate_bytes: usize) {
        self.commands.set(self.commands.get() + 1);
        self.immediate_bytes.set(self.immediate_bytes.get() + immediate_bytes as u64);
        self.owner.delivered(immediate_bytes);
    }

    pub(crate) fn commands(&self) -> u64 {
        self.commands.get()
    }

    /// Bytes of data that have come for commands.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.immediate_bytes.get() + self.data_out_bytes.get()
    }

    /// So many bytes of data have come for a command.
    #[inline]
    pub(crate) fn count_data_out(&self, bytes: usize) {
        self.data_out_bytes.set(self.data_out_bytes.get() + bytes as u64);
        self.owner.delivered(bytes);
    }

    // ---- room ----------------------------------------------------------------------------------

    /// What data that comes unasked now is counted as.
    fn unasked(&self, bytes: usize) -> Use {
        let is_full = !memory::has_room(&self.owner, Use::Pushed, bytes);
        if is_full && self.session.missing_bytes(self) > 0 { Use::Behind } else { Use::Pushed }
    }

    /// Whether there is room for so much that comes unasked.
    pub(crate) fn has_room_for(&self, len: usize) -> bool {
        let bytes = Buf::capacity_of(len);
        memory::has_room(&self.owner, self.unasked(bytes), bytes)
    }

    /// Room for `len` bytes that come unasked.
    pub(crate) fn room_for(&self, len: usize) -> Option<Held> {
        let room = || Held::new(&self.owner, self.unasked(Buf::capacity_of(len)), len);
        room().or_else(|| {
            shortage::make_room();
            room()
        })
    }

    /// Waits until more may be read and answered.
    pub(crate) async fn wait_for_room(&self) {
        while !self.is_ending() && !self.mover.has_room() {
            self.mover.wait_for_window().await;
            self.mover.note_taken();
            if !self.mover.has_room() && !self.is_ending() {
                ring::sleep(MEMORY_PAUSE).await;
                self.miss_output();
            }
        }
    }

    /// It found no memory for output. Others, who do not take theirs, give it way, unless it does not
    /// take its own either.
    pub(crate) fn miss_output(&self) {
        // Each of its commands that waits lets it know: what one has found out holds for all of them.
        let now = ring::now();
        if self.missed_output_at.get().is_some_and(|before| now - before < MEMORY_PAUSE / 2) {
            return;
        }
        self.missed_output_at.set(Some(now));
        self.mover.note_taken();
        memory::look_anew(&self.owner, Way::Out);
        let since = self.mover.sending_since();
        if since.is_none_or(|since| now - since < TAKING_TIME) {
            shortage::take_back_output();
        }
    }

    // ---- its end -------------------------------------------------------------------------------

    /// Ends the connection: the reader stops, and the sender after what is queued (logout) or at
    /// once (all else).
    pub(crate) fn end(&self, why: Ending) {
        let mut ending = self.ending.borrow_mut();
        if ending.is_some() {
            return;
        }
        let how = why.close();
        *ending = Some(why);
        drop(ending);
        self.mover.end(how);
    }

    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.mover.is_ending()
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.borrow().clone()
    }

    // ---- PDUs of the connection itself ---------------------------------------------------------

    /// Takes the next StatSN: for a PDU that carries status.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        let stamp = self.peek_stamp();
        self.stat_sn.set(stamp.stat_sn.wrapping_add(1));
        stamp
    }

    /// The next StatSN without taking it: R2T, and NOP-In that asks.
    #[inline]
    pub(crate) fn peek_stamp(&self) -> Stamp {
        let (exp_cmd_sn, max_cmd_sn) = self.session.window_edges();
        Stamp { stat_sn: self.stat_sn.get(), exp_cmd_sn, max_cmd_sn }
    }

    /// Refuses a PDU and sends its header back (RFC 7143 §11.17).
    pub(crate) fn push_reject(&self, reason: RejectReason, refused: &[u8; BHS_LEN_BYTES]) {
        let stamp = self.stamp();
        let reject = Reject {
            reason,
            data_segment_len_bytes: BHS_LEN_BYTES as u32,
            itt: RESERVED_TAG,
            stat_sn: stamp.stat_sn,
            exp_cmd_sn: stamp.exp_cmd_sn,
            max_cmd_sn: stamp.max_cmd_sn,
            data_sn: 0,
        };
        let mut bhs = [0; BHS_LEN_BYTES];
        reject.emit(&mut bhs);
        self.mover.send_control(&bhs, refused);
    }

    /// Asks for a sign of life.
    pub(crate) fn push_ping(&self) {
        let ttt = self.next_ping.get();
        self.next_ping.set(if ttt == RESERVED_TAG - 1 { 1 } else { ttt + 1 });
        let stamp = self.peek_stamp();
        let nop = NopIn {
            data_segment_len_bytes: 0,
            lun: 0,
            itt: RESERVED_TAG,
            ttt,
            stat_sn: stamp.stat_sn,
            exp_cmd_sn: stamp.exp_cmd_sn,
            max_cmd_sn: stamp.max_cmd_sn,
        };
        let mut bhs = [0; BHS_LEN_BYTES];
        nop.emit(&mut bhs);
        self.mover.send_control(&bhs, &[]);
        self.ping.set(Some(Ping { ttt, since: ring::now() }));
    }
}
