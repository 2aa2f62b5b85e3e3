//! Volumes that are made with an access list. It is stored what they are to become before they are there, so that a crash
//! in between leaves no volume to others than it was made for, and none that nobody completes.
//!
//! ```text
//!  intend ─▶ made offline ─▶ online, for nobody yet ─▶ one transaction: its list is stored, the intent is gone
//!    │            ╰─────────────────┴─ cut off: the next start, or change of the name, goes on from here
//!    ╰─ refused, or cut off before: forgotten
//! ```

use std::collections::{BTreeMap, BTreeSet};

use array::ArrayError;
use array::api::{VolumeInfo, VolumeState};
use group::settings::Intent;

use super::{Member, RequestError};
use crate::events::{Event, Kind, ObjectKind};
use crate::mutants::{self, Mutant};

impl Member {
    /// Stores what volumes are to become that are made next. Who has the turn keeps it until they are complete.
    pub(super) async fn intend(
        &self,
        intents: BTreeMap<String, Intent>,
    ) -> Result<(), RequestError> {
        // What is stored under a name is of whatever volume has it.
        if let Some(taken) = intents.keys().find(|name| self.array.volume(name).is_ok()) {
            return Err(ArrayError::VolumeExists(taken.clone()).into());
        }
        if intents.is_empty() || mutants::is(Mutant::NoIntent) {
            return Ok(());
        }
        Ok(self.settings.intend(intents).await?)
    }

    /// Makes a clone with an access list.
    pub(super) async fn clone_with(
        &self,
        (volume, name, to): (&str, &str, &str),
        intent: Intent,
    ) -> Result<VolumeInfo, RequestError> {
        self.intend(BTreeMap::from([(to.to_owned(), intent)])).await?;
        let mut made = Vec::new();
        let done = async {
            self.array.clone_snapshot(volume, name, to, false).await?;
            made.push(to.to_owned());
            self.complete(to).await?;
            self.find(to)
        };
        match done.await {
            Ok(clone) => Ok(clone),
            Err(refusal) => Err(self.taken_back(made, refusal).await),
        }
    }

    /// Has a volume become what it is to become, if that is still to be done. For who has the turn: whoever makes one
    /// has it until then, so that this was cut off.
    pub(super) async fn complete(&self, name: &str) -> Result<(), RequestError> {
        if !self.settings.intended().iter().any(|intended| intended == name) {
            return Ok(());
        }
        let Ok(volume) = self.array.volume(name) else {
            return Ok(self.settings.forget_intents().await?);
        };
        let intent = self.settings.intent(name)?;
        let is_online = intent.is_some_and(|intent| intent.online);
        if is_online && volume.state != VolumeState::Deleted {
            // For nobody, until its list is stored.
            self.array.set_volume_online(name, true).await?;
        }
        self.settings.fulfil(name, volume.id).await?;
        // Its target may be there, for nobody.
        self.serving.apply_access().await;
        Ok(())
    }

    /// Completes all volumes whose making was cut off. What cannot be is tried again, and nobody has them until then.
    /// For who has the turn.
    pub(super) async fn complete_all(&self) {
        for name in self.settings.intended() {
            if mutants::is(Mutant::ForgetIntent) {
                continue;
            }
            let is_there = self.array.volume(&name).is_ok();
            match self.complete(&name).await {
                Ok(()) if is_there => self.tell_of_completed(&name),
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!("volume {name} is for nobody until it is complete: {error}");
                }
            }
        }
    }

    /// Tells that a volume is complete whose making was cut off. What was to be stored beside its list is not, if that was
    /// one change: the list may name what is not there.
    fn tell_of_completed(&self, name: &str) {
        let not_there = self.array.volume(name).map(|volume| self.settings.not_there(volume.id));
        let not_there = not_there.unwrap_or_default();
        let of = |what: &str, names: &BTreeSet<String>| -> Option<String> {
            let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let named = [of("policy", &not_there.policies), of("CHAP user", &not_there.users)];
        let named: Vec<String> = named.into_iter().flatten().collect();
        let names = match named.is_empty() {
            true => String::new(),
            false => {
                format!(
                    ", which names what is not there and lets nobody in by it: {}",
                    named.join(", ")
                )
            }
        };
        let text = format!(
            "the making of volume {name} was cut off: it is complete now, with its access list{names}"
        );
        self.events.tell(Event::about(Kind::VolumeCompleted, ObjectKind::Volume, name, text));
    }

    /// Forgets what volumes were to become that are not there after all.
    pub(super) async fn forget_unmade(&self) {
        if self.settings.intended().is_empty() {
            return;
        }
        if let Err(error) = self.settings.forget_intents().await {
            tracing::warn!(
                "what volumes were to become that were not made is kept for now: {error}"
            );
        }
    }
}
