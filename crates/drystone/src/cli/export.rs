//! The options of `drystone export`.

use crate::access::secret::Login;
use crate::access::{allow, name, portal, secret};
use crate::cli::number;
use crate::spec::Spec;
use clap::{Args, ValueEnum, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The portal when none is given: reachable from this machine alone.
pub(crate) const PORTAL_DEFAULT: &str = "127.0.0.1:3260";

/// The name of the target when none is given.
pub(crate) const IQN_DEFAULT: &str = "iqn.2026-11.dev.drystone:export";

/// TCP congestion control of data connections when none is named.
pub(crate) const CONGESTION_DEFAULT: &str = "cubic";

/// What stands above the options in the long help. Lines of up to 72 columns fit a terminal of 80
/// in the man page too.
pub(crate) const ABOUT: &str = "\
Serve disks over iSCSI, as LUN 0, 1, 2 ... of one target.

Each SPEC is one disk:

  ram:SIZE          in memory; gone when drystone ends
  null:SIZE         nowhere: writes are dropped, reads give zeroes
  file:PATH[:SIZE]  in a file; a missing one is created sparse
  disk:PATH         on a block device, such as disk:/dev/sdb
  sim:DRIVE[:SIZE[:PATH]]
                    in memory or in the file PATH, but as slow as a
                    real drive: sas15k, sas10k, nl-sas, sata-ssd, nvme

with options behind commas:

  ro                refuse writes
  block=512|4096    logical block size; default 512, or the disk's own
  cache=durable     answer a write once it survives the loss of power;
                    the default
  cache=volatile    answer it at once; durable after SYNCHRONIZE CACHE
                    or FUA
  serial=TEXT       serial number, 1 to 32 letters, digits or . _ : -
                    default: made from this machine, the target's name
                    and the path or LUN, the same at every start

Sizes are binary: 512M, 10G, 1T, also 4KiB or plain bytes. A comma
inside a path is written twice; a path that ends like a size, as in
/srv/a:1G, needs its size behind it.

Once the target is ready it prints one line for each LUN and each portal
to stdout. SIGINT and SIGTERM stop it cleanly: running tasks end,
sessions are logged out, everything is flushed. A second signal ends it
at once.";

/// Examples at the foot of `drystone export --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone export ram:1G
          A disk in memory for hosts on this machine
  drystone export file:/srv/a.img:10G \\
          file:/srv/b.img:1T,block=4096,cache=volatile
          Two files as LUN 0 and 1; the second has 4096-byte blocks and a
          write cache
  drystone export disk:/dev/sdb --portal 192.0.2.10:3260 \\
          --portal [2001:db8::10]:3260
          A whole disk on two paths, for multipath
  drystone export file:/srv/a.img --portal 192.0.2.10 \\
          --iqn iqn.2026-11.com.example:a \\
          --allow 192.0.2.0/24 --chap-file /etc/drystone/chap
          Only for hosts of one network that know the secret
  DRYSTONE_CHAP=alice:sixteen-bytes-ok drystone export ram:1G
          A secret from the environment does not show in the process list";

/// Serve disks over iSCSI, as LUN 0, 1, 2 ... of one target.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A disk to serve: ram:SIZE, null:SIZE, file:PATH[:SIZE], disk:PATH or sim:DRIVE[:SIZE], with
    /// options behind commas.
    #[arg(value_name = "SPEC", required = true, value_parser = Spec::parse)]
    pub(crate) specs: Vec<Spec>,

    /// An address to listen on; may be given more than once.
    ///
    /// IPv6 addresses stand in brackets, as in [::1]:3260. Without a port it is 3260; port 0
    /// takes a free one. 0.0.0.0 and [::] listen on every address of the machine.
    #[arg(long = "portal", value_name = "ADDR:PORT", default_value = PORTAL_DEFAULT, value_parser = portal::parse)]
    #[arg(help_heading = "Target")]
    pub(crate) portals: Vec<SocketAddr>,

    /// The iSCSI name of the target.
    ///
    /// It should be the only one of its name in the network: iqn.YYYY-MM.REVERSED-DOMAIN:TEXT
    /// with a month in which you owned the domain.
    #[arg(long, value_name = "IQN", default_value = IQN_DEFAULT, value_parser = name::parse)]
    #[arg(help_heading = "Target")]
    pub(crate) iqn: String,

    /// A text for people that hosts show beside the name.
    #[arg(long, value_name = "TEXT", value_parser = parse_alias, help_heading = "Target")]
    pub(crate) alias: Option<String>,

    /// Print, once ready, the commands that log in from Linux, QEMU and libiscsi.
    #[arg(long, help_heading = "Target")]
    pub(crate) hints: bool,

    /// Hosts must log in by CHAP as this user.
    ///
    /// The last colon parts the user from the secret. A secret has 12 bytes or more; Windows
    /// takes at most 16. Others on this machine can read it in the process list: better write it
    /// to a file (--chap-file) or to the environment variable DRYSTONE_CHAP.
    #[arg(long, value_name = "USER:SECRET", value_parser = secret::parse, conflicts_with = "chap_file")]
    #[arg(help_heading = "Access")]
    pub(crate) chap: Option<Login>,

    /// Like --chap, read from a file.
    ///
    /// It holds USER:SECRET on one line, or user and secret on two, and should be readable by
    /// its owner alone (chmod 600).
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub(crate) chap_file: Option<PathBuf>,

    /// The target proves itself to hosts that ask, as this user; needs --chap.
    ///
    /// The secret must differ from that of --chap. It may also come from --mutual-chap-file or
    /// the environment variable DRYSTONE_MUTUAL_CHAP.
    #[arg(long, value_name = "USER:SECRET", value_parser = secret::parse, conflicts_with = "mutual_chap_file")]
    #[arg(help_heading = "Access")]
    pub(crate) mutual_chap: Option<Login>,

    /// Like --mutual-chap, read from a file.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub(crate) mutual_chap_file: Option<PathBuf>,

    /// Who may log in: an initiator's name, a network or an address; may be given more than
    /// once.
    ///
    /// One rule must match. Without this option everyone may log in who can reach a portal and
    /// knows the secret, if there is one.
    #[arg(long = "allow", value_name = "IQN|CIDR", value_parser = allow::parse)]
    #[arg(help_heading = "Access")]
    pub(crate) allow: Vec<allow::Allow>,

    /// Connections that may be open at once.
    #[arg(long, value_name = "N", default_value = "8192", value_parser = number::connections)]
    #[arg(help_heading = "Access")]
    pub(crate) max_connections: usize,

    /// Connections that may be logging in at once.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = number::logins)]
    #[arg(help_heading = "Access")]
    pub(crate) max_logins: usize,

    /// How long a login may take.
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = number::seconds)]
    #[arg(help_heading = "Access")]
    pub(crate) login_timeout: Duration,

    /// Cores that serve sessions, one thread each [default: all that this process may use].
    #[arg(long, value_name = "N", value_parser = number::cores, help_heading = "Engine")]
    pub(crate) cores: Option<u16>,

    /// What a core does when it runs out of work.
    #[arg(long, value_enum, default_value_t = Policy::Balanced, help_heading = "Engine")]
    pub(crate) policy: Policy,

    /// Commands that a session may have under way.
    #[arg(long, value_name = "N", default_value = "128", value_parser = number::commands)]
    #[arg(help_heading = "Engine")]
    pub(crate) queue_depth: u32,

    /// TCP congestion control of data connections, or `system` for the system's default.
    ///
    /// A default of bbr paces, which in a storage network costs a multiple in CPU. See
    /// /proc/sys/net/ipv4/tcp_available_congestion_control for what there is.
    #[arg(long, value_name = "NAME", default_value = CONGESTION_DEFAULT, value_parser = parse_congestion)]
    #[arg(help_heading = "Engine")]
    pub(crate) congestion: String,

    /// After this long a silence a host is asked for a sign of life (NOP-In).
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = number::seconds)]
    #[arg(help_heading = "Engine")]
    pub(crate) keepalive: Duration,

    /// Where persistent reservations are kept that survive a restart (APTPL).
    ///
    /// It is made if it is missing; targets with different names can share one. Without this
    /// option it is /var/lib/drystone for root, else $XDG_STATE_HOME/drystone or
    /// ~/.local/state/drystone.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(env = "DRYSTONE_STATE_DIR", hide_env_values = true, help_heading = "Engine")]
    pub(crate) state_dir: Option<PathBuf>,
}

/// What a core does when it runs out of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Look for more for up to 50 us before sleeping: lowest latency, more CPU under light load
    Latency,
    /// Look for as long as recent arrivals make it worth the CPU
    Balanced,
    /// Sleep at once: least CPU
    Efficient,
}

/// TargetAlias (RFC 7143 13.7) is UTF-8 of at most 255 bytes.
fn parse_alias(text: &str) -> Result<String, String> {
    if (1..=255).contains(&text.len()) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err("the alias must be a line of text: write 1 to 255 bytes without control characters"
            .to_owned())
    }
}

/// The name of an algorithm as the kernel writes it (TCP_CA_NAME_MAX is 16 with the final NUL).
fn parse_congestion(text: &str) -> Result<String, String> {
    let belongs = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if (1..16).contains(&text.len()) && text.bytes().all(belongs) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "'{text}' is not a TCP congestion control: write cubic, another that the kernel has, or system"
        ))
    }
}
