//! The answering side, on a core of the member: requests change its array and its targets, which
//! live there.

use super::line::to_bytes;
use super::reply::Frame;
use super::request::Request;
use array::api::JobInfo;
use ring::{SendBatch, Stream, UnixListener};
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The longest request.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// Connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 256;

/// Who answers.
pub(crate) trait Answer: 'static {
    /// Carries a request out. The error is the sentence for the asker. It runs to its end also
    /// when the asker goes away.
    async fn answer(&self, request: Request, asker: &Asker) -> Result<Value, String>;
}

/// Who asked: told of progress.
#[derive(Debug)]
pub(crate) struct Asker(Stream);

impl Asker {
    /// `false` when nobody listens any more.
    pub(crate) async fn tell(&self, jobs: Vec<JobInfo>) -> bool {
        self.send(&Frame::<Value>::Progress(jobs)).await
    }

    async fn send(&self, frame: &Frame<Value>) -> bool {
        let Ok(line) = to_bytes(frame) else { return false };
        let mut batch = SendBatch::new();
        batch.push_bytes(&line);
        let (_, sent) = self.0.send(batch).await;
        sent.is_ok()
    }
}

/// A socket that answers for as long as its core runs.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    /// Makes the socket, for its owner alone, and answers on this core. A file in its place is
    /// replaced: the caller has made sure that nobody listens there.
    pub(crate) fn start(path: &Path, answers: Rc<impl Answer>) -> io::Result<Control> {
        // Under another name until its mode is set: nobody else gets in between.
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        drop(fs::remove_file(&fresh));
        let listener = UnixListener::bind(&fresh)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
        fs::rename(&fresh, path)?;
        ring::spawn(accept_loop(listener, answers));
        Ok(Control { path: path.to_owned() })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may have been taken away already; a file that stays is harmless.
        drop(fs::remove_file(&self.path));
    }
}

async fn accept_loop(listener: UnixListener, answers: Rc<impl Answer>) {
    let open = Rc::new(Cell::new(0));
    loop {
        match listener.accept().await {
            Ok(stream) if open.get() < CONNECTIONS_MAX => {
                let (answers, open) = (answers.clone(), open.clone());
                open.set(open.get() + 1);
                ring::spawn(async move {
                    serve(stream, &*answers).await;
                    open.set(open.get() - 1);
                });
            }
            Ok(_) => tracing::warn!("closed a control connection: {CONNECTIONS_MAX} are open"),
            Err(error) => {
                tracing::warn!("cannot accept a control connection: {error}");
                ring::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: Stream, answers: &impl Answer) {
    let Some(Some(line)) = ring::timeout(REQUEST_TIME, request_line(&stream)).await else {
        return;
    };
    let asker = Asker(stream);
    let frame = match serde_json::from_slice::<Request>(&line) {
        Ok(request) => match answers.answer(request, &asker).await {
            Ok(value) => Frame::Done(value),
            Err(sentence) => Frame::Failed(sentence),
        },
        Err(error) => Frame::Failed(format!(
            "the member does not understand the request ({error}): use the drystone of the same version"
        )),
    };
    if !asker.send(&frame).await {
        tracing::debug!("nobody waited for an answer");
    }
}

/// Reads up to the end of a line; `None` without one.
async fn request_line(stream: &Stream) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let chunk = stream.recv().await.ok().filter(|chunk| !chunk.is_empty())?;
        line.extend_from_slice(&chunk);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Some(line);
        }
        if line.len() > REQUEST_BYTES_MAX {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::client::{Client, is_taken};
    use crate::control::request::{ArrayRequest, DiskRequest, VolumeRequest};
    use array::api::JobKind;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    struct Fake;

    impl Answer for Fake {
        async fn answer(&self, request: Request, asker: &Asker) -> Result<Value, String> {
            match request {
                Request::Volume(VolumeRequest::Show { name }) => Ok(Value::String(name)),
                Request::Array(ArrayRequest::Scrub) => {
                    for done_bytes in 1..=3 {
                        let kind = JobKind::Scrub;
                        let subject = "all".to_owned();
                        let (total_bytes, rate_bytes) = (3, 0);
                        let job = JobInfo { kind, subject, done_bytes, total_bytes, rate_bytes };
                        assert!(asker.tell(vec![job]).await);
                    }
                    Ok(Value::Null)
                }
                _ => Err("not today: come back tomorrow".to_owned()),
            }
        }
    }

    /// A member that answers while `test` runs.
    fn with_member(test: impl FnOnce(&Path) + Send + 'static) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        // Left behind by one that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(!is_taken(&path));
        let asked = path.clone();
        ring::block_on(&ring::CoreConfig::default(), async move {
            let control = Control::start(&path, Rc::new(Fake)).unwrap();
            ring::blocking(move || test(&asked)).await;
            drop(control);
            assert!(!path.exists());
        })
        .unwrap();
    }

    #[test]
    fn requests_are_answered_with_progress_or_refused_with_a_sentence() {
        with_member(|path| {
            assert!(is_taken(path));
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let client = Client::new(path.to_owned());
            let show = Request::Volume(VolumeRequest::Show { name: "a".into() });
            assert_eq!(client.ask::<String>(&show).unwrap(), "a");
            let mut seen = Vec::new();
            client
                .follow::<()>(&Request::Array(ArrayRequest::Scrub), |jobs| {
                    seen.push(jobs[0].done_bytes);
                })
                .unwrap();
            assert_eq!(seen, [1, 2, 3]);
            let refused = client.ask::<()>(&Request::Volume(VolumeRequest::List)).unwrap_err();
            assert_eq!(refused.to_string(), "not today: come back tomorrow");
        });
    }

    #[test]
    fn nonsense_is_told_so_and_does_no_harm() {
        with_member(|path| {
            for (nonsense, answer) in [
                (&b"{}\n"[..], "does not understand"),
                (b"\"explode\"\n", "does not understand"),
                (b"\xff\xfe\n", "does not understand"),
                (b"{\"volume\":\"list\"}", ""),
            ] {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.write_all(nonsense).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut said = String::new();
                stream.read_to_string(&mut said).unwrap();
                assert!(said.contains(answer) && said.is_empty() == answer.is_empty(), "{said}");
            }
            let client = Client::new(path.to_owned());
            client.ask::<()>(&Request::Array(ArrayRequest::Scrub)).unwrap();
        });
    }

    #[test]
    fn who_cannot_be_reached_is_named_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("none.sock");
        let said = Client::new(path.clone())
            .ask::<()>(&Request::Disk(DiskRequest::List))
            .unwrap_err()
            .to_string();
        let wanted = format!(
            "no member answers at '{}': start one with 'drystone up', or write its --socket",
            path.display()
        );
        assert_eq!(said, wanted);
    }
}
