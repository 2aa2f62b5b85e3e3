//! What can be asked of a running member about who manages it from afar, and what it answers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use group::accounts::{Logins, PasswordHash, Role, TokenHash, Written};
use group::settings::AccountChange;

/// About accounts. Passwords come hashed: that takes long, and no core does it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum AccountRequest {
    /// → [`AccountShown`]s.
    List,
    /// → [`AccountShown`].
    Add { name: String, role: Role, password: PasswordHash },
    /// → [`AccountShown`].
    Set { name: String, change: AccountChange },
    /// It does not log in any more.
    Remove { name: String },
}

/// About tokens, of which a member knows hashes only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum TokenRequest {
    /// → [`TokenShown`]s.
    List,
    /// → [`TokenShown`].
    Create { name: String, role: Role, hash: TokenHash, expires_unix_seconds: Option<u64> },
    /// It is worth nothing any more.
    Revoke { name: String },
    /// It was used now.
    Used { name: String },
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountShown {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// It may not log in.
    pub disabled: bool,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// When it was written, in the numbers of the store.
    pub written: Written,
}

/// A token, without what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenShown {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made, in seconds since 1970 (UTC).
    pub created_unix_seconds: u64,
    /// From when on it is worth nothing.
    pub expires_unix_seconds: Option<u64>,
    /// When it was used last, to the hour.
    pub used_unix_seconds: Option<u64>,
    /// When it was written, in the numbers of the store.
    pub written: Written,
}

/// Who may log in, as it is set now, for any thread; `None` while the settings of a member cannot be read, and
/// when it stops.
#[derive(Debug, Clone)]
pub struct CurrentLogins(Arc<Mutex<Option<Arc<Logins>>>>);

impl Default for CurrentLogins {
    /// Nobody.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(Arc::default()))))
    }
}

impl CurrentLogins {
    fn held(&self) -> MutexGuard<'_, Option<Arc<Logins>>> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is at this moment.
    #[must_use]
    pub fn now(&self) -> Option<Arc<Logins>> {
        self.held().clone()
    }

    /// From now on it is these; with `None` it is not known.
    pub fn replace(&self, logins: Option<Logins>) {
        *self.held() = logins.map(Arc::new);
    }
}
