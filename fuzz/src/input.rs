//! Values out of arbitrary bytes.

/// Takes values from the front of an input; an input that is used up gives zeroes.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `len_bytes` bytes.
    pub fn take(&mut self, len_bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len_bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.take(N);
        std::array::from_fn(|at| taken.get(at).copied().unwrap_or(0))
    }

    pub fn byte(&mut self) -> u8 {
        let [byte] = self.bytes();
        byte
    }

    pub fn be16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes())
    }

    pub fn be32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    /// Bytes behind their length.
    pub fn chunk(&mut self) -> &'a [u8] {
        let len_bytes = self.be16();
        self.take(usize::from(len_bytes))
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// What [`Input::chunk`] reads.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    let len_bytes = u16::try_from(bytes.len()).expect("seeds are short");
    [&len_bytes.to_be_bytes(), bytes].concat()
}
