//! The target's half of security negotiation (RFC 7143 12.1).
//!
//! ```text
//! initiator                          target
//! AuthMethod=CHAP,None       -->
//!                            <--     AuthMethod=CHAP
//! CHAP_A=7,5                 -->
//!                            <--     CHAP_A=7 CHAP_I CHAP_C
//! CHAP_N CHAP_R [CHAP_I CHAP_C] -->
//!                            <--     [CHAP_N CHAP_R]
//! ```

use super::{AuthRefusal, LoginEnv, value_of};
use crate::chap::{
    Algorithm, AuthPolicy, Challenge, ChallengeKey, ChapPolicy, Credentials, choose_algorithm,
};
use crate::text::{
    BINARY_LEN_BYTES_MAX, Pair, TextWriter, decode_binary, encode_hex, parse_number,
};
use std::sync::Arc;

/// How far authentication got.
#[derive(Debug)]
enum State {
    /// No AuthMethod was chosen.
    Start,
    /// CHAP was chosen.
    MethodChosen(Arc<ChapPolicy>),
    /// The challenge was sent.
    Challenged(Arc<ChapPolicy>, Challenge),
    /// Nothing more to prove.
    Done,
}

/// Authentication of one login.
#[derive(Debug)]
pub(super) struct TargetAuth {
    policy: AuthPolicy,
    state: State,
    /// The user that the initiator says it is.
    claimed: Option<String>,
    proved: Option<Arc<Credentials>>,
}

impl TargetAuth {
    pub(super) const fn new(policy: AuthPolicy) -> Self {
        Self { policy, state: State::Start, claimed: None, proved: None }
    }

    /// Whether the login may go on to the next stage.
    pub(super) const fn is_satisfied(&self) -> bool {
        match self.state {
            State::Start => !matches!(self.policy, AuthPolicy::Chap(_)),
            State::MethodChosen(_) | State::Challenged(..) => false,
            State::Done => true,
        }
    }

    /// Whether the initiator has not begun.
    pub(super) const fn is_untouched(&self) -> bool {
        matches!(self.state, State::Start)
    }

    /// The user that the initiator said it is, proved or not.
    pub(super) fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    /// The user that authenticated.
    pub(super) const fn proved(&self) -> Option<&Arc<Credentials>> {
        self.proved.as_ref()
    }

    /// Takes the security keys of one text and writes the answers.
    pub(super) fn take(
        &mut self,
        pairs: &[Pair<'_>],
        env: &mut dyn LoginEnv,
        out: &mut TextWriter,
    ) -> Result<(), AuthRefusal> {
        if let Some(methods) = value_of(pairs, "AuthMethod") {
            self.choose_method(methods, out)?;
        }
        if !pairs.iter().any(|pair| pair.key.starts_with("CHAP_")) {
            return Ok(());
        }
        // A state that is taken and not put back is Done: after an error the login is over anyway.
        match std::mem::replace(&mut self.state, State::Done) {
            State::MethodChosen(policy) => self.challenge(policy, pairs, env, out),
            State::Challenged(policy, challenge) => {
                self.verify(&policy, &challenge, pairs, env.challenge_key(), out)
            }
            State::Start | State::Done => Err(AuthRefusal::Malformed),
        }
    }

    /// The initiator's order decides among what the policy allows (12).
    fn choose_method(&mut self, methods: &str, out: &mut TextWriter) -> Result<(), AuthRefusal> {
        if !self.is_untouched() {
            return Err(AuthRefusal::Malformed);
        }
        let (may_skip, chap) = match &self.policy {
            AuthPolicy::None => (true, None),
            AuthPolicy::Optional(policy) => (true, Some(policy)),
            AuthPolicy::Chap(policy) => (false, Some(policy)),
        };
        let state_of = |offer: &str| match (offer, chap) {
            ("None", _) if may_skip => Some(("None", State::Done)),
            ("CHAP", Some(policy)) => Some(("CHAP", State::MethodChosen(Arc::clone(policy)))),
            _ => None,
        };
        let (method, state) = methods.split(',').find_map(state_of).ok_or(AuthRefusal::Method)?;
        out.push("AuthMethod", method);
        self.state = state;
        Ok(())
    }

    fn challenge(
        &mut self,
        policy: Arc<ChapPolicy>,
        pairs: &[Pair<'_>],
        env: &mut dyn LoginEnv,
        out: &mut TextWriter,
    ) -> Result<(), AuthRefusal> {
        let list = value_of(pairs, "CHAP_A").ok_or(AuthRefusal::Malformed)?;
        let algorithm =
            choose_algorithm(list, policy.algorithms()).ok_or(AuthRefusal::Algorithm)?;
        let key = env.challenge_key().clone();
        let challenge = key.challenge(algorithm, &mut |bytes| env.random(bytes));
        out.push("CHAP_A", algorithm.number());
        out.push("CHAP_I", challenge.identifier);
        out.push("CHAP_C", encode_hex(&challenge.bytes));
        self.state = State::Challenged(policy, challenge);
        Ok(())
    }

    fn verify(
        &mut self,
        policy: &ChapPolicy,
        challenge: &Challenge,
        pairs: &[Pair<'_>],
        key: &ChallengeKey,
        out: &mut TextWriter,
    ) -> Result<(), AuthRefusal> {
        let user = value_of(pairs, "CHAP_N").ok_or(AuthRefusal::Malformed)?;
        self.claimed = Some(user.to_owned());
        let response = value_of(pairs, "CHAP_R")
            .and_then(|value| decode_binary(value, BINARY_LEN_BYTES_MAX))
            .ok_or(AuthRefusal::Malformed)?;
        let proved = policy.verify(challenge, user, &response).ok_or(AuthRefusal::Response)?;
        match (value_of(pairs, "CHAP_I"), value_of(pairs, "CHAP_C")) {
            (None, None) => {}
            (Some(identifier), Some(theirs)) => {
                let answer = answer_mutual(policy, (challenge.algorithm, key), identifier, theirs)?;
                let target = policy.target().ok_or(AuthRefusal::NoMutual)?;
                out.push("CHAP_N", target.user());
                out.push("CHAP_R", encode_hex(&answer));
            }
            _ => return Err(AuthRefusal::Malformed),
        }
        self.proved = Some(Arc::clone(proved));
        self.state = State::Done;
        Ok(())
    }
}

/// The target's response to the initiator's challenge, unless that is one of ours, of whatever connection.
fn answer_mutual(
    policy: &ChapPolicy,
    (algorithm, key): (Algorithm, &ChallengeKey),
    identifier: &str,
    theirs: &str,
) -> Result<Vec<u8>, AuthRefusal> {
    let identifier = parse_number(identifier).and_then(|number| u8::try_from(number).ok());
    let theirs = decode_binary(theirs, BINARY_LEN_BYTES_MAX);
    let (Some(identifier), Some(theirs)) = (identifier, theirs) else {
        return Err(AuthRefusal::Malformed);
    };
    if key.is_ours(&theirs) {
        return Err(AuthRefusal::Reflected);
    }
    let target = policy.target().ok_or(AuthRefusal::NoMutual)?;
    Ok(target.respond(algorithm, identifier, &theirs))
}
