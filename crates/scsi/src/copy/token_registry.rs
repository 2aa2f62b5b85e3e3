//! Which tokens of a logical unit exist, and what they stand for.

use super::be64;
use super::offload::{PopulateToken, TokenRange};
use super::token::{MANAGEMENT_BYTES, ROD_TOKEN_BYTES, RodToken, TokenSource, invalid};
use crate::sense::{AdditionalSense, Sense};
use std::collections::BTreeMap;
use std::time::Duration;

/// Tokens of one unit that are kept at most, with 64 ranges each about 400 KiB. Each write to the
/// unit looks at all of them.
pub const TOKENS_MAX: usize = 256;

/// The data that a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenContents<'a> {
    /// Logical block length of the unit.
    pub block_bytes: u32,
    /// The blocks, in order.
    pub ranges: &'a [TokenRange],
}

#[derive(Debug)]
struct Entry<P> {
    token: RodToken,
    place: P,
    block_bytes: u32,
    ranges: Vec<TokenRange>,
    inactivity: Duration,
    expires: Duration,
    /// Its data was asked for at least once.
    used: bool,
    /// Why it can no longer be used, although it has not expired.
    ended: Option<AdditionalSense>,
}

/// The tokens of one logical unit. `P` is what its owner keeps with a token: it is dropped when
/// the token is forgotten.
///
/// Time is told by the caller: `now` is the time since any fixed moment.
#[derive(Debug)]
pub struct TokenRegistry<P> {
    entries: BTreeMap<u64, Entry<P>>,
}

impl<P> Default for TokenRegistry<P> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

impl<P> TokenRegistry<P> {
    /// No tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a token for what `request` names. It expires when it has not been used for the
    /// request's inactivity timeout. `id` must differ from that of all others that the copy
    /// manager makes, of whichever unit.
    ///
    /// INSUFFICIENT RESOURCES TO CREATE ROD TOKEN if [`TOKENS_MAX`] others are kept.
    pub fn create(
        &mut self,
        (id, place): (u64, P),
        source: &TokenSource<'_>,
        request: &PopulateToken,
        now: Duration,
        random: &[u8; 256],
    ) -> Result<RodToken, Sense> {
        if self.entries.len() >= TOKENS_MAX {
            return Err(invalid(AdditionalSense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN));
        }
        let block_bytes = source.block_bytes;
        let represented_bytes = request.blocks() * u64::from(block_bytes);
        let token = RodToken::new(id, source, represented_bytes, random);
        let inactivity = Duration::from_secs(request.inactivity_timeout_s.into());
        let entry = Entry {
            token: token.clone(),
            place,
            block_bytes,
            ranges: request.ranges.clone(),
            inactivity,
            expires: now + inactivity,
            used: false,
            ended: None,
        };
        let before = self.entries.insert(id, entry);
        debug_assert!(before.is_none(), "the identifiers of all tokens differ");
        Ok(token)
    }

    /// Whether a token of this identifier is kept, good or not.
    pub fn contains(&self, id: u64) -> bool {
        self.entries.contains_key(&id)
    }

    /// Looks a token for blocks up that a host has sent, and counts as its use.
    ///
    /// ILLEGAL REQUEST with INVALID TOKEN OPERATION (SPC-4 5.17.6.5.2.3, SBC-4 5.59.2): it is
    /// unknown, does not match, expired, revoked or deleted.
    pub fn resolve(
        &mut self,
        token: &[u8; ROD_TOKEN_BYTES],
        now: Duration,
    ) -> Result<TokenContents<'_>, Sense> {
        let entry = self.entries.get_mut(&be64(token, 8));
        let entry = entry.ok_or(invalid(AdditionalSense::INVALID_TOKEN_UNKNOWN))?;
        if !entry.token.is(token) {
            return Err(invalid(AdditionalSense::INVALID_TOKEN_CORRUPT));
        }
        if let Some(why) = entry.ended {
            return Err(invalid(why));
        }
        if entry.expires <= now {
            return Err(invalid(AdditionalSense::INVALID_TOKEN_EXPIRED));
        }
        entry.used = true;
        entry.expires = now + entry.inactivity;
        Ok(TokenContents { block_bytes: entry.block_bytes, ranges: &entry.ranges })
    }

    /// DEL_TKN: the token ends. Nothing happens if it is not one of ours.
    pub fn delete(&mut self, token: &[u8; ROD_TOKEN_BYTES]) {
        let entry = self.entries.get_mut(&be64(token, 8)).filter(|entry| entry.token.is(token));
        if let Some(entry) = entry {
            entry.end(AdditionalSense::INVALID_TOKEN_DELETED);
        }
    }

    /// Ends all tokens: the blocks no longer mean the same.
    pub fn revoke_all(&mut self) {
        for entry in self.entries.values_mut() {
            entry.end(AdditionalSense::INVALID_TOKEN_REVOKED);
        }
    }

    /// Ends the tokens that stand for any block of `range`: the blocks are about to change, or the
    /// unit shrank and they are gone (SPC-4 5.17.6.2.2).
    pub fn revoke_range(&mut self, range: &TokenRange) {
        for entry in self.entries.values_mut() {
            if entry.ranges.iter().any(|other| other.overlaps(range)) {
                entry.end(AdditionalSense::INVALID_TOKEN_REVOKED);
            }
        }
    }

    /// Forgets tokens whose time is over, used or ended. To be called now and then.
    pub fn drop_expired(&mut self, now: Duration) {
        self.entries.retain(|_, entry| entry.expires > now);
    }

    /// Forgets tokens that have done their work, so that others have room: those that have ended, or
    /// that were used, not made only, before `idle_since` for the last time.
    pub fn drop_spent(&mut self, idle_since: Duration, which: impl Fn(&P) -> bool) {
        self.entries.retain(|_, entry| {
            let last_used = entry.expires.saturating_sub(entry.inactivity);
            let spent = entry.ended.is_some() || entry.used && last_used < idle_since;
            !(spent && which(&entry.place))
        });
    }

    /// Forgets all tokens: the unit is gone.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The management tokens of those that are good: what is no secret of them.
    pub fn management_tokens(&self, now: Duration) -> Vec<u8> {
        let alive = |entry: &&Entry<P>| entry.ended.is_none() && entry.expires > now;
        let alive = self.entries.values().filter(alive);
        alive.flat_map(|entry| &entry.token.0[..MANAGEMENT_BYTES]).copied().collect()
    }

    /// What is kept with the tokens.
    pub fn places(&self) -> impl Iterator<Item = &P> {
        self.entries.values().map(|entry| &entry.place)
    }

    /// Number of tokens kept, ended ones included until they expire.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No tokens kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<P> Entry<P> {
    fn end(&mut self, why: AdditionalSense) {
        self.ended = Some(why);
        self.ranges = Vec::new();
    }
}

/// Parameter data of REPORT ALL ROD TOKENS (SPC-4 6.31) for these
/// [management tokens](TokenRegistry::management_tokens).
pub fn report_all(management_tokens: &[u8]) -> Vec<u8> {
    let available = (4 + management_tokens.len()) as u32;
    let mut data = available.to_be_bytes().to_vec();
    data.extend([0; 4]);
    data.extend(management_tokens);
    data
}
