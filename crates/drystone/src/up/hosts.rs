//! Which hosts volumes without an access list are for.

use crate::advice::access::{for_nobody, let_in_by};
use crate::cli::up::UpArgs;
use crate::serve::plan::Plan;
use iscsi::address::AddressPattern;
use member::{Hosts, Shown, ShownVolume, Unlisted};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use target::{Access, AccessRule, Config};

/// All addresses of this machine alone (RFC 1122 §3.2.1.3).
const LOOPBACK: &str = "127.0.0.0/8";

/// Whom the command line, or the file, names; `None` if it names nobody.
pub(super) fn named(args: &UpArgs, plan: &Plan) -> Option<Unlisted> {
    if plan.chap.is_some() || !args.serve.allow.is_empty() {
        return Some(Unlisted::Rule);
    }
    args.open_access.then_some(Unlisted::Everybody)
}

/// Makes that the rule of the server. Everybody may ask for targets then, and sees those that it may use.
pub(super) fn let_in(unlisted: Unlisted, config: &mut Config) {
    let access = match unlisted {
        Unlisted::Rule | Unlisted::Everybody => return,
        Unlisted::Loopback => Access::uniform(loopback(), None, None),
        Unlisted::Nobody => Access::nobody(),
    };
    config.discovery = Some(Access::everyone());
    config.access = access;
}

fn loopback() -> Vec<AccessRule> {
    let v4: AddressPattern = LOOPBACK.parse().expect("it is a network");
    vec![AccessRule::from(v4), AccessRule::from(IpAddr::from(Ipv6Addr::LOCALHOST))]
}

/// Says which volumes hosts cannot use that somebody may mean to use them.
pub(super) fn warn(shown: &Shown, portals: &[SocketAddr]) {
    let of = |hosts: Hosts| {
        let those = shown.volumes.iter().filter(move |volume| volume.hosts == hosts);
        those.map(|ShownVolume { info, .. }| info.name.as_str()).collect::<Vec<_>>()
    };
    let nobody = of(Hosts::Nobody);
    if !nobody.is_empty() {
        tracing::warn!("{}", for_nobody(&nobody));
    }
    let (local, is_remote) =
        (of(Hosts::Loopback), |portal: &SocketAddr| !portal.ip().is_loopback());
    if !local.is_empty() && portals.iter().any(is_remote) {
        tracing::warn!(
            "only hosts on this machine may use {}: {}, and so does --allow for all volumes without an access list",
            local.join(", "),
            let_in_by(local[0])
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_what_its_own_addresses_of_loopback_are() {
        let fits = |from: &str| {
            let from = from.parse().unwrap();
            loopback().iter().any(|rule| rule.fits("iqn.2026-11.com.example:a", from))
        };
        for own in ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"] {
            assert!(fits(own), "{own}");
        }
        for other in ["128.0.0.1", "10.0.0.1", "0.0.0.0", "fe80::1", "::", "::ffff:10.0.0.1"] {
            assert!(!fits(other), "{other}");
        }
    }
}
