//! Settling the operational keys between two sides (RFC 7143 6.2), by the rules of the table.

use super::keys::{FIRST_BURST_LENGTH, Key, Phase, Rule, Sender, find_key};
use super::{
    IRRELEVANT, KEYS, NOT_UNDERSTOOD, Pair, REJECT, TextWriter, parse_boolean, parse_number,
};
use crate::params::{ConnectionParams, DigestPolicy, LocalLimits, SessionParams, TaskReporting};

/// Which side we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that serves.
    Target,
    /// The side that logs in.
    Initiator,
}

/// Why a negotiation cannot succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    /// A key was offered, declared or answered twice (6.2).
    #[error("{0} was negotiated twice")]
    Repeated(&'static str),
    /// An answer that our offer does not allow.
    #[error("the answer to {0} does not fit what was offered")]
    Answer(&'static str),
    /// A declared value that is out of its range; there is no answer that could refuse it.
    #[error("the value declared for {0} is out of range")]
    Declaration(&'static str),
    /// A digest that we insist on was not agreed on.
    #[error("{0} is required here, but was not agreed on")]
    DigestRequired(&'static str),
}

/// A set of keys, by their place in [`KEYS`].
#[derive(Debug, Clone, Copy, Default)]
struct KeySet(u64);

const _: () = assert!(KEYS.len() <= 64, "a KeySet has 64 bits");

impl KeySet {
    const fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    /// Whether the key is new in the set.
    const fn insert(&mut self, index: usize) -> bool {
        let is_new = !self.contains(index);
        self.0 |= 1 << index;
        is_new
    }
}

/// The operational negotiation of one login: which keys were offered and taken, and what they settled.
#[derive(Debug, Clone)]
pub struct Negotiation {
    role: Role,
    is_leading: bool,
    is_discovery: bool,
    limits: LocalLimits,
    offered: KeySet,
    taken: KeySet,
    connection: ConnectionParams,
    session: SessionParams,
}

impl Negotiation {
    /// Nothing settled yet: every key has its default. `is_leading` is false for a connection that joins
    /// a session, in which the session's keys were settled before.
    #[must_use]
    pub fn new(role: Role, limits: &LocalLimits, is_leading: bool, is_discovery: bool) -> Self {
        Self {
            role,
            is_leading,
            is_discovery,
            limits: *limits,
            offered: KeySet::default(),
            taken: KeySet::default(),
            connection: ConnectionParams::default(),
            session: SessionParams::default(),
        }
    }

    /// Writes the initiator's offer of every key that means something here.
    pub fn write_offers(&mut self, out: &mut TextWriter) {
        for (index, key) in KEYS.iter().enumerate() {
            let limits = &self.limits;
            if self.is_irrelevant(key) {
                continue;
            }
            match &key.rule {
                Rule::And(rule) | Rule::Or(rule) => out.push(key.name, yes_no((rule.wish)(limits))),
                Rule::Min(rule) | Rule::Max(rule) => out.push(key.name, (rule.wish)(limits)),
                Rule::Digest { wish, .. } => out.push(key.name, digest_offer(wish(limits))),
                Rule::TaskReporting => {
                    out.push(key.name, task_reporting_offer(limits.task_reporting));
                }
                _ => continue,
            }
            self.offered.insert(index);
        }
    }

    /// Writes our MaxRecvDataSegmentLength, once (13.12).
    pub fn write_declaration(&mut self, out: &mut TextWriter) {
        let (index, key) = find_key("MaxRecvDataSegmentLength").expect("the table has this key");
        let len_bytes = self.limits.max_recv_data_segment_len_bytes;
        if self.offered.insert(index) {
            out.push(key.name, len_bytes);
            self.connection.max_recv_data_segment_local_bytes = len_bytes;
        }
    }

    /// Takes the keys of one text from the peer, except those that the login reads itself
    /// ([`Rule::Declared`], [`Rule::Security`]), and writes the answers.
    ///
    /// # Errors
    /// A [`NegotiationError`], after which the login cannot go on.
    pub fn take_all(
        &mut self,
        pairs: &[Pair<'_>],
        out: &mut TextWriter,
    ) -> Result<(), NegotiationError> {
        let (last, first): (Vec<&Pair<'_>>, _) =
            pairs.iter().partition(|pair| pair.key == FIRST_BURST_LENGTH);
        first.into_iter().chain(last).try_for_each(|pair| self.take(pair, out))
    }

    fn take(&mut self, pair: &Pair<'_>, out: &mut TextWriter) -> Result<(), NegotiationError> {
        let Some((index, key)) = find_key(pair.key) else {
            if pair.value != NOT_UNDERSTOOD {
                out.push(pair.key, NOT_UNDERSTOOD);
            }
            return Ok(());
        };
        match key.rule {
            Rule::Security => return Ok(()),
            Rule::Declared => {
                self.check_declaration(key, out);
                return Ok(());
            }
            _ => {}
        }
        if !self.taken.insert(index) {
            return Err(NegotiationError::Repeated(key.name));
        }
        if matches!(key.rule, Rule::SegmentLength) {
            return self.take_segment_length(key, pair.value);
        }
        if self.offered.contains(index) {
            return self.take_answer(key, pair.value);
        }
        let answer = if self.is_irrelevant(key) {
            IRRELEVANT.to_owned()
        } else {
            self.answer(key, pair.value).unwrap_or_else(|| REJECT.to_owned())
        };
        out.push(key.name, answer);
        Ok(())
    }

    /// A declaration of the peer's needs no answer, unless it was not the peer's to make.
    fn check_declaration(&self, key: &Key, out: &mut TextWriter) {
        let is_peers = match key.sender {
            Sender::Both => true,
            Sender::Initiator => self.role == Role::Target,
            Sender::Target => self.role == Role::Initiator,
        };
        if !is_peers || key.phase == Phase::FullFeature {
            out.push(key.name, REJECT);
        }
    }

    fn take_segment_length(&mut self, key: &Key, value: &str) -> Result<(), NegotiationError> {
        self.connection.max_recv_data_segment_peer_bytes =
            parse_segment_length(value).ok_or(NegotiationError::Declaration(key.name))?;
        Ok(())
    }

    /// What we answer to the peer's offer, which settles the key; `None` if the offer cannot be taken.
    fn answer(&mut self, key: &Key, value: &str) -> Option<String> {
        let limits = &self.limits;
        match &key.rule {
            Rule::And(rule) => {
                let result = parse_boolean(value)? && (rule.wish)(limits);
                *(rule.slot)(&mut self.session) = result;
                Some(yes_no(result).to_owned())
            }
            Rule::Or(rule) => {
                let result = parse_boolean(value)? || (rule.wish)(limits);
                *(rule.slot)(&mut self.session) = result;
                Some(yes_no(result).to_owned())
            }
            Rule::Min(rule) => {
                let offer = parse_in(value, &rule.range)?;
                let mut result = offer.min((rule.wish)(limits));
                if key.name == FIRST_BURST_LENGTH {
                    result = result.min(self.session.max_burst_len_bytes);
                }
                *(rule.slot)(&mut self.session) = result;
                Some(result.to_string())
            }
            Rule::Max(rule) => {
                let result = parse_in(value, &rule.range)?.max((rule.wish)(limits));
                *(rule.slot)(&mut self.session) = result;
                Some(result.to_string())
            }
            Rule::Digest { wish, slot } => {
                let result = choose_digest(value, wish(limits))?;
                *slot(&mut self.connection) = result;
                Some(if result { "CRC32C" } else { "None" }.to_owned())
            }
            Rule::TaskReporting => {
                let known = value.split(',').filter_map(TaskReporting::parse);
                let chosen = known.into_iter().find(|way| *way <= limits.task_reporting)?;
                self.session.task_reporting = chosen;
                Some(chosen.name().to_owned())
            }
            Rule::Obsolete(answer) => Some((*answer).to_owned()),
            Rule::SegmentLength | Rule::Declared | Rule::Security => None,
        }
    }

    /// The peer's answer to our offer. If it declines, the default holds (6.2).
    fn take_answer(&mut self, key: &'static Key, value: &str) -> Result<(), NegotiationError> {
        if [NOT_UNDERSTOOD, IRRELEVANT, REJECT].contains(&value) {
            return Ok(());
        }
        self.settle(key, value).ok_or(NegotiationError::Answer(key.name))
    }

    /// Stores an answer that our offer allows; `None` if it does not.
    fn settle(&mut self, key: &Key, value: &str) -> Option<()> {
        let limits = &self.limits;
        match &key.rule {
            Rule::And(rule) | Rule::Or(rule) => {
                let (result, wish) = (parse_boolean(value)?, (rule.wish)(limits));
                // Our wish decides alone if it is No to an AND, or Yes to an OR.
                let is_or = matches!(key.rule, Rule::Or(_));
                if wish == is_or && result != wish {
                    return None;
                }
                *(rule.slot)(&mut self.session) = result;
            }
            Rule::Min(rule) | Rule::Max(rule) => {
                let (result, wish) = (parse_in(value, &rule.range)?, (rule.wish)(limits));
                let fits = match key.rule {
                    Rule::Min(_) => result <= wish,
                    _ => result >= wish,
                };
                if !fits {
                    return None;
                }
                *(rule.slot)(&mut self.session) = result;
            }
            Rule::Digest { wish, slot } => {
                let mut offers = digest_offer(wish(limits)).split(',');
                if !offers.any(|offer| offer == value) {
                    return None;
                }
                *slot(&mut self.connection) = value == "CRC32C";
            }
            Rule::TaskReporting => {
                let chosen = TaskReporting::parse(value)?;
                if chosen > limits.task_reporting {
                    return None;
                }
                self.session.task_reporting = chosen;
            }
            _ => return None,
        }
        Some(())
    }

    /// What was settled. FirstBurstLength is cut to MaxBurstLength, whichever of them came first (13.14).
    ///
    /// # Errors
    /// [`NegotiationError::DigestRequired`] if a digest that we insist on was not agreed on.
    pub fn finish(&self) -> Result<(ConnectionParams, SessionParams), NegotiationError> {
        let mut connection = self.connection;
        for key in KEYS {
            if let Rule::Digest { wish, slot } = key.rule {
                let is_required = wish(&self.limits) == DigestPolicy::Require;
                if is_required && !*slot(&mut connection) {
                    return Err(NegotiationError::DigestRequired(key.name));
                }
            }
        }
        let mut session = self.session;
        let max_burst = session.max_burst_len_bytes;
        session.first_burst_len_bytes = session.first_burst_len_bytes.min(max_burst);
        Ok((connection, session))
    }

    /// Whether a key means nothing here: it belongs to normal sessions, or to the first connection of a session.
    fn is_irrelevant(&self, key: &Key) -> bool {
        (self.is_discovery && key.is_irrelevant_in_discovery)
            || (!self.is_leading && key.phase == Phase::LeadingLogin)
    }
}

impl TaskReporting {
    const ALL: [Self; 3] = [Self::Rfc3720, Self::ResponseFence, Self::FastAbort];

    /// The value on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc3720 => "RFC3720",
            Self::ResponseFence => "ResponseFence",
            Self::FastAbort => "FastAbort",
        }
    }

    fn parse(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == value)
    }
}

const fn yes_no(yes: bool) -> &'static str {
    if yes { "Yes" } else { "No" }
}

/// A MaxRecvDataSegmentLength that may be declared.
pub(crate) fn parse_segment_length(value: &str) -> Option<u32> {
    parse_in(value, &(512..=(1 << 24) - 1))
}

fn parse_in(value: &str, range: &std::ops::RangeInclusive<u32>) -> Option<u32> {
    let number = u32::try_from(parse_number(value)?).ok()?;
    range.contains(&number).then_some(number)
}

/// Our list of digests, the preferred one first.
pub(super) const fn digest_offer(policy: DigestPolicy) -> &'static str {
    match policy {
        DigestPolicy::Refuse => "None",
        DigestPolicy::Allow => "None,CRC32C",
        DigestPolicy::Prefer => "CRC32C,None",
        DigestPolicy::Require => "CRC32C",
    }
}

/// Our list of ways to report tasks, the preferred one first.
pub(super) const fn task_reporting_offer(highest: TaskReporting) -> &'static str {
    match highest {
        TaskReporting::Rfc3720 => "RFC3720",
        TaskReporting::ResponseFence => "ResponseFence,RFC3720",
        TaskReporting::FastAbort => "FastAbort,ResponseFence,RFC3720",
    }
}

/// Which of the offered digests we take: true for CRC32C, `None` if we take none of them.
fn choose_digest(offers: &str, policy: DigestPolicy) -> Option<bool> {
    let mut known = offers.split(',').filter_map(|offer| match offer {
        "CRC32C" => Some(true),
        "None" => Some(false),
        _ => None,
    });
    match policy {
        DigestPolicy::Refuse => known.find(|is_crc| !is_crc),
        DigestPolicy::Allow => known.next(),
        DigestPolicy::Prefer => known.reduce(|one, other| one || other),
        DigestPolicy::Require => known.find(|is_crc| *is_crc),
    }
}
