//! The portals: whether they can be had, and the interfaces behind them.

use super::Finding;
use crate::serve::{self, portals};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use target::StartError;

/// What an interface carries in one frame without jumbo frames.
const MTU_ETHERNET: u32 = 1500;

/// An interface as `ip -json address` shows it.
#[derive(Debug, Deserialize)]
struct Interface {
    ifname: String,
    mtu: u32,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Debug, Deserialize)]
struct Address {
    local: Option<IpAddr>,
}

pub(super) fn look(portals: &[SocketAddr]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = portals.iter().map(portal).collect();
    findings.push(match interfaces() {
        Some(interfaces) => frames(portals, &interfaces),
        None => Finding::warning(
            "frames",
            "the interfaces cannot be asked for their MTU",
            "install iproute2",
        ),
    });
    findings
}

fn portal(portal: &SocketAddr) -> Finding {
    let about = format!("portal {portal}");
    let Err(source) = portals::try_bind(portal) else {
        return Finding::good(&about, "it is free");
    };
    let is_in_use = source.kind() == ErrorKind::AddrInUse;
    let explained = serve::explain(&StartError::Portal { portal: *portal, source }).to_string();
    if is_in_use {
        // Most likely by the member itself.
        let found = "it is in use: by a member that runs, or by another target";
        return Finding::warning(&about, found, "'ss -tlnp' shows by whom");
    }
    Finding::error(&about, "it cannot be had", explained)
}

fn interfaces() -> Option<Vec<Interface>> {
    let output = Command::new("ip").args(["-json", "address", "show"]).output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// Whether the interfaces of the portals carry jumbo frames, and as large ones.
fn frames(portals: &[SocketAddr], interfaces: &[Interface]) -> Finding {
    const ABOUT: &str = "frames";
    let is_meant = |interface: &&Interface| {
        let is_loopback = interface.flags.iter().any(|flag| flag == "LOOPBACK");
        let has = |ip: IpAddr| interface.addr_info.iter().any(|it| it.local == Some(ip));
        !is_loopback && portals.iter().any(|it| it.ip().is_unspecified() || has(it.ip()))
    };
    let mtus: BTreeMap<&str, u32> = interfaces
        .iter()
        .filter(is_meant)
        .map(|interface| (interface.ifname.as_str(), interface.mtu))
        .collect();
    let shown: Vec<String> = mtus.iter().map(|(name, mtu)| format!("{name} {mtu}")).collect();
    let shown = shown.join(", ");
    let (least, most) = (mtus.values().min(), mtus.values().max());
    match (least, most) {
        (Some(least), Some(most)) if least != most => Finding::warning(
            ABOUT,
            format!("the interfaces of the portals have different MTUs ({shown})"),
            "give all of them, the switches and the hosts the same one",
        ),
        (Some(&least), _) if least <= MTU_ETHERNET => Finding::warning(
            ABOUT,
            format!("no jumbo frames ({shown})"),
            "from 10 Gbit/s on, 'ip link set dev NAME mtu 9000' saves CPU, if switches and hosts have it too",
        ),
        (Some(_), _) => Finding::good(ABOUT, format!("jumbo frames on all portals ({shown})")),
        _ => Finding::good(ABOUT, "only this machine reaches the portals"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;
    use std::net::TcpListener;

    fn seen(mtus: [u32; 2]) -> Vec<Interface> {
        let [a, b] = mtus;
        let json = format!(
            r#"[{{"ifname":"lo","mtu":65536,"flags":["LOOPBACK"],"addr_info":[{{"local":"127.0.0.1"}}]}},
                {{"ifname":"eth0","mtu":{a},"flags":["UP"],"addr_info":[{{"local":"192.0.2.1"}}]}},
                {{"ifname":"eth1","mtu":{b},"addr_info":[{{"local":"2001:db8::1"}},{{}}]}}]"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn frames_are_those_of_the_interfaces_behind_the_portals() {
        let both = ["192.0.2.1:3260", "[2001:db8::1]:3260"].map(|text| text.parse().unwrap());
        let judged = |portals: &[SocketAddr], mtus| frames(portals, &seen(mtus));
        assert_eq!(judged(&both, [9000, 9000]).severity, Severity::Good);
        let different = judged(&both, [9000, 1500]);
        assert!(different.found.contains("(eth0 9000, eth1 1500)"), "{different:?}");
        assert_eq!(judged(&both[..1], [9000, 1500]).severity, Severity::Good);
        assert!(judged(&both[1..], [9000, 1500]).found.contains("no jumbo frames (eth1 1500)"));
        let local = ["127.0.0.1:3260".parse().unwrap()];
        assert!(judged(&local, [1500, 1500]).found.contains("only this machine"));
        let all = ["0.0.0.0:3260".parse().unwrap()];
        assert!(judged(&all, [9000, 1500]).found.contains("different MTUs"));
    }

    #[test]
    fn a_portal_in_use_is_told_from_one_that_cannot_be() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap();
        assert_eq!(portal(&taken).severity, Severity::Warning);
        let elsewhere = portal(&"192.0.2.1:3260".parse().unwrap());
        assert_eq!(elsewhere.severity, Severity::Error);
        assert!(elsewhere.advice.unwrap().contains("this machine has no address 192.0.2.1"));
    }
}
