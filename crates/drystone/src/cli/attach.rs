//! The options of `drystone attach`, `attached` and `detach`.

use crate::access::secret::Login;
use crate::access::{name, secret};
use crate::cli::number;
use attach::nbd::Address;
use clap::{ArgGroup, Args, ValueHint};
use initiator::TargetAddress;
use initiator::paths::Policy;
use std::path::PathBuf;
use std::time::Duration;

/// What stands above the options of `attach` in the long help.
pub(crate) const ABOUT: &str = "\
Attach a volume as a local disk.

Logs in to an iSCSI target and serves one of its logical units on this
machine until SIGINT, SIGTERM or drystone detach: over NBD, for QEMU,
nbdcopy, fio and every other NBD client, as a file, for loop devices and
virtual machines, or as a block device, for file systems and everything
that takes a disk. Flush, FUA, trim and write-zeroes pass through.

Once the disk can be used it prints one line to stdout that begins with
'attached'. When it stops, writes that were accepted are flushed and all
sessions are logged out. A second signal ends it at once.

With --all one process attaches what the files /etc/drystone/attach.d/*.toml
say, each volume on its own, and tries again where a target is not there yet.
Such a file holds one volume; its keys are the options without the dashes:

  url = \"iscsi://192.0.2.10/iqn.2026-11.com.example:a\"
  ublk = true
  policy = \"service-time\"
  chap-file = \"/etc/drystone/a.chap\"

SIGHUP makes it read them again: what is new is attached, and what has gone is
detached unless it is in use.";

/// Examples at the foot of `drystone attach --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone attach iscsi://192.0.2.10/iqn.2026-11.com.example:a \\
          --nbd unix:/run/a.sock
          LUN 0 for NBD clients on this machine, such as
          qemu-img info 'nbd+unix:///?socket=/run/a.sock'
  drystone attach iscsi://[2001:db8::10]:3261/iqn.2026-11.com.example:a/3 \\
          --fuse /mnt/a --policy service-time --sessions 4
          LUN 3 as the file /mnt/a/disk, over four sessions
  modprobe ublk_drv
  drystone attach iscsi://192.0.2.10/iqn.2026-11.com.example:a --ublk
          LUN 0 as a block device; at= tells which one, such as /dev/ublkb0
  DRYSTONE_CHAP=alice:sixteen-bytes-ok drystone attach \\
          iscsi://192.0.2.10/iqn.2026-11.com.example:a --nbd 127.0.0.1:10809
          A secret from the environment does not show in the process list
  drystone attach --all
          All of /etc/drystone/attach.d, as drystone-attach.service does it at
          boot
  drystone attach --all --config-dir ./attach.d --runtime-dir ./run
          Other files, also for a user that is not root";

/// Examples at the foot of `drystone attached --help`.
pub(crate) const ATTACHED_EXAMPLES: &str = "\
Examples:
  drystone attached
  drystone attached --interval 5
          Rates over five seconds
  drystone attached --json | jq '.[].paths[].state'";

/// Examples at the foot of `drystone detach --help`.
pub(crate) const DETACH_EXAMPLES: &str = "\
Examples:
  drystone detach /mnt/a
  drystone detach unix:/run/a.sock
  drystone detach /dev/ublkb0
  drystone detach iscsi://192.0.2.10/iqn.2026-11.com.example:a
  drystone detach 4711
          The process of this number, as drystone attached shows it
  drystone detach db
          The volume that /etc/drystone/attach.d/db.toml tells of";

/// Attach a volume as a local disk.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true).args(["nbd", "fuse", "ublk", "all"]))]
pub(crate) struct AttachArgs {
    /// The volume: iscsi://HOST[:PORT]/IQN[/LUN], LUN 0 if none is named.
    #[arg(value_name = "URL", required_unless_present = "all")]
    pub(crate) volume: Option<TargetAddress>,

    /// Attach what the files of a directory tell of, one volume each, in one process.
    ///
    /// A target that is not there yet is waited for, as long as it takes.
    #[arg(long, conflicts_with_all = [
        "volume", "policy", "sessions", "connections", "path_timeout", "initiator", "chap",
        "chap_file", "mutual_chap", "mutual_chap_file",
    ])]
    pub(crate) all: bool,

    /// Where --all finds its files, DIR/*.toml.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "all")]
    #[arg(default_value = "/etc/drystone/attach.d")]
    pub(crate) config_dir: PathBuf,

    /// Serve it over NBD, on a Unix socket (unix:PATH) or a TCP port (ADDR:PORT).
    ///
    /// Whoever can connect can read and write: there is no password. A Unix socket is protected
    /// by the modes of its directory; port 0 takes a free port.
    #[arg(long, value_name = "unix:PATH|ADDR:PORT", value_parser = parse_nbd)]
    pub(crate) nbd: Option<Address>,

    /// Serve it as the file DIR/disk; DIR must exist.
    ///
    /// Needs /dev/fuse, and root or the program fusermount3.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) fuse: Option<PathBuf>,

    /// Serve it as the block device /dev/ublkbN; the kernel chooses N.
    ///
    /// Needs root, Linux 6.5 or newer and its driver ublk_drv (modprobe ublk_drv).
    #[arg(long)]
    pub(crate) ublk: bool,

    /// How to choose among paths: failover, round-robin[:COMMANDS], least-queue-depth,
    /// service-time or routed.
    ///
    /// With routed, a command goes to the member that owns its page, as far as the target tells.
    #[arg(long, value_name = "POLICY", default_value = "least-queue-depth")]
    #[arg(help_heading = "Paths")]
    pub(crate) policy: Policy,

    /// Sessions to open, spread over the ports of this host and those of the target [default: as
    /// many as fill the smaller side, at most 2 for each member and 6 in all].
    #[arg(long, value_name = "N", value_parser = number::sessions, help_heading = "Paths")]
    pub(crate) sessions: Option<u16>,

    /// TCP connections of each session; the target may allow fewer.
    ///
    /// More than one help where a single connection cannot fill a link. When one of them is lost,
    /// its session logs in again with all.
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::session_connections)]
    #[arg(help_heading = "Paths")]
    pub(crate) connections: u16,

    /// How long I/O waits while no path works; then it fails.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = number::seconds)]
    #[arg(help_heading = "Paths")]
    pub(crate) path_timeout: Duration,

    /// The name to log in as.
    ///
    /// Access rules and reservations go by it. Without this option it is the one in
    /// /etc/iscsi/initiatorname.iscsi, which open-iscsi uses too, else one made from this
    /// machine's ID.
    #[arg(long, value_name = "IQN", value_parser = name::parse, help_heading = "Access")]
    pub(crate) initiator: Option<String>,

    /// Log in by CHAP as this user.
    ///
    /// The last colon parts the user from the secret. Others on this machine can read it in the
    /// process list: better write it to a file (--chap-file) or to the environment variable
    /// DRYSTONE_CHAP.
    #[arg(long, value_name = "USER:SECRET", value_parser = secret::parse, conflicts_with = "chap_file")]
    #[arg(help_heading = "Access")]
    pub(crate) chap: Option<Login>,

    /// Like --chap, read from a file.
    ///
    /// It holds USER:SECRET on one line, or user and secret on two, and should be readable by
    /// its owner alone (chmod 600).
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub(crate) chap_file: Option<PathBuf>,

    /// The target must prove itself as this user; needs --chap.
    ///
    /// The secret must differ from that of --chap. It may also come from --mutual-chap-file or
    /// the environment variable DRYSTONE_MUTUAL_CHAP.
    #[arg(long, value_name = "USER:SECRET", value_parser = secret::parse, conflicts_with = "mutual_chap_file")]
    #[arg(help_heading = "Access")]
    pub(crate) mutual_chap: Option<Login>,

    /// Like --mutual-chap, read from a file.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub(crate) mutual_chap_file: Option<PathBuf>,

    /// Where attachments can be found.
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,
}

/// Show what is attached on this machine, and how its paths do.
#[derive(Debug, Args)]
pub(crate) struct AttachedArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// The time over which rates are measured.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = number::seconds)]
    pub(crate) interval: Duration,

    /// Where attachments can be found.
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,
}

/// Detach a volume: flush, log out, end.
#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// Which one: its name, its directory, its block device, its NBD address, its URL or its
    /// process number.
    #[arg(value_name = "WHICH")]
    pub(crate) which: String,

    /// Where attachments can be found.
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,
}

/// Where attachments can be found.
#[derive(Debug, Args)]
pub(crate) struct RuntimeArgs {
    /// Where attachments can be found by `attached` and `detach`.
    ///
    /// Without this option it is /run/drystone for root, else $XDG_RUNTIME_DIR/drystone.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(env = "DRYSTONE_RUNTIME_DIR", hide_env_values = true, help_heading = "Engine")]
    pub(crate) runtime_dir: Option<PathBuf>,
}

/// Reads `unix:PATH` or `ADDR:PORT`.
fn parse_nbd(text: &str) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(Address::Unix(path.into()));
    }
    text.parse().map(Address::Tcp).map_err(|_| {
        format!("'{text}' is not an address for NBD: write unix:PATH or ADDRESS:PORT, such as unix:/run/a.sock or 127.0.0.1:10809")
    })
}
