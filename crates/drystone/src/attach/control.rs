//! The socket by which other processes find the attachments of this one, ask them and end them.
//!
//! One line of JSON each way, then it is closed. The socket is called `attach-PID.sock`; one that
//! was left by a process that was killed is removed by whoever finds it, the next attachment at last.

use super::line;
use crate::attach::report::{Listed, Sample};
use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::HashMap;
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// What do you attach?
    List,
    /// What has each of them done?
    Samples,
    /// Flush this one, log out, end it.
    Detach(String),
}

/// Who answers. The attachments of a process differ in their names.
pub(crate) trait Answers: Send + Sync + 'static {
    fn list(&self) -> Vec<Listed>;
    /// By name, of those that are attached.
    fn samples(&self) -> HashMap<String, Sample>;
    /// Returns when it is done.
    fn detach(&self, name: &str) -> anyhow::Result<()>;
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
        remove_left(dir)?;
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
            Question::List => to_value(answers.list()),
            Question::Samples => to_value(answers.samples()),
            Question::Detach(name) => answers.detach(&name).and_then(to_value),
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

/// Another process, and what it attaches.
#[derive(Debug)]
pub(crate) struct Process {
    path: PathBuf,
    pub(crate) attachments: Vec<Listed>,
}

impl Process {
    /// What its attachments have done so far, by name.
    pub(crate) fn samples(&self) -> anyhow::Result<HashMap<String, Sample>> {
        ask(&self.path, &Question::Samples, ANSWER_TIME)
    }

    /// Ends the attachment of this name; returns when it has flushed and logged out.
    pub(crate) fn detach(&self, name: &str) -> anyhow::Result<()> {
        ask(&self.path, &Question::Detach(name.to_owned()), DETACH_TIME)
    }
}

fn ask<T: DeserializeOwned>(path: &Path, question: &Question, time: Duration) -> anyhow::Result<T> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(time))?;
    line::write(&stream, question)?;
    let answer: Result<T, String> = line::read(&stream).context("it did not answer")?;
    answer.map_err(|sentence| anyhow!(sentence))
}

/// All processes with attachments that are found in `dir`, by number. A directory that is not there
/// holds none.
pub(crate) fn find_all(dir: &Path) -> io::Result<Vec<Process>> {
    remove_left(dir)?;
    let mut found = Vec::new();
    for (_, path) in sockets(dir)? {
        if let Ok(attachments) = ask(&path, &Question::List, ANSWER_TIME) {
            found.push(Process { path, attachments });
        }
    }
    found.sort_by_key(|found| found.attachments.first().map(|it| it.identity.pid));
    Ok(found)
}

/// Removes what processes left that were killed.
fn remove_left(dir: &Path) -> io::Result<()> {
    for (process, path) in sockets(dir)? {
        // One that is just being made refuses too.
        let is_gone = !Path::new("/proc").join(process.to_string()).exists();
        let is_refused = || {
            let error = UnixStream::connect(&path).err();
            error.is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        if is_gone && is_refused() {
            // Somebody else may be faster.
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// The processes that have sockets in a directory, and those. One that is not there holds none.
fn sockets(dir: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut sockets = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
        if let Some(process) = number.and_then(|number| number.parse().ok()) {
            sockets.push((process, path));
        }
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::report::Identity;
    use crate::attach::report::tests::{identity, listed, sample};
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct Fake {
        busy: AtomicBool,
    }

    impl Answers for Fake {
        fn list(&self) -> Vec<Listed> {
            let named = Identity { name: "b".to_owned(), ..identity() };
            vec![listed(), Listed { identity: named, ..listed() }]
        }

        fn samples(&self) -> HashMap<String, Sample> {
            HashMap::from([(String::new(), sample(5)), ("b".to_owned(), sample(6))])
        }

        fn detach(&self, name: &str) -> anyhow::Result<()> {
            assert_eq!(name, "b");
            if self.busy.load(Ordering::Relaxed) { Err(anyhow!("it is in use")) } else { Ok(()) }
        }
    }

    #[test]
    fn an_attachment_is_found_asked_and_ended() {
        let dir = tempfile::tempdir().unwrap();
        assert!(find_all(&dir.path().join("missing")).unwrap().is_empty());
        let fake = Arc::new(Fake::default());
        let control = Control::start(dir.path(), fake.clone()).unwrap();
        // Left behind by a process that was killed; that of another one, which does not listen yet; and
        // something that is not ours.
        let gone = dir.path().join(format!("attach-{}.sock", u32::MAX));
        drop(UnixListener::bind(&gone).unwrap());
        drop(UnixListener::bind(dir.path().join("attach-1.sock")).unwrap());
        fs::write(dir.path().join("other"), b"").unwrap();
        let found = find_all(dir.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].attachments, Fake::default().list());
        let samples = found[0].samples().unwrap();
        assert_eq!((&samples[""], &samples["b"]), (&sample(5), &sample(6)));
        fake.busy.store(true, Ordering::Relaxed);
        assert_eq!(found[0].detach("b").unwrap_err().to_string(), "it is in use");
        fake.busy.store(false, Ordering::Relaxed);
        found[0].detach("b").unwrap();
        drop(control);
        let left = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
        };
        let others = BTreeSet::from(["attach-1.sock".into(), "other".into()]);
        assert_eq!(left(), others);
        // Nobody may have looked since: the next attachment does.
        drop(UnixListener::bind(&gone).unwrap());
        drop(Control::start(dir.path(), fake).unwrap());
        assert_eq!(left(), others);
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
