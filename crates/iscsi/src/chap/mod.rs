//! Challenge Handshake Authentication Protocol (RFC 7143 12.1.3, RFC 1994).
//!
//! A response is `H(identifier || secret || challenge)`. Each side proves its secret to the other without
//! sending it; what is refused here are the ways around that: a challenge of ours that comes back to us
//! to be answered, and one secret for both directions.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use sha3::Sha3_256;
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Shortest secret that may be configured: 96 bits (12.1.3).
pub const SECRET_LEN_BYTES_MIN: usize = 12;

/// Longest user name, which is a value of a key (6.1).
pub const USER_LEN_BYTES_MAX: usize = 255;

/// A hash that responses are made with; the number is the value of CHAP_A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Algorithm {
    /// MD5: the one that every implementation has.
    Md5 = 5,
    /// SHA-1.
    Sha1 = 6,
    /// SHA-256.
    Sha256 = 7,
    /// SHA3-256.
    Sha3 = 8,
}

impl Algorithm {
    /// All of them, the strongest first: the order in which an initiator offers them.
    pub const ALL: [Self; 4] = [Self::Sha3, Self::Sha256, Self::Sha1, Self::Md5];

    /// The algorithm of a CHAP_A value.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|known| u64::from(known.number()) == number)
    }

    /// The CHAP_A value.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Length of a response in bytes, and of what cannot be foretold in the challenges that we send.
    #[must_use]
    pub const fn len_bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 | Self::Sha3 => 32,
        }
    }
}

/// The first algorithm of a list that is in `allowed`: the initiator's order decides (12.1.3).
#[must_use]
pub fn choose_algorithm(list: &str, allowed: &[Algorithm]) -> Option<Algorithm> {
    list.split(',')
        .filter_map(|number| Algorithm::from_number(crate::text::parse_number(number)?))
        .find(|algorithm| allowed.contains(algorithm))
}

/// A user and the secret shared with the other side. The secret is not shown, and wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    secret: Vec<u8>,
}

/// Why credentials cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// No name, or a longer one than a key may carry.
    #[error("a CHAP user name has 1 to {USER_LEN_BYTES_MAX} bytes and no NUL")]
    User,
    /// Under 96 bits.
    #[error("a CHAP secret needs at least {SECRET_LEN_BYTES_MIN} bytes")]
    SecretTooShort,
    /// One secret for both directions: whoever can log in could also pretend to be the target.
    #[error("the CHAP secrets of the two directions must differ")]
    SameSecret,
}

impl Credentials {
    /// Checks a user and a secret for use (12.1.3).
    ///
    /// # Errors
    /// [`CredentialsError::User`] or [`CredentialsError::SecretTooShort`].
    pub fn new(
        user: impl Into<String>,
        secret: impl Into<Vec<u8>>,
    ) -> Result<Self, CredentialsError> {
        let (user, secret) = (user.into(), secret.into());
        let credentials = Self { user, secret };
        let len_bytes = credentials.user.len();
        if !(1..=USER_LEN_BYTES_MAX).contains(&len_bytes) || credentials.user.contains('\0') {
            return Err(CredentialsError::User);
        }
        if credentials.secret.len() < SECRET_LEN_BYTES_MIN {
            return Err(CredentialsError::SecretTooShort);
        }
        Ok(credentials)
    }

    /// The user name (CHAP_N).
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The response to a challenge.
    #[must_use]
    pub fn respond(&self, algorithm: Algorithm, identifier: u8, challenge: &[u8]) -> Vec<u8> {
        match algorithm {
            Algorithm::Md5 => self.hash::<Md5>(identifier, challenge),
            Algorithm::Sha1 => self.hash::<Sha1>(identifier, challenge),
            Algorithm::Sha256 => self.hash::<Sha256>(identifier, challenge),
            Algorithm::Sha3 => self.hash::<Sha3_256>(identifier, challenge),
        }
    }

    fn hash<H: Digest>(&self, identifier: u8, challenge: &[u8]) -> Vec<u8> {
        let hash =
            H::new().chain_update([identifier]).chain_update(&self.secret).chain_update(challenge);
        hash.finalize().to_vec()
    }

    /// Whether this user answered `challenge` rightly; takes the same time wherever the answer differs.
    #[must_use]
    pub fn verify(&self, challenge: &Challenge, user: &str, response: &[u8]) -> bool {
        let expected = self.respond(challenge.algorithm, challenge.identifier, &challenge.bytes);
        let is_user = self.user.as_bytes().ct_eq(user.as_bytes());
        (is_user & expected.ct_eq(response)).into()
    }

    /// Whether both use one secret.
    #[must_use]
    pub fn shares_secret_with(&self, other: &Self) -> bool {
        self.secret.ct_eq(&other.secret).into()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Credentials");
        debug.field("user", &self.user).finish_non_exhaustive()
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        self.secret.fill(0);
        // Keeps the compiler from leaving the stores out as dead.
        std::hint::black_box(&self.secret);
    }
}

/// A challenge that was sent and waits for its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The hash of the response.
    pub algorithm: Algorithm,
    /// CHAP_I.
    pub identifier: u8,
    /// CHAP_C.
    pub bytes: Vec<u8>,
}

impl Challenge {
    /// A challenge of random bytes, which `random` fills in.
    pub fn new(algorithm: Algorithm, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut identifier = [0];
        random(&mut identifier);
        let mut bytes = vec![0; algorithm.len_bytes()];
        random(&mut bytes);
        Self { algorithm, identifier: identifier[0], bytes }
    }
}

/// What a target knows its own challenges by, whatever connection they come back on: an initiator that sends one
/// wants the target to compute the answer that it owes itself (12.1.3).
///
/// A challenge is as many random bytes as its algorithm's response has, and a tag of them that only
/// this key makes.
#[derive(Clone)]
pub struct ChallengeKey([u8; 32]);

/// Bytes of a tag: one challenge of an initiator in 2^64 is taken for ours by chance.
const TAG_LEN_BYTES: usize = 8;

impl ChallengeKey {
    /// A key of random bytes, which `random` fills in; one for all that a target, or several of one process, send.
    pub fn new(random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut key = [0; 32];
        random(&mut key);
        Self(key)
    }

    /// A challenge that [`is_ours`](Self::is_ours).
    pub fn challenge(&self, algorithm: Algorithm, random: &mut dyn FnMut(&mut [u8])) -> Challenge {
        let mut challenge = Challenge::new(algorithm, random);
        let tag = self.tag(&challenge.bytes);
        challenge.bytes.extend_from_slice(&tag);
        challenge
    }

    /// Whether a challenge was made with this key.
    #[must_use]
    pub fn is_ours(&self, challenge: &[u8]) -> bool {
        let (random, tag) = challenge.split_at(challenge.len().saturating_sub(TAG_LEN_BYTES));
        self.tag(random).ct_eq(tag).into()
    }

    fn tag(&self, random: &[u8]) -> [u8; TAG_LEN_BYTES] {
        let digest = Sha3_256::new().chain_update(self.0).chain_update(random).finalize();
        std::array::from_fn(|at| digest[at])
    }
}

impl fmt::Debug for ChallengeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChallengeKey")
    }
}

/// Who may log in to a target, and how the target proves itself.
#[derive(Debug, Clone)]
pub struct ChapPolicy {
    users: Vec<Arc<Credentials>>,
    target: Option<Arc<Credentials>>,
    algorithms: Vec<Algorithm>,
}

impl ChapPolicy {
    /// `users` may log in; `target` answers an initiator that asks for mutual authentication.
    /// All algorithms are allowed.
    ///
    /// # Errors
    /// [`CredentialsError::SameSecret`] if the target's secret is also a user's (12.1.3).
    pub fn new(
        users: Vec<Credentials>,
        target: Option<Credentials>,
    ) -> Result<Self, CredentialsError> {
        let is_shared =
            |target: &Credentials| users.iter().any(|user| user.shares_secret_with(target));
        if target.as_ref().is_some_and(is_shared) {
            return Err(CredentialsError::SameSecret);
        }
        let users = users.into_iter().map(Arc::new).collect();
        Ok(Self { users, target: target.map(Arc::new), algorithms: Algorithm::ALL.to_vec() })
    }

    /// The same for some of the users only; the others are then as good as unknown.
    #[must_use]
    pub fn only(&self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let users = self.users.iter().filter(|user| is_wanted(user.user())).cloned().collect();
        Self { users, target: self.target.clone(), algorithms: self.algorithms.clone() }
    }

    /// Those who may log in.
    #[must_use]
    pub fn users(&self) -> &[Arc<Credentials>] {
        &self.users
    }

    /// Allows only these algorithms.
    #[must_use]
    pub fn with_algorithms(mut self, algorithms: &[Algorithm]) -> Self {
        self.algorithms = algorithms.to_vec();
        self
    }

    /// The algorithms that are allowed.
    #[must_use]
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// What the target proves itself with.
    #[must_use]
    pub fn target(&self) -> Option<&Credentials> {
        self.target.as_deref()
    }

    /// The user that answered `challenge`. All are tried, so the time does not tell which there are; where
    /// there are none, a response is computed all the same.
    #[must_use]
    pub fn verify(
        &self,
        challenge: &Challenge,
        user: &str,
        response: &[u8],
    ) -> Option<&Arc<Credentials>> {
        let mut proved = None;
        for known in &self.users {
            if known.verify(challenge, user, response) {
                proved = Some(known);
            }
        }
        if self.users.is_empty() {
            let nobody =
                Credentials { user: user.to_owned(), secret: vec![0; SECRET_LEN_BYTES_MIN] };
            std::hint::black_box(nobody.verify(challenge, user, response));
        }
        proved
    }
}

/// What an initiator authenticates with.
#[derive(Debug, Clone)]
pub struct InitiatorChap {
    initiator: Credentials,
    target: Option<Credentials>,
    algorithms: Vec<Algorithm>,
}

impl InitiatorChap {
    /// `initiator` answers the target; with `target`, the target must answer too.
    ///
    /// # Errors
    /// [`CredentialsError::SameSecret`] if both have one secret (12.1.3).
    pub fn new(
        initiator: Credentials,
        target: Option<Credentials>,
    ) -> Result<Self, CredentialsError> {
        if target.as_ref().is_some_and(|target| target.shares_secret_with(&initiator)) {
            return Err(CredentialsError::SameSecret);
        }
        Ok(Self { initiator, target, algorithms: Algorithm::ALL.to_vec() })
    }

    /// Offers only these algorithms, in this order.
    #[must_use]
    pub fn with_algorithms(mut self, algorithms: &[Algorithm]) -> Self {
        self.algorithms = algorithms.to_vec();
        self
    }

    /// The algorithms to offer.
    #[must_use]
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// What we prove ourselves with.
    #[must_use]
    pub const fn initiator(&self) -> &Credentials {
        &self.initiator
    }

    /// What the target must prove itself with.
    #[must_use]
    pub const fn target(&self) -> Option<&Credentials> {
        self.target.as_ref()
    }
}

/// What a portal or target asks of initiators before they may log in.
#[derive(Debug, Clone, Default)]
pub enum AuthPolicy {
    /// Nothing.
    #[default]
    None,
    /// Nothing; but who offers CHAP before None has to prove itself.
    Optional(Arc<ChapPolicy>),
    /// CHAP.
    Chap(Arc<ChapPolicy>),
}

#[cfg(test)]
mod tests;
