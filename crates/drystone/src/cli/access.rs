//! The options of `drystone volume access`, `drystone policy` and `drystone chap`.

use crate::cli::manage::{Confirm, MemberArgs};
use api::types::HostRecord;
use clap::{Args, Subcommand, ValueHint};
use group::access::{AddressPattern, Scope};
use std::path::PathBuf;

/// Examples at the foot of `drystone volume access --help`.
pub(crate) const ACCESS_EXAMPLES: &str = "\
Examples:
  drystone volume access add vm1 --iqn iqn.1993-08.org.debian:01:web
          From now on vm1 is for this host alone
  drystone volume access add vm1 --ip '10.1.*.*' --chap backup --for snapshot
          Its snapshots also for whoever proves to be backup and comes from there
  drystone volume access list vm1
  drystone volume access remove vm1 2
          Sessions that number 2 had let in end";

/// Examples at the foot of `drystone policy --help`.
pub(crate) const POLICY_EXAMPLES: &str = "\
Examples:
  drystone policy create rack1
  drystone policy add rack1 --ip 10.1.0.0/24
  drystone volume access add vm1 --policy rack1
  drystone policy show rack1";

/// Examples at the foot of `drystone chap --help`.
pub(crate) const CHAP_EXAMPLES: &str = "\
Examples:
  drystone chap add backup --secret-file backup.secret
  openssl rand -hex 8 | tee backup.secret | drystone chap set backup
  drystone chap mutual set array --secret-file array.secret
  drystone chap list";

/// Who may use a volume.
#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// List who may use a volume.
    #[command(after_long_help = "Examples:\n  drystone volume access list vm1")]
    List {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: String,
    },

    /// Let hosts in of which all of this holds. From the first one on, all others are kept out.
    #[command(
        after_long_help = "Examples:\n  drystone volume access add vm1 --iqn iqn.1993-08.org.debian:01:web\n  drystone volume access add vm1 --policy rack1"
    )]
    Add {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: String,

        /// Which hosts.
        #[command(flatten)]
        hosts: HostArgs,

        /// All hosts of this policy.
        #[arg(long, value_name = "NAME", conflicts_with_all = ["iqn", "chap", "ip"])]
        policy: Option<String>,
    },

    /// Take an entry off the list; the sessions that it had let in end.
    #[command(after_long_help = "Examples:\n  drystone volume access remove vm1 2")]
    Remove {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: String,

        /// The number of the entry.
        #[arg(value_name = "NUMBER")]
        number: u32,
    },

    /// Take the whole list away: --chap and --allow of the member say who may use the volume.
    #[command(after_long_help = "Examples:\n  drystone volume access clear vm1 --yes")]
    Clear {
        /// The volume.
        #[arg(value_name = "VOLUME")]
        volume: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}

/// What a host must be.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// The iSCSI name of the host.
    #[arg(long, value_name = "NAME")]
    iqn: Option<String>,

    /// The CHAP user that it must prove to be; 'drystone chap add' makes one.
    #[arg(long, value_name = "USER")]
    chap: Option<String>,

    /// Its address: 10.1.2.3, 10.1.0.0/16, fd00::/8 or 10.1.*.*
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<AddressPattern>,

    /// What it may use: the volume, its snapshots, or both.
    #[arg(long = "for", value_name = "WHAT", default_value = "both")]
    pub(crate) scope: Scope,
}

impl HostArgs {
    /// As a record has it.
    pub(crate) fn record(self) -> HostRecord {
        let address = self.ip.map(|pattern| pattern.to_string());
        HostRecord { chap: self.chap, iqn: self.iqn, address, scope: self.scope.into() }
    }
}

/// What to do with policies.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with policies.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Make a policy, which lets nobody in at first.
    #[command(after_long_help = "Examples:\n  drystone policy create rack1")]
    Create {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// List all policies.
    #[command(after_long_help = "Examples:\n  drystone policy list")]
    List,

    /// Show the hosts of a policy.
    #[command(after_long_help = "Examples:\n  drystone policy show rack1")]
    Show {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Add hosts of which all of this holds, on all volumes that name the policy.
    #[command(after_long_help = "Examples:\n  drystone policy add rack1 --ip 10.1.0.0/24")]
    Add {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Which hosts.
        #[command(flatten)]
        hosts: HostArgs,
    },

    /// Take hosts off a policy; the sessions that this had let in end.
    #[command(after_long_help = "Examples:\n  drystone policy remove rack1 1")]
    Remove {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Their number.
        #[arg(value_name = "NUMBER")]
        number: u32,
    },

    /// Delete a policy that no volume names.
    #[command(after_long_help = "Examples:\n  drystone policy delete rack1")]
    Delete {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// What to do with CHAP users.
#[derive(Debug, Args)]
pub(crate) struct ChapArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ChapCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with CHAP users.
#[derive(Debug, Subcommand)]
pub(crate) enum ChapCommand {
    /// Add a user.
    #[command(
        after_long_help = "Examples:\n  drystone chap add backup --secret-file backup.secret"
    )]
    Add {
        /// The user.
        #[command(flatten)]
        login: LoginArgs,
    },

    /// List all users, and whether their secrets can be used.
    #[command(after_long_help = "Examples:\n  drystone chap list")]
    List,

    /// Give a user another secret; sessions that it had logged in end.
    #[command(
        after_long_help = "Examples:\n  drystone chap set backup --secret-file backup.secret"
    )]
    Set {
        /// The user.
        #[command(flatten)]
        login: LoginArgs,
    },

    /// Delete a user that no access record names.
    #[command(after_long_help = "Examples:\n  drystone chap delete backup")]
    Delete {
        /// Its name.
        #[arg(value_name = "USER")]
        user: String,
    },

    /// What the volumes prove to hosts that ask for it (mutual CHAP).
    #[command(
        subcommand,
        after_long_help = "Examples:\n  drystone chap mutual set array --secret-file array.secret\n  drystone chap mutual clear"
    )]
    Mutual(MutualCommand),
}

/// What targets prove.
#[derive(Debug, Subcommand)]
pub(crate) enum MutualCommand {
    /// Set the name and the secret.
    #[command(
        after_long_help = "Examples:\n  drystone chap mutual set array --secret-file array.secret"
    )]
    Set {
        /// The user.
        #[command(flatten)]
        login: LoginArgs,
    },

    /// Prove nothing any more.
    #[command(after_long_help = "Examples:\n  drystone chap mutual clear")]
    Clear,
}

/// A user and where its secret is read from.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// Its name, without blanks.
    #[arg(value_name = "USER")]
    pub(crate) user: String,

    /// A file of mode 600 that holds the secret, 12 to 255 bytes (Windows takes at most 16). Without it the
    /// secret is read from standard input, or asked for at a terminal, which does not show it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) secret_file: Option<PathBuf>,
}
