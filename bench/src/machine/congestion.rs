//! TCP congestion control, the same for all targets while a run lasts.
//!
//! Some systems default to BBR, which paces even on loopback and makes large replies cost several
//! times as much. Targets that do not choose for themselves get the system's default, so it is the
//! default that is set.

use std::fs;
use std::path::PathBuf;

const SYSCTL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// The system's default congestion control, changed as long as this lives.
#[derive(Debug)]
pub(crate) struct CongestionControl {
    path: PathBuf,
    /// What to restore, if it was changed.
    before: Option<String>,
    sentence: String,
}

impl CongestionControl {
    /// Sets `wanted` for the whole machine if this process may; otherwise leaves it alone and says so.
    pub(crate) fn set(wanted: &str) -> Self {
        Self::set_at(PathBuf::from(SYSCTL), wanted)
    }

    pub(super) fn set_at(path: PathBuf, wanted: &str) -> Self {
        let found = fs::read_to_string(&path)
            .map_or_else(|_| "unknown".into(), |text| text.trim().to_owned());
        if found == wanted {
            let sentence = format!("{wanted} (the system's own default)");
            return Self { path, before: None, sentence };
        }
        match fs::write(&path, wanted) {
            Ok(()) => {
                let sentence =
                    format!("{wanted} (set for this run; the system's default is {found})");
                Self { path, before: Some(found), sentence }
            }
            Err(error) => {
                let sentence = format!(
                    "{found} (could not set {wanted}: {error}; targets that choose {wanted} for \
                     themselves are at an advantage)"
                );
                Self { path, before: None, sentence }
            }
        }
    }

    /// What holds, for the report.
    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }
}

impl Drop for CongestionControl {
    fn drop(&mut self) {
        if let Some(before) = self.before.take()
            && let Err(error) = fs::write(&self.path, &before)
        {
            eprintln!("cannot restore {} to {before}: {error}", self.path.display());
        }
    }
}
