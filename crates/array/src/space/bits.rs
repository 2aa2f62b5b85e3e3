//! A set of small numbers that knows how many it holds.

/// Numbers below `len`, as bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: u32,
    ones: u32,
}

impl Bits {
    /// None of the numbers below `len`.
    pub(super) fn new(len: u32) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len, ones: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// How many it holds.
    pub(super) fn ones(&self) -> u32 {
        self.ones
    }

    /// How many it does not hold.
    pub(super) fn zeros(&self) -> u32 {
        self.len - self.ones
    }

    pub(super) fn get(&self, at: u32) -> bool {
        assert!(at < self.len, "{at} of {}", self.len);
        self.words[at as usize / 64] & (1 << (at % 64)) != 0
    }

    /// Adds a number that it does not hold.
    pub(super) fn set(&mut self, at: u32) {
        assert!(!self.get(at), "{at} is taken");
        self.words[at as usize / 64] |= 1 << (at % 64);
        self.ones += 1;
    }

    /// Takes out a number that it holds.
    pub(super) fn clear(&mut self, at: u32) {
        assert!(self.get(at), "{at} is not taken");
        self.words[at as usize / 64] &= !(1 << (at % 64));
        self.ones -= 1;
    }

    /// The first number from `from` on that it does not hold, or else from 0 on.
    pub(super) fn next_zero(&self, from: u32) -> Option<u32> {
        if self.zeros() == 0 {
            return None;
        }
        self.zero_in(from).or_else(|| self.zero_in(0))
    }

    fn zero_in(&self, from: u32) -> Option<u32> {
        let first = from as usize / 64;
        // What lies before `from` in its word counts as taken.
        let mut before = (1_u64 << (from % 64)) - 1;
        for (index, word) in self.words.iter().enumerate().skip(first) {
            let free = !(word | before);
            before = 0;
            if free != 0 {
                let at = index as u32 * 64 + free.trailing_zeros();
                return (at < self.len).then_some(at);
            }
        }
        None
    }

    /// The bits, 64 in a word, from the lowest on; those beyond `len` are 0.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_found_from_anywhere() {
        let mut bits = Bits::new(130);
        for at in 0..130 {
            bits.set(at);
        }
        assert_eq!((bits.ones(), bits.zeros(), bits.next_zero(0)), (130, 0, None));
        for at in [5, 64, 129] {
            bits.clear(at);
        }
        let found = [0, 5, 6, 64, 65, 129, 130].map(|from| bits.next_zero(from).unwrap());
        assert_eq!(found, [5, 5, 64, 64, 129, 129, 5]);
        bits.set(129);
        assert_eq!(bits.next_zero(65), Some(5), "bits beyond the end are no numbers");
    }

    #[test]
    #[should_panic(expected = "is taken")]
    fn nothing_is_taken_twice() {
        let mut bits = Bits::new(10);
        bits.set(3);
        bits.set(3);
    }
}
