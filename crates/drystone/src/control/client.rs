//! The asking side.

use super::frame::Frame;
use super::line::{self, Lines};
use anyhow::anyhow;
use array::api::JobInfo;
use member::{ArrayRequest, Request};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
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
        let stream = reach(path).map_err(|error| nobody(path, &error))?;
        line::write(&stream, request).map_err(|error| Gone::of(path, &error))?;
        let mut lines = Lines::new(&stream);
        loop {
            match lines.next::<Frame<T>>().map_err(|error| Gone::of(path, &error))? {
                // A sign of life.
                Some(Frame::Progress(jobs)) if jobs.is_empty() => {}
                Some(Frame::Progress(jobs)) => progress(&jobs),
                Some(Frame::Done(answer)) => return Ok(answer),
                Some(Frame::Failed(sentence)) => return Err(anyhow!(sentence)),
                None => return Err(Gone::Ended(path.clone()).into()),
            }
        }
    }
}

/// A member that was there does not answer any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Gone {
    /// It hung up.
    #[error("the member at '{}' ended before it had answered", .0.display())]
    Ended(PathBuf),
    /// It says nothing.
    #[error(
        "the member at '{}' has said nothing for {} seconds: it hangs or was halted, its log may say why",
        .0.display(), SILENCE.as_secs()
    )]
    Silent(PathBuf),
    /// Something else.
    #[error("the member at '{}' cannot be understood: {what}", path.display())]
    Strange {
        /// Where.
        path: PathBuf,
        /// What was heard.
        what: String,
    },
}

impl Gone {
    fn of(path: &Path, error: &anyhow::Error) -> Gone {
        match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Gone::Silent(path.to_owned()),
            Some(_) => Gone::Ended(path.to_owned()),
            None => Gone::Strange { path: path.to_owned(), what: format!("{error:#}") },
        }
    }
}

/// How long a member may say nothing: while it works it gives a sign of life every two seconds.
const SILENCE: Duration = Duration::from_secs(20);

/// Connects; waits for as long only as a member may be silent.
fn reach(path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(SILENCE))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(SILENCE))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Why nobody answers.
fn nobody(place: &Path, error: &io::Error) -> anyhow::Error {
    let path = place.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "no member answers at '{path}': start one with 'drystone up', or write its --socket"
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "you may not use the member at '{path}': become the user that started it, or root"
        ),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Gone::Silent(place.to_owned()).into(),
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
