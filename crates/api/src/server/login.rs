//! Who somebody is that asks over TLS: a token or an account, proved with every request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64ct::{Base64, Encoding};
use group::accounts::{Logins, PasswordHash, Role, TOKENS_MAX, TokenHash};
use zeroize::Zeroizing;

use super::passwords::Passwords;
use super::throttle::{Place, Throttle};
use crate::problem::{Code, Problem};

/// How coarse the last use of a token is kept.
const USE_SECONDS: u64 = 60 * 60;

/// The longest value of `Authorization` that is read: the longest name and password, and then some.
const HEADER_BYTES_MAX: usize = 1024;

/// Who asks, and what proves it. It is asked again whether that is still so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// An account whose password was this.
    Account(String, PasswordHash),
    /// A token.
    Token(String, TokenHash),
}

impl Login {
    /// Who a request says it comes from: an account, which nothing has proved, or a token that there is.
    pub(super) fn named(logins: &Logins, headers: &HeaderMap) -> Option<String> {
        match Presented::of(headers) {
            Ok(Some(Presented::Password { account, .. })) => Some(format!("account '{account}'")),
            Ok(Some(Presented::Token(hash))) => {
                logins.token(&hash).map(|(name, _)| format!("token '{name}'"))
            }
            _ => None,
        }
    }

    /// What it may do now; `None` if it may not log in any more.
    pub(super) fn role(&self, logins: &Logins) -> Option<Role> {
        match self {
            Self::Account(name, password) => {
                let account = logins.accounts.get(name);
                let is_same = account.filter(|it| !it.disabled && it.password == *password);
                is_same.map(|account| account.role)
            }
            Self::Token(name, hash) => {
                let token = logins.tokens.get(name);
                let is_same = token.filter(|it| !it.is_expired(unix_seconds()) && it.hash.is(hash));
                is_same.map(|token| token.role)
            }
        }
    }
}

impl std::fmt::Display for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Account(name, _) => write!(f, "account '{name}'"),
            Self::Token(name, _) => write!(f, "token '{name}'"),
        }
    }
}

/// What comes with a request to prove who asks.
enum Presented {
    Token(TokenHash),
    Password { account: String, password: Zeroizing<String> },
}

impl Presented {
    /// `None` of a request that brings nothing.
    fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = all.next() else { return Ok(None) };
        let text = value.to_str().ok().filter(|text| text.len() <= HEADER_BYTES_MAX);
        let parted = text.and_then(|text| text.split_once(' ')).filter(|_| all.next().is_none());
        let (scheme, rest) = parted.ok_or_else(unread)?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Ok(Some(Self::Token(TokenHash::of(rest))));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(unread());
        }
        let bytes = Zeroizing::new(Base64::decode_vec(rest).map_err(|_| unread())?);
        let text = str::from_utf8(&bytes).map_err(|_| unread())?;
        let (account, password) = text.split_once(':').ok_or_else(unread)?;
        let password = Zeroizing::new(password.to_owned());
        Ok(Some(Self::Password { account: account.to_owned(), password }))
    }
}

/// Finds out who asks.
#[derive(Debug, Default)]
pub(super) struct Doorkeeper {
    pub(super) passwords: Passwords,
    throttle: Throttle,
    /// When the use of a token was noted last, by its name.
    noted: Mutex<HashMap<String, u64>>,
}

impl Doorkeeper {
    /// Who asks from there, and what that may do.
    pub(super) async fn identify(
        &self,
        logins: &Logins,
        from: SocketAddr,
        headers: &HeaderMap,
    ) -> Result<(Login, Role), Problem> {
        let place = Place::from(from.ip());
        let login = match Presented::of(headers)? {
            None => {
                let sentence = "this needs a login: send Authorization: Bearer with a token, or Basic with \
                                an account and its password";
                return Err(Problem::new(Code::NotLoggedIn, sentence));
            }
            Some(Presented::Token(hash)) => {
                let found = logins.token(&hash);
                found.map(|(name, _)| Login::Token(name.to_owned(), hash))
            }
            Some(Presented::Password { account, password }) => {
                self.account(logins, place, account, password).await?
            }
        };
        let role = login.as_ref().and_then(|login| login.role(logins));
        if let Some((login, role)) = login.zip(role) {
            return Ok((login, role));
        }
        // Accounts count their own failures.
        self.heard(place, None)?;
        self.throttle.failed(place, None, Instant::now());
        tracing::warn!("a login from {} was refused: the token is not right", from.ip());
        Err(wrong())
    }

    /// The account whose password this is.
    async fn account(
        &self,
        logins: &Logins,
        place: Place,
        name: String,
        password: Zeroizing<String>,
    ) -> Result<Option<Login>, Problem> {
        let is_heard = || self.heard(place, Some(&name));
        is_heard()?;
        // One that is disabled takes as long as any other, and is not told from one that is not there.
        let account = logins.accounts.get(&name).filter(|account| !account.disabled);
        let hash = account.map(|account| account.password.clone());
        let is_right = self.passwords.is_right(place, hash.clone(), password, is_heard).await?;
        if let Some(hash) = hash.filter(|_| is_right) {
            self.throttle.got_in(place, &name);
            return Ok(Some(Login::Account(name, hash)));
        }
        self.throttle.failed(place, Some(&name), Instant::now());
        let shown: String = name.chars().take(64).collect();
        tracing::warn!("a login from {place} was refused: account {shown:?}");
        Err(wrong())
    }

    fn heard(&self, place: Place, account: Option<&str>) -> Result<(), Problem> {
        self.throttle.wait(place, account, Instant::now()).map_or(Ok(()), |wait| {
            let seconds = wait.as_secs() + 1;
            let sentence = format!(
                "too many logins from there have failed: wait {seconds} seconds, then try again"
            );
            Err(Problem::new(Code::TooManyTries, sentence))
        })
    }

    /// Whether the use of a token is to be noted now: the first time, and once an hour.
    pub(super) fn is_to_note(&self, logins: &Logins, token: &str) -> bool {
        let now = unix_seconds();
        let used = logins.tokens.get(token).and_then(|token| token.used_unix_seconds);
        if used.is_some_and(|used| now < used.saturating_add(USE_SECONDS)) {
            return false;
        }
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(token).is_some_and(|at| now < at.saturating_add(USE_SECONDS)) {
            return false;
        }
        if noted.len() >= 2 * TOKENS_MAX {
            noted.retain(|name, _| logins.tokens.contains_key(name));
        }
        noted.insert(token.to_owned(), now);
        true
    }
}

/// The same whatever is wrong: what is not told cannot be tried out.
fn wrong() -> Problem {
    let sentence = "the login is not right: look at the account and its password, or at the token, which may \
                    have expired or been revoked";
    Problem::new(Code::NotLoggedIn, sentence)
}

fn unread() -> Problem {
    let sentence = "Authorization does not read: send it once, as Bearer with a token, or as Basic with an \
                    account and its password";
    Problem::new(Code::NotLoggedIn, sentence)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use group::accounts::{Account, Token, TokenText};

    use super::*;

    const PASSWORD: &str = "correct horse";

    fn logins(token: &TokenText) -> Logins {
        let password = PasswordHash::of(PASSWORD).unwrap();
        let ada =
            Account { role: Role::Operator, password, disabled: false, created_unix_seconds: 1 };
        let gone = Account { disabled: true, ..ada.clone() };
        let ci = Token {
            role: Role::ReadOnly,
            hash: TokenHash::of(token.as_str()),
            created_unix_seconds: 1,
            expires_unix_seconds: None,
            used_unix_seconds: None,
        };
        Logins {
            accounts: [("ada".to_owned(), ada), ("gone".to_owned(), gone)].into(),
            tokens: [("ci".to_owned(), ci)].into(),
        }
    }

    fn headers(value: &str) -> HeaderMap {
        [(AUTHORIZATION, HeaderValue::try_from(value).unwrap())].into_iter().collect()
    }

    fn basic(account: &str, password: &str) -> HeaderMap {
        headers(&format!(
            "Basic {}",
            Base64::encode_string(format!("{account}:{password}").as_bytes())
        ))
    }

    #[tokio::test]
    async fn who_is_right_gets_in_and_all_others_hear_the_same() {
        let token = TokenText::draw().unwrap();
        let (mut logins, keeper) = (logins(&token), Doorkeeper::default());
        keeper.passwords.prepare().unwrap();
        let from: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let bearer = headers(&format!("bearer {}", token.as_str()));
        let (login, role) = keeper.identify(&logins, from, &bearer).await.unwrap();
        assert_eq!((login.to_string().as_str(), role), ("token 'ci'", Role::ReadOnly));
        let (ada, role) = keeper.identify(&logins, from, &basic("ada", PASSWORD)).await.unwrap();
        assert_eq!((ada.to_string().as_str(), role), ("account 'ada'", Role::Operator));
        let mut said = Vec::new();
        for wrong in [
            basic("ada", "correct house"),
            basic("bob", PASSWORD),
            basic("gone", PASSWORD),
            headers("Bearer drystone_0"),
        ] {
            let problem = keeper.identify(&logins, from, &wrong).await.unwrap_err();
            assert_eq!(problem.code, Code::NotLoggedIn);
            said.push(problem.detail);
        }
        said.dedup();
        assert_eq!(said.len(), 1, "{said:?}");
        for unread in ["Basic", "Basic !", "Digest a", "Bearer", "Basic YQ=="] {
            let problem = keeper.identify(&logins, from, &headers(unread)).await.unwrap_err();
            assert_eq!(problem.code, Code::NotLoggedIn, "{unread}");
        }
        assert!(keeper.is_to_note(&logins, "ci") && !keeper.is_to_note(&logins, "ci"));
        // What changes later is asked for again.
        logins.accounts.get_mut("ada").unwrap().role = Role::ReadOnly;
        assert_eq!(ada.role(&logins), Some(Role::ReadOnly));
        logins.accounts.get_mut("ada").unwrap().password = PasswordHash::of_nobody().unwrap();
        logins.tokens.get_mut("ci").unwrap().expires_unix_seconds = Some(5);
        assert_eq!((ada.role(&logins), login.role(&logins)), (None, None));
    }

    #[tokio::test]
    async fn who_fails_too_often_waits_and_a_right_token_does_not() {
        let token = TokenText::draw().unwrap();
        let (logins, keeper) = (logins(&token), Doorkeeper::default());
        let from: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let code = async |headers: HeaderMap| {
            keeper.identify(&logins, from, &headers).await.err().map(|problem| problem.code)
        };
        for _ in 0..20 {
            assert_eq!(code(headers("Bearer guess")).await, Some(Code::NotLoggedIn));
        }
        assert_eq!(code(headers("Bearer guess")).await, Some(Code::TooManyTries));
        assert_eq!(code(basic("ada", PASSWORD)).await, Some(Code::TooManyTries));
        assert_eq!(code(headers(&format!("Bearer {}", token.as_str()))).await, None);
    }
}
