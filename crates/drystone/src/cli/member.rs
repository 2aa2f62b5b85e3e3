//! The options of `drystone member`.

use crate::cli::group::{PlaceArgs, parse_door};
use crate::cli::manage::{Confirm, MemberArgs};
use clap::{Args, Subcommand, ValueHint};
use member::memory::CacheMemory;
use std::fmt;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Where the file of the member is when nobody says otherwise.
const CONFIG_DEFAULT: &str = "/etc/drystone/member.toml";

/// What stands above the options of `drystone member start` in the long help.
const START_ABOUT: &str = "\
Start the member that a file describes, as drystone.service does at boot.

The keys of the file are the options of drystone up without the dashes:

  data = \"/var/lib/drystone\"
  socket = \"/run/drystone-member/control.sock\"
  disk = [\"/dev/disk/by-id/nvme-*\"]
  portal = [\"192.0.2.10:3260\", \"198.51.100.10:3260\"]
  chap-file = \"/etc/drystone/chap\"
  api-listen = \"192.0.2.10:8443\"
  log = \"info\"

A disk may be a pattern: * stands for any text, ? for one character, [ab]
for one of those. It means all disks that match when the member starts, each
once, and no partitions. Secrets stand in files of their own.

Nobody may use a volume until it has an access list (drystone volume
access), unless allow or chap-file say who may.

Under systemd it tells when it serves, and gives signs of life.";

/// Examples at the foot of `drystone member --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone member check
          Does /etc/drystone/member.toml read, and is all there that it names?
  drystone member check --config ./member.toml
  drystone member show
          Where is it managed from afar, and what is the fingerprint of its certificate?
  systemctl enable --now drystone
          Start the member now and at boot
  drystone member start --config ./member.toml --accept-missing
          By hand, once, because disks are gone that will not come back
  drystone member join 192.0.2.10 --token TICKET --listen 192.0.2.11
          Into the group of the member there, with a ticket of 'drystone group token'
  drystone member list
          Who is in the group, and who is away";

/// The member as a service, and the members of its group.
#[derive(Debug, Args)]
pub(crate) struct MemberCommandArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: MemberCommand,
}

/// What to do with the member as a service, and with the members of its group.
#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// Start the member that a file describes.
    #[command(
        long_about = START_ABOUT,
        after_long_help = "Examples:\n  drystone member start\n  drystone member start --config ./member.toml"
    )]
    Start(StartArgs),

    /// Show where a running member is managed from afar, and the SHA-256 of its certificate.
    #[command(after_long_help = "Examples:\n  drystone member show\n  drystone member show --json")]
    Show(MemberArgs),

    /// Say what is wrong with the file of a member, line by line.
    ///
    /// Nothing is started and no disk is opened. Exit status 1 if the member would not start.
    #[command(
        after_long_help = "Examples:\n  drystone member check\n  drystone member check --json | jq '.findings[]'"
    )]
    Check {
        /// Which file.
        #[command(flatten)]
        file: FileArgs,

        /// Print JSON instead of lines for people.
        #[arg(long)]
        json: bool,
    },

    /// Join a group: the running member becomes one of it, with its array and its volumes.
    ///
    /// Its volumes stay, and hosts notice nothing. What it has set is the group's from then on, where the group has
    /// nothing of that name; where the group has something else, the member keeps its own settings until that is
    /// cleared ('drystone group share'). A ticket is good for one server; which member of the group is asked makes no
    /// difference.
    #[command(
        after_long_help = "Examples:\n  drystone member join 192.0.2.10 --token TICKET --listen 192.0.2.11\n  drystone member join 192.0.2.10:4000 --token - --member right --listen 192.0.2.11:4000 < ticket"
    )]
    Join(JoinArgs),

    /// List the members of the group: how they are, where they are, what they serve.
    #[command(after_long_help = "Examples:\n  drystone member list\n  drystone member list --json")]
    List(MemberArgs),

    /// Put a member into another pool. Its volumes go with it, and hosts notice nothing.
    #[command(after_long_help = "Examples:\n  drystone member move right --pool fast")]
    Move {
        /// The member.
        #[arg(value_name = "NAME")]
        name: String,

        /// The pool, which is there.
        #[arg(long, value_name = "POOL")]
        pool: String,

        /// Which member is asked, and how to print.
        #[command(flatten)]
        asked: MemberArgs,
    },

    /// Move all volumes of a member to others, before it is removed or its server is worked on.
    ///
    /// Each goes to the member with most room, one after the other, while hosts use it: see 'drystone volume move'. What
    /// stays is listed with the reason. New volumes can still be made there meanwhile.
    #[command(
        after_long_help = "Examples:\n  drystone member vacate right\n  drystone member vacate right --pool fast --yes\n  drystone member vacate right && drystone member remove right"
    )]
    Vacate {
        /// The member.
        #[arg(value_name = "NAME")]
        name: String,

        /// The pool whose members get them [default: that of the member].
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,

        /// Which member is asked, and how to print.
        #[command(flatten)]
        asked: MemberArgs,
    },

    /// Remove a member from the group, also one that is gone for good, while the store of the group answers.
    ///
    /// It keeps its array and its volumes and serves them alone; where it is away, it hears of that when it is
    /// started again. The last member cannot be removed: 'drystone group delete' ends the group. What it knows of the
    /// keys of the group it knows on: where it does not come back, erase group/ in its data directory, and nothing else
    /// there. One that is there and has a part in moving a volume is not removed before that is done; with
    /// --despite-moves it is, and you may have to settle what its moves have left ('drystone volume settle'). One that is the
    /// home of a volume that lies on several members, or has a part of one, is not removed either, as what is there of it is
    /// lost: delete those volumes first, or write --despite-spreads.
    #[command(
        after_long_help = "Examples:\n  drystone member remove right\n  drystone member remove right --yes"
    )]
    Remove {
        /// The member.
        #[arg(value_name = "NAME")]
        name: String,

        /// Also if it has a part in moving volumes.
        #[arg(long)]
        despite_moves: bool,

        /// Also if volumes that lie on several members lie on it, too: what they have there is lost.
        #[arg(long)]
        despite_spreads: bool,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,

        /// Which member is asked, and how to print.
        #[command(flatten)]
        asked: MemberArgs,
    },
}

/// Into which group, as whom.
#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// Where a member of the group is reached, as it was told with --listen; the port is 3262 where none is written.
    #[arg(value_name = "HOST[:PORT]", value_parser = parse_door)]
    pub(crate) group: String,

    /// The ticket that 'drystone group token' printed there.
    ///
    /// With - it comes on standard input. On the command line others can read it in the process list while this
    /// command runs; it is good for one server, once.
    #[arg(long, value_name = "TICKET")]
    pub(crate) token: TicketWord,

    /// Give up what is set here: policies, CHAP users, accounts, tokens and destinations of events are as the group has
    /// them from then on.
    ///
    /// Only policies and CHAP users that the group does not have, and that access lists of volumes here need, go to it.
    #[arg(long)]
    pub(crate) replace_settings: bool,

    /// What this member is called, and where others reach it.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Which member joins, and how to print.
    #[command(flatten)]
    pub(crate) asked: MemberArgs,
}

/// A ticket as it was written, which is not shown.
#[derive(Clone)]
pub(crate) struct TicketWord(pub(crate) Zeroizing<String>);

impl From<String> for TicketWord {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for TicketWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketWord(..)")
    }
}

/// Which file.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The file that describes the member.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, default_value = CONFIG_DEFAULT)]
    pub(crate) config: PathBuf,
}

/// How to start.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Which file.
    #[command(flatten)]
    pub(crate) file: FileArgs,

    /// Open the array although disks are missing without which it refuses to open; see drystone up
    /// --help. For one start: it cannot stand in the file.
    #[arg(long)]
    pub(crate) accept_missing: bool,

    /// Serve volumes without an access list to everybody, also without the CHAP secret or the rules of
    /// an earlier start; see drystone up --help. For one start: it cannot stand in the file.
    #[arg(long)]
    pub(crate) open_access: bool,

    /// Memory for the read cache, whatever the file says; see drystone up --help.
    #[arg(long, value_name = "SIZE|auto")]
    pub(crate) cache_memory: Option<CacheMemory>,
}
