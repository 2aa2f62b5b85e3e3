//! A small file that is replaced as a whole.

use anyhow::Context;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file, so that after a crash either the old or the new one is there. Nobody else may be
/// doing that.
pub(crate) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = || -> io::Result<()> {
        let fresh = path.with_extension("new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    written().with_context(|| format!("cannot write '{}'", path.display()))
}
