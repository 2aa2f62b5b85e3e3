//! What lies in `membership.json` of a member that runs, and who writes it.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use ring::wait::Turn;

use super::GroupError;
use super::files::{GroupDir, MembershipFile};

/// Invariant: one task at a time writes the file, and none does once it is deleted, whoever stops waiting when: what is
/// begun goes on to its end.
pub(super) struct Kept {
    dir: GroupDir,
    /// As it lies there.
    file: RefCell<MembershipFile>,
    /// Who has it writes the file, or deletes it.
    writing: Turn,
    /// It is deleted, or about to be.
    is_gone: Cell<bool>,
}

impl Kept {
    pub(super) fn new(dir: &GroupDir, file: MembershipFile) -> Self {
        let (file, is_gone) = (RefCell::new(file), Cell::new(false));
        Self { dir: dir.clone(), file, writing: Turn::default(), is_gone }
    }

    pub(super) fn file(&self) -> Ref<'_, MembershipFile> {
        self.file.borrow()
    }

    /// Changes the file, unless it is gone.
    ///
    /// # Errors
    /// It cannot be written: then nothing has changed.
    pub(super) async fn change(
        self: &Rc<Self>,
        change: impl FnOnce(&mut MembershipFile) + 'static,
    ) -> Result<(), GroupError> {
        let changed = self.in_turn(async move |kept: &Self| kept.change_now(change).await);
        changed.await.unwrap_or(Err(GroupError::Stopping))
    }

    async fn change_now(&self, change: impl FnOnce(&mut MembershipFile)) -> Result<(), GroupError> {
        let before = self.file().clone();
        let mut file = before.clone();
        change(&mut file);
        if file == before || self.is_gone.get() {
            return Ok(());
        }
        debug_assert_eq!((&file.group, file.member), (&before.group, before.member));
        let (dir, written) = (self.dir.clone(), file.clone());
        ring::blocking(move || dir.write(&written)).await?;
        self.file.replace(file);
        Ok(())
    }

    /// Deletes it, and all that lies beside it.
    ///
    /// # Errors
    /// Not all of it can be deleted.
    pub(super) async fn delete(self: &Rc<Self>) -> Result<(), GroupError> {
        let deleted = self.in_turn(async |kept: &Self| {
            kept.is_gone.set(true);
            let dir = kept.dir.clone();
            ring::blocking(move || dir.clear()).await
        });
        deleted.await.unwrap_or(Err(GroupError::Stopping))
    }

    /// Does something with it when nobody else does, and to its end whoever waits for that. `None` where the core ends
    /// before.
    async fn in_turn<T: Send + 'static>(
        self: &Rc<Self>,
        work: impl AsyncFnOnce(&Self) -> T + 'static,
    ) -> Option<T> {
        let kept = self.clone();
        let (done, result) = ring::oneshot();
        ring::spawn(async move {
            let _turn = kept.writing.take().await;
            done.send(work(&kept).await);
        });
        result.await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use group::ownership::MemberId;
    use zeroize::Zeroizing;

    use super::*;
    use crate::membership::files::{Found, Keys, SettingsMark};

    fn file() -> MembershipFile {
        MembershipFile {
            version: MembershipFile::VERSION,
            group: "0123456789abcdef0123456789abcdef".parse().unwrap(),
            group_name: "lab".to_owned(),
            member: MemberId(7),
            name: "a".to_owned(),
            address: [192, 0, 2, 1].into(),
            port: 3262,
            endpoints: Vec::new(),
            further_endpoints: Vec::new(),
            has_seat: false,
            is_ending: false,
            settings: SettingsMark::default(),
            group_address: None,
            limits: None,
        }
    }

    fn begun(data: &tempfile::TempDir) -> (GroupDir, Rc<Kept>) {
        let dir = GroupDir::new(data.path());
        let text = |text: &str| Zeroizing::new(text.to_owned());
        let (authority, certificate) = ("a".to_owned(), "c".to_owned());
        let (authority_key, key) = (text("ak"), text("k"));
        dir.begin(&Keys { authority, authority_key, certificate, key }).unwrap();
        dir.write(&file()).unwrap();
        let kept = Rc::new(Kept::new(&dir, file()));
        (dir, kept)
    }

    /// Begins something, and waits for it no more: as tasks are dropped when the store fails.
    fn give_up(begun: impl Future) {
        let polled = pin!(begun).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it takes a while");
    }

    /// Two that write at once would write over each other's file.
    #[test]
    fn a_change_that_nobody_waits_for_is_made_whole_and_before_the_next() {
        let data = tempfile::tempdir().unwrap();
        let (dir, kept) = begun(&data);
        ring::block_on(&ring::CoreConfig::default(), async move {
            for round in 0..20 {
                give_up(kept.change(move |file| file.group_name = format!("given up {round}")));
                kept.change(|file| file.name.push('b')).await.unwrap();
                let Ok(Found::Here(here)) = dir.read() else { panic!("round {round}: damaged") };
                assert_eq!(here.0, *kept.file(), "what lies there is what is known");
                assert_eq!(here.0.group_name, format!("given up {round}"));
            }
            assert_eq!(kept.file().name.len(), 21);
        })
        .unwrap();
    }

    #[test]
    fn nothing_writes_a_file_that_is_deleted() {
        let data = tempfile::tempdir().unwrap();
        let (dir, kept) = begun(&data);
        ring::block_on(&ring::CoreConfig::default(), async move {
            give_up(kept.change(|file| file.has_seat = true));
            give_up(kept.delete());
            kept.change(|file| file.has_seat = false).await.unwrap();
            assert!(matches!(dir.read(), Ok(Found::Nothing)), "it is gone");
        })
        .unwrap();
    }
}
