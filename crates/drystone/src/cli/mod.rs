//! The command line. Help, man pages and shell completions all come from these definitions.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "texts of the command line put options in brackets"
)]

pub(crate) mod access;
pub(crate) mod array;
pub(crate) mod attach;
pub(crate) mod connections;
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod group;
pub(crate) mod lab;
pub(crate) mod logins;
pub(crate) mod manage;
pub(crate) mod member;
pub(crate) mod notify;
mod number;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod refusal;
pub(crate) mod reservations;
pub(crate) mod run;
pub(crate) mod san;
pub(crate) mod schedule;
pub(crate) mod serve;
mod since;
pub(crate) mod snapshot;
#[cfg(test)]
mod tests;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod volume;
pub(crate) mod words;

use clap::{Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use std::path::PathBuf;

/// Examples at the foot of `drystone --help`.
const EXAMPLES: &str = "\
Examples:
  drystone up
          An array of six files on 127.0.0.1:3260, to try it
  drystone volume create vm1 100G
          A volume of a member that runs
  drystone schedule create nightly --volume vm1 --daily 03:00 --keep 7
          A snapshot each night
  drystone status
          Is all well, and if not, what to do first
  drystone export ram:1G
          Serve a disk in memory on 127.0.0.1:3260
  drystone export file:/srv/disk.img:10G --portal 192.0.2.10:3260
          Serve a 10 GiB file to the network; the file is made if it is missing
  drystone export --help
          All about the disks, portals and access rules of an export
  drystone attach iscsi://192.0.2.10/iqn.2026-11.com.example:a --nbd unix:/run/a.sock
          Use a volume as a local disk
  drystone completions bash > /etc/bash_completion.d/drystone
          Complete commands and options in bash

Exit status:
  0  stopped cleanly
  1  could not start, or not stop cleanly; stderr says why in one sentence
  2  the command line does not read; stderr says what to write instead";

/// Examples at the foot of `drystone status --help`.
const STATUS_EXAMPLES: &str = "\
Examples:
  drystone status
  drystone status --json | jq -r .first";

/// Examples at the foot of `drystone help --help`.
const HELP_EXAMPLES: &str = "\
Examples:
  drystone help
  drystone help volume create";

/// Examples at the foot of `drystone completions --help`.
const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  drystone completions bash > /etc/bash_completion.d/drystone
  drystone completions zsh > \"${fpath[1]}/_drystone\"
  drystone completions fish > ~/.config/fish/completions/drystone.fish";

/// Examples at the foot of `drystone man --help`.
const MAN_EXAMPLES: &str = "\
Examples:
  drystone man | man -l -
  drystone man export | man -l -
  drystone man --dir /usr/local/share/man/man1";

/// Servers into one storage area network.
///
/// Drystone serves disks to hosts over iSCSI (RFC 7143). It needs no kernel module and no
/// configuration file, and costs next to no CPU when idle.
#[derive(Debug, Parser)]
#[command(name = "drystone", version, max_term_width = 100, after_long_help = EXAMPLES)]
#[command(arg_required_else_help = false, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// What to log to stderr: error, warn, info, debug or trace, also by room.
    ///
    /// A filter as in RUST_LOG, for example `info,target=debug`. Without this option the
    /// environment variables DRYSTONE_LOG and RUST_LOG are asked, in this order; without those
    /// it is `info`, and `warn` for `drystone lab`.
    #[arg(long, value_name = "FILTER", global = true)]
    pub(crate) log: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve disks over iSCSI, as LUN 0, 1, 2 ... of one target.
    #[command(long_about = export::ABOUT, after_long_help = export::EXAMPLES)]
    Export(Box<export::ExportArgs>),

    /// Serve the volumes of an array of disks over iSCSI.
    #[command(long_about = up::ABOUT, after_long_help = up::EXAMPLES)]
    Up(Box<up::UpArgs>),

    /// Tell whether all is well with a running member, and if not, what to do first.
    ///
    /// Exit status 1 if something is not well, or no member answers.
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status(manage::MemberArgs),

    /// Show who is connected to the volumes of a running member, and how busy they are.
    ///
    /// One line for each connection of a host; a host with several paths has several. In a group those of all members
    /// are shown. IOPS counts SCSI
    /// commands of any kind, LATENCY is their mean, from arrival to answer, and QUEUE those that have not been
    /// answered yet. With --json also the counts since the connection was made.
    #[command(after_long_help = connections::EXAMPLES)]
    Connections(connections::ConnectionsArgs),

    /// Show what happened to a running member, and what to do about it.
    ///
    /// Disks that fail and come back, rebuilds, scrubs, space that runs short, volumes that are lost, sessions
    /// that were ended, starts and stops: kept over restarts, the oldest given up when two files of 4 MiB are
    /// full. Repeats within a minute are counted.
    #[command(after_long_help = events::EXAMPLES)]
    Events(events::EventsArgs),

    /// Show who logged in, who was refused, and who changed what.
    ///
    /// Logins of hosts, refused logins, ends of sessions, and every change that was asked of the member, with
    /// the user and the process that asked. It cannot be changed. Refused logins of one address and for one
    /// reason are counted.
    #[command(after_long_help = events::AUDIT_EXAMPLES)]
    Audit(events::AuditArgs),

    /// Show live what a running member is busy with, by volume, host, portal or disk.
    ///
    /// Keys: Tab, or v, h, o and d, for volumes, hosts, portals and disks; i, b, l, 9, u and n to sort by IOPS,
    /// bytes, latency, p99, queue and name; / to filter by name, Esc to end that; p to pause; q to quit. IOPS
    /// counts SCSI commands of any kind. LATENCY is their mean and P99 what 99 % of them did not exceed, from
    /// arrival to answer, as far as the classes tell in which they are counted. Of disks
    /// it is their reads and writes, for hosts and for the array itself, from when each was asked to its answer.
    #[command(after_long_help = top::EXAMPLES)]
    Top(top::TopArgs),

    /// Make, show and change the volumes of a running member.
    #[command(after_long_help = volume::EXAMPLES)]
    Volume(volume::VolumeArgs),

    /// Name hosts once that several volumes are for.
    #[command(after_long_help = access::POLICY_EXAMPLES)]
    Policy(access::PolicyArgs),

    /// Make and change the CHAP users that access records name.
    #[command(after_long_help = access::CHAP_EXAMPLES)]
    Chap(access::ChapArgs),

    /// Make and change the accounts that manage a member from afar.
    #[command(after_long_help = logins::ACCOUNT_EXAMPLES)]
    Account(logins::AccountArgs),

    /// Make and revoke the tokens with which programs manage a member from afar.
    #[command(after_long_help = logins::TOKEN_EXAMPLES)]
    Token(logins::TokenArgs),

    /// Take, show and use snapshots.
    #[command(after_long_help = snapshot::EXAMPLES)]
    Snapshot(snapshot::SnapshotArgs),

    /// Have snapshots taken by themselves, and the oldest deleted.
    #[command(after_long_help = schedule::EXAMPLES)]
    Schedule(schedule::ScheduleArgs),

    /// Have events go on by e-mail, to a webhook or to a syslog server.
    #[command(after_long_help = notify::EXAMPLES)]
    Notify(notify::NotifyArgs),

    /// Print what a running member is set to, as a file.
    ///
    /// Volumes, access lists, policies, schedules, where events go on to, and the names of CHAP users and accounts.
    /// Secrets, passwords, tokens and the URLs of webhooks are not in it, and neither are contents of volumes, disks,
    /// snapshots and what the array is set to.
    #[command(after_long_help = san::EXPORT_EXAMPLES)]
    ExportConfig(manage::MemberArgs),

    /// Show where a running member and a file of its settings differ.
    ///
    /// The file is as 'drystone export-config' writes it. A section that only one of both has is a difference; a key
    /// that the file does not have is not compared, and neither are secrets. Nothing is changed.
    #[command(after_long_help = san::DIFF_EXAMPLES)]
    Diff(san::DiffArgs),

    /// Change a running member to be as a file of its settings says.
    ///
    /// The differences are shown first, and a question is asked before anything is destroyed or anybody loses access.
    /// Volumes are made, never deleted or made smaller. Access, policies, CHAP users, accounts, schedules and
    /// destinations of events are changed all or not at all; in a group what is the group's comes in two steps, before
    /// and after the rest, and a failure between them leaves fewer rights. Sizes, read-ahead, the read cache and what is
    /// online follow, and are not taken back.
    #[command(after_long_help = san::APPLY_EXAMPLES)]
    Apply(san::ApplyArgs),

    /// Show, add and replace the disks of a running member.
    #[command(after_long_help = disk::EXAMPLES)]
    Disk(disk::DiskArgs),

    /// Start a member from a file, as a service does, check the file, or have it join a group.
    #[command(after_long_help = member::EXAMPLES)]
    Member(member::MemberCommandArgs),

    /// Make, show and end a group of several members.
    #[command(after_long_help = group::EXAMPLES)]
    Group(group::GroupArgs),

    /// Make, show and merge the pools of a group: members whose room is given out together.
    #[command(after_long_help = pool::EXAMPLES)]
    Pool(pool::PoolArgs),

    /// Look at this machine as the server of a SAN, and say what to do.
    #[command(long_about = doctor::ABOUT, after_long_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),

    /// Show, verify and repair the array of a running member.
    #[command(after_long_help = array::EXAMPLES)]
    Array(array::ArrayArgs),

    /// Show the scrubs, checks, rebalancings and moves of volumes of a running member, and cancel one.
    #[command(after_long_help = run::EXAMPLES)]
    Run(run::RunArgs),

    /// Attach a volume as a local disk, over NBD or as a file.
    #[command(long_about = attach::ABOUT, after_long_help = attach::EXAMPLES)]
    Attach(Box<attach::AttachArgs>),

    /// Show what is attached on this machine, and how its paths do.
    #[command(after_long_help = attach::ATTACHED_EXAMPLES)]
    Attached(attach::AttachedArgs),

    /// Detach a volume: flush, log out, end.
    #[command(after_long_help = attach::DETACH_EXAMPLES)]
    Detach(attach::DetachArgs),

    /// Measure a SAN, check every byte, explain the result.
    #[command(after_long_help = lab::EXAMPLES)]
    Lab(lab::LabArgs),

    /// Plan a SAN before it is built.
    #[command(after_long_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),

    /// Print the long help of drystone, or of a command.
    #[command(after_long_help = HELP_EXAMPLES)]
    Help {
        /// The command, such as 'volume' or 'volume create'.
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },

    /// Print the completion script of a shell.
    #[command(after_long_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },

    /// Print a man page, or write all of them to a directory.
    #[command(after_long_help = MAN_EXAMPLES)]
    Man {
        /// The command whose page to print; without it, the page of drystone itself.
        #[arg(value_name = "COMMAND", conflicts_with = "dir")]
        page: Option<String>,

        /// Write the pages of all commands to this directory, which must exist.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}
