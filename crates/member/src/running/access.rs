//! What is asked about access. A change is stored, then the targets get their rules, and sessions that
//! these do not let in are ended, before it is answered.

use array::api::VolumeInfo;
use group::access::Record;
use group::secrets::Secret;
use group::settings::{ListChange, Settings, SettingsError, State, VolumeSettings, VolumeStep};

use super::of_group::Going;
use super::one_host::Which;
use super::{Member, RequestError};
use crate::access_request::{
    AccessRequest, ChapRequest, ChapUser, ChapUsers, Numbered, PolicyRequest, PolicyShown,
    SecretText, VolumeAccess,
};
use crate::reply::Answer;
use crate::settings::KeptError;

impl Member {
    pub(super) async fn access(&self, request: AccessRequest) -> Result<Answer, RequestError> {
        let name = request.volume().to_owned();
        if matches!(request, AccessRequest::List { .. }) {
            return self.shown_access(&name);
        }
        if let AccessRequest::Add { entry, .. } = &request {
            self.hear_of([entry]).await;
        }
        let _turn = self.turn.take().await;
        self.check_staying([name.as_str()])?;
        self.complete(&name).await?;
        let id = self.find(&name)?.id;
        let mut holds = Vec::new();
        if let AccessRequest::Add { entry, .. } = &request
            && self.access_of(&self.find(&name)?)?.entries.is_none()
        {
            let access = Some(ListChange::Listed(vec![entry.clone()]));
            let step = VolumeStep { access, shared: None };
            holds = self.check_one_host((&name, Which::All), &step, &[]).await?;
        }
        let change = async move |settings: &mut Settings| match request {
            AccessRequest::List { .. } => Ok(()),
            AccessRequest::Add { entry, .. } => settings.add_access(id, entry).await.map(drop),
            AccessRequest::Remove { number, .. } => {
                settings.remove_access(id, number).await.map(drop)
            }
            AccessRequest::Clear { .. } => settings.clear_access(id).await,
        };
        let set = self.set(change).await;
        drop(holds);
        set?;
        self.shown_access(&name)
    }

    /// Lets hosts of several names use a volume at the same time, or one.
    pub(super) async fn set_shared(&self, name: &str, shared: bool) -> Result<(), RequestError> {
        self.complete(name).await?;
        let id = self.find(name)?.id;
        let step = VolumeStep { access: None, shared: Some(shared) };
        let _holds = self.check_one_host((name, Which::All), &step, &[]).await?;
        self.set(async move |settings: &mut Settings| settings.set_shared(id, shared).await).await
    }

    pub(super) async fn chap(&self, request: ChapRequest) -> Result<Answer, RequestError> {
        if request == ChapRequest::List {
            return Ok(Answer::ChapUsers(self.chap_users()?));
        }
        match &request {
            ChapRequest::Delete { user } => self.check_unused(Going::User(user))?,
            ChapRequest::Add { user, .. } => self.check_new(Going::User(user))?,
            _ => {}
        }
        let change = async move |settings: &mut Settings| match request {
            ChapRequest::List => Ok(()),
            ChapRequest::Add { user, secret } => settings.add_user(&user, &bytes(secret)).await,
            ChapRequest::Set { user, secret } => settings.set_user(&user, &bytes(secret)).await,
            ChapRequest::Delete { user } => settings.delete_user(&user).await,
            ChapRequest::SetMutual { user, secret } => {
                settings.set_mutual(&user, &bytes(secret)).await
            }
            ChapRequest::ClearMutual => settings.clear_mutual().await,
        };
        self.set_common(change).await?;
        Ok(Answer::Done)
    }

    pub(super) async fn policy(&self, request: PolicyRequest) -> Result<Answer, RequestError> {
        let name = match &request {
            PolicyRequest::List => return Ok(Answer::Policies(self.policies()?)),
            PolicyRequest::Show { name } => return self.shown_policy(name),
            PolicyRequest::Create { name }
            | PolicyRequest::Add { name, .. }
            | PolicyRequest::Remove { name, .. }
            | PolicyRequest::Delete { name } => name.clone(),
        };
        let is_deleted = matches!(request, PolicyRequest::Delete { .. });
        if is_deleted {
            self.check_unused(Going::Policy(&name))?;
        } else if matches!(request, PolicyRequest::Create { .. }) {
            self.check_new(Going::Policy(&name))?;
        }
        let change = async move |settings: &mut Settings| match request {
            PolicyRequest::List | PolicyRequest::Show { .. } => Ok(()),
            PolicyRequest::Create { name } => settings.create_policy(&name).await,
            PolicyRequest::Add { name, record } => {
                settings.add_to_policy(&name, Record::new(record)?).await.map(drop)
            }
            PolicyRequest::Remove { name, number } => {
                settings.remove_from_policy(&name, number).await.map(drop)
            }
            PolicyRequest::Delete { name } => settings.delete_policy(&name).await,
        };
        self.set_common(change).await?;
        if is_deleted { Ok(Answer::Done) } else { self.shown_policy(&name) }
    }

    /// Stores a change, and has the targets keep to it.
    async fn set(
        &self,
        change: impl AsyncFnOnce(&mut Settings) -> Result<(), SettingsError> + Clone + Send + 'static,
    ) -> Result<(), RequestError> {
        let changed = self.settings.change(change).await;
        // Also after a failure: part of it may have come true.
        self.serving.apply_access().await;
        Ok(changed?)
    }

    /// What is set for a volume; `None` where nothing is.
    pub(super) fn set_for(state: &State, id: u32) -> Result<Option<&VolumeSettings>, RequestError> {
        match state.volumes.get(&id) {
            None => Ok(None),
            Some(Ok(settings)) => Ok(Some(settings)),
            Some(Err(error)) => Err(KeptError::NotAvailable(error.to_string()).into()),
        }
    }

    /// Whether hosts of several names may use a volume at the same time; `None` if that cannot be read.
    pub(super) fn is_shared(&self, id: u32) -> Option<bool> {
        let state = self.settings.state().ok()?;
        let settings = Self::set_for(&state, id).ok()?;
        Some(settings.is_some_and(|settings| settings.shared))
    }

    fn shown_access(&self, name: &str) -> Result<Answer, RequestError> {
        Ok(Answer::Access(self.access_of(&self.find(name)?)?))
    }

    pub(super) fn access_of(&self, volume: &VolumeInfo) -> Result<VolumeAccess, RequestError> {
        let id = volume.id;
        let state = self.settings.state()?;
        let settings = Self::set_for(&state, id)?;
        let entries = settings.and_then(|settings| settings.access.as_ref()).map(|list| {
            let numbered =
                |(number, entry): (u32, &_)| Numbered { number, item: Clone::clone(entry) };
            list.entries().map(numbered).collect()
        });
        let volume = volume.name.clone();
        let shared = settings.is_some_and(|settings| settings.shared);
        Ok(VolumeAccess { volume, entries, shared, hosts: self.hosts(id) })
    }

    pub(super) fn chap_users(&self) -> Result<ChapUsers, RequestError> {
        let state = self.settings.state()?;
        let known = self.settings.known();
        let usable = |user: &String| known.users.iter().any(|known| known.user() == user);
        let all = state.users.keys();
        let users = all.map(|user| {
            let changed = state.users_changed.get(user).copied().unwrap_or_default();
            ChapUser { user: user.clone(), usable: usable(user), changed }
        });
        let users = users.collect();
        let mutual = state.mutual.as_ref().map(|mutual| ChapUser {
            user: mutual.user.clone(),
            usable: known.mutual.is_some(),
            changed: state.mutual_changed,
        });
        Ok(ChapUsers { users, mutual })
    }

    pub(super) fn policies(&self) -> Result<Vec<PolicyShown>, RequestError> {
        let state = self.settings.state()?;
        let all = state.policies.keys();
        Ok(all.filter_map(|name| policy_of(&state, name)).collect())
    }

    fn shown_policy(&self, name: &str) -> Result<Answer, RequestError> {
        let state = self.settings.state()?;
        let found = policy_of(&state, name);
        found.map(Answer::Policy).ok_or_else(|| RequestError::NoSuchPolicy(name.to_owned()))
    }
}

pub(super) fn bytes(SecretText(text): SecretText) -> Secret {
    Secret::new(text.into_bytes())
}

fn policy_of(state: &State, name: &str) -> Option<PolicyShown> {
    let records = state.policies.get(name)?.records();
    let numbered = |(number, record): (u32, &Record)| {
        let item = record.parts().clone();
        Numbered { number, item }
    };
    Some(PolicyShown { name: name.to_owned(), records: records.map(numbered).collect() })
}
