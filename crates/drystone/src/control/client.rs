//! The asking side.

use super::line::{self, Lines};
use super::reply::Frame;
use super::request::{ArrayRequest, Request};
use anyhow::{Context, anyhow};
use array::api::JobInfo;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The way to a running member.
#[derive(Debug, Clone)]
pub(crate) struct Client(PathBuf);

impl Client {
    pub(crate) fn new(socket: PathBuf) -> Client {
        Client(socket)
    }

    /// Asks and waits for the answer. Work goes on when the asker goes away.
    pub(crate) fn ask<T: DeserializeOwned>(&self, request: &Request) -> anyhow::Result<T> {
        self.follow(request, |_| {})
    }

    /// As [`ask`](Self::ask); `progress` is told of every step.
    pub(crate) fn follow<T: DeserializeOwned>(
        &self,
        request: &Request,
        mut progress: impl FnMut(&[JobInfo]),
    ) -> anyhow::Result<T> {
        let Client(path) = self;
        let stream = UnixStream::connect(path).map_err(|error| nobody(path, &error))?;
        let lost =
            || format!("the member at '{}' went away before it had answered", path.display());
        line::write(&stream, request).with_context(lost)?;
        let mut lines = Lines::new(&stream);
        loop {
            match lines.next::<Frame<T>>().with_context(lost)? {
                Some(Frame::Progress(jobs)) => progress(&jobs),
                Some(Frame::Done(answer)) => return Ok(answer),
                Some(Frame::Failed(sentence)) => return Err(anyhow!(sentence)),
                None => return Err(anyhow!(lost())),
            }
        }
    }
}

/// Why nobody answers.
fn nobody(path: &Path, error: &io::Error) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "no member answers at '{path}': start one with 'drystone up', or write its --socket"
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "you may not use the member at '{path}': become the user that started it, or root"
        ),
        _ => anyhow!("cannot reach a member at '{path}': {error}"),
    }
}

/// How long a member that listens may take to say anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// A member answers at `path`. The socket of one that was killed may accept for a moment until the
/// kernel has taken its ring down, but nobody answers then.
pub(crate) fn is_taken(path: &Path) -> bool {
    let Ok(stream) = UnixStream::connect(path) else { return false };
    let request = Request::Array(ArrayRequest::Jobs);
    let asked =
        stream.set_read_timeout(Some(PATIENCE)).is_ok() && line::write(&stream, &request).is_ok();
    if !asked {
        return false;
    }
    let mut byte = [0];
    match (&stream).read(&mut byte) {
        Ok(count) => count > 0,
        // It hangs, but it is there.
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}
