//! The options of `drystone notify`.

use crate::cli::events::parse_severity;
use crate::cli::logins::parse_time;
use crate::cli::manage::{Confirm, MemberArgs};
use api::types::Severity;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Examples at the foot of `drystone notify --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone notify add ops --email ops@example.com --smtp mail.example.com --from san1@example.com
          By e-mail, over STARTTLS; without a login, as the server lets this machine in
  drystone notify add chat --webhook https://chat.example.com/hook --secret-file hook.secret --severity error
          As JSON, signed, what is an error or worse
  drystone notify add log --syslog log.example.com:514 --severity info
          Everything, by UDP; --transport tcp or tls for the others
  drystone notify add siem --syslog siem.example.com --transport tls --audit
          Warnings, and each login and change as the audit log has it
  drystone notify test ops
  drystone notify list
  drystone notify set ops --severity error

Events go out at least once, also those of a time in which a destination or the member was away. Repeats within
five minutes (--fold) are one message and then one with their number.";

/// What to do with destinations.
#[derive(Debug, Args)]
pub(crate) struct NotifyArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: NotifyCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// How the way to an SMTP server is kept from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MailTls {
    None,
    Starttls,
    Tls,
}

/// How a syslog server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    Udp,
    Tcp,
    Tls,
}

/// Where events go: one of `--webhook`, `--email` and `--syslog`.
#[derive(Debug, Default, Args)]
pub(crate) struct WayArgs {
    /// A URL that each event is sent to as JSON: https://HOST/PATH, or http://.
    #[arg(long, value_name = "URL", conflicts_with_all = ["email", "syslog"])]
    pub(crate) webhook: Option<String>,

    /// A file of mode 600 with a secret that what is sent is signed with (HMAC-SHA256).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "webhook")]
    pub(crate) secret_file: Option<PathBuf>,

    /// A file of mode 600 with a token that goes along (Authorization: Bearer).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "webhook")]
    pub(crate) bearer_file: Option<PathBuf>,

    /// An e-mail address; write it again for several.
    #[arg(long, value_name = "ADDRESS", requires = "smtp", requires = "from")]
    #[arg(conflicts_with = "syslog")]
    pub(crate) email: Vec<String>,

    /// The server that takes e-mail for it.
    #[arg(long, value_name = "HOST[:PORT]", requires = "email")]
    pub(crate) smtp: Option<String>,

    /// From whom the e-mail is.
    #[arg(long, value_name = "ADDRESS", requires = "email")]
    pub(crate) from: Option<String>,

    /// How the way to that server is kept from others.
    #[arg(long, value_name = "HOW", requires = "email")]
    pub(crate) smtp_tls: Option<MailTls>,

    /// As whom to log in there.
    #[arg(long, value_name = "USER", requires = "smtp_password_file")]
    pub(crate) smtp_user: Option<String>,

    /// A file of mode 600 with the password for that.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "smtp_user")]
    pub(crate) smtp_password_file: Option<PathBuf>,

    /// A syslog server that takes lines of RFC 5424.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) syslog: Option<String>,

    /// How it is reached.
    #[arg(long, value_name = "HOW", requires = "syslog")]
    pub(crate) transport: Option<Transport>,

    /// Each entry of the audit log goes to the syslog server too, whatever the severity: who did what is kept there.
    /// 'set' leaves this as it is, unless it says --audit or --no-audit.
    #[arg(long, requires = "syslog")]
    pub(crate) audit: bool,

    /// The audit log does not go to the syslog server, or not any more.
    #[arg(long, requires = "syslog", conflicts_with = "audit")]
    pub(crate) no_audit: bool,

    /// Trust the authorities in this file (PEM), and not those that the member's machine trusts.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trust_file: Option<PathBuf>,
}

/// What to do with destinations.
#[derive(Debug, Subcommand)]
pub(crate) enum NotifyCommand {
    /// Have events go on to a destination from now on.
    #[command(
        after_long_help = "Examples:\n  drystone notify add ops --email ops@example.com --smtp mail.example.com:587 --from san1@example.com --smtp-user san1 --smtp-password-file mail.secret\n  drystone notify add chat --webhook https://chat.example.com/hook --secret-file hook.secret\n  drystone notify add log --syslog log.example.com --transport tls --trust-file ca.pem"
    )]
    Add {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Where.
        #[command(flatten)]
        way: Box<WayArgs>,

        /// Events that matter at least as much: info, warning, error or critical.
        #[arg(long, value_name = "SEVERITY", value_parser = parse_severity, default_value = "warning")]
        severity: Severity,

        /// How long repeats of one are folded: a number and s, m or h.
        #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5m")]
        fold: Duration,

        /// Begin only with 'drystone notify resume'.
        #[arg(long)]
        paused: bool,
    },

    /// List where events go on to, and how that does.
    #[command(after_long_help = "Examples:\n  drystone notify list")]
    List,

    /// Show a destination.
    #[command(after_long_help = "Examples:\n  drystone notify show ops")]
    Show {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Change a destination. Who says where it is says all of it, secrets too.
    #[command(
        after_long_help = "Examples:\n  drystone notify set ops --severity error --fold 15m\n  drystone notify set log --syslog log2.example.com"
    )]
    Set {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Where.
        #[command(flatten)]
        way: Box<WayArgs>,

        /// Events that matter at least as much.
        #[arg(long, value_name = "SEVERITY", value_parser = parse_severity)]
        severity: Option<Severity>,

        /// How long repeats of one are folded.
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        fold: Option<Duration>,
    },

    /// Send nothing to a destination for now.
    #[command(after_long_help = "Examples:\n  drystone notify pause ops")]
    Pause {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Go on with a destination; what happened meanwhile does not go there.
    #[command(after_long_help = "Examples:\n  drystone notify resume ops")]
    Resume {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Send a test to a destination, and say whether it was taken.
    ///
    /// Exit status 1 if it was not.
    #[command(after_long_help = "Examples:\n  drystone notify test ops")]
    Test {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },

    /// Delete a destination: nothing goes there any more.
    #[command(after_long_help = "Examples:\n  drystone notify delete ops")]
    Delete {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}
