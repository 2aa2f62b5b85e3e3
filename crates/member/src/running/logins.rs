//! What is asked about accounts and tokens. A change is in force for the next request of theirs when it is
//! answered.

use std::time::{SystemTime, UNIX_EPOCH};

use group::accounts::{Account, AccountError, Logins, Token};
use group::settings::{Settings, SettingsError};

use super::{Member, RequestError};
use crate::login_request::{AccountRequest, AccountShown, TokenRequest, TokenShown};
use crate::reply::Answer;
use crate::settings::KeptError;

impl Member {
    pub(super) async fn accounts(&self, request: AccountRequest) -> Result<Answer, RequestError> {
        let name = match &request {
            AccountRequest::List => return Ok(Answer::Accounts(self.all_accounts()?)),
            AccountRequest::Add { name, .. }
            | AccountRequest::Set { name, .. }
            | AccountRequest::Remove { name } => name.clone(),
        };
        let is_removed = matches!(request, AccountRequest::Remove { .. });
        let change = async move |settings: &mut Settings| match request {
            AccountRequest::List => Ok(()),
            AccountRequest::Add { name, role, password } => {
                let created_unix_seconds = unix_seconds();
                let account = Account { role, password, disabled: false, created_unix_seconds };
                settings.add_account(&name, account).await
            }
            AccountRequest::Set { name, change } => settings.set_account(&name, change).await,
            AccountRequest::Remove { name } => settings.remove_account(&name).await,
        };
        self.set_common(change).await?;
        if is_removed {
            return Ok(Answer::Done);
        }
        let state = self.settings.state()?;
        let gone =
            || KeptError::from(SettingsError::from(AccountError::NoSuchAccount(name.clone())));
        let account = state.logins.accounts.get_key_value(&name).ok_or_else(gone)?;
        Ok(Answer::Account(account_of(account, &state.logins)))
    }

    pub(super) async fn tokens(&self, request: TokenRequest) -> Result<Answer, RequestError> {
        let name = match &request {
            TokenRequest::List => {
                let state = self.settings.state()?;
                let all = state.logins.tokens.iter();
                let shown = all.map(|token| token_of(token, &state.logins));
                return Ok(Answer::Tokens(shown.collect()));
            }
            TokenRequest::Create { name, .. }
            | TokenRequest::Revoke { name }
            | TokenRequest::Used { name } => name.clone(),
        };
        let is_created = matches!(request, TokenRequest::Create { .. });
        let is_noted = matches!(request, TokenRequest::Used { .. });
        let change = async move |settings: &mut Settings| match request {
            TokenRequest::List => Ok(()),
            TokenRequest::Create { name, role, hash, expires_unix_seconds } => {
                let created_unix_seconds = unix_seconds();
                let used_unix_seconds = None;
                let token = Token {
                    role,
                    hash,
                    created_unix_seconds,
                    expires_unix_seconds,
                    used_unix_seconds,
                };
                settings.add_token(&name, token).await
            }
            TokenRequest::Revoke { name } => settings.revoke_token(&name).await,
            TokenRequest::Used { name } => settings.note_use(&name, unix_seconds()).await,
        };
        match self.set_common(change).await {
            // Who uses a token does not wait for the store of the group, and the next use is noted again.
            Err(RequestError::Kept(error)) if is_noted && error.is_of_group() => {
                tracing::debug!("the use of a token is not noted: {error}");
            }
            set => set?,
        }
        if !is_created {
            return Ok(Answer::Done);
        }
        let state = self.settings.state()?;
        let gone = || KeptError::from(SettingsError::from(AccountError::NoSuchToken(name.clone())));
        let token = state.logins.tokens.get_key_value(&name).ok_or_else(gone)?;
        Ok(Answer::Token(token_of(token, &state.logins)))
    }

    pub(super) fn all_accounts(&self) -> Result<Vec<AccountShown>, RequestError> {
        let state = self.settings.state()?;
        let all = state.logins.accounts.iter();
        Ok(all.map(|account| account_of(account, &state.logins)).collect())
    }

    /// Stores a change that no host sees.
    pub(super) async fn set_unseen(
        &self,
        change: impl AsyncFnOnce(&mut Settings) -> Result<(), SettingsError> + Clone + Send + 'static,
    ) -> Result<(), RequestError> {
        let _turn = self.turn.take().await;
        let changed = self.settings.change(change).await;
        // The settings may have become unreadable meanwhile: then no host is let in either.
        self.serving.apply_access().await;
        Ok(changed?)
    }
}

fn account_of((name, account): (&String, &Account), logins: &Logins) -> AccountShown {
    let Account { role, disabled, created_unix_seconds, .. } = *account;
    let written = logins.accounts_written.get(name).copied().unwrap_or_default();
    AccountShown { name: name.clone(), role, disabled, created_unix_seconds, written }
}

fn token_of((name, token): (&String, &Token), logins: &Logins) -> TokenShown {
    let Token { role, created_unix_seconds, expires_unix_seconds, used_unix_seconds, .. } = *token;
    TokenShown {
        name: name.clone(),
        role,
        created_unix_seconds,
        expires_unix_seconds,
        used_unix_seconds,
        written: logins.tokens_written.get(name).copied().unwrap_or_default(),
    }
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
