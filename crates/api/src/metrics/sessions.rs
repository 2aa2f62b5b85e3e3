//! What sessions of hosts have had done. Hosts come and go, and there may be thousands: [`SESSIONS_MAX`] are told of.
//!
//! Those have it that have been logged in longest: one that comes takes no other's place, so series end only with
//! their sessions. Of one place, an address that a connection has to come from, [`PLACE_MAX`] go first; more of it
//! have what others leave, so that no host takes all places by many sessions. A name of an initiator is a claim.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Instant;

use crate::place::Place;
use crate::types::{Connection, SessionWork, Work};

/// Sessions that have figures of their own: those that have been logged in longest, if there are more.
pub const SESSIONS_MAX: usize = 256;

/// Sessions of one place that have figures of their own before those of others.
const PLACE_MAX: usize = 16;

/// What tells sessions apart: the volume or snapshot, the initiator name and its port. A target has one session of
/// each port of an initiator (RFC 7143 §6.3.5).
type Key<'a> = (String, &'a str, &'a str);

/// A session that has figures of its own.
#[derive(Debug)]
pub(super) struct Session<'a> {
    key: Key<'a>,
    number: u16,
    /// Where the connection arrived that it has had longest, and where that came from.
    portal: SocketAddr,
    place: Place,
    since: Option<Instant>,
    /// Commands that have not been answered.
    pub(super) waiting: usize,
    work: &'a SessionWork,
}

impl<'a> Session<'a> {
    /// The session of a connection to something that goes by a name.
    fn of(connection: &'a Connection) -> Option<Self> {
        let volume = connection.volume.as_ref()?;
        let volume = match &connection.snapshot {
            None => volume.clone(),
            Some(snapshot) => format!("{volume}@{snapshot}"),
        };
        Some(Self {
            key: (volume, &connection.host, &connection.isid),
            number: connection.session,
            portal: connection.portal,
            place: connection.address.ip().into(),
            since: connection.since,
            waiting: connection.waiting,
            work: &connection.session_work,
        })
    }

    /// With another connection of its own. Cores are asked one after the other: a session that has taken another
    /// one's place meanwhile may be found beside it, and is the one that counts.
    fn join(&mut self, other: Self) {
        if self.number == other.number {
            self.waiting += other.waiting;
            if other.since < self.since {
                (self.since, self.portal) = (other.since, other.portal);
                self.place = other.place;
            }
        } else if other.since > self.since {
            *self = other;
        }
    }

    /// The values of [`super::table::SESSION`].
    pub(super) fn labels(&self) -> Vec<String> {
        let (volume, initiator, isid) = &self.key;
        let (initiator, isid) = ((*initiator).to_owned(), (*isid).to_owned());
        vec![volume.clone(), initiator, isid, self.portal.to_string()]
    }

    /// What it has had done, by direction, with the values of [`super::table::SESSION_DIRECTION`].
    pub(super) fn by_direction(&self) -> [(Vec<String>, &'a Work); 3] {
        let SessionWork { reads, writes, others } = self.work;
        [("read", reads), ("write", writes), ("other", others)].map(|(direction, work)| {
            let mut labels = self.labels();
            labels.push(direction.to_owned());
            (labels, work)
        })
    }
}

/// All sessions, each once, those that have been logged in longest first.
fn all(connections: &[Connection]) -> Vec<Session<'_>> {
    let mut by_key: BTreeMap<Key<'_>, Session<'_>> = BTreeMap::new();
    for session in connections.iter().filter_map(Session::of) {
        match by_key.get_mut(&session.key) {
            Some(known) => known.join(session),
            None => drop(by_key.insert(session.key.clone(), session)),
        }
    }
    let mut all: Vec<Session<'_>> = by_key.into_values().collect();
    // Not by whole seconds: who came in the same second would change places with each look.
    all.sort_by_key(|session| session.since);
    all
}

/// The sessions that have figures of their own.
pub(super) fn told(connections: &[Connection]) -> Vec<Session<'_>> {
    let mut of_place: HashMap<Place, usize> = HashMap::new();
    let (mut told, mut more) = (Vec::new(), Vec::new());
    for session in all(connections) {
        let count = of_place.entry(session.place).or_default();
        *count += 1;
        if *count <= PLACE_MAX { told.push(session) } else { more.push(session) }
    }
    told.extend(more);
    told.truncate(SESSIONS_MAX);
    told
}

/// How many there are, and how many of them have no figures of their own.
pub(super) fn counts(connections: &[Connection]) -> (usize, usize) {
    let count = all(connections).len();
    (count, count.saturating_sub(SESSIONS_MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn connection(host: &str, isid: u64, numbers: [u64; 2], ago_ms: u64) -> Connection {
        let [session, number] = numbers;
        let json = json!({
            "volume": "vm", "iqn": "iqn.x:vm", "host": host, "address": "10.0.0.7:40000",
            "portal": format!("10.0.0.{number}:3260"), "isid": format!("{isid:012x}"), "session": session,
            "connection": number, "seconds": 0, "chap_user": null, "header_digest": false,
            "data_digest": false, "commands": 1, "read_bytes": 0, "written_bytes": 0, "waiting": 2,
        });
        let mut connection: Connection = serde_json::from_value(json).expect("a connection");
        connection.since = Some(Instant::now() - Duration::from_millis(ago_ms));
        connection
    }

    #[test]
    fn a_session_is_told_once_whatever_connections_it_has() {
        let mut snapshot = connection("a", 1, [3, 1], 5000);
        snapshot.snapshot = Some("monday".to_owned());
        let mut renamed = connection("b", 1, [4, 1], 5000);
        renamed.volume = None;
        let all = [
            connection("a", 1, [1, 1], 9000),
            connection("a", 1, [1, 2], 11_000),
            connection("a", 2, [2, 1], 7000),
            snapshot,
            renamed,
        ];
        let told = told(&all);
        let labels = ["vm", "a", "000000000001", "10.0.0.2:3260"].map(str::to_owned).to_vec();
        assert_eq!((told[0].labels(), told[0].waiting), (labels, 4));
        assert_eq!(told[1].labels()[2], "000000000002", "another port is another session");
        assert_eq!((told[2].labels()[0].as_str(), told.len()), ("vm@monday", 3));
    }

    #[test]
    fn of_two_that_followed_each_other_the_later_one_counts() {
        for numbers in [[1, 2], [2, 1]] {
            let ago_ms = |number| if number == 1 { 90_000 } else { 0 };
            let all = numbers.map(|number| connection("a", 1, [number, number], ago_ms(number)));
            let told = told(&all);
            assert_eq!((told.len(), told[0].number), (1, 2), "{told:?}");
        }
    }

    /// 300 sessions of one address under as many names, and two of each of nine others that come later.
    #[test]
    fn one_host_has_what_others_leave() {
        let greedy = (0..300).map(|isid| connection(&format!("evil{isid}"), isid, [1, 1], 60_000));
        let other = |n: u64| {
            let mut connection = connection("good", n, [2, 1], 1000);
            connection.address = SocketAddr::from(([10, 0, 1, (n / 2) as u8], 40_000));
            connection
        };
        let greedy: Vec<_> = greedy.collect();
        assert_eq!(told(&greedy).len(), SESSIONS_MAX, "there is nobody else");
        let all: Vec<_> = greedy.into_iter().chain((0..18).map(other)).collect();
        let told = told(&all);
        let good = told.iter().filter(|session| session.key.1 == "good").count();
        assert_eq!((told.len(), good), (SESSIONS_MAX, 18));
        // Of one more address that is as greedy, so many go first.
        let late = (0..300).map(|isid| {
            let mut connection = connection(&format!("late{isid}"), isid, [3, 1], 500);
            connection.address = SocketAddr::from(([10, 0, 2, 1], 40_000));
            connection
        });
        let all: Vec<_> = all.into_iter().chain(late).collect();
        let late = super::told(&all);
        let late = late.iter().filter(|session| session.key.1.starts_with("late")).count();
        assert_eq!(late, PLACE_MAX);
    }

    #[test]
    fn who_comes_takes_no_place_of_another() {
        let max = SESSIONS_MAX as u64;
        let mut all: Vec<Connection> =
            (0..max).map(|isid| connection("a", isid, [isid, 1], 60_000)).collect();
        let before: Vec<_> = told(&all).iter().map(Session::labels).collect();
        assert_eq!((before.len(), counts(&all)), (SESSIONS_MAX, (SESSIONS_MAX, 0)));
        all.insert(0, connection("0", 0, [max, 1], 59_900));
        assert_eq!(told(&all).iter().map(Session::labels).collect::<Vec<_>>(), before);
        assert_eq!(counts(&all), (SESSIONS_MAX + 1, 1));
    }
}
