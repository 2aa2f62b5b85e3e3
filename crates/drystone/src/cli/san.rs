//! The options of `drystone export-config`, `drystone diff` and `drystone apply`.

use crate::cli::manage::{Confirm, MemberArgs};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Examples at the foot of `drystone export-config --help`.
pub(crate) const EXPORT_EXAMPLES: &str = "\
Examples:
  drystone export-config > san.toml
  drystone export-config --json | jq .volume";

/// Examples at the foot of `drystone diff --help`.
pub(crate) const DIFF_EXAMPLES: &str = "\
Examples:
  drystone diff -f san.toml
  drystone diff -f san.toml --json | jq -r '.differences[].name'

Exit status:
  0  the member is as the file says
  1  they differ
  2  the file does not read, or the member does not answer";

/// Which file is compared.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The file.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}

/// Examples at the foot of `drystone apply --help`.
pub(crate) const APPLY_EXAMPLES: &str = "\
Examples:
  drystone apply -f san.toml
  drystone apply -f san.toml --yes --json | jq -r '.changed[].name'

Exit status:
  0  the member is as the file says
  1  it is not: nothing was changed, unless the message says what was";

/// Which file is applied.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The file.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) confirm: Confirm,

    /// Which member, and how to print.
    #[command(flatten)]
    pub(crate) member: MemberArgs,
}
