//! What is asked about where events go on to.

use group::destinations::{Choice, Destination, DestinationChange, DestinationError, Way};
use group::secrets::Secret;
use group::settings::{DestinationStep, Settings, SettingsError, State};

use super::{Member, RequestError};
use crate::configuration_request::DestinationToDo;
use crate::destination_request::{DestinationRequest, DestinationShown};
use crate::reply::Answer;
use crate::settings::KeptError;

impl Member {
    pub(super) async fn destination(
        &self,
        request: DestinationRequest,
    ) -> Result<Answer, RequestError> {
        let last_event = self.events.last_number();
        let name = match request {
            DestinationRequest::List => {
                return Ok(Answer::Destinations(self.all_destinations()?));
            }
            DestinationRequest::Show { name } => name,
            DestinationRequest::Add { name, choice, way } => {
                let new = self.new_destination(choice, way)?;
                let named = name.clone();
                let add = async move |settings: &mut Settings| {
                    settings.add_destination(&named, new).await
                };
                self.set_common(add).await?;
                name
            }
            DestinationRequest::Set { name, change } => {
                self.change_destination(name.clone(), change, last_event).await?;
                name
            }
            DestinationRequest::Delete { name } => {
                let delete =
                    async move |settings: &mut Settings| settings.delete_destination(&name).await;
                self.set_common(delete).await?;
                return Ok(Answer::Done);
            }
        };
        let shown = self.shown_destination(&*self.settings.state()?, &name);
        let gone = || SettingsError::from(DestinationError::NoSuchDestination(name));
        let shown = shown.ok_or_else(|| KeptError::from(gone()))?;
        Ok(Answer::Destination(Box::new(shown)))
    }

    /// What happens from now on goes there.
    fn new_destination(
        &self,
        choice: Choice,
        way: Way<Secret>,
    ) -> Result<Destination<Secret>, RequestError> {
        let id = getrandom::u64().map_err(|error| {
            KeptError::NotMade(format!("the system gives no random numbers: {error}"))
        })?;
        Ok(Destination { id, begins_after: self.events.last_number(), choice, way })
    }

    /// A change of a destination among others.
    pub(super) fn destination_step(
        &self,
        step: &DestinationToDo,
    ) -> Result<(String, DestinationStep), RequestError> {
        Ok(match step.clone() {
            DestinationToDo::Add { name, choice, way } => {
                (name, DestinationStep::Add(self.new_destination(choice, way)?))
            }
            DestinationToDo::Set { name, change } => {
                (name, DestinationStep::Change(change, self.events.last_number()))
            }
            DestinationToDo::Delete { name } => (name, DestinationStep::Delete),
        })
    }

    pub(super) fn all_destinations(&self) -> Result<Vec<DestinationShown>, RequestError> {
        let state = self.settings.state()?;
        let all = state.destinations.keys();
        Ok(all.filter_map(|name| self.shown_destination(&state, name)).collect())
    }

    async fn change_destination(
        &self,
        name: String,
        change: DestinationChange<Secret>,
        last_event: u64,
    ) -> Result<(), RequestError> {
        let set = async move |settings: &mut Settings| {
            settings.change_destination(&name, change, last_event).await
        };
        self.set_common(set).await
    }

    fn shown_destination(&self, state: &State, name: &str) -> Option<DestinationShown> {
        let destination = state.destinations.get(name)?;
        let Destination { id, choice, way, .. } = destination.clone();
        let hidden = way.try_map(|_, _| Ok::<_, std::convert::Infallible>(()));
        let Ok(way) = hidden;
        Some(DestinationShown {
            name: name.to_owned(),
            id,
            choice,
            way,
            is_usable: self.settings.known().destinations.contains_key(name),
            changed: state.destinations_changed.get(name).copied().unwrap_or_default(),
        })
    }
}
