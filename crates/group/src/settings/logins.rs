//! Accounts and tokens in the store.

use super::state::{account_key, token_key};
use super::{Settings, SettingsError, State};
use crate::accounts::{
    ACCOUNTS_MAX, Account, AccountError, PasswordHash, Role, TOKENS_MAX, Token, check_name,
};
use crate::record::Setting;
use crate::store::{Op, Selection};

/// What is to be changed of an account; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// What it may do.
    pub role: Option<Role>,
    /// Another password.
    pub password: Option<PasswordHash>,
    /// Whether it may not log in.
    pub disabled: Option<bool>,
}

impl AccountChange {
    /// The account as it is to be.
    pub(super) fn of(self, account: Account) -> Account {
        let Self { role, password, disabled } = self;
        Account {
            role: role.unwrap_or(account.role),
            password: password.unwrap_or(account.password),
            disabled: disabled.unwrap_or(account.disabled),
            ..account
        }
    }
}

impl State {
    /// An account, to be changed.
    pub(super) fn account(&self, name: &str) -> Result<&Account, SettingsError> {
        if let Some(error) = self.unreadable.get(&account_key(name)) {
            return Err(SettingsError::Unreadable(error.to_string()));
        }
        let found = self.logins.accounts.get(name);
        found.ok_or_else(|| AccountError::NoSuchAccount(name.to_owned()).into())
    }

    /// Whether there is one, also one that cannot be read.
    pub(super) fn has_account(&self, name: &str) -> bool {
        self.logins.accounts.contains_key(name) || self.unreadable.contains_key(&account_key(name))
    }

    /// Refuses an account that cannot be, or is there.
    pub(super) fn check_new_account(&self, name: &str) -> Result<(), AccountError> {
        check_name(name)?;
        if self.has_account(name) {
            return Err(AccountError::AccountExists(name.to_owned()));
        }
        if self.logins.accounts.len() >= ACCOUNTS_MAX {
            return Err(AccountError::TooManyAccounts);
        }
        Ok(())
    }

    /// The same of a token.
    fn has_token(&self, name: &str) -> bool {
        self.logins.tokens.contains_key(name) || self.unreadable.contains_key(&token_key(name))
    }
}

impl Settings {
    /// Adds an account.
    ///
    /// # Errors
    /// [`AccountError`], or the store does not do it.
    pub async fn add_account(&self, name: &str, account: Account) -> Result<(), SettingsError> {
        self.change(|state| {
            state.check_new_account(name)?;
            Ok((vec![Op::put(account_key(name), account.encode())], ()))
        })
        .await
    }

    /// Changes an account.
    ///
    /// # Errors
    /// There is none, it cannot be read, or the store does not do it.
    pub async fn set_account(
        &self,
        name: &str,
        change: AccountChange,
    ) -> Result<(), SettingsError> {
        self.change(|state| {
            let account = change.clone().of(state.account(name)?.clone());
            Ok((vec![Op::put(account_key(name), account.encode())], ()))
        })
        .await
    }

    /// Removes an account, also one that cannot be read.
    ///
    /// # Errors
    /// There is none, or the store does not do it.
    pub async fn remove_account(&self, name: &str) -> Result<(), SettingsError> {
        self.change(|state| {
            if !state.has_account(name) {
                return Err(AccountError::NoSuchAccount(name.to_owned()).into());
            }
            Ok((vec![Op::Delete(Selection::key(account_key(name)))], ()))
        })
        .await
    }

    /// Adds a token.
    ///
    /// # Errors
    /// [`AccountError`], or the store does not do it.
    pub async fn add_token(&self, name: &str, token: Token) -> Result<(), SettingsError> {
        check_name(name)?;
        if token.is_expired(token.created_unix_seconds) {
            return Err(AccountError::Expired.into());
        }
        self.change(|state| {
            if state.has_token(name) {
                return Err(AccountError::TokenExists(name.to_owned()).into());
            }
            if state.logins.tokens.len() >= TOKENS_MAX {
                return Err(AccountError::TooManyTokens.into());
            }
            Ok((vec![Op::put(token_key(name), token.encode())], ()))
        })
        .await
    }

    /// Notes when a token was used last. One that was revoked meanwhile stays so.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn note_use(&self, name: &str, used_unix_seconds: u64) -> Result<(), SettingsError> {
        self.change(|state| {
            let Some(token) = state.logins.tokens.get(name) else { return Ok((Vec::new(), ())) };
            let used_unix_seconds = Some(used_unix_seconds);
            let token = Token { used_unix_seconds, ..token.clone() };
            Ok((vec![Op::put(token_key(name), token.encode())], ()))
        })
        .await
    }

    /// Revokes a token, also one that cannot be read.
    ///
    /// # Errors
    /// There is none, or the store does not do it.
    pub async fn revoke_token(&self, name: &str) -> Result<(), SettingsError> {
        self.change(|state| {
            if !state.has_token(name) {
                return Err(AccountError::NoSuchToken(name.to_owned()).into());
            }
            Ok((vec![Op::Delete(Selection::key(token_key(name)))], ()))
        })
        .await
    }
}
