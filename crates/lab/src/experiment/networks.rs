//! Two shaped links between two network namespaces.

use std::path::Path;

use super::ExperimentError;
use super::bed;
use super::owner::{NAMESPACES, Owner, left_over};

/// A namespace for the host, one for the target, and two links of 1 Gbit/s between them. All of it goes
/// with this value.
pub(super) struct Networks {
    pub(super) host: String,
    pub(super) target: String,
}

fn tool(program: &str, args: &[&str]) -> Result<(), ExperimentError> {
    bed::tool(program, args, None)
}

impl Networks {
    pub(super) fn make() -> Result<Self, ExperimentError> {
        sweep();
        let owner = Owner::this().ok_or(ExperimentError::NoProc)?;
        let networks = Self { host: owner.name('h'), target: owner.name('t') };
        for namespace in [&networks.host, &networks.target] {
            tool("ip", &["netns", "add", namespace])?;
            tool("ip", &["-n", namespace, "link", "set", "lo", "up"])?;
        }
        for path in 0..2 {
            networks.link(path)?;
        }
        Ok(networks)
    }

    fn link(&self, path: u8) -> Result<(), ExperimentError> {
        let (near, far) = (format!("h{path}"), format!("t{path}"));
        let (host, target) = (self.host.as_str(), self.target.as_str());
        let peer = ["peer", "name", &far, "netns", target];
        tool("ip", &[&["-n", host, "link", "add", &near, "type", "veth"][..], &peer].concat())?;
        for (namespace, device, last) in [(host, &near, 1), (target, &far, 2)] {
            let address = format!("198.18.{path}.{last}/24");
            tool("ip", &["-n", namespace, "addr", "add", &address, "dev", device])?;
            tool("ip", &["-n", namespace, "link", "set", device, "up"])?;
            let shape = ["tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms"];
            let place = ["-n", namespace, "qdisc", "add", "dev", device, "root"];
            tool("tc", &[&place[..], &shape].concat())?;
        }
        Ok(())
    }

    /// The portals of the target's side.
    pub(super) fn portals() -> Vec<String> {
        (0..2).map(|path| format!("198.18.{path}.2:3260")).collect()
    }

    /// Cuts a path, as a switch does that is powered down, or brings it back.
    pub(super) fn set(&self, path: u8, is_up: bool) -> Result<(), ExperimentError> {
        let state = if is_up { "up" } else { "down" };
        tool("ip", &["-n", &self.target, "link", "set", &format!("t{path}"), state])
    }
}

/// Removes the namespaces of experiments that were killed.
fn sweep() {
    for namespace in left_over(Path::new(NAMESPACES)) {
        // Another experiment may have been quicker.
        let _ = tool("ip", &["netns", "del", &namespace]);
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for namespace in [&self.host, &self.target] {
            // One that was never made cannot be removed, which is as good.
            let _ = tool("ip", &["netns", "del", namespace]);
        }
    }
}
