//! Where the control socket is.

use anyhow::Context;
use std::path::{Path, PathBuf};

use crate::os::runtime_dir;

/// Its name in the directory of sockets.
const NAME: &str = "control.sock";

/// The socket that was asked for, or the usual one.
pub(crate) fn choose(
    asked: Option<&Path>,
    root: bool,
    environment: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<PathBuf> {
    if let Some(path) = asked {
        return Ok(path.to_owned());
    }
    let dir = runtime_dir::default_dir(root, environment)
        .context("there is no directory for the control socket: write --socket PATH")?;
    Ok(dir.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_place_depends_on_who_asks() {
        let xdg = |_: &str| Some("/run/user/7".to_owned());
        let chosen = |asked: Option<&str>, root| choose(asked.map(Path::new), root, xdg).unwrap();
        assert_eq!(chosen(None, true), Path::new("/run/drystone/control.sock"));
        assert_eq!(chosen(None, false), Path::new("/run/user/7/drystone/control.sock"));
        assert_eq!(chosen(Some("/tmp/a.sock"), true), Path::new("/tmp/a.sock"));
        assert!(choose(None, false, |_| None).unwrap_err().to_string().contains("--socket PATH"));
    }
}
