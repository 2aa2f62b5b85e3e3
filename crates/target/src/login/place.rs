//! The place of a connection: a new session, the successor of one that ends, or one more connection
//! of a session, which may live on another core (RFC 7143 §6.3.1 to §6.3.6).

use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use iscsi::login::{LoginClaim, LoginOutcome, SessionDecision, SessionType};
use iscsi::pdu::LoginStatus;
use ring::Stream;
use ring::wait::{Either, first};
use thiserror::Error;

use super::Admission;
use super::exchange::{self, Accepted, describe};
use crate::audit::{Happened, RefusalKind, Who};
use crate::datamover::Ends;
use crate::doors;
use crate::ffp;
use crate::mutants::{self, Mutant};
use crate::quiet::{LOGIN, SESSION, quietly};
use crate::registry::{Claim, Entry, Full, Residence, SessionKey, Turn};
use crate::session::{self, Connection, Ending, Session};
use crate::share;
use crate::shared::Shared;
use crate::targets::{Found, Target};

/// Brings an accepted connection to its session and serves it to its end.
pub(super) async fn settle(
    shared: &Arc<Shared>,
    stream: Stream,
    ends: Ends,
    admission: Admission,
    login: doors::Passing,
    accepted: Accepted,
) {
    let outcome = &accepted.outcome;
    let Some(name) = &outcome.target_name else {
        if let Some(place) = login.into_discovery() {
            discover(shared, stream, ends, place, accepted).await;
        }
        return;
    };
    // It has said who it is: from now on it keeps none out that has not.
    if !login.has_logged_in() {
        return;
    }
    let key = SessionKey {
        target: name.as_str().into(),
        initiator: outcome.initiator_name.as_str().into(),
        isid: outcome.isid,
    };
    if !matches!(outcome.decision, SessionDecision::Join { .. }) {
        return begin_session(shared, stream, ends, &key, accepted).await;
    }
    let home = shared.registry.find(&key).filter(|residence| residence.tsih == outcome.tsih);
    let Some(home) = home else { return }; // the session has just ended
    if !home.is_of(outcome.chap_user()) {
        return refuse(shared, &stream, ends, accepted, &NoPlace::OtherUser).await;
    }
    if home.core == ring::core_id() {
        return join(stream, ends, accepted).await;
    }
    move_to(shared, home.core, stream, ends, admission, accepted);
}

/// Begins a session of a target, when there is a place for it and the target's rules still let it in.
async fn begin_session(
    shared: &Arc<Shared>,
    stream: Stream,
    ends: Ends,
    key: &SessionKey,
    mut accepted: Accepted,
) {
    let Found::Served(target) = shared.targets.find(&key.target) else { return };
    if let Err(why) = reserve(shared, &stream, (key, ends.peer.ip()), &target, &mut accepted).await
    {
        return refuse(shared, &stream, ends, accepted, &why).await;
    }
    let tsih = accepted.outcome.tsih;
    // Who takes the target away, or changes its rules, marks that first and then ends the sessions of each
    // core: it finds this one there, or is seen here.
    if target.is_closing() {
        return shared.registry.remove(key, tsih);
    }
    if !is_admitted(&target, ends, &accepted.outcome) {
        shared.registry.remove(key, tsih);
        return refuse(shared, &stream, ends, accepted, &NoPlace::NotAdmitted).await;
    }
    let session = Rc::new(Session::new(shared.clone(), Some(target), &accepted.outcome));
    session::remember_session(&session);
    begin(session, stream, ends, accepted).await;
}

/// Whether the rules let it in that hold in this moment.
fn is_admitted(target: &Target, ends: Ends, outcome: &LoginOutcome) -> bool {
    let (initiator, from) = (outcome.initiator_name.as_str(), ends.peer.ip());
    mutants::is(Mutant::OldRules)
        || target.rules().admits(initiator, from, outcome.proved.as_deref())
}

/// Serves a discovery session, which is there for a few questions: until its time is over, or until
/// newer ones want its place.
async fn discover(
    shared: &Arc<Shared>,
    stream: Stream,
    ends: Ends,
    mut place: doors::Passing,
    accepted: Accepted,
) {
    let session = Rc::new(Session::new(shared.clone(), None, &accepted.outcome));
    session::remember_session(&session);
    let mut served = pin!(begin(session.clone(), stream, ends, accepted));
    let over = ring::timeout(shared.limits.discovery_time, &mut place.turned_away);
    if let Either::Right(_) = first(served.as_mut(), over).await {
        session.end(&Ending::SessionEnded);
        served.await;
    }
}

/// Why a login that had been accepted gets no place after all.
#[derive(Debug, Error)]
enum NoPlace {
    #[error("another session has its number")]
    TsihTaken,
    #[error("a newer login takes its place")]
    Replaced,
    #[error("it went away while its session before ended")]
    Gone,
    #[error("its session before does not end, as a disk does not answer")]
    Hangs,
    #[error("the target is not shared, and {0} uses it")]
    InUse(Arc<str>),
    #[error("it is being decided whether the target is for one host")]
    NotNow,
    #[error("the target's rules, as they are now, do not let it in")]
    NotAdmitted,
    #[error("the session of its name and port is another CHAP user's")]
    OtherUser,
    #[error("hosts have as many connections as they may have")]
    Full,
    #[error("there are as many connections from its address as one address may have")]
    FullOfOne,
}

impl From<Full> for NoPlace {
    fn from(full: Full) -> Self {
        match full {
            Full::All => Self::Full,
            Full::OfOne => Self::FullOfOne,
        }
    }
}

impl NoPlace {
    /// What it is told (RFC 7143 §11.13.5): whether trying again helps.
    const fn status(&self) -> LoginStatus {
        match self {
            Self::InUse(_) | Self::NotAdmitted => LoginStatus::AUTHORIZATION_FAILURE,
            Self::Full | Self::FullOfOne => LoginStatus::OUT_OF_RESOURCES,
            // The session may be of a host that is lost and was given another user since: it ends in time.
            Self::TsihTaken
            | Self::Replaced
            | Self::Gone
            | Self::Hangs
            | Self::NotNow
            | Self::OtherUser => LoginStatus::SERVICE_UNAVAILABLE,
        }
    }

    const fn kind(&self) -> RefusalKind {
        match self {
            Self::InUse(_) => RefusalKind::InUse,
            Self::NotAdmitted | Self::OtherUser => RefusalKind::NotAuthorized,
            Self::Full | Self::FullOfOne => RefusalKind::Full,
            Self::TsihTaken | Self::Replaced | Self::Gone | Self::Hangs | Self::NotNow => {
                RefusalKind::Other
            }
        }
    }
}

/// Answers a login that had been accepted with the word that it cannot be served (RFC 7143 §11.13.5).
async fn refuse(shared: &Shared, stream: &Stream, ends: Ends, accepted: Accepted, why: &NoPlace) {
    let outcome = &accepted.outcome;
    quietly!(LOGIN, warn, "{} cannot log in: {why}", describe(outcome, ends.peer));
    let is_of_one = matches!(why, NoPlace::FullOfOne);
    if let (RefusalKind::Full, Some(target)) = (why.kind(), &outcome.target_name) {
        let pair = (outcome.initiator_name.as_str(), target.as_str());
        shared.crowded.note(pair, ends.peer, is_of_one);
    }
    let claim = LoginClaim {
        initiator: Some(outcome.initiator_name.clone()),
        target: outcome.target_name.clone(),
        chap_user: outcome.chap_user().map(str::to_owned),
    };
    shared.feed.push(|| Happened::Refused {
        who: Who::claiming(claim, ends),
        why: why.kind(),
        reason: why.to_string(),
    });
    let mut header = accepted.header;
    // No transit and no next stage, no text, no session.
    header[1] &= 0x0c;
    header[5..8].fill(0);
    header[14..16].fill(0);
    header[36..38].copy_from_slice(&why.status().0.to_be_bytes());
    drop(exchange::send(stream, &header, &[]).await);
}

/// Enters a new session into the registry, after the one in its place has ended, for which a hung
/// disk may let it wait: not for ever, and only the newest login of each initiator port.
async fn reserve(
    shared: &Arc<Shared>,
    stream: &Stream,
    (key, peer): (&SessionKey, IpAddr),
    target: &Target,
    accepted: &mut Accepted,
) -> Result<(), NoPlace> {
    let outcome = &accepted.outcome;
    let residence = Residence {
        tsih: outcome.tsih,
        core: ring::core_id(),
        params: outcome.session,
        cids: vec![outcome.cid],
        peer: share::network(peer),
        user: outcome.chap_user().map(Arc::from),
        is_ending: false,
    };
    let sharing = || target.sharing();
    let (mut wait, old) = match shared.registry.claim(key, residence.clone(), sharing) {
        Claim::Entered => return Ok(()),
        Claim::TsihTaken => return Err(NoPlace::TsihTaken),
        Claim::InUse(other) => return Err(NoPlace::InUse(other)),
        Claim::NotNow => return Err(NoPlace::NotNow),
        Claim::OtherUser => return Err(NoPlace::OtherUser),
        Claim::Full(full) => return Err(full.into()),
        Claim::Waits(wait, old) => (wait, old),
    };
    quietly!(SESSION, info, "{} is reinstated: its session before ends", key.initiator);
    // The registry tells when it has: nothing of a login that gives up stays behind on that core.
    let home: usize = old.core.into();
    if let Some(core) = shared.cores().get(home) {
        core.run(move || session::end_session(old.tsih, &Ending::SessionEnded));
    }
    match while_there(shared, stream, &mut accepted.rest, &mut wait.turn).await {
        Waited::Over(Some(Turn::Free)) => match wait.enter(residence, sharing) {
            Entry::Entered => Ok(()),
            Entry::Replaced => Err(NoPlace::Replaced),
            Entry::InUse(other) => Err(NoPlace::InUse(other)),
            Entry::NotNow => Err(NoPlace::NotNow),
        },
        Waited::Over(_) => Err(NoPlace::Replaced),
        Waited::Gone => Err(NoPlace::Gone),
        Waited::TooLong => Err(NoPlace::Hangs),
    }
}

/// How the waiting of a login ended.
enum Waited<T> {
    Over(T),
    /// The peer went away.
    Gone,
    TooLong,
}

/// Waits for `event` as long as a login may take, and as long as its peer is there. Bytes that come
/// meanwhile are for its session, and end the watch: a payload may have to be received past it, and
/// a receive that was begun here would take its bytes.
async fn while_there<T>(
    shared: &Shared,
    stream: &Stream,
    rest: &mut Vec<u8>,
    event: impl Future<Output = T>,
) -> Waited<T> {
    let gone = async {
        if rest.is_empty() {
            match stream.recv().await {
                Ok(chunk) if !chunk.is_empty() => rest.extend_from_slice(&chunk),
                Ok(_) | Err(_) => return,
            }
        }
        std::future::pending::<()>().await;
    };
    match ring::timeout(shared.limits.login_timeout, first(event, gone)).await {
        Some(Either::Left(value)) => Waited::Over(value),
        Some(Either::Right(())) => Waited::Gone,
        None => Waited::TooLong,
    }
}

/// Hands the connection to the core of its session.
fn move_to(
    shared: &Arc<Shared>,
    home: ring::CoreId,
    stream: Stream,
    ends: Ends,
    mut admission: Admission,
    accepted: Accepted,
) {
    let Ok(fd) = stream.into_fd() else { return };
    let core: usize = home.into();
    admission.move_to(core);
    let Some(remote) = shared.cores().get(core) else { return };
    remote.run(move || {
        ring::spawn(async move {
            let _admission = admission;
            join(Stream::from_fd(fd), ends, accepted).await;
        });
    });
}

/// Joins a session of this core. A connection of the same CID makes room first (connection
/// reinstatement, RFC 7143 §6.3.4).
async fn join(stream: Stream, ends: Ends, mut accepted: Accepted) {
    let Some(session) = session::session(accepted.outcome.tsih) else { return };
    let shared = session.shared.clone();
    let old = session.connection(accepted.outcome.cid);
    if let Some(old) = &old {
        old.end(Ending::Replaced);
        let left = session.wait_without(old);
        let waited = while_there(&session.shared, &stream, &mut accepted.rest, left).await;
        if !matches!(waited, Waited::Over(())) {
            // The old connection is lost and has no successor: so is its session.
            session.end(&Ending::SessionEnded);
            return refuse(&shared, &stream, ends, accepted, &NoPlace::Hangs).await;
        }
    }
    // Others may have joined, or the session may have ended, since the login was accepted.
    let connections_max = session.params.max_connections as usize;
    if session.is_closing() || session.connections().len() >= connections_max {
        return;
    }
    // Who changes the rules marks that first and then looks at the connections of each core.
    if !is_admitted(session.target(), ends, &accepted.outcome) {
        if old.is_some() {
            session.end(&Ending::NotAdmitted);
        }
        return refuse(&shared, &stream, ends, accepted, &NoPlace::NotAdmitted).await;
    }
    // The one before, of the same number, has left its place to it.
    let (number, is_in_place) = ((session.tsih, accepted.outcome.cid), old.is_some());
    let key = session.key();
    let taken = key.map(|key| shared.registry.add_connection(&key, number, is_in_place));
    if let Some(Err(full)) = taken {
        return refuse(&shared, &stream, ends, accepted, &full.into()).await;
    }
    begin(session, stream, ends, accepted).await;
}

/// Sends the last login response and enters full-feature phase.
async fn begin(session: Rc<Session>, stream: Stream, ends: Ends, accepted: Accepted) {
    let Accepted { outcome, mut header, data, rest } = accepted;
    let (exp_cmd_sn, max_cmd_sn) = session.window_edges();
    // A joining connection learns the window as it is now (ExpCmdSN and MaxCmdSN, 11.13).
    header[28..32].copy_from_slice(&exp_cmd_sn.to_be_bytes());
    header[32..36].copy_from_slice(&max_cmd_sn.to_be_bytes());
    let conn = Rc::new(Connection::new(stream, ends, session.clone(), &outcome));
    session.add_connection(conn.clone());
    if outcome.session_type == SessionType::Normal {
        let who = describe(&outcome, ends.peer);
        quietly!(SESSION, info, "{who} logged in to session {}", outcome.tsih);
        let (tsih, cid) = (outcome.tsih, outcome.cid);
        session.shared.feed.push(|| Happened::LoggedIn { who: conn.who(), tsih, cid });
    }
    conn.mover.send_login_response(&header, &data);
    ffp::serve(conn, rest).await;
}
