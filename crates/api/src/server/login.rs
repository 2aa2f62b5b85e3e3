//! Who somebody is that asks over TLS: a token or an account, proved with every request.

use group::words::counted;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64ct::{Base64, Encoding};
use group::accounts::{Logins, PasswordHash, Role, TokenHash};
use zeroize::Zeroizing;

use super::known::Known;
use super::passwords::Passwords;
use super::throttle::Throttle;
use crate::place::Place;
use crate::problem::{Code, Problem};

/// How coarse the last use of a token is kept, and logins are recorded.
const USE_SECONDS: u64 = 60 * 60;

/// Uses within the hour that are remembered: more than there can be tokens.
const LATELY_MAX: usize = 4096;

/// The longest value of `Authorization` that is read: the longest name and password, and then some.
const HEADER_BYTES_MAX: usize = 1024;

/// Who asks, and what proves it. It is asked again whether that is still so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    name: String,
    /// When it was made, as all members have it that share it: whoever has the same name later is somebody else.
    created_unix_seconds: u64,
    proof: Proof,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Proof {
    /// It is an account whose password was this.
    Password(PasswordHash),
    /// It is this token.
    Token(TokenHash),
}

impl Login {
    fn account(logins: &Logins, name: &str, password: PasswordHash) -> Self {
        let created = logins.accounts.get(name).map_or(0, |account| account.created_unix_seconds);
        Self::new(name, created, Proof::Password(password))
    }

    fn token(logins: &Logins, name: &str, hash: TokenHash) -> Self {
        let created = logins.tokens.get(name).map_or(0, |token| token.created_unix_seconds);
        Self::new(name, created, Proof::Token(hash))
    }

    fn new(name: &str, created_unix_seconds: u64, proof: Proof) -> Self {
        Self { name: name.to_owned(), created_unix_seconds, proof }
    }

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
        match &self.proof {
            Proof::Password(password) => {
                let account = logins.accounts.get(&self.name);
                let is_same = account.filter(|it| !it.disabled && it.password == *password);
                is_same.map(|account| account.role)
            }
            Proof::Token(hash) => {
                let token = logins.tokens.get(&self.name);
                let is_same = token.filter(|it| !it.is_expired(unix_seconds()) && it.hash.is(hash));
                is_same.map(|token| token.role)
            }
        }
    }

    /// The token that it is, by its name.
    pub(super) fn as_token(&self) -> Option<&str> {
        matches!(self.proof, Proof::Token(_)).then_some(&self.name)
    }

    /// What no other account or token ever has, also not one of the same name. It is the same on all members that
    /// share it: nothing of it comes from the revisions of their stores, each of which counts for itself.
    pub(super) fn identity(&self) -> String {
        let mark = match &self.proof {
            Proof::Password(hash) => hash.mark(),
            Proof::Token(hash) => hash.mark(),
        };
        format!("{self} of {} ({mark})", self.created_unix_seconds)
    }
}

impl std::fmt::Display for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.proof {
            Proof::Password(_) => "account",
            Proof::Token(_) => "token",
        };
        write!(f, "{kind} '{}'", self.name)
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
    /// Accounts whose password was right, and where they were.
    known: Known,
    /// When the use of a token was noted last, by its identity.
    noted: Lately<String>,
    /// When a login from a place was recorded last.
    recorded: Lately<(String, Place)>,
}

/// What happened within the hour.
#[derive(Debug)]
struct Lately<K>(Mutex<HashMap<K, u64>>);

impl<K> Default for Lately<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Lately<K> {
    /// Whether it is the first time within the hour.
    fn is_first(&self, key: K) -> bool {
        let now = unix_seconds();
        // Each change is one call.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(&key).is_some_and(|at| now < at.saturating_add(USE_SECONDS)) {
            return false;
        }
        if all.len() >= LATELY_MAX {
            all.retain(|_, at| now < at.saturating_add(USE_SECONDS));
            let oldest = all.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            oldest.filter(|_| all.len() >= LATELY_MAX).and_then(|key| all.remove(&key));
        }
        all.insert(key, now);
        true
    }
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
                found.map(|(name, _)| Login::token(logins, name, hash))
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
        let is_known = self.known.has(place, &name);
        let is_heard = || self.heard(place, Some((&name, is_known)));
        is_heard()?;
        // One that is disabled takes as long as any other, and is not told from one that is not there.
        let account = logins.accounts.get(&name).filter(|account| !account.disabled);
        let hash = account.map(|account| account.password.clone());
        let whose = (place, is_known);
        let is_right =
            self.passwords.is_right(whose, &name, hash.clone(), password, is_heard).await?;
        if let Some(hash) = hash.filter(|_| is_right) {
            self.throttle.got_in(place, &name);
            self.known.got_in(place, &name);
            return Ok(Some(Login::account(logins, &name, hash)));
        }
        self.throttle.failed(place, Some(&name), Instant::now());
        let shown: String = name.chars().take(64).collect();
        tracing::warn!("a login from {place} was refused: account {shown:?}");
        Err(wrong())
    }

    /// Refuses who has to wait, a token or an account, which may be known there.
    fn heard(&self, place: Place, account: Option<(&str, bool)>) -> Result<(), Problem> {
        self.throttle.wait(place, account, Instant::now()).map_or(Ok(()), |wait| {
            let time = counted(wait.as_secs() + 1, "second");
            let sentence =
                format!("too many logins from there have failed: wait {time}, then try again");
            Err(Problem::new(Code::TooManyTries, sentence).with_retry(wait))
        })
    }

    /// The token whose use is to be noted now: the first time, and once an hour.
    pub(super) fn to_note<'a>(&self, logins: &Logins, login: &'a Login) -> Option<&'a str> {
        let name = login.as_token()?;
        let used = logins.tokens.get(name).and_then(|token| token.used_unix_seconds);
        let is_noted = used.is_some_and(|at| unix_seconds() < at.saturating_add(USE_SECONDS));
        (!is_noted && self.noted.is_first(login.identity())).then_some(name)
    }

    /// Whether a login from there is to be recorded: the first time, and once an hour.
    pub(super) fn is_to_record(&self, login: &Login, from: SocketAddr) -> bool {
        self.recorded.is_first((login.identity(), from.ip().into()))
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
    use group::accounts::{Account, Token, TokenText, Written};

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
            ..Logins::default()
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
        assert_eq!(keeper.to_note(&logins, &login), Some("ci"));
        assert_eq!((keeper.to_note(&logins, &login), keeper.to_note(&logins, &ada)), (None, None));
        assert!(keeper.is_to_record(&ada, from) && !keeper.is_to_record(&ada, from));
        assert!(keeper.is_to_record(&ada, "192.0.2.2:7".parse().unwrap()));
        // Another one of the same name.
        logins.tokens.get_mut("ci").unwrap().created_unix_seconds = 9;
        let (again, _) = keeper.identify(&logins, from, &bearer).await.unwrap();
        assert_eq!(keeper.to_note(&logins, &again), Some("ci"));
        assert!(keeper.is_to_record(&again, from) && again.identity() != login.identity());
        // What changes later is asked for again.
        logins.accounts.get_mut("ada").unwrap().role = Role::ReadOnly;
        assert_eq!(ada.role(&logins), Some(Role::ReadOnly));
        logins.accounts.get_mut("ada").unwrap().password = PasswordHash::of_nobody().unwrap();
        logins.tokens.get_mut("ci").unwrap().expires_unix_seconds = Some(5);
        assert_eq!((ada.role(&logins), login.role(&logins)), (None, None));
    }

    #[test]
    fn an_account_is_itself_on_all_members_and_no_other_of_its_name_is() {
        let (one, two) = (TokenText::draw().unwrap(), TokenText::draw().unwrap());
        let here = logins(&one);
        let identities = |logins: &Logins, token: &TokenText| {
            let ada = Login::account(logins, "ada", logins.accounts["ada"].password.clone());
            let ci = Login::token(logins, "ci", TokenHash::of(token.as_str()));
            [ada.identity(), ci.identity()]
        };
        let own = identities(&here, &one);
        // Another member shares them, whose store has come to other revisions.
        let mut there = here.clone();
        let written = Written { made: 9, changed: 9 };
        there.accounts_written.insert("ada".to_owned(), written);
        there.tokens_written.insert("ci".to_owned(), written);
        assert_eq!(identities(&there, &one), own);
        // A third one keeps others of these names, made in the same second.
        let others = identities(&logins(&two), &two);
        assert!(own.iter().zip(&others).all(|(own, other)| own != other), "{own:?} {others:?}");
    }

    #[test]
    fn what_happened_lately_is_bounded() {
        let lately = Lately::default();
        assert!((0..2 * LATELY_MAX).all(|number| lately.is_first(number)));
        assert_eq!(lately.0.lock().unwrap().len(), LATELY_MAX);
        assert!(!lately.is_first(2 * LATELY_MAX - 1));
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

    #[tokio::test]
    async fn who_was_let_in_from_there_waits_for_no_stranger_at_the_same_address() {
        let token = TokenText::draw().unwrap();
        let (logins, keeper) = (logins(&token), Doorkeeper::default());
        keeper.passwords.prepare().unwrap();
        let from: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let code = async |headers: HeaderMap| {
            keeper.identify(&logins, from, &headers).await.err().map(|problem| problem.code)
        };
        assert_eq!(code(basic("ada", PASSWORD)).await, None);
        for _ in 0..20 {
            assert_eq!(code(headers("Bearer guess")).await, Some(Code::NotLoggedIn));
        }
        assert_eq!(code(basic("bob", PASSWORD)).await, Some(Code::TooManyTries), "a stranger");
        assert_eq!(code(basic("ada", PASSWORD)).await, None);
        // Its own password is guessed no faster.
        for _ in 0..5 {
            assert_eq!(code(basic("ada", "guess")).await, Some(Code::NotLoggedIn));
        }
        assert_eq!(code(basic("ada", PASSWORD)).await, Some(Code::TooManyTries));
    }
}
