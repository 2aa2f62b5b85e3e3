//! MODE SELECT(6) and (10) (SPC-5 6.11, 6.12).

use super::ModePages;
use super::page::{self, PAGES};
use crate::Sense;
use crate::cdb::ModeHeader;
use crate::config::MediumInfo;

const SPF: u8 = 0x40;

impl ModePages {
    /// Applies a parameter list: all of it, or nothing. Tells whether any value changed.
    ///
    /// Refusals: PARAMETER LIST LENGTH ERROR where a structure is cut off, INVALID FIELD IN
    /// PARAMETER LIST with the byte and bit for an unknown page, a wrong length or a bit that may
    /// not change, INVALID FIELD IN CDB for pages that are announced to be in a vendor's format.
    pub fn select(
        &mut self,
        header: ModeHeader,
        page_format: bool,
        list: &[u8],
        medium: &MediumInfo,
    ) -> Result<bool, Sense> {
        if list.is_empty() {
            return Ok(false);
        }
        let mut at = pages_start(header, list, medium)?;
        if at < list.len() && !page_format {
            return Err(Sense::invalid_field_in_cdb(1, Some(4)));
        }
        let mut values = self.current.clone();
        while at < list.len() {
            let (page, bytes) = find_page(list, at)?;
            for (offset, &wanted) in list[at..at + bytes].iter().enumerate() {
                // PS, and for that matter the whole header, carries no value.
                if offset < PAGES[page].header_bytes() {
                    continue;
                }
                let fixed = (wanted ^ values[page][offset]) & !PAGES[page].changeable[offset];
                if fixed != 0 {
                    let bit = 7 - fixed.leading_zeros() as u8;
                    let byte = (at + offset) as u16;
                    return Err(Sense::invalid_field_in_parameter_list(byte, Some(bit)));
                }
                values[page][offset] = wanted;
            }
            at += bytes;
        }
        let changed = values != self.current;
        self.current = values;
        Ok(changed)
    }
}

/// Checks the header and the block descriptor; returns where the pages start.
fn pages_start(form: ModeHeader, list: &[u8], medium: &MediumInfo) -> Result<usize, Sense> {
    let header_bytes = match form {
        ModeHeader::Short => 4,
        ModeHeader::Long => 8,
    };
    let header = list.get(..header_bytes).ok_or(Sense::parameter_list_length_error())?;
    // MODE DATA LENGTH is reserved here, and WP and DPOFUA are ignored (SBC-4 6.5.1).
    let (medium_type_at, long, length_at, length) = match form {
        ModeHeader::Short => (1, false, 3, usize::from(header[3])),
        ModeHeader::Long => {
            (2, header[4] & 1 != 0, 6, usize::from(u16::from_be_bytes([header[6], header[7]])))
        }
    };
    if header[medium_type_at] != 0 {
        return Err(Sense::invalid_field_in_parameter_list(medium_type_at as u16, None));
    }
    if length != 0 && length != if long { 16 } else { 8 } {
        return Err(Sense::invalid_field_in_parameter_list(length_at, None));
    }
    let end = header_bytes + length;
    let descriptor = list.get(header_bytes..end).ok_or(Sense::parameter_list_length_error())?;
    check_block_descriptor(descriptor, header_bytes as u16, medium)?;
    Ok(end)
}

/// A block descriptor may only repeat what is: neither capacity nor block length can be changed here.
fn check_block_descriptor(
    descriptor: &[u8],
    offset: u16,
    medium: &MediumInfo,
) -> Result<(), Sense> {
    let Some((count, length)) = descriptor.split_last_chunk::<4>() else { return Ok(()) };
    let blocks = medium.blocks.get();
    let count = match *count {
        [a, b, c, d] => match u32::from_be_bytes([a, b, c, d]) {
            // "Keep" and "as many as there are" in the short form.
            0 | u32::MAX => blocks,
            count => u64::from(count),
        },
        [a, b, c, d, e, f, g, h, ..] => match u64::from_be_bytes([a, b, c, d, e, f, g, h]) {
            0 | u64::MAX => blocks,
            count => count,
        },
        _ => blocks,
    };
    if count != blocks {
        return Err(Sense::invalid_field_in_parameter_list(offset, None));
    }
    // In the short form the first of the four bytes is reserved.
    if u32::from_be_bytes(*length) != medium.block_bytes {
        let at = offset + if descriptor.len() == 8 { 5 } else { 12 };
        return Err(Sense::invalid_field_in_parameter_list(at, None));
    }
    Ok(())
}

/// The page that starts at `at`: its place in [`PAGES`] and its length with the header.
fn find_page(list: &[u8], at: usize) -> Result<(usize, usize), Sense> {
    let byte =
        |offset: usize| list.get(at + offset).copied().ok_or(Sense::parameter_list_length_error());
    let first = byte(0)?;
    let (subpage, length_at, parameters) = if first & SPF != 0 {
        (byte(1)?, 2, usize::from(u16::from_be_bytes([byte(2)?, byte(3)?])))
    } else {
        (0, 1, usize::from(byte(1)?))
    };
    let found = page::index(first & 0x3f, subpage)
        .filter(|_| (first & SPF != 0) == (subpage != 0))
        .ok_or(Sense::invalid_field_in_parameter_list(at as u16, Some(5)))?;
    let bytes = PAGES[found].default.len();
    if parameters + PAGES[found].header_bytes() != bytes {
        return Err(Sense::invalid_field_in_parameter_list((at + length_at) as u16, None));
    }
    if list.len() - at < bytes {
        return Err(Sense::parameter_list_length_error());
    }
    Ok((found, bytes))
}
