//! Mode pages (SPC-5 7.5, SBC-4 6.5): what MODE SENSE shows and MODE SELECT changes.
//!
//! Every page is declared once, with its default and the mask of
//! the bits that may change. Nothing is saved: SP = 1 and PC = 11b are refused.

mod page;
mod select;
mod sense;
#[cfg(test)]
mod tests;

use page::PAGES;

/// The current values of all mode pages of one logical unit, shared by all I_T nexuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModePages {
    /// In the order of `PAGES`; each as long as its page.
    current: Vec<Vec<u8>>,
    default: Vec<Vec<u8>>,
}

impl ModePages {
    /// The defaults; `write_cache` is the default of WCE.
    pub fn new(write_cache: bool) -> Self {
        let mut default: Vec<Vec<u8>> = PAGES.iter().map(|page| page.default.to_vec()).collect();
        if write_cache {
            let caching = page::index(page::CACHING, 0).expect("PAGES has the caching page");
            default[caching][2] |= page::WCE;
        }
        Self { current: default.clone(), default }
    }

    /// Logical unit reset: back to the defaults. Tells whether that changed anything.
    pub fn reset(&mut self) -> bool {
        let changed = self.current != self.default;
        self.current.clone_from(&self.default);
        changed
    }

    /// WCE: a write may end with GOOD before it is durable (SBC-4 6.5.6).
    pub fn write_cache_enabled(&self) -> bool {
        self.bit(page::CACHING, 2, page::WCE)
    }

    /// D_SENSE: sense data in descriptor format (SPC-5 7.5.8).
    pub fn descriptor_sense(&self) -> bool {
        self.bit(page::CONTROL, 2, page::D_SENSE)
    }

    /// SWP: writes are refused (SPC-5 7.5.8).
    pub fn software_write_protect(&self) -> bool {
        self.bit(page::CONTROL, 4, page::SWP)
    }

    fn bit(&self, code: u8, byte: usize, mask: u8) -> bool {
        page::index(code, 0).is_some_and(|at| self.current[at][byte] & mask != 0)
    }
}
