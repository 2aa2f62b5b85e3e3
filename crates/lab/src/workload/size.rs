//! How large I/Os are.

use serde::Serialize;

/// The largest I/O that is made.
pub(crate) const IO_BYTES_MAX: u32 = 16 << 20;
/// I/Os are multiples of this.
pub(crate) const IO_BYTES_UNIT: u32 = 512;

/// The sizes of a flow's I/Os, in bytes: multiples of 512 from 512 to 16 MiB.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All the same.
    One(u32),
    /// Each with its share in percent; the shares add up to 100.
    Mix(Vec<(u32, f64)>),
    /// Any multiple of `step` from `min` to `max`, each as often.
    Uniform {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
        /// What all are multiples of.
        step: u32,
    },
}

impl Sizes {
    /// All the same, if an I/O can have that size.
    pub(super) fn one(bytes: u64) -> Option<Self> {
        size(bytes).map(Self::One)
    }

    /// The largest I/O.
    #[must_use]
    pub fn max(&self) -> u32 {
        match self {
            Self::One(bytes) => *bytes,
            Self::Mix(parts) => parts.iter().map(|part| part.0).max().unwrap_or(IO_BYTES_UNIT),
            Self::Uniform { max, .. } => *max,
        }
    }

    /// The largest size that all I/Os are multiples of.
    #[must_use]
    pub fn common(&self) -> u32 {
        match self {
            Self::One(bytes) => *bytes,
            Self::Mix(parts) => parts.iter().map(|part| part.0).fold(0, common),
            Self::Uniform { step, .. } => *step,
        }
    }

    /// The size that a number from 0 to 1 stands for.
    #[must_use]
    pub fn pick(&self, number: f64) -> u32 {
        match self {
            Self::One(bytes) => *bytes,
            Self::Mix(parts) => {
                let mut left = number * 100.0;
                for (bytes, percent) in parts {
                    left -= percent;
                    if left < 0.0 {
                        return *bytes;
                    }
                }
                // Shares may miss 100 by what floating point loses.
                parts.last().map_or(IO_BYTES_UNIT, |part| part.0)
            }
            Self::Uniform { min, max, step } => {
                let steps = u64::from((max - min) / step) + 1;
                let chosen = ((number * steps as f64) as u64).min(steps - 1);
                min + chosen as u32 * step
            }
        }
    }
}

/// Bytes as the size of an I/O, if they can be one.
pub(super) fn size(bytes: u64) -> Option<u32> {
    let bytes = u32::try_from(bytes).ok()?;
    let fits =
        (IO_BYTES_UNIT..=IO_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(IO_BYTES_UNIT);
    fits.then_some(bytes)
}

/// The greatest common divisor; that of 0 and a number is the number.
pub(crate) fn common(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_met() {
        let mix = Sizes::Mix(vec![(4096, 25.0), (8192, 75.0)]);
        let small = (0..1000).filter(|n| mix.pick(f64::from(*n) / 1000.0) == 4096).count();
        assert_eq!((small, mix.common(), mix.max()), (250, 4096, 8192));
        assert_eq!(mix.pick(1.0), 8192);
        let uniform = Sizes::Uniform { min: 4096, max: 16384, step: 4096 };
        let found: Vec<u32> = [0.0, 0.26, 0.6, 0.99].map(|n| uniform.pick(n)).to_vec();
        assert_eq!(found, [4096, 8192, 12288, 16384]);
    }

    #[test]
    fn an_io_is_made_of_sectors() {
        assert_eq!(size(512), Some(512));
        assert!([0, 100, 4097, u64::from(IO_BYTES_MAX) + 512].iter().all(|&n| size(n).is_none()));
    }
}
