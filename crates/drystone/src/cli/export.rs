//! The options of `drystone export`.

use crate::access::name;
use crate::cli::serve::ServeArgs;
use clap::{Args, ValueHint};
use member::spec::Spec;
use std::path::PathBuf;

/// The name of the target when none is given.
pub(crate) const IQN_DEFAULT: &str = "iqn.2026-11.dev.drystone:export";

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
  volatile:SIZE:PATH
                    in the file PATH, for tests of crashes: killing
                    drystone loses what was not flushed, as a power cut

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

    /// Where persistent reservations are kept that survive a restart (APTPL).
    ///
    /// It is made if it is missing; targets with different names can share one. Without this
    /// option it is /var/lib/drystone for root, else $XDG_STATE_HOME/drystone or
    /// ~/.local/state/drystone.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(env = "DRYSTONE_STATE_DIR", hide_env_values = true, help_heading = "Engine")]
    pub(crate) state_dir: Option<PathBuf>,

    /// Where to listen, who may log in, and how the engine runs.
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
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
