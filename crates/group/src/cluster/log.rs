//! What an etcd says on its standard error: kept in a file that does not grow without end, and listened to for why it
//! ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde::Deserialize;

/// How long one file may become; the one before it is kept beside it.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// A line beyond this is taken for several.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What is shown of a sentence of etcd, in characters.
const SHOWN_MAX: usize = 300;

/// The file, and how long it is.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    length_bytes: u64,
}

impl Log {
    /// Goes on behind what is there.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&path)?;
        let length_bytes = file.metadata()?.len();
        Ok(Self { path, file, length_bytes })
    }

    /// Where what was written before lies.
    pub(super) fn former(path: &Path) -> PathBuf {
        path.with_extension("log.1")
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.length_bytes + line.len() as u64 > FILE_BYTES_MAX {
            fs::rename(&self.path, Self::former(&self.path))?;
            *self = Self::open(self.path.clone())?;
        }
        self.file.write_all(line)?;
        self.length_bytes += line.len() as u64;
        Ok(())
    }
}

/// Keeps what is said until nobody says anything any more, and gives the last words. Without a log they are given as
/// well: an etcd whose log cannot be written does its work.
pub(super) fn follow(said: impl Read, mut log: Option<Log>) -> LastWords {
    let mut said = BufReader::new(said);
    let mut words = LastWords::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        match said.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return words,
            Ok(_) => {}
        }
        words.hear(&String::from_utf8_lossy(&line));
        log = log.and_then(|mut log| log.write(&line).is_ok().then_some(log));
    }
}

/// A line of etcd's log (`--logger=zap`).
#[derive(Deserialize)]
struct Line {
    level: String,
    msg: String,
    error: Option<String>,
}

/// What may be the reason that an etcd ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LastWords {
    /// What it could not go on with.
    fatal: Option<String>,
    /// What is no line of its log: wrong options, or a crash.
    plain: Option<String>,
    /// What it complained about last.
    warning: Option<String>,
    /// Its seat was taken away: it has nothing to do any more.
    pub(super) is_removed: bool,
}

impl LastWords {
    fn hear(&mut self, line: &str) {
        let line = line.trim();
        let Ok(Line { level, msg, error }) = serde_json::from_str(line) else {
            if !line.is_empty() && self.plain.is_none() {
                self.plain = Some(line.to_owned());
            }
            return;
        };
        let is_own_end = msg == "server error"
            && error.as_ref().is_some_and(|error| error.contains("permanently removed"));
        self.is_removed |= is_own_end;
        let why = error.unwrap_or(msg);
        match level.as_str() {
            "fatal" | "panic" | "dpanic" => self.fatal = Some(why),
            "warn" | "error" => self.warning = Some(why),
            _ => {}
        }
    }

    /// Why it ended, in a sentence.
    pub(super) fn why(&self, status: Option<ExitStatus>) -> String {
        if let Some(fatal) = &self.fatal {
            return explained(fatal);
        }
        if let Some(signal) = status.and_then(|status| status.signal()) {
            return format!("etcd was ended by signal {signal}");
        }
        match self.plain.as_ref().or(self.warning.as_ref()) {
            Some(words) => explained(words),
            None => "etcd ended, and did not say why".into(),
        }
    }
}

/// What is known of a reason, or the reason itself.
fn explained(why: &str) -> String {
    // `listen tcp 192.0.2.1:3264: bind: address already in use`
    let address = || {
        let address = why.split("listen tcp ").nth(1)?.split(": ").next()?;
        Some(address.to_owned())
    };
    let address = || address().unwrap_or_else(|| "its address".into());
    if why.contains("address already in use") {
        return format!("etcd cannot listen at {}: another program does", address());
    }
    if why.contains("cannot assign requested address") {
        return format!(
            "etcd cannot listen at {}: this server does not have the address",
            address()
        );
    }
    if why.contains("member count is unequal") || why.contains("unmatched member") {
        return "etcd was told of other members than its cluster has: they have changed meanwhile"
            .into();
    }
    if why.contains("could not retrieve cluster information") {
        return "etcd reaches none of the other members of its cluster".into();
    }
    let shown: String = why.chars().take(SHOWN_MAX).collect();
    format!("etcd ended: {shown}")
}
