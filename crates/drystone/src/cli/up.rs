//! The options of `drystone up`.

use crate::access::name;
use crate::cli::serve::ServeArgs;
use array::Level;
use clap::{Args, ValueHint};
use member::memory::CacheMemory;
use member::spec::disk::MemberDisk;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The longest beginning of names: a volume and a snapshot must fit behind it.
const IQN_BYTES_MAX: usize = 95;

/// What stands above the options in the long help.
pub(crate) const ABOUT: &str = "\
Serve the volumes of an array of disks over iSCSI.

Makes an array of the disks, or opens the one that is on them, in
whatever order they are named. Each volume is a target of its own with
LUN 0. Volumes, snapshots and disks are managed while it runs: see
drystone volume, snapshot, disk and array.

Hosts on this machine may use all volumes. Others may use those that
they are let in to: by drystone volume access, or by --allow and --chap
for all volumes without an access list.

Each --disk is one of:

  PATH              a block device, or a file that exists
  PATH:SIZE         a file; a missing one is created sparse
  ram:SIZE          memory, for tests; gone when drystone ends
  sim:DRIVE:SIZE    as slow as a real drive, for comparisons, such as
                    sim:nl-sas:4T; see drystone export --help
  volatile:SIZE:PATH  for tests of crashes; see drystone export --help

Without --disk, and if none were used in DIR before, six sparse files of
8 GiB in DIR are the disks, so that there is something to try. Disks are
remembered in DIR: they need not be named again.

Once it serves, it prints one line each for the array, its volumes, the
portals, the addresses where it is managed over TLS, and the control socket
to stdout. SIGINT and SIGTERM stop it
cleanly. A second signal ends it at once; nothing that was acknowledged
is lost then either.";

/// Examples at the foot of `drystone up --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone up
          An array of six files, to try it
  drystone up --disk /dev/sdb --disk /dev/sdc --disk /dev/sdd \\
          --raid raid5 --portal 192.0.2.10:3260 --allow 192.0.2.0/24
          Three disks for hosts of the network
  drystone volume create vm1 100G
          A volume, from another terminal
  drystone up --api-listen 192.0.2.10:8443
          Manage it from other machines too, with accounts and tokens
  drystone up --members 3
          A group of three members on this machine, to try it
  drystone up --disk ram:4G --disk ram:4G --data /tmp/try \\
          --socket /tmp/try/control.sock
          All in memory, beside another member";

/// Serve the volumes of an array of disks over iSCSI.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// A disk of the array: PATH[:SIZE]; may be given more than once.
    #[arg(long = "disk", value_name = "PATH[:SIZE]", help_heading = "Array")]
    pub(crate) disks: Vec<MemberDisk>,

    /// A fast disk for the journal alone, for an array that is made now: PATH[:SIZE]; two mirror
    /// each other. Without it the journal is on three of the disks.
    ///
    /// If the only one is lost, so are the last writes: name two.
    #[arg(long = "journal", value_name = "PATH[:SIZE]", help_heading = "Array")]
    pub(crate) journals: Vec<MemberDisk>,

    /// The RAID level of volumes that name none, for an array that is made now [default: raid10,
    /// or raid0 with one disk].
    #[arg(long, value_name = "LEVEL", help_heading = "Array")]
    pub(crate) raid: Option<Level>,

    /// Open the array although disks are missing without which it refuses to open.
    ///
    /// What only those disks know is given up for good: writes that were answered when the others
    /// were not there, if there were any. Look for the disks first, and be sure that no other
    /// machine serves them. Without need it changes nothing.
    #[arg(long, help_heading = "Array")]
    pub(crate) accept_missing: bool,

    /// Where the member keeps what it remembers of this machine: its disks, who may log in, logs,
    /// keys, and files that are its disks.
    ///
    /// It is made if it is missing. Without this option it is /var/lib/drystone for root, else
    /// $XDG_STATE_HOME/drystone or ~/.local/state/drystone.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(env = "DRYSTONE_DATA", hide_env_values = true, help_heading = "Array")]
    pub(crate) data: Option<PathBuf>,

    /// Serve volumes without an access list to everybody who reaches a portal, also without the CHAP
    /// secret or the rules (--allow) of an earlier start.
    ///
    /// If a secret or rules are given now, these hold, and only others that were given before are left out.
    ///
    /// The member remembers that there were some, and refuses to start without them: no restart opens
    /// it to more hosts by mistake. This option makes it forget those that are not given now, and throws
    /// away all settings on the array, from access lists to accounts, schedules and persistent reservations, if they
    /// cannot be read and no disk is missing that may bring them back.
    #[arg(long, help_heading = "Access")]
    pub(crate) open_access: bool,

    /// How the names of all targets begin; a colon and the volume's name follow. The array
    /// remembers it [default: as it remembers, or iqn.2026-11.dev.drystone: and eight digits of
    /// its ID].
    #[arg(long, value_name = "IQN", value_parser = parse_prefix, help_heading = "Target")]
    pub(crate) iqn: Option<String>,

    /// Print, once ready, what to do next.
    #[arg(long, help_heading = "Target")]
    pub(crate) hints: bool,

    /// Run so many members on this machine, 2 to 8, which form a group, to try it. etcd must be installed.
    ///
    /// Each is a process of its own with its disks below DIR of --data and its portal at 127.0.0.1:3260,
    /// 127.0.0.2:3260 and so on. The control socket is that of the first; the sockets of the others are printed. Other
    /// options are for all of them. One that ends, or is killed, is left; all stop with this process. The read cache of
    /// each has 64M, if nothing else is asked for.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=8))]
    #[arg(conflicts_with_all = ["disks", "journals", "accept_missing", "iqn", "portals", "api_listen"])]
    #[arg(help_heading = "Group")]
    pub(crate) members: Option<u8>,

    /// Memory for the read cache, which keeps blocks of volumes that are read again: such as 4G, at least
    /// 16M, or auto for a quarter of what the member may use, at least 64M.
    ///
    /// It gives memory back while the machine is short of it. 'drystone array set --cache-memory' changes it until the
    /// member stops; 'drystone volume set --read-cache off' leaves a volume out.
    #[arg(long, value_name = "SIZE|auto", default_value_t, help_heading = "Engine")]
    pub(crate) cache_memory: CacheMemory,

    /// Where commands reach this member.
    #[command(flatten)]
    pub(crate) socket: SocketArgs,

    /// Where it is managed from afar.
    #[command(flatten)]
    pub(crate) api: ApiArgs,

    /// Where to listen, who may log in, and how the engine runs.
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Where a member is managed from afar.
#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    /// An address at which the member is managed over TLS; may be given more than once.
    ///
    /// Who asks there needs an account or a token: see drystone account and token. Without this option commands reach
    /// the member by its socket alone. While the member has the address of its group it answers there too, at the first
    /// of these ports whose address is in the same network or unspecified: give all members the same (see drystone group
    /// certificate). With addresses of other networks only it does not.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_api, help_heading = "Management")]
    pub(crate) api_listen: Vec<SocketAddr>,

    /// The certificate that it proves itself with there, in PEM, with those that vouch for it behind it.
    ///
    /// Without this option one is made at the first start, in DIR of --data. Who connects checks its
    /// SHA-256, which is printed at the start and by drystone member show.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Management")]
    pub(crate) api_certificate: Option<PathBuf>,

    /// The key of that certificate, in PEM, in a file that not everybody may read.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Management")]
    pub(crate) api_key: Option<PathBuf>,
}

impl ApiArgs {
    /// Refuses options that say nothing without others, and addresses at which hosts are answered.
    pub(crate) fn check(&self, portals: &[SocketAddr]) -> Result<(), String> {
        let Self { api_listen, api_certificate, api_key } = self;
        let is_at = |address: &SocketAddr, portal: &SocketAddr| {
            let is_same = address.ip() == portal.ip();
            let is_any = address.ip().is_unspecified() || portal.ip().is_unspecified();
            address.port() == portal.port() && address.port() != 0 && (is_same || is_any)
        };
        let taken = api_listen.iter().find(|at| portals.iter().any(|portal| is_at(at, portal)));
        if let Some(address) = taken {
            return Err(format!(
                "hosts are answered at {address}: write another port behind --api-listen, such as 8443"
            ));
        }
        match (api_listen.is_empty(), api_certificate, api_key) {
            (_, Some(_), None) => {
                Err("a certificate needs its key: write --api-key FILE beside --api-certificate"
                    .to_owned())
            }
            (_, None, Some(_)) => {
                Err("a key needs its certificate: write --api-certificate FILE beside --api-key"
                    .to_owned())
            }
            (true, Some(_), Some(_)) => Err(
                "nothing is served over TLS: write --api-listen ADDR:PORT beside --api-certificate"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }
}

/// Where a member is reached.
#[derive(Debug, Args)]
pub(crate) struct SocketArgs {
    /// The control socket of the member.
    ///
    /// Without this option it is /run/drystone/control.sock for root, else
    /// $XDG_RUNTIME_DIR/drystone/control.sock. Where nobody serves at that one, commands look for the
    /// service at /run/drystone-member/control.sock.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    #[arg(env = "DRYSTONE_SOCKET", hide_env_values = true, global = true)]
    pub(crate) socket: Option<PathBuf>,
}

fn parse_api(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "'{text}' is no address with a port: write ADDRESS:PORT, such as 192.0.2.10:8443 or [2001:db8::10]:8443"
        )
    })
}

fn parse_prefix(text: &str) -> Result<String, String> {
    let iqn = name::parse(text).map_err(|error| error.to_string())?;
    if iqn.len() > IQN_BYTES_MAX {
        return Err(format!(
            "'{text}' leaves no room for the names of volumes: write at most {IQN_BYTES_MAX} characters"
        ));
    }
    Ok(iqn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tls_that_say_nothing_alone_are_refused() {
        let check = |listens: &[&str], certificate: Option<&str>, key: Option<&str>| {
            let api_listen = listens.iter().map(|text| parse_api(text).expect("one")).collect();
            let (certificate, key) = (certificate.map(Into::into), key.map(Into::into));
            let portals = [parse_api("192.0.2.1:3260").expect("one")];
            ApiArgs { api_listen, api_certificate: certificate, api_key: key }.check(&portals)
        };
        let listens = ["192.0.2.1:8443", "[::1]:8443"];
        assert!(check(&[], None, None).is_ok() && check(&listens, None, None).is_ok());
        assert!(check(&listens, Some("c"), Some("k")).is_ok());
        let said = |listens: &[&str], c, k| check(listens, c, k).unwrap_err();
        assert!(said(&listens, Some("c"), None).contains("write --api-key"));
        assert!(said(&listens, None, Some("k")).contains("write --api-certificate"));
        assert!(said(&[], Some("c"), Some("k")).contains("write --api-listen"));
        for taken in ["192.0.2.1:3260", "0.0.0.0:3260"] {
            assert!(said(&[taken], None, None).contains(&format!("answered at {taken}: write")));
        }
        assert!(check(&["192.0.2.2:3260"], None, None).is_ok());
        for wrong in ["192.0.2.1", "host:8443", "::1:8443", ":8443", ""] {
            assert!(parse_api(wrong).is_err(), "{wrong}");
        }
    }
}
