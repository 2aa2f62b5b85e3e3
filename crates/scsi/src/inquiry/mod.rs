//! INQUIRY: standard data (SPC-5 6.6.2) and vital product data (SPC-5 7.7, SBC-4 6.6).

mod block;
mod device_id;
mod standard;
#[cfg(test)]
mod tests;

pub use standard::absent;

use crate::config::UnitConfig;
use crate::copy::third_party_copy_page;
use crate::{Sense, referrals, sense::SENSE_BYTES_MAX};

/// Length of the header of every page.
const HEADER_BYTES: usize = 4;

type PageBody = fn(&UnitConfig, u16) -> Vec<u8>;

/// The vital product data pages, each once: page 00h lists exactly these, as far as the unit has
/// them.
const PAGES: &[(u8, PageBody)] = &[
    (0x00, |config, _| pages(config).map(|(code, _)| *code).collect()),
    (0x80, |config, _| config.identity.serial.as_bytes().to_vec()),
    (0x83, device_id::page),
    (0x86, |config, _| extended(config)),
    (0x8f, |config, _| third_party_copy_page(config.medium.block_bytes)[HEADER_BYTES..].to_vec()),
    (0xb0, |config, _| block::limits(&config.medium)),
    (0xb1, |config, _| block::characteristics(&config.medium)),
    (0xb2, |config, _| block::provisioning(&config.medium)),
    (REFERRALS, |_, _| referrals::page()),
];

/// The page that only units with referrals have.
const REFERRALS: u8 = 0xb3;

/// The pages of this unit.
fn pages(config: &UnitConfig) -> impl Iterator<Item = &'static (u8, PageBody)> {
    let has_referrals = config.referrals.is_some();
    PAGES.iter().filter(move |(code, _)| *code != REFERRALS || has_referrals)
}

/// INQUIRY data for a command that came in through target port `relative_port`, not yet cut to
/// the allocation length. `page` is `None` for the standard data.
pub fn inquiry(
    config: &UnitConfig,
    page: Option<u8>,
    relative_port: u16,
) -> Result<Vec<u8>, Sense> {
    let Some(code) = page else { return Ok(standard::standard(config)) };
    let (_, body) = pages(config)
        .find(|(known, _)| *known == code)
        .ok_or(Sense::invalid_field_in_cdb(2, None))?;
    let body = body(config, relative_port);
    let mut data = vec![0, code];
    data.extend((body.len() as u16).to_be_bytes());
    data.extend(body);
    Ok(data)
}

/// Extended INQUIRY data (page 86h): the task attributes, and a cache that may be volatile,
/// and whether there are referrals.
fn extended(config: &UnitConfig) -> Vec<u8> {
    const SIMPSUP: u8 = 0x01;
    const ORDSUP: u8 = 0x02;
    const HEADSUP: u8 = 0x04;
    const V_SUP: u8 = 0x01;
    const R_SUP: u8 = 0x10;
    let mut body = vec![0; 60];
    body[1] = SIMPSUP | ORDSUP | HEADSUP;
    body[2] = V_SUP;
    body[4] = if config.referrals.is_some() { R_SUP } else { 0 };
    body[9] = SENSE_BYTES_MAX as u8;
    body
}

/// Left-aligned ASCII in a field of fixed size, padded with spaces (SPC-5 4.3.1).
fn ascii(text: &str, field: &mut [u8]) {
    field.fill(b' ');
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = if (0x20..0x7f).contains(&from) { from } else { b'?' };
    }
}
