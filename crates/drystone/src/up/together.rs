//! `drystone up --members N`: a whole group on this machine, to try it.
//!
//! Each member is a process of its own, which runs `drystone up` with a directory, a socket, a portal and a group address
//! of its own. This one starts them, makes them a group, and stops them. A member that ends by itself, or is killed, is
//! told of and left: that is what one wants to try.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api::client::{Client, ClientError};
use api::problem::Code;
use api::types::{JoinGroup, NewGroup, NewJoinToken};
use group::membership::PORT as MEMBER_PORT;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{print, socket};
use crate::advice::advised;
use crate::cli::up::UpArgs;
use crate::os::signals::StopSignals;
use crate::{Failure, serve};

/// What the group is called, and how the names of its members begin.
const GROUP: &str = "drystone";
const MEMBER: &str = "member";

/// Where hosts reach each member, at an address of its own.
const PORTAL_PORT: u16 = 3260;

/// Memory for the read cache of each member, where nothing else is asked for.
const CACHE: &str = "64M";

/// How long a member may take to answer after its start.
const READY_TIME: Duration = Duration::from_secs(60);

/// How long one may take to stop: hosts have some seconds to log out, then all is flushed.
const STOP_TIME: Duration = Duration::from_secs(30);

/// How often it is looked whether something has come about that nobody tells of.
const LOOK: Duration = Duration::from_millis(50);

/// Options of the command line that each member has its own of, with their values.
const OWN: [&str; 3] = ["--members", "--data", "--socket"];

/// One member.
struct Member {
    name: String,
    address: IpAddr,
    socket: PathBuf,
    child: Child,
}

/// Members that run. They are stopped when this is dropped.
#[derive(Default)]
struct Members {
    all: Vec<Member>,
    is_stopping: Arc<AtomicBool>,
}

/// Runs so many members until a signal.
pub(super) fn run(args: &UpArgs, count: u8, mut signals: StopSignals) -> Result<(), Failure> {
    let data = serve::choose_state_dir(args.data.as_ref(), "--data")?;
    let first_socket = socket(&args.socket)?;
    let words = passed_on(env::args_os().skip(1));
    let mut members = Members::default();
    for number in 1..=count {
        let dir = data.join(format!("{MEMBER}-{number}"));
        let socket = match number {
            1 => first_socket.clone(),
            _ => dir.join("control.sock"),
        };
        members.start(number, &words, &dir, socket)?;
    }
    for member in &mut members.all {
        member.await_ready(&mut signals)?;
    }
    if signals.came().is_some() {
        return Ok(());
    }
    members.form_a_group()?;
    if let Err(error) = print(&members.text(args.hints)) {
        tracing::warn!("cannot print what runs: {error}");
    }
    members.tell_of_ends()?;
    let signal = signals.wait();
    tracing::info!("stopping all members on {signal}; a second signal ends this process at once");
    Ok(())
}

/// The words of the command line that each member is started with.
fn passed_on(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut is_value, mut was_log, mut has_command) = (Vec::new(), false, false, false);
    for word in words {
        let text = word.to_string_lossy();
        if std::mem::take(&mut is_value) {
            continue;
        }
        let is_own = |own: &str| text == *own || text.starts_with(&format!("{own}="));
        if OWN.iter().any(|own| is_own(own)) {
            is_value = !text.contains('=');
            continue;
        }
        // The value of --log may be any word.
        let is_up = text == "up" && !was_log && !has_command;
        was_log = text == "--log";
        has_command |= is_up;
        if !is_up {
            kept.push(word);
        }
    }
    kept
}

impl Members {
    fn start(
        &mut self,
        number: u8,
        words: &[OsString],
        dir: &Path,
        socket: PathBuf,
    ) -> anyhow::Result<()> {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, number));
        let name = format!("{MEMBER}-{number}");
        let program = env::current_exe().context("this program does not find itself")?;
        // A member ends with this process, however that ends: it hangs on the thread that has started it, the main one.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).arg(program).arg("up");
        command.arg("--data").arg(dir).arg("--socket").arg(&socket);
        command.arg(format!("--portal={}", SocketAddr::new(address, PORTAL_PORT)));
        if !words.iter().any(|word| word.to_string_lossy().starts_with("--cache-memory")) {
            command.arg(format!("--cache-memory={CACHE}"));
        }
        command.args(words);
        // What interrupts this process is not for them: they are told to stop.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn();
        let child = child.context(
            "cannot start a member: is setpriv there (package util-linux), and may processes be started?",
        )?;
        self.all.push(Member { name, address, socket, child });
        Ok(())
    }

    /// Makes a group of those that are in none yet.
    fn form_a_group(&self) -> anyhow::Result<()> {
        let Some((first, others)) = self.all.split_first() else { return Ok(()) };
        let client = first.client();
        if first.is_in_none()? {
            let new = NewGroup {
                name: GROUP.to_owned(),
                member: Some(first.name.clone()),
                listen: first.group_address(),
                address: None,
            };
            client.create_group(&new).map_err(advised)?;
        }
        for other in others {
            if !other.is_in_none()? {
                continue;
            }
            let ticket = client.create_join_token(&NewJoinToken::default()).map_err(advised)?;
            let join = JoinGroup {
                group: first.group_address(),
                token: ticket.token,
                member: Some(other.name.clone()),
                listen: other.group_address(),
                replace_settings: false,
            };
            other.client().join_group(&join).map_err(advised)?;
        }
        Ok(())
    }

    /// What runs: a line for each member, then one for the group, as [`super::ready`] has them.
    fn text(&self, hints: bool) -> String {
        let mut text = String::new();
        for Member { name, address, socket, child } in &self.all {
            text.push_str(&format!(
                "member name={name} pid={} portal={} path={}\n",
                child.id(),
                SocketAddr::new(*address, PORTAL_PORT),
                socket.display()
            ));
        }
        text.push_str(&format!("group name={GROUP} members={}\n", self.all.len()));
        if let (true, Some(last)) = (hints, self.all.last()) {
            text.push_str(&format!(
                "\nIn another terminal:\n  drystone member list\n  drystone volume create vm1 10G\n  \
                 drystone group volumes --socket {}\n",
                last.socket.display()
            ));
        }
        text
    }

    /// Says when one of them ends although nobody has told it to.
    fn tell_of_ends(&self) -> anyhow::Result<()> {
        for member in &self.all {
            let (name, pid) = (member.name.clone(), Pid::from_child(&member.child));
            let is_stopping = self.is_stopping.clone();
            let wait = move || {
                // Whoever stops it asks for its end as well: it is left for that.
                let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                if waitid(WaitId::Pid(pid), how).is_ok() && !is_stopping.load(Ordering::Relaxed) {
                    tracing::warn!("'{name}' has ended; the others go on");
                }
            };
            thread::Builder::new().name("ends".to_owned()).spawn(wait)?;
        }
        Ok(())
    }
}

impl Member {
    fn client(&self) -> Client {
        Client::new(self.socket.clone())
    }

    fn group_address(&self) -> String {
        SocketAddr::new(self.address, MEMBER_PORT).to_string()
    }

    /// Waits until it answers, and then reads what else it prints, so that it never waits for a reader.
    fn await_ready(&mut self, signals: &mut StopSignals) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut printed = BufReader::new(self.child.stdout.take().context("it is piped")?);
        let is_ready = thread::spawn(move || {
            let mut line = String::new();
            // The line of its socket is the last of a member that is ready.
            while printed.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if line.starts_with("socket ") {
                    return Some(printed);
                }
                line.clear();
            }
            None
        });
        while !is_ready.is_finished() {
            if signals.came().is_some() {
                bail!("stopped before all members were ready");
            }
            if begun.elapsed() > READY_TIME {
                bail!("'{}' was not ready within {} seconds", self.name, READY_TIME.as_secs());
            }
            thread::sleep(LOOK);
        }
        let Ok(Some(mut printed)) = is_ready.join() else {
            bail!("'{}' has not started: what it said stands above", self.name);
        };
        thread::Builder::new().name("printed".to_owned()).spawn(move || {
            // What it says after that is for nobody.
            let mut rest = [0; 4096];
            while printed.read(&mut rest).is_ok_and(|bytes| bytes > 0) {}
        })?;
        Ok(())
    }

    fn is_in_none(&self) -> anyhow::Result<bool> {
        match self.client().group() {
            Ok(_) => Ok(false),
            Err(ClientError::Problem(problem)) if problem.code == Code::NoGroup => Ok(true),
            Err(error) => Err(advised(error)),
        }
    }
}

impl Drop for Members {
    /// Has all of them stop at once, the store's majority included, and waits for that.
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for Member { child, .. } in &mut self.all {
            if matches!(child.try_wait(), Ok(None)) {
                // It was not waited for yet, so the number is still its own.
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
            }
        }
        let begun = Instant::now();
        for Member { name, child, .. } in &mut self.all {
            while matches!(child.try_wait(), Ok(None)) {
                if begun.elapsed() > STOP_TIME {
                    tracing::warn!(
                        "'{name}' has not stopped within {} seconds and is ended: nothing that was acknowledged \
                         is lost",
                        STOP_TIME.as_secs()
                    );
                    let _ = child.kill();
                    let _ = child.wait();
                    break;
                }
                thread::sleep(LOOK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_the_words_that_are_not_its_own() {
        let kept = |line: &str| {
            let words = passed_on(line.split(' ').map(OsString::from));
            words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept("up --members 3"), "");
        assert_eq!(kept("--log up up --members=3 --raid raid5"), "--log up --raid raid5");
        assert_eq!(
            kept("up --data /d --socket=/s --members 2 --log warn --hints --cache-memory 1G"),
            "--log warn --hints --cache-memory 1G"
        );
    }
}
