//! Two networks between two hosts and a target, made of network namespaces: a bridge for each, in a
//! namespace of its own. A network that is cut loses everything without a word: its links stay up,
//! and neither a reset nor an ICMP message comes back.
//!
//! ```text
//!                    switch
//!  host  .11 ---- | bridge 1 | ---- .1
//!        .11 ---- | bridge 2 | ---- .1  target     10.91.N.0/24 is network N
//!  other .12 ---- | bridge 2 |
//! ```

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::ip::ip;

/// Where an end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Switch,
    Target,
    Host,
    /// A second host, in network 2 only.
    Other,
}

/// The namespaces; removed with the value.
#[derive(Debug)]
pub(crate) struct Networks {
    prefix: String,
}

impl Networks {
    /// `None`, with a printed reason, where this machine allows no namespaces.
    pub(crate) fn new() -> Option<Networks> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let made = Networks { prefix: format!("dsn{}-{count}-", std::process::id()) };
        match made.build() {
            Ok(()) => Some(made),
            Err(reason) => {
                assert!(
                    !rustix::process::geteuid().is_root() || reason.contains("not permitted"),
                    "{reason}"
                );
                eprintln!("skipped: network namespaces cannot be made here: {reason}");
                None
            }
        }
    }

    fn name(&self, place: Place) -> String {
        format!("{}{}", self.prefix, format!("{place:?}").to_lowercase())
    }

    fn build(&self) -> Result<(), String> {
        for place in [Place::Switch, Place::Target, Place::Host, Place::Other] {
            ip(&format!("netns add {}", self.name(place)))?;
            ip(&format!("-n {} link set lo up", self.name(place)))?;
        }
        let switch = self.name(Place::Switch);
        for network in 1..=2 {
            ip(&format!("-n {switch} link add br{network} type bridge"))?;
            ip(&format!("-n {switch} link set br{network} up"))?;
            self.plug(network, Place::Target, 1)?;
            self.plug(network, Place::Host, 11)?;
        }
        self.plug(2, Place::Other, 12)
    }

    /// Gives `place` a port in a network.
    fn plug(&self, network: u8, place: Place, host: u8) -> Result<(), String> {
        let (switch, end) = (self.name(Place::Switch), self.name(place));
        let port = format!("n{network}h{host}");
        ip(&format!("-n {switch} link add {port} type veth peer name net{network} netns {end}"))?;
        ip(&format!("-n {switch} link set {port} master br{network} up"))?;
        ip(&format!("-n {end} addr add 10.91.{network}.{host}/24 dev net{network}"))?;
        ip(&format!("-n {end} link set net{network} up"))
    }

    /// Nothing comes through a network any more.
    pub(crate) fn cut(&self, network: u8) {
        self.set(network, "down");
    }

    pub(crate) fn heal(&self, network: u8) {
        self.set(network, "up");
    }

    fn set(&self, network: u8, state: &str) {
        let switch = self.name(Place::Switch);
        ip(&format!("-n {switch} link set br{network} {state}")).expect("the bridge is there");
    }

    /// Runs a command at `place`.
    pub(crate) fn put(&self, place: Place, command: &mut Command) {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.name(place)]).arg(command.get_program());
        there.args(command.get_args()).stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        *command = there;
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for place in [Place::Switch, Place::Target, Place::Host, Place::Other] {
            // Those that were not made cannot be removed.
            let _ = ip(&format!("netns del {}", self.name(place)));
        }
    }
}
