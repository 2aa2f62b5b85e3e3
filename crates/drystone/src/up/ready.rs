//! The lines that tell what is served, once it is, and what to do next.
//!
//! Scripts wait for them, so their form stays: a first word that says what the line is about, then
//! `key=value` pairs. New pairs may come before `name=` in `volume` lines and at the end of the
//! others; the `socket` line is the last, with `path=none` if no socket could be made.

use crate::export::hints::Hints;
use api::types::Interface;
use group::words::counted;
use member::spec::size;
use member::{Hosts, Shown, ShownVolume};
use std::env;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

/// Where a member is managed.
pub(super) struct Managed<'a> {
    /// Its control socket, if one could be made.
    pub(super) socket: Option<&'a Path>,
    /// Where it listens for TLS.
    pub(super) interface: Option<&'a Interface>,
}

/// All that is printed; without a control socket no commands are named.
pub(super) fn text(
    shown: &Shown,
    portals: &[SocketAddr],
    managed: &Managed<'_>,
    hints: bool,
) -> String {
    let Managed { socket, interface } = *managed;
    let Shown { array, volumes, prefix } = shown;
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!(
        "array id={} raid={} disks={} online={} size={}",
        array.id,
        array.raid,
        array.disks,
        array.disks_online,
        size::short(array.size_bytes)
    ));
    for ShownVolume { info: volume, iqn, is_refused, hosts } in volumes {
        let state = serde_json::to_value(volume.state).unwrap_or_default();
        let state = if *is_refused { "not_served" } else { state.as_str().unwrap_or_default() };
        line(format!(
            "volume size={} raid={} state={} iqn={iqn} hosts={} name={}",
            size::short(volume.size_bytes),
            volume.raid,
            state,
            word(*hosts),
            volume.name
        ));
    }
    for address in portals {
        line(format!("portal address={address} prefix={prefix}"));
    }
    if let Some(Interface { addresses, certificate_sha256: Some(sha256), .. }) = interface {
        for address in addresses {
            line(format!("api address={address} sha256={sha256}"));
        }
    }
    line(format!("socket path={}", socket.unwrap_or(Path::new("none")).display()));
    if let (true, Some(portal), Some(socket)) = (hints, portals.first(), socket) {
        next_steps(&mut text, volumes, *portal, socket);
    }
    text
}

const fn word(hosts: Hosts) -> &'static str {
    match hosts {
        Hosts::Listed => "listed",
        Hosts::Rule => "rule",
        Hosts::Everybody => "everybody",
        Hosts::Loopback => "loopback",
        Hosts::Nobody => "nobody",
    }
}

/// The same in a few words, for `systemctl status`.
pub(super) fn status(shown: &Shown) -> String {
    let Shown { array, volumes, .. } = shown;
    format!(
        "serves {}; {} of {} online",
        counted(volumes.len() as u64, "volume"),
        array.disks_online,
        counted(u64::from(array.disks), "disk"),
    )
}

/// Commands that can be pasted as they are.
fn next_steps(text: &mut String, volumes: &[ShownVolume], portal: SocketAddr, socket: &Path) {
    // A write to a String cannot fail.
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    let program = env::current_exe().unwrap_or_else(|_| "drystone".into());
    let _ = writeln!(
        text,
        "\n# from another terminal\nexport DRYSTONE_SOCKET={}\nalias drystone={}",
        socket.display(),
        program.display()
    );
    match volumes.first() {
        None => {
            let _ = writeln!(
                text,
                "drystone volume create vm1 10G     # a volume, at once a target of its own\n\
                 drystone volume show vm1           # its name for hosts, its state\n\
                 drystone snapshot create vm1\n\
                 drystone disk list\n\
                 drystone array show"
            );
        }
        Some(ShownVolume { iqn, .. }) => {
            let _ = writeln!(text, "drystone volume list\n");
            text.push_str(&Hints { portal, iqn, chap_user: None }.text());
        }
    }
}
