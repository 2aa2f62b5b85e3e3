//! What tests of the serving side have in common.

use std::path::Path;

use member::{CurrentAddress, CurrentDestinations, CurrentDoor, CurrentRoll, Logs, RequestError};

use super::{Config, Notifications};

/// A server at a socket in `home`, where its logs are too.
pub(super) fn config(home: &Path) -> Config {
    Config {
        socket: home.join("s"),
        connections_max: 8,
        sentence: RequestError::to_string,
        logs: Logs::open(home).expect("threads"),
        advice: |_| String::new(),
        notifications: Notifications {
            destinations: CurrentDestinations::default(),
            statuses: notify::Statuses::default(),
            sender: notify::Sender::new("0", |_| String::new(), |_| String::new()),
        },
        tls: Ok(None),
        door: CurrentDoor::default(),
        roll: CurrentRoll::default(),
        group_address: CurrentAddress::default(),
    }
}
