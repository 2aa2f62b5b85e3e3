//! Networks of a test's own.

use std::process::Command;

/// Runs `ip` of iproute2 with arguments between which there is one space each; what it says is the error.
pub(crate) fn ip(args: &str) -> Result<(), String> {
    let output = Command::new("ip").args(args.split(' ')).output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {args}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
