//! The life of a member on the first core, step by step as the main thread asks for it.

use super::member::Member;
use super::names::Names;
use super::opening::{Make, Opened};
use super::ready::Shown;
use super::remembered::Remembered;
use super::serving::Serving;
use super::{opening, watch};
use crate::control::server::{CONNECTIONS_MAX, Control};
use crate::os::files;
use anyhow::{Context, anyhow};
use array::ArrayError;
use array::api::DiskState;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;
use target::{Server, Targets};

/// What a member is opened with.
#[derive(Debug)]
pub(crate) struct Opening {
    /// What is remembered.
    pub(crate) remembered: Remembered,
    /// Which disks, and how an array is made if there is none.
    pub(crate) make: Make,
    /// How the names of targets begin.
    pub(crate) prefix: Option<String>,
}

/// A member that runs on the first core, seen from the main thread.
#[derive(Debug)]
pub(crate) struct Life {
    core: ring::Remote,
}

thread_local! {
    /// The member of this core, and its control socket.
    static HERE: RefCell<Here> = const { RefCell::new(Here { member: None, control: None }) };
}

#[derive(Debug)]
struct Here {
    member: Option<Rc<Member>>,
    control: Option<Control>,
}

impl Life {
    /// Opens the array and prepares its targets. Nobody can log in yet.
    pub(crate) fn start(server: &Server, opening: Opening) -> anyhow::Result<Life> {
        let life = Life { core: server.first_core() };
        let targets = server.targets();
        life.run(move || begin(opening, targets))??;
        Ok(life)
    }

    /// Looks after disks and hosts from now on, and says what there is.
    pub(crate) fn watch(&self) -> anyhow::Result<Shown> {
        self.run(|| async {
            let member = member()?;
            ring::spawn(watch::run(member.clone()));
            Ok(Shown::of(&member))
        })?
    }

    /// Takes requests at `socket`.
    pub(crate) fn answer_at(&self, socket: &Path) -> anyhow::Result<()> {
        let path = socket.to_owned();
        let said = socket.display().to_string();
        self.run(move || async move { answer_at(&path) })?
            .with_context(|| format!("cannot make the control socket '{said}'"))
    }

    /// Takes no more requests, and has those under way answered.
    pub(crate) fn hang_up(&self) {
        let hung_up = self.run(|| async {
            let (member, control) =
                HERE.with_borrow_mut(|here| (here.member.clone(), here.control.take()));
            if let Some(member) = member {
                member.stops();
            }
            if let Some(control) = control {
                control.hang_up().await;
            }
        });
        if let Err(error) = hung_up {
            tracing::warn!("{error}");
        }
    }

    /// Closes the array. Nobody may use its volumes any more.
    pub(crate) fn end(&self) -> anyhow::Result<()> {
        let closed = self.run(|| async {
            let member = HERE.with_borrow_mut(|here| here.member.take());
            match member {
                Some(member) => member.array().close().await,
                None => Ok::<(), ArrayError>(()),
            }
        });
        Ok(closed??)
    }

    /// Runs something on the core and waits for its result.
    fn run<T: Send + 'static, Work: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce() -> Work + Send + 'static,
    ) -> anyhow::Result<T> {
        let (done, answer) = mpsc::channel();
        self.core.run(move || {
            ring::spawn(async move {
                // The main thread waits for it, unless the process ends.
                drop(done.send(work().await));
            });
        });
        answer.recv().map_err(|_| anyhow!("the first core ended"))
    }
}

async fn begin(opening: Opening, targets: Targets) -> anyhow::Result<()> {
    let Opening { mut remembered, make, prefix } = opening;
    let opened = opening::open(&make, &mut remembered).await?;
    note(&opened, &mut remembered);
    let array = opened.array;
    let names = Names::new(&array.info().id, prefix.as_deref());
    let serving = Serving::new(array.clone(), targets, names);
    let member = Rc::new(Member::new(array, serving, remembered));
    member.settle().await;
    HERE.with_borrow_mut(|here| here.member = Some(member));
    Ok(())
}

/// Remembers the disks of the array that was opened, those that are missing too. That this fails
/// is no reason not to serve.
fn note(opened: &Opened, remembered: &mut Remembered) {
    let members = opened.array.disks();
    let is_member = |name: &str| members.iter().any(|disk| disk.name == name);
    let is_missing = members.iter().any(|disk| disk.state == DiskState::Missing);
    let here = opened.seen.iter().filter(|seen| is_member(&seen.member.name));
    let here = here.map(|seen| &seen.disk);
    let away = opened.absent.iter().filter(|_| is_missing);
    if let Err(error) = remembered.opened(&opened.array.info().id, here.chain(away)) {
        tracing::warn!("{error:#}: after a restart the disks will have to be named with --disk");
    }
}

fn member() -> anyhow::Result<Rc<Member>> {
    HERE.with_borrow(|here| here.member.clone()).context("the member has ended")
}

fn answer_at(socket: &Path) -> anyhow::Result<()> {
    let connections_max = files::control_connections(CONNECTIONS_MAX);
    let control = Control::start(socket, member()?, connections_max)?;
    HERE.with_borrow_mut(|here| here.control = Some(control));
    Ok(())
}
