//! The answering side, on a core of the member: requests change its array and its targets, which
//! live there.

use super::callers::Callers;
use super::frame::Frame;
use super::line::to_bytes;
use crate::advice::Advised;
use array::api::JobInfo;
use member::{Asker as _, Member, Request};
use ring::wait::{Either, Turn, first};
use ring::{OneshotReceiver, OneshotSender, SendBatch, Stream, UnixListener, oneshot};
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The longest request.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// How long a request may take to arrive, and a line of the answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often an asker hears that its request is still being worked on.
const PULSE: Duration = Duration::from_secs(2);

/// How long the end waits for answers under way.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Connections at once. Of those above, the oldest that has not asked yet is closed.
pub(crate) const CONNECTIONS_MAX: usize = 256;

/// Who answers.
pub(crate) trait Answer: 'static {
    /// Carries a request out. The error is the sentence for the asker. It runs to its end also
    /// when the asker goes away.
    async fn answer(&self, request: Request, asker: &Asker) -> Result<Value, String>;
}

impl Answer for Member {
    async fn answer(&self, request: Request, asker: &Asker) -> Result<Value, String> {
        let answer = Self::answer(self, request, asker).await;
        let answer = answer.map_err(|error| error.sentence())?;
        serde_json::to_value(answer).map_err(|error| error.to_string())
    }
}

/// Who asked: told of progress.
#[derive(Debug)]
pub(crate) struct Asker {
    stream: Stream,
    /// Lines go out one after the other.
    turn: Turn,
    is_gone: Cell<bool>,
    callers: Rc<Callers>,
}

impl member::Asker for Asker {
    async fn tell(&self, jobs: Vec<JobInfo>) -> bool {
        self.send(&Frame::<Value>::Progress(jobs)).await
    }

    fn is_to_end(&self) -> bool {
        self.callers.is_ending()
    }
}

impl Asker {
    async fn send(&self, frame: &Frame<Value>) -> bool {
        let Ok(line) = to_bytes(frame) else { return false };
        let _turn = self.turn.take().await;
        if self.is_gone.get() {
            return false;
        }
        let mut batch = SendBatch::new();
        batch.push_bytes(&line);
        let sent = ring::timeout(PATIENCE, self.stream.send(batch)).await;
        // What was sent in part cannot be gone on with.
        let is_sent = matches!(sent, Some((_, Ok(_))));
        self.is_gone.set(!is_sent);
        is_sent
    }
}

/// A socket that answers until it hangs up, or its core ends.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    /// Device and inode of the socket: another server may have put its own in the place.
    made: (u64, u64),
    callers: Rc<Callers>,
    listening: Option<OneshotSender<()>>,
}

impl Control {
    /// Makes the socket, for its owner alone, and answers on this core, `connections_max` at once.
    /// A file in its place is replaced: the caller has made sure that nobody listens there.
    pub(crate) fn start(
        path: &Path,
        answers: Rc<impl Answer>,
        connections_max: usize,
    ) -> io::Result<Control> {
        // Under another name until its mode is set: nobody else gets in between.
        let fresh = path.with_extension(format!("{}.new", std::process::id()));
        drop(fs::remove_file(&fresh));
        let listener = UnixListener::bind(&fresh)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
        let made = identity(&fresh)?;
        fs::rename(&fresh, path)?;
        let callers = Rc::new(Callers::new(connections_max));
        let (listening, is_over) = oneshot();
        ring::spawn(accept_loop(listener, answers, callers.clone(), is_over));
        Ok(Control { path: path.to_owned(), made, callers, listening: Some(listening) })
    }

    /// Takes no more requests, and waits a moment for the answers under way: what takes longer
    /// says that it does.
    pub(crate) async fn hang_up(mut self) {
        self.callers.end();
        self.listening = None;
        let all_answered = async {
            while self.callers.answering() > 0 {
                ring::sleep(Duration::from_millis(10)).await;
            }
        };
        if ring::timeout(LAST_ANSWERS, all_answered).await.is_none() {
            tracing::warn!("{} requests are left without an answer", self.callers.answering());
        }
    }
}

/// Which file a path names now.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let data = fs::symlink_metadata(path)?;
    Ok((data.dev(), data.ino()))
}

impl Drop for Control {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.made) {
            // A file that stays is harmless.
            drop(fs::remove_file(&self.path));
        }
    }
}

async fn accept_loop(
    listener: UnixListener,
    answers: Rc<impl Answer>,
    callers: Rc<Callers>,
    mut is_over: OneshotReceiver<()>,
) {
    loop {
        match until(&mut is_over, listener.accept()).await {
            None => return,
            Some(Ok(stream)) => {
                let (answers, callers) = (answers.clone(), callers.clone());
                ring::spawn(async move { admit(stream, &*answers, callers).await });
            }
            Some(Err(error)) => {
                tracing::warn!("cannot accept a control connection: {error}");
                ring::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The result of `work`, or `None` if `end` comes first.
async fn until<T>(end: &mut OneshotReceiver<()>, work: impl Future<Output = T>) -> Option<T> {
    match first(work, end).await {
        Either::Left(result) => Some(result),
        Either::Right(_) => None,
    }
}

async fn admit(stream: Stream, answers: &impl Answer, callers: Rc<Callers>) {
    let asker = |stream, callers| Asker {
        stream,
        turn: Turn::default(),
        is_gone: Cell::new(false),
        callers,
    };
    let Some((number, mut is_out)) = callers.enter() else {
        let sentence = "too many commands are under way: try again when some have ended";
        asker(stream, callers).send(&Frame::Failed(sentence.to_owned())).await;
        return;
    };
    let line = until(&mut is_out, ring::timeout(PATIENCE, request_line(&stream))).await;
    let Some(Some(Some(line))) = line else {
        callers.leave(number);
        return;
    };
    if callers.has_asked(number) {
        answer(Rc::new(asker(stream, callers.clone())), &line, answers).await;
        callers.is_answered();
    }
}

async fn answer(asker: Rc<Asker>, line: &[u8], answers: &impl Answer) {
    let (done, is_done) = oneshot();
    ring::spawn(pulse(asker.clone(), is_done));
    let frame = match serde_json::from_slice::<Request>(line) {
        Ok(_) if asker.is_to_end() => Frame::Failed("the member is stopping".to_owned()),
        Ok(request) => match answers.answer(request, &asker).await {
            Ok(value) => Frame::Done(value),
            Err(sentence) => Frame::Failed(sentence),
        },
        Err(error) => Frame::Failed(format!(
            "the member does not understand the request ({error}): use the drystone of the same version"
        )),
    };
    done.send(());
    if !asker.send(&frame).await {
        tracing::debug!("nobody waited for an answer");
    }
}

/// Tells the asker now and then that its request is being worked on. A task of its own: nothing
/// waits for an asker that does not listen.
async fn pulse(asker: Rc<Asker>, mut is_done: OneshotReceiver<()>) {
    while ring::timeout(PULSE, &mut is_done).await.is_none() {
        if !asker.tell(Vec::new()).await {
            return;
        }
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
    use array::api::JobKind;
    use member::{ArrayRequest, DiskRequest, VolumeRequest};
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
            let control = Control::start(&path, Rc::new(Fake), 4).unwrap();
            ring::blocking(move || test(&asked)).await;
            control.hang_up().await;
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
    fn silent_clients_do_not_keep_others_out() {
        with_member(|path| {
            let silent: Vec<_> = (0..40).map(|_| UnixStream::connect(path).unwrap()).collect();
            let begun = std::time::Instant::now();
            let client = Client::new(path.to_owned());
            client.ask::<()>(&Request::Array(ArrayRequest::Scrub)).unwrap();
            assert!(begun.elapsed() < PATIENCE / 2, "it waited for the silent ones");
            drop(silent);
        });
    }

    #[test]
    fn a_socket_that_another_server_made_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        ring::block_on(&ring::CoreConfig::default(), async move {
            let first = Control::start(&path, Rc::new(Fake), 4).unwrap();
            let second = Control::start(&path, Rc::new(Fake), 4).unwrap();
            first.hang_up().await;
            assert!(path.exists(), "it is the second one's");
            second.hang_up().await;
            assert!(!path.exists());
        })
        .unwrap();
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
