//! The options of `drystone volume`.

use crate::cli::access::{ACCESS_EXAMPLES, AccessCommand};
use crate::cli::manage::{Confirm, Follow, MemberArgs};
use crate::cli::reservations::{self, ReservationsCommand};
use array::Level;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use member::spec::size;

/// Examples at the foot of `drystone volume --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone volume create vm1 100G
          A thin volume, at once a target of its own; in a group, on the member with most room
  drystone volume list
  drystone volume show vm1 --json | jq -r .iqn
  drystone volume resize vm1 200G
          Hosts are told that the disk has grown
  drystone volume offline vm1 && drystone volume delete vm1
          Into the recycle bin; drystone volume undelete vm1 brings it back";

/// Examples at the foot of `drystone volume create --help`.
const CREATE_EXAMPLES: &str = "\
Examples:
  drystone volume create vm1 100G
  drystone volume create db 500G --raid raid10 --block 4096
  drystone volume create scratch 50G --raid raid0 --cache volatile
  drystone volume create mail 1T --thick --read-ahead 4M
  drystone volume create backup 2T --no-cache
          What is read of it takes no memory of the read cache from others
  drystone volume create vm2 100G --pool fast
          In a group: on the member of this pool that has most room
  drystone volume create vm3 100G --on right
          On this member
  drystone volume create big 20T --spread 3
          In a group: on three members at most; hosts reach all of it at its home, the one with most room";

/// Examples at the foot of `drystone volume slices --help`.
const SLICES_EXAMPLES: &str = "\
Examples:
  drystone volume slices
  drystone volume slices --json | jq '.[] | select(.state == \"left-over\")'";

/// Examples at the foot of `drystone volume discard-slice --help`.
const DISCARD_SLICE_EXAMPLES: &str = "\
Examples:
  drystone volume discard-slice 6745c1f0
  drystone volume discard-slice 6745c1f0 --yes";

/// Examples at the foot of `drystone volume rebuild --help`.
const REBUILD_EXAMPLES: &str = "\
Examples:
  drystone volume slices
          WHY says which home has lost what it had stored of its volume
  drystone volume rebuild 6745c1f0
  drystone volume online vm1
          When you have looked at it
  drystone volume rebuild 6745c1f0 --despite-later
          The home has the newest disks that there are, although others have seen later ones";

/// Examples at the foot of `drystone volume settle --help`.
const SETTLE_EXAMPLES: &str = "\
Examples:
  drystone volume settle vm1 --keep
          The member that has it serves it again
  drystone volume settle vm1 --discard --on right
          What the member right has of it is deleted for good
  drystone volume settle vm1 --keep --move 6745c1f0
          Where a member has a part in several moves of volumes of that name";

/// What to do with volumes.
#[derive(Debug, Args)]
pub(crate) struct VolumeArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: VolumeCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with volumes.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make a volume and serve it.
    #[command(after_long_help = CREATE_EXAMPLES)]
    Create(CreateArgs),

    /// List all volumes, in a group those of all members.
    #[command(
        after_long_help = "Examples:\n  drystone volume list\n  drystone volume list --json | jq '.[].name'"
    )]
    List,

    /// Show one volume.
    #[command(
        after_long_help = "Examples:\n  drystone volume show vm1\n  drystone volume show vm1 --json | jq -r .iqn"
    )]
    Show {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Change the size; hosts are told.
    #[command(
        after_long_help = "Examples:\n  drystone volume resize vm1 200G\n  drystone volume resize vm1 50G --shrink"
    )]
    Resize {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// The new size.
        #[arg(value_name = "SIZE", value_parser = parse_size)]
        size_bytes: u64,

        /// Make it smaller: what lies behind the new end is lost. The volume must be offline.
        #[arg(long)]
        shrink: bool,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Give a volume, and so its target, another name.
    #[command(after_long_help = "Examples:\n  drystone volume rename vm1 web1")]
    Rename {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Its new name.
        #[arg(value_name = "NEW")]
        to: String,
    },

    /// Change what can be changed of a volume while hosts use it.
    #[command(
        after_long_help = "Examples:\n  drystone volume set backup --read-ahead 8M\n  drystone volume set db --read-ahead 0\n  drystone volume set cluster1 --shared on\n  drystone volume set backup --read-cache off"
    )]
    Set {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// What sequential reads fetch ahead, 0 for nothing.
        #[arg(long, value_name = "SIZE", value_parser = parse_read_ahead)]
        #[arg(required_unless_present_any = ["shared", "read_cache"])]
        read_ahead: Option<u32>,

        /// Whether several hosts of its access list may use it at the same time: on or off.
        #[arg(long, value_enum, value_name = "on|off")]
        shared: Option<Switch>,

        /// Whether what is read of it and of its snapshots may be kept in the memory of the read cache: on or off.
        #[arg(long, value_enum, value_name = "on|off")]
        read_cache: Option<Switch>,
    },

    /// Say who may use a volume and its snapshots.
    #[command(subcommand, after_long_help = ACCESS_EXAMPLES)]
    Access(AccessCommand),

    /// Show and end what hosts have reserved of a volume.
    #[command(subcommand, after_long_help = reservations::EXAMPLES)]
    Reservations(ReservationsCommand),

    /// Serve a volume again.
    #[command(after_long_help = "Examples:\n  drystone volume online vm1")]
    Online {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Stop serving a volume; hosts are logged out.
    #[command(
        after_long_help = "Examples:\n  drystone volume offline vm1\n  drystone volume offline vm1 --yes"
    )]
    Offline {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Put a volume that is offline into the recycle bin.
    #[command(after_long_help = "Examples:\n  drystone volume delete vm1")]
    Delete {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Move a volume to another member of the group, while hosts use it.
    ///
    /// It is copied with its snapshots while hosts go on. At the end their sessions are ended: they log in again, are sent
    /// to the other member, and find the same disk there, with its iSCSI name, its serial number, what they have reserved
    /// and who may use it. Until then the move can be cancelled, and whatever fails leaves the volume where it is.
    #[command(
        after_long_help = "Examples:\n  drystone volume move vm1 --to right\n  drystone volume move vm1 --pool fast\n  drystone volume move vm1\n          To the member with most room in the pool of its own"
    )]
    Move {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// The member that it goes to.
        #[arg(long, value_name = "MEMBER", conflicts_with = "pool")]
        to: Option<String>,

        /// The pool whose member with most room it goes to.
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,

        /// Whether to wait.
        #[command(flatten)]
        follow: Follow,
    },

    /// List volumes that are between two members of the group, and how each stands.
    ///
    /// A volume that is handed over is served to nobody until the store of the group has said whose it is; that goes
    /// on by itself ('waits'). 'undecided' is one that no group decides about any more, as that group is gone or the
    /// other member was removed from it: 'volume settle' says what becomes of it.
    #[command(
        after_long_help = "Examples:\n  drystone volume transits\n  drystone volume transits --json | jq '.[].volume'"
    )]
    Transits,

    /// Say what becomes of a volume whose move no group decides about any more.
    ///
    /// A member that has an 'undecided' part in a move ('volume transits') serves the volume to nobody until it is told
    /// to keep or to discard what it has of it. The other member is not asked: look there first. If both keep it, hosts
    /// may write to either of two copies; if both discard it, it is gone. In a group it is kept under its name, which
    /// no other member may have. One that failed or was cut off is said once more.
    #[command(after_long_help = SETTLE_EXAMPLES)]
    Settle(SettleArgs),

    /// List the parts of volumes that lie on several members.
    ///
    /// Each member says what it has of volumes whose home is another one, and homes say for which parts they wait as they
    /// delete volumes ('awaited'). One that is 'left-over' is of a home that was removed or does not say that it has the
    /// volume: it stays until 'volume discard-slice' deletes it. Where the parts of one volume lie is in 'volume show'.
    #[command(after_long_help = SLICES_EXAMPLES)]
    Slices,

    /// Delete a part of a volume that is left over, or have the home of a deleted volume wait for one no more.
    ///
    /// A part that is 'left-over' ('volume slices') is deleted for good: nothing of its volume can be read there any more.
    /// One that is 'awaited' of a member that was removed from the group is not waited for any more; what that server has
    /// of it stays on its disks. Of one that is 'damaged', what is stored of it goes, and what the disks have of it stays.
    #[command(after_long_help = DISCARD_SLICE_EXAMPLES)]
    DiscardSlice {
        /// Its number in 'volume slices', or the first digits of it.
        #[arg(value_name = "DIGITS")]
        digits: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },

    /// Make a volume that lies on several members anew of its parts, where its home has lost what it had stored of it.
    ///
    /// Its home, which is asked, has the disks that it had, and has given up its settings or cannot read this one of them;
    /// all other members that have parts of the volume run, and tell it what they have stored. The volume has its name and
    /// its data then, and is offline: look at it before hosts write. Its access list was lost with the settings.
    ///
    /// A home whose disks are from an image is an older one to the other members, and serves nothing. Put the newer disks back.
    /// Where those it has are the newest that there are, --despite-later has it go on with them: what hosts have written since
    /// then to its own pages is not there, and to those of other members it is, so the volume is to be checked as after a crash
    /// that lost writes. That holds also where the home was started from an image by mistake and has its own disks again: only
    /// where no host wrote meanwhile nothing is lost. All members that have seen a later home run.
    #[command(after_long_help = REBUILD_EXAMPLES)]
    Rebuild {
        /// The number in 'volume slices' of a part that another member has, or the first digits of it.
        #[arg(value_name = "DIGITS")]
        digits: String,

        /// Go on with what the home has although other members have seen a later one.
        #[arg(long)]
        despite_later: bool,
    },

    /// Take a volume out of the recycle bin; it is offline.
    #[command(
        after_long_help = "Examples:\n  drystone volume undelete vm1 && drystone volume online vm1"
    )]
    Undelete {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Give up a volume in the recycle bin, with its snapshots, for good.
    ///
    /// One that lies on several members has no recycle bin: it is given up so when it is offline.
    #[command(
        after_long_help = "Examples:\n  drystone volume purge vm1\n  drystone volume purge vm1 --yes --no-wait"
    )]
    Purge {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,

        /// Whether to wait.
        #[command(flatten)]
        follow: Follow,
    },
}

/// A volume to be made.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name: 1 to 63 letters, digits or any of - . _ :
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Its size, such as 100G.
    #[arg(value_name = "SIZE", value_parser = parse_size)]
    pub(crate) size_bytes: u64,

    /// RAID level: raid0, raid1, raid10, raid5, raid6 or raid50 [default: the array's].
    #[arg(long, value_name = "LEVEL")]
    pub(crate) raid: Option<Level>,

    /// Reserve all its space now. Without it, space is taken as it is written.
    #[arg(long)]
    pub(crate) thick: bool,

    /// Logical block in bytes: 512 or 4096.
    #[arg(long, value_name = "BYTES", default_value = "512", value_parser = parse_block)]
    pub(crate) block: u32,

    /// When a write is answered: once it survives the loss of power (durable), or the end of the
    /// process (volatile).
    #[arg(long, value_enum, default_value_t = CacheWord::Durable)]
    pub(crate) cache: CacheWord,

    /// What sequential reads fetch ahead, 0 for nothing [default: 1M].
    #[arg(long, value_name = "SIZE", value_parser = parse_read_ahead)]
    pub(crate) read_ahead: Option<u32>,

    /// Keep nothing of it in the memory of the read cache: for what is read once, such as backups.
    #[arg(long)]
    pub(crate) no_cache: bool,

    /// In a group: the pool whose member with most room gets it [default: that of the member that is asked].
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: Option<String>,

    /// In a group: on how many members of the pool it lies at most, 1 to 16 [default: 1].
    ///
    /// Its pages of 16 MiB are dealt to them by the room that each has. Hosts reach all of it at one of them, its home;
    /// while a member is away, its pages answer an error. Such a volume is thin and durable, of 1 GiB at least, and has no
    /// snapshots, clones, moves and recycle bin yet.
    #[arg(long, value_name = "MEMBERS", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) spread: Option<u8>,
}

/// What becomes of a volume that no group decides about.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("decision").required(true).args(["keep", "discard"]))]
pub(crate) struct SettleArgs {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Keep what the member has of it, and serve it.
    #[arg(long)]
    pub(crate) keep: bool,

    /// Delete what the member has of it for good.
    #[arg(long)]
    pub(crate) discard: bool,

    /// Which move, by the first digits of its number, where the member has a part in several of that name.
    #[arg(long = "move", value_name = "DIGITS")]
    pub(crate) id: Option<String>,

    /// Whether to ask.
    #[command(flatten)]
    pub(crate) confirm: Confirm,
}

impl SettleArgs {
    /// Whether it is kept; the command line says one of both.
    pub(crate) const fn keeps(&self) -> bool {
        self.keep && !self.discard
    }
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheWord {
    /// Once it survives the loss of power; hosts see no write cache (WCE=0)
    Durable,
    /// Before; it survives the loss of power after SYNCHRONIZE CACHE or with FUA (WCE=1)
    Volatile,
}

/// The size of a volume. A number of bytes is meant only where it can be one.
fn parse_size(text: &str) -> Result<u64, String> {
    const BARE_BYTES_MIN: u64 = 1 << 20;
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    if bytes < BARE_BYTES_MIN && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' has no unit: write {text}G, {text}M or {text}K"));
    }
    Ok(bytes)
}

fn parse_block(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" => Ok(4096),
        _ => Err(format!("'{text}' is not a block size: write 512 or 4096")),
    }
}

fn parse_read_ahead(text: &str) -> Result<u32, String> {
    const MAX_BYTES: u32 = 64 << 20;
    if text == "0" {
        return Ok(0);
    }
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    let fits = u32::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_BYTES);
    fits.ok_or_else(|| format!("'{text}' is too much to read ahead: write at most 64M"))
}
