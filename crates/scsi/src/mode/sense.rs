//! MODE SENSE(6) and (10) (SPC-5 6.13, 6.14).

use super::ModePages;
use super::page::PAGES;
use crate::cdb::{ModeHeader, ModeSense};
use crate::config::MediumInfo;
use crate::{AdditionalSense, Sense, SenseKey};

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

impl ModePages {
    /// The parameter data for `request`: header, block descriptor, pages. Not yet cut to the
    /// allocation length.
    pub fn sense(&self, request: &ModeSense, medium: &MediumInfo) -> Result<Vec<u8>, Sense> {
        let values = |at: usize| match request.page_control {
            0b00 => &self.current[at][..],
            0b01 => PAGES[at].changeable,
            _ => &self.default[at][..],
        };
        if request.page_control == 0b11 {
            let code = AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED;
            return Err(Sense::new(SenseKey::IllegalRequest, code).at_cdb(2, Some(7)));
        }
        let mut pages = Vec::new();
        for at in selected(request)? {
            let start = pages.len();
            pages.extend(values(at));
            // Page code and length are the page's, also where the mask of changes is shown.
            let header_bytes = PAGES[at].header_bytes();
            pages[start..start + header_bytes].copy_from_slice(&PAGES[at].default[..header_bytes]);
        }
        let descriptor = block_descriptor(request, medium);
        let mut data = self.header(request.header, &descriptor, pages.len(), medium);
        data.extend(&descriptor.bytes);
        data.extend(pages);
        Ok(data)
    }

    fn header(
        &self,
        form: ModeHeader,
        descriptor: &BlockDescriptor,
        pages_bytes: usize,
        medium: &MediumInfo,
    ) -> Vec<u8> {
        const WP: u8 = 0x80;
        const DPOFUA: u8 = 0x10;
        let protected = medium.read_only || self.software_write_protect();
        let device_specific = if protected { WP | DPOFUA } else { DPOFUA };
        let follows = descriptor.bytes.len() + pages_bytes;
        let descriptor_bytes = descriptor.bytes.len() as u8;
        match form {
            // All pages together take less than 255 bytes: a test holds that.
            ModeHeader::Short => vec![(3 + follows) as u8, 0, device_specific, descriptor_bytes],
            ModeHeader::Long => {
                let [high, low] = ((6 + follows) as u16).to_be_bytes();
                let long_lba = u8::from(descriptor.long);
                vec![high, low, 0, device_specific, long_lba, 0, 0, descriptor_bytes]
            }
        }
    }
}

/// Which of [`PAGES`] the request names.
fn selected(request: &ModeSense) -> Result<Vec<usize>, Sense> {
    let wanted = |page: u8, subpage: u8| {
        let page_fits = request.page == ALL_PAGES || request.page == page;
        page_fits && (request.subpage == ALL_SUBPAGES || request.subpage == subpage)
    };
    if request.page == ALL_PAGES && !matches!(request.subpage, 0 | ALL_SUBPAGES) {
        return Err(Sense::invalid_field_in_cdb(3, None));
    }
    let found: Vec<usize> =
        (0..PAGES.len()).filter(|&at| wanted(PAGES[at].code, PAGES[at].subpage)).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    // Blame the subpage where the page itself exists.
    if PAGES.iter().any(|page| page.code == request.page) {
        Err(Sense::invalid_field_in_cdb(3, None))
    } else {
        Err(Sense::invalid_field_in_cdb(2, Some(5)))
    }
}

struct BlockDescriptor {
    long: bool,
    bytes: Vec<u8>,
}

/// Short, or long where MODE SENSE(10) says that it may be (SBC-4 6.5.2).
fn block_descriptor(request: &ModeSense, medium: &MediumInfo) -> BlockDescriptor {
    let mut bytes = Vec::new();
    if request.disable_block_descriptors {
        return BlockDescriptor { long: false, bytes };
    }
    let long = request.long_lba_accepted;
    if long {
        bytes.extend(medium.blocks.get().to_be_bytes());
        bytes.extend([0; 4]);
    } else {
        bytes.extend(u32::try_from(medium.blocks.get()).unwrap_or(u32::MAX).to_be_bytes());
    }
    // The short form has a reserved byte and three for the length: the same bytes as four.
    bytes.extend(medium.block_bytes.to_be_bytes());
    BlockDescriptor { long, bytes }
}
