//! The options of `drystone events` and `drystone audit`.

use crate::cli::manage::MemberArgs;
use crate::cli::number;
use crate::cli::since;
use api::client::Since;
use api::types::Severity;
use clap::Args;
use std::time::Duration;

/// Examples at the foot of `drystone events --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  drystone events
  drystone events --severity warning --since 7d
          What somebody should have looked at in the last week
  drystone events --follow
          The last ones, and those to come, also over restarts of the member, until Ctrl-C
  drystone events --since '2026-11-26 08:00' --object sdb
          About a disk, since a time in UTC
  drystone events --json | jq -r '.[] | select(.kind == \"disk_failed\") | .object.name'";

/// Examples at the foot of `drystone audit --help`.
pub(crate) const AUDIT_EXAMPLES: &str = "\
Examples:
  drystone audit
  drystone audit --refused --since 24h
          Logins that were refused and changes that failed, of the last day
  drystone audit --json | jq '.[] | select(.action == \"change\") | {who, object, outcome}'";

/// Lines that are printed if nobody says how many.
const LIMIT_DEFAULT: &str = "100";

/// Which events, and whether to wait for more.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Go on with those to come, until it is interrupted; with --json a line for each.
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// With --follow: how long to wait for a member that has ended until it answers again; else it is waited
    /// for until Ctrl-C.
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = number::seconds)]
    pub(crate) timeout: Option<Duration>,

    /// Only those since a time, such as 30m, 12h, 7d (ago, by the clock of the member), 2026-11-26 or
    /// '2026-11-26 08:00' (UTC).
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    pub(crate) since: Option<Since>,

    /// Only those that matter at least as much: info, warning, error or critical.
    #[arg(long, value_name = "SEVERITY", value_parser = parse_severity)]
    pub(crate) severity: Option<Severity>,

    /// Only those about disks, volumes and targets whose name has this text in it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) object: Option<String>,

    /// Of those, so many of the last.
    #[arg(long, value_name = "N", default_value = LIMIT_DEFAULT, value_parser = number::records)]
    pub(crate) limit: usize,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// Which entries.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Only those since a time, such as 30m, 12h, 7d (ago, by the clock of the member), 2026-11-26 or
    /// '2026-11-26 08:00' (UTC).
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    pub(crate) since: Option<Since>,

    /// Only what was refused or failed.
    #[arg(long)]
    pub(crate) refused: bool,

    /// Of those, so many of the last.
    #[arg(long, value_name = "N", default_value = LIMIT_DEFAULT, value_parser = number::records)]
    pub(crate) limit: usize,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

pub(super) fn parse_severity(text: &str) -> Result<Severity, String> {
    Severity::from_word(text)
        .ok_or_else(|| format!("'{text}' is no severity: write info, warning, error or critical"))
}
