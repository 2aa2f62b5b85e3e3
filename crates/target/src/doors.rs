//! Who may come in: connections, and those of them that have not finished logging in, of each
//! address and of all.
//!
//! A connection too many is refused. Of logins too many the oldest gives way, of the address that
//! has the most of them: whoever comes and says nothing keeps nobody else out.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use ring::{OneshotReceiver, OneshotSender};

use crate::config::Limits;
use crate::shared::Shared;

/// Touched when a connection comes, has logged in, or goes; never by I/O.
#[derive(Debug, Default)]
pub(crate) struct Doors(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    addresses: HashMap<IpAddr, Address>,
    connections: usize,
    logins: usize,
    last_number: u64,
}

#[derive(Debug, Default)]
struct Address {
    connections: usize,
    /// Oldest first.
    logins: VecDeque<Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    number: u64,
    turn_away: OneshotSender<()>,
}

impl Doors {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nothing panics while it holds the doors")
    }
}

impl Inner {
    /// Counts a connection and its login. The login that has to give way for it, if one does.
    fn enter(
        &mut self,
        address: IpAddr,
        limits: &Limits,
        turn_away: OneshotSender<()>,
    ) -> Result<(u64, Option<Unfinished>), &'static str> {
        if self.connections >= limits.connections {
            return Err("as many connections as there may be are open");
        }
        let own = self.addresses.get(&address);
        if own.is_some_and(|own| own.connections >= limits.connections_per_address) {
            return Err("it has as many connections as one address may have");
        }
        let crowded = own.is_some_and(|own| own.logins.len() >= limits.logins_per_address);
        let gives_way = match (crowded, self.logins >= limits.logins) {
            (true, _) => Some(address),
            (false, true) => self.most_logins(),
            (false, false) => None,
        };
        let oldest = gives_way.and_then(|from| {
            let oldest = self.addresses.get_mut(&from)?.logins.pop_front()?;
            self.logins -= 1;
            Some(oldest)
        });
        self.last_number += 1;
        let number = self.last_number;
        let own = self.addresses.entry(address).or_default();
        own.connections += 1;
        own.logins.push_back(Unfinished { number, turn_away });
        self.connections += 1;
        self.logins += 1;
        Ok((number, oldest))
    }

    /// The address with the most unfinished logins; of several, that with the oldest one.
    fn most_logins(&self) -> Option<IpAddr> {
        let ranks = self.addresses.iter().filter_map(|(address, own)| {
            let oldest = own.logins.front()?.number;
            Some((own.logins.len(), Reverse(oldest), *address))
        });
        ranks.max().map(|(.., address)| address)
    }

    fn end_login(&mut self, address: IpAddr, number: u64) {
        let Some(own) = self.addresses.get_mut(&address) else { return };
        let before = own.logins.len();
        own.logins.retain(|login| login.number != number);
        self.logins -= before - own.logins.len();
    }

    fn leave(&mut self, address: IpAddr) {
        self.connections -= 1;
        if let Some(own) = self.addresses.get_mut(&address) {
            own.connections -= 1;
            if own.connections == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

/// A connection that was let in, until it is gone.
#[derive(Debug)]
pub(crate) struct Entered {
    shared: Arc<Shared>,
    address: IpAddr,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.shared.doors.lock().leave(self.address);
    }
}

/// A login under way, until it is over.
#[derive(Debug)]
pub(crate) struct Login {
    shared: Arc<Shared>,
    address: IpAddr,
    number: u64,
    /// It has to give way to a newer one.
    pub(crate) turned_away: OneshotReceiver<()>,
}

impl Drop for Login {
    fn drop(&mut self) {
        self.shared.doors.lock().end_login(self.address, self.number);
    }
}

/// Lets a connection in, or says why not.
pub(crate) fn enter(shared: &Arc<Shared>, from: IpAddr) -> Result<(Entered, Login), &'static str> {
    let address = from.to_canonical();
    let (turn_away, turned_away) = ring::oneshot();
    let entered = shared.doors.lock().enter(address, &shared.limits, turn_away);
    let (number, oldest) = entered?;
    if let Some(oldest) = oldest {
        oldest.turn_away.send(());
    }
    let login = Login { shared: shared.clone(), address, number, turned_away };
    // Behind the login, which ends first.
    Ok((Entered { shared: shared.clone(), address }, login))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: (usize, usize, usize, usize) = (6, 4, 3, 2);

    fn limits() -> Limits {
        let (connections, connections_per_address, logins, logins_per_address) = LIMITS;
        let usual = Limits::default();
        Limits { connections, connections_per_address, logins, logins_per_address, ..usual }
    }

    /// The number of the connection, and that of the login that gives way.
    fn enter(doors: &mut Inner, last_byte: u8) -> Result<(u64, Option<u64>), &'static str> {
        let (turn_away, _) = ring::oneshot();
        let entered = doors.enter([192, 0, 2, last_byte].into(), &limits(), turn_away);
        entered.map(|(number, oldest)| (number, oldest.map(|oldest| oldest.number)))
    }

    #[test]
    fn the_oldest_login_of_who_has_most_gives_way_and_connections_are_refused() {
        let mut doors = Inner::default();
        assert_eq!(enter(&mut doors, 1), Ok((1, None)));
        assert_eq!(enter(&mut doors, 1), Ok((2, None)));
        assert_eq!(enter(&mut doors, 1), Ok((3, Some(1))), "two of an address at once");
        assert_eq!(enter(&mut doors, 2), Ok((4, None)));
        assert_eq!(enter(&mut doors, 3), Ok((5, Some(2))), "three of all at once");
        assert!(enter(&mut doors, 1).is_ok_and(|(_, oldest)| oldest.is_some()));
        assert!(enter(&mut doors, 4).is_err(), "six connections");
        doors.leave([192, 0, 2, 2].into());
        assert!(enter(&mut doors, 1).is_err(), "four of an address");
    }

    #[test]
    fn among_equals_the_oldest_gives_way() {
        for _ in 0..20 {
            let mut doors = Inner::default();
            for from in 1..4 {
                assert_eq!(enter(&mut doors, from), Ok((u64::from(from), None)));
            }
            assert_eq!(enter(&mut doors, 4), Ok((4, Some(1))));
        }
    }

    #[test]
    fn nothing_is_left_of_who_has_gone() {
        let mut doors = Inner::default();
        for round in 0..3 {
            let all: Vec<_> =
                (1..4).map(|from| (from, enter(&mut doors, from).unwrap().0)).collect();
            for (from, number) in all {
                let address = [192, 0, 2, from].into();
                doors.end_login(address, number);
                doors.leave(address);
            }
            assert_eq!((doors.connections, doors.logins), (0, 0), "round {round}");
            assert!(doors.addresses.is_empty());
        }
    }
}
