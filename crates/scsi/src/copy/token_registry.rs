//! Which tokens exist, and what they stand for.

use super::be64;
use super::offload::{PopulateToken, TokenRange};
use super::token::{MANAGEMENT_BYTES, ROD_TOKEN_BYTES, RodToken, RodType, TokenSource};
use crate::sense::{AdditionalSense, Sense, SenseKey};
use std::collections::BTreeMap;
use std::time::Duration;

/// Tokens that a registry keeps at most, with 64 ranges each about 1.6 MiB.
pub const TOKENS_MAX: usize = 1024;

/// The data that a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenContents<'a, U> {
    /// As many zeroes as anybody wants.
    Zeroes,
    /// These blocks of a unit, in order.
    Blocks {
        /// The unit, as the creator called it.
        unit: &'a U,
        /// Its logical block length.
        block_bytes: u32,
        /// The blocks.
        ranges: &'a [TokenRange],
    },
}

#[derive(Debug)]
struct Entry<U> {
    token: RodToken,
    unit: U,
    block_bytes: u32,
    ranges: Vec<TokenRange>,
    inactivity: Duration,
    expires: Duration,
    /// Why it can no longer be used, although it has not expired.
    ended: Option<AdditionalSense>,
}

/// All tokens of a target device. `U` is how its owner names a logical unit.
///
/// Time is told by the caller: `now` is the time since any fixed moment.
#[derive(Debug)]
pub struct TokenRegistry<U> {
    entries: BTreeMap<u64, Entry<U>>,
    next_id: u64,
}

impl<U> Default for TokenRegistry<U> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), next_id: 1 }
    }
}

impl<U: PartialEq> TokenRegistry<U> {
    /// No tokens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a token for what `request` names on `unit`. It expires when it has not been used for
    /// the request's inactivity timeout.
    ///
    /// INSUFFICIENT RESOURCES TO CREATE ROD TOKEN if [`TOKENS_MAX`] others are alive.
    pub fn create(
        &mut self,
        unit: U,
        source: &TokenSource<'_>,
        request: &PopulateToken,
        now: Duration,
        random: &[u8; 256],
    ) -> Result<RodToken, Sense> {
        if self.entries.len() >= TOKENS_MAX {
            self.drop_expired(now);
        }
        if self.entries.len() >= TOKENS_MAX {
            let code = AdditionalSense::INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN;
            return Err(Sense::new(SenseKey::IllegalRequest, code));
        }
        let block_bytes = source.block_bytes;
        let represented_bytes = request.blocks() * u64::from(block_bytes);
        let id = self.next_id;
        self.next_id += 1;
        let token = RodToken::new(id, source, represented_bytes, random);
        let inactivity = Duration::from_secs(request.inactivity_timeout_s.into());
        let entry = Entry {
            token: token.clone(),
            unit,
            block_bytes,
            ranges: request.ranges.clone(),
            inactivity,
            expires: now + inactivity,
            ended: None,
        };
        self.entries.insert(id, entry);
        Ok(token)
    }

    /// Looks a token up that a host has sent, and counts as its use.
    ///
    /// ILLEGAL REQUEST with INVALID TOKEN OPERATION (SPC-4 5.17.6.5.2.3, SBC-4 5.59.2): its length
    /// is wrong, its type unsupported, it is unknown, does not match, expired, revoked or deleted.
    pub fn resolve(
        &mut self,
        token: &[u8; ROD_TOKEN_BYTES],
        now: Duration,
    ) -> Result<TokenContents<'_, U>, Sense> {
        if !RodToken::has_good_length(token) {
            return Err(invalid(AdditionalSense::INVALID_TOKEN_LENGTH));
        }
        match RodToken::type_of(token) {
            RodType::Zero => return Ok(TokenContents::Zeroes),
            RodType::AccessUponReference => {}
            RodType::Other(_) => {
                return Err(invalid(AdditionalSense::UNSUPPORTED_REQUEST_TOKEN_TYPE));
            }
        }
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
        entry.expires = now + entry.inactivity;
        let Entry { unit, block_bytes, ranges, .. } = entry;
        Ok(TokenContents::Blocks { unit, block_bytes: *block_bytes, ranges })
    }

    /// DEL_TKN: the token ends. Nothing happens if it is not one of ours.
    pub fn delete(&mut self, token: &[u8; ROD_TOKEN_BYTES]) {
        let entry = self.entries.get_mut(&be64(token, 8)).filter(|entry| entry.token.is(token));
        if let Some(entry) = entry {
            entry.end(AdditionalSense::INVALID_TOKEN_DELETED);
        }
    }

    /// Ends the tokens of `unit`: it is gone, or its blocks no longer mean the same.
    pub fn revoke_unit(&mut self, unit: &U) {
        for entry in self.entries.values_mut().filter(|entry| entry.unit == *unit) {
            entry.end(AdditionalSense::INVALID_TOKEN_REVOKED);
        }
    }

    /// Ends the tokens that stand for any block of `range` of `unit`: the blocks are about to change,
    /// or the unit shrank and they are gone (SPC-4 5.17.6.2.2).
    pub fn revoke_range(&mut self, unit: &U, range: &TokenRange) {
        for entry in self.entries.values_mut().filter(|entry| entry.unit == *unit) {
            if entry.ranges.iter().any(|other| other.overlaps(range)) {
                entry.end(AdditionalSense::INVALID_TOKEN_REVOKED);
            }
        }
    }

    /// Forgets tokens whose time is over, used or ended. To be called now and then.
    pub fn drop_expired(&mut self, now: Duration) {
        self.entries.retain(|_, entry| entry.expires > now);
    }

    /// Parameter data of REPORT ALL ROD TOKENS (SPC-4 6.31): the management tokens, that is the
    /// tokens without what makes them a secret.
    pub fn report_all(&self, now: Duration) -> Vec<u8> {
        let alive = |entry: &&Entry<U>| entry.ended.is_none() && entry.expires > now;
        let mut data = vec![0; 8];
        for entry in self.entries.values().filter(alive) {
            data.extend(&entry.token.0[..MANAGEMENT_BYTES]);
        }
        let available = (data.len() - 4) as u32;
        data[..4].copy_from_slice(&available.to_be_bytes());
        data
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

impl<U> Entry<U> {
    fn end(&mut self, why: AdditionalSense) {
        self.ended = Some(why);
        self.ranges = Vec::new();
    }
}

fn invalid(why: AdditionalSense) -> Sense {
    Sense::new(SenseKey::IllegalRequest, why)
}
