//! The options of everything that serves targets: portals, access, engine.

use crate::access::secret::Login;
use crate::access::{allow, portal, secret};
use crate::cli::number;
use clap::{Args, ValueEnum, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The portal when none is given: reachable from this machine alone.
pub(crate) const PORTAL_DEFAULT: &str = "127.0.0.1:3260";

/// TCP congestion control of data connections when none is named.
pub(crate) const CONGESTION_DEFAULT: &str = "cubic";

/// Where to listen, who may log in, and how the engine runs.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// An address to listen on; may be given more than once.
    ///
    /// IPv6 addresses stand in brackets, as in [::1]:3260. Without a port it is 3260; port 0
    /// takes a free one. 0.0.0.0 and [::] listen on every address of the machine.
    #[arg(long = "portal", value_name = "ADDR:PORT", default_value = PORTAL_DEFAULT, value_parser = portal::parse)]
    #[arg(help_heading = "Target")]
    pub(crate) portals: Vec<SocketAddr>,

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
    /// its owner alone (chmod 600). With - it comes on standard input.
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
    /// knows the secret, if there is one; but where there is no secret either, volumes of drystone up
    /// are for hosts on this machine alone, and those of drystone member start for nobody, until they
    /// have an access list (drystone volume access). 0.0.0.0/0 and ::/0 are all addresses.
    #[arg(long = "allow", value_name = "IQN|CIDR", value_parser = allow::parse)]
    #[arg(help_heading = "Access")]
    pub(crate) allow: Vec<allow::Allow>,

    /// Connections that may be open at once; one address may have a quarter of them, at least 64,
    /// and never more than are still free.
    #[arg(long, value_name = "N", default_value = "8192", value_parser = number::connections)]
    #[arg(help_heading = "Access")]
    pub(crate) max_connections: usize,

    /// Connections that may be logging in at once, 64 from one address; the oldest give way.
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
