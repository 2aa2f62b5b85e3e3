//! The options of `drystone account` and `drystone token`.

use crate::cli::manage::{Confirm, MemberArgs};
use clap::{Args, Subcommand, ValueHint};
use group::accounts::Role;
use std::path::PathBuf;
use std::time::Duration;

/// Examples at the foot of `drystone account --help`.
pub(crate) const ACCOUNT_EXAMPLES: &str = "\
Examples:
  drystone account add ada --role administrator
          Asks for the password
  drystone account add grafana --role read-only --password-file grafana.password
  drystone account set ada --role operator
  drystone account set ada --disable
          From its next request on it does not get in, and what it follows ends
  drystone account list";

/// Examples at the foot of `drystone token --help`.
pub(crate) const TOKEN_EXAMPLES: &str = "\
Examples:
  (umask 077 && drystone token create backup --role operator --expires 90d > backup.token)
          The token itself is printed, this once
  drystone status --server https://san1.example.com:8443 \\
          --token-file backup.token --fingerprint 3b1f...
          Use it from another machine
  drystone token list
  drystone token revoke backup";

/// What to do with accounts.
#[derive(Debug, Args)]
pub(crate) struct AccountArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: AccountCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with accounts.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Add an account, which logs in over TLS with its name and a password.
    #[command(
        after_long_help = "Examples:\n  drystone account add ada --role administrator\n  drystone account add grafana --role read-only --password-file grafana.password"
    )]
    Add {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// What it may do: read-only, operator or administrator.
        #[arg(long, value_name = "ROLE")]
        role: Role,

        /// Where its password comes from.
        #[command(flatten)]
        password: PasswordArgs,
    },

    /// List all accounts.
    #[command(after_long_help = "Examples:\n  drystone account list")]
    List,

    /// Change the role of an account, its password, or whether it may log in.
    #[command(
        after_long_help = "Examples:\n  drystone account set ada --role operator\n  drystone account set ada --password\n  drystone account set ada --disable"
    )]
    Set {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// What it may do: read-only, operator or administrator.
        #[arg(long, value_name = "ROLE")]
        role: Option<Role>,

        /// Give it another password, which is asked for.
        #[arg(long)]
        password: bool,

        /// Where its new password comes from.
        #[command(flatten)]
        file: PasswordArgs,

        /// It may not log in until --enable says otherwise.
        #[arg(long, conflicts_with = "enable")]
        disable: bool,

        /// It may log in again.
        #[arg(long)]
        enable: bool,
    },

    /// Remove an account.
    #[command(after_long_help = "Examples:\n  drystone account remove ada")]
    Remove {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// Whether to ask.
        #[command(flatten)]
        confirm: Confirm,
    },
}

/// Where a password comes from.
#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// A file of mode 600 that holds the password, 12 to 255 bytes. Without it the password is asked for at
    /// the terminal, or read from standard input where there is none.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
}

/// What to do with tokens.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: TokenCommand,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, with which a program logs in over TLS. It is printed this once.
    #[command(
        after_long_help = "Examples:\n  (umask 077 && drystone token create backup --role operator --expires 90d > backup.token)"
    )]
    Create {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,

        /// What it may do: read-only, operator or administrator.
        #[arg(long, value_name = "ROLE")]
        role: Role,

        /// After how long it is worth nothing: a number and s, m, h or d, such as 90d. Without it the token
        /// does not expire.
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        expires: Option<Duration>,
    },

    /// List all tokens, without what they are.
    #[command(after_long_help = "Examples:\n  drystone token list")]
    List,

    /// Revoke a token: from its next request on it is worth nothing.
    #[command(after_long_help = "Examples:\n  drystone token revoke backup")]
    Revoke {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// `90d`: a number and a unit.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let read = || {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            "d" => 24 * 60 * 60,
            _ => return None,
        };
        let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
        // More than that is for ever, and would not fit into a time.
        number.checked_mul(seconds).filter(|all| *all < 1 << 40).map(Duration::from_secs)
    };
    read()
        .ok_or_else(|| format!("'{text}' is no time: write a number and s, m, h or d, such as 90d"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        let seconds = |text| parse_time(text).map(|time| time.as_secs()).ok();
        assert_eq!(seconds("90d"), Some(90 * 24 * 60 * 60));
        assert_eq!([seconds("1s"), seconds("2m"), seconds("3h")], [1, 120, 10_800].map(Some));
        for wrong in ["", "d", "0d", "90", "1 d", "-1d", "9999999999999d", "5ä"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
