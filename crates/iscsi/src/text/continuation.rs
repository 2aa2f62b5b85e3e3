//! A text that comes in several PDUs (RFC 7143 6.2: the C bit).

use super::TextError;

/// Puts the data segments of one text together, up to a limit.
#[derive(Debug, Clone)]
pub struct Reassembly {
    text: Vec<u8>,
    len_bytes_max: usize,
}

impl Reassembly {
    /// For texts of at most `len_bytes_max`.
    #[must_use]
    pub const fn new(len_bytes_max: usize) -> Self {
        Self { text: Vec::new(), len_bytes_max }
    }

    /// Takes the next segment; returns the whole text once a segment is not `is_continued`.
    ///
    /// # Errors
    /// [`TextError::TooLong`] if it would grow over the limit; what was collected is gone then.
    pub fn push(
        &mut self,
        segment: &[u8],
        is_continued: bool,
    ) -> Result<Option<Vec<u8>>, TextError> {
        if self.text.len() + segment.len() > self.len_bytes_max {
            self.text = Vec::new();
            return Err(TextError::TooLong);
        }
        self.text.extend_from_slice(segment);
        Ok((!is_continued).then(|| std::mem::take(&mut self.text)))
    }

    /// Whether part of a text is waiting for the rest.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        !self.text.is_empty()
    }

    /// Forgets what was collected.
    pub fn clear(&mut self) {
        self.text = Vec::new();
    }
}
