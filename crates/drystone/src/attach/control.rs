//! The socket by which other processes find an attachment, ask it and end it.
//!
//! One line of JSON each way, then it is closed. The socket is called `attach-PID.sock`; one that
//! nobody listens on was left by a process that was killed, and is removed by whoever finds it.

use crate::attach::report::{Identity, Sample};
use crate::control::line;
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const PREFIX: &str = "attach-";
const SUFFIX: &str = ".sock";

/// How long the other side may take for a question or a report.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long a detach may take: the sessions may have trouble of their own.
const DETACH_TIME: Duration = Duration::from_secs(120);

/// How long the end waits for answers under way, that of the detach among them.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// Who are you?
    Identity,
    /// What have you done?
    Sample,
    /// Flush, log out, end.
    Detach,
}

/// Who answers.
pub(crate) trait Answers: Send + Sync + 'static {
    fn identity(&self) -> Identity;
    fn sample(&self) -> anyhow::Result<Sample>;
    /// Returns when it is done.
    fn detach(&self) -> anyhow::Result<()>;
}

/// A socket that answers for as long as this lives.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    /// One for this, one for the listening thread, and one for each answer under way.
    busy: Arc<()>,
}

impl Control {
    /// Makes the socket of this process in `dir`.
    pub(crate) fn start(dir: &Path, answers: Arc<impl Answers>) -> io::Result<Control> {
        let path = dir.join(format!("{PREFIX}{}{SUFFIX}", std::process::id()));
        // Of an earlier process of the same number: this one has none yet.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let busy = Arc::new(());
        let answering = Arc::clone(&busy);
        thread::Builder::new().name("control".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let (answers, answering) = (Arc::clone(&answers), Arc::clone(&answering));
                // Each in its own thread: a detach takes its time, and questions go on.
                let spawned = thread::Builder::new().spawn(move || {
                    serve(&stream, &*answers);
                    drop(answering);
                });
                if let Err(error) = spawned {
                    tracing::warn!("cannot answer a question: {error}");
                }
            }
        })?;
        Ok(Control { path, busy })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may have been taken away already; a file that stays is harmless.
        let _ = fs::remove_file(&self.path);
        let end = Instant::now() + LAST_ANSWERS;
        while Arc::strong_count(&self.busy) > 2 && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn serve(stream: &UnixStream, answers: &impl Answers) {
    let answered = || -> anyhow::Result<()> {
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        let result = match line::read(stream)? {
            Question::Identity => to_value(answers.identity()),
            Question::Sample => answers.sample().and_then(to_value),
            Question::Detach => answers.detach().and_then(to_value),
        };
        line::write(stream, &result.map_err(|error| format!("{error:#}")))
    };
    if let Err(error) = answered() {
        tracing::debug!("a question was not answered: {error:#}");
    }
}

fn to_value(value: impl Serialize) -> anyhow::Result<serde_json::Value> {
    Ok(serde_json::to_value(value)?)
}

/// An attachment of another process.
#[derive(Debug)]
pub(crate) struct Found {
    path: PathBuf,
    pub(crate) identity: Identity,
}

impl Found {
    /// What it has done so far.
    pub(crate) fn sample(&self) -> anyhow::Result<Sample> {
        ask(&self.path, Question::Sample, ANSWER_TIME)
    }

    /// Ends it; returns when it has flushed and logged out.
    pub(crate) fn detach(&self) -> anyhow::Result<()> {
        ask(&self.path, Question::Detach, DETACH_TIME)
    }
}

fn ask<T: DeserializeOwned>(path: &Path, question: Question, time: Duration) -> anyhow::Result<T> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(time))?;
    line::write(&stream, &question)?;
    let answer: Result<T, String> = line::read(&stream).context("it did not answer")?;
    answer.map_err(|sentence| anyhow!(sentence))
}

/// All attachments that are found in `dir`, by process number. A directory that is not there holds
/// none.
pub(crate) fn find_all(dir: &Path) -> io::Result<Vec<Found>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) {
            continue;
        }
        match ask(&path, Question::Identity, ANSWER_TIME) {
            Ok(identity) => found.push(Found { path, identity }),
            Err(error) => {
                let gone = error
                    .downcast_ref::<io::Error>()
                    .is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused);
                if gone {
                    // Somebody else may be faster.
                    let _ = fs::remove_file(&path);
                }
            }
        }
    }
    found.sort_by_key(|found| found.identity.pid);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::report::tests::{identity, sample};
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct Fake {
        busy: AtomicBool,
    }

    impl Answers for Fake {
        fn identity(&self) -> Identity {
            identity()
        }

        fn sample(&self) -> anyhow::Result<Sample> {
            Ok(sample(5))
        }

        fn detach(&self) -> anyhow::Result<()> {
            if self.busy.load(Ordering::Relaxed) { Err(anyhow!("it is in use")) } else { Ok(()) }
        }
    }

    #[test]
    fn an_attachment_is_found_asked_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        assert!(find_all(&dir.path().join("missing")).unwrap().is_empty());
        let fake = Arc::new(Fake::default());
        let control = Control::start(dir.path(), fake.clone()).unwrap();
        // Left behind by a process that was killed, and something that is not ours.
        drop(UnixListener::bind(dir.path().join("attach-1.sock")).unwrap());
        fs::write(dir.path().join("other"), b"").unwrap();
        let found = find_all(dir.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].identity, identity());
        assert_eq!(found[0].sample().unwrap(), sample(5));
        fake.busy.store(true, Ordering::Relaxed);
        assert_eq!(found[0].detach().unwrap_err().to_string(), "it is in use");
        fake.busy.store(false, Ordering::Relaxed);
        found[0].detach().unwrap();
        drop(control);
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["other"]);
    }

    #[test]
    fn nonsense_gets_no_answer_and_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let control = Control::start(dir.path(), Arc::new(Fake::default())).unwrap();
        for nonsense in [&b"\n"[..], b"{", b"\"explode\"\n", b"\xff\n"] {
            let mut stream = UnixStream::connect(&control.path).unwrap();
            stream.write_all(nonsense).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.is_empty());
        }
        assert_eq!(find_all(dir.path()).unwrap().len(), 1);
    }
}
