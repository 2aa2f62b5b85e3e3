//! Where a field lies in the 48 header bytes, and the macros that turn one such declaration into a
//! struct with its `parse` and `emit`.
//!
//! Each submodule is one kind of field with a `get` and a `put`. All positions are constants at the
//! call, so after inlining a field costs one load or store.

use super::BHS_LEN_BYTES;

/// The bytes that all of these read and write.
pub(super) type Raw = [u8; BHS_LEN_BYTES];

/// One bit of a byte.
pub(super) mod flag {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) const fn get(raw: &Raw, at: usize, mask: u8) -> bool {
        raw[at] & mask != 0
    }

    #[inline]
    pub(in crate::pdu) const fn put(raw: &mut Raw, at: usize, mask: u8, value: bool) {
        // A product instead of a branch: it becomes a shift.
        raw[at] |= value as u8 * mask;
    }
}

/// A code of up to eight bits: `mask` selects it, after a shift to the right by `shift`.
pub(super) mod bits {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) fn get<T: From<u8>>(raw: &Raw, at: usize, shift: u32, mask: u8) -> T {
        T::from((raw[at] >> shift) & mask)
    }

    #[inline]
    pub(in crate::pdu) fn put<T: Into<u8>>(
        raw: &mut Raw,
        at: usize,
        shift: u32,
        mask: u8,
        value: T,
    ) {
        raw[at] |= (value.into() & mask) << shift;
    }
}

/// A whole byte.
pub(super) mod byte {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) fn get<T: From<u8>>(raw: &Raw, at: usize) -> T {
        T::from(raw[at])
    }

    #[inline]
    pub(in crate::pdu) fn put<T: Into<u8>>(raw: &mut Raw, at: usize, value: T) {
        raw[at] = value.into();
    }
}

/// Two bytes, most significant first.
pub(super) mod be16 {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) fn get<T: From<u16>>(raw: &Raw, at: usize) -> T {
        T::from(u16::from_be_bytes([raw[at], raw[at + 1]]))
    }

    #[inline]
    pub(in crate::pdu) fn put<T: Into<u16>>(raw: &mut Raw, at: usize, value: T) {
        raw[at..at + 2].copy_from_slice(&value.into().to_be_bytes());
    }
}

/// Three bytes, most significant first; `put` keeps the low 24 bits.
pub(super) mod u24 {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) const fn get(raw: &Raw, at: usize) -> u32 {
        u32::from_be_bytes([0, raw[at], raw[at + 1], raw[at + 2]])
    }

    #[inline]
    pub(in crate::pdu) fn put(raw: &mut Raw, at: usize, value: u32) {
        debug_assert!(value < 1 << 24, "a 24-bit field cannot hold {value}");
        raw[at..at + 3].copy_from_slice(&value.to_be_bytes()[1..]);
    }
}

/// Four bytes, most significant first.
pub(super) mod be32 {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) const fn get(raw: &Raw, at: usize) -> u32 {
        u32::from_be_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
    }

    #[inline]
    pub(in crate::pdu) fn put(raw: &mut Raw, at: usize, value: u32) {
        raw[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
}

/// Eight bytes, most significant first.
pub(super) mod be64 {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) const fn get(raw: &Raw, at: usize) -> u64 {
        ((super::be32::get(raw, at) as u64) << 32) | super::be32::get(raw, at + 4) as u64
    }

    #[inline]
    pub(in crate::pdu) fn put(raw: &mut Raw, at: usize, value: u64) {
        raw[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }
}

/// `N` bytes as they are.
pub(super) mod bytes {
    use super::Raw;

    #[inline]
    pub(in crate::pdu) fn get<T: From<[u8; N]>, const N: usize>(raw: &Raw, at: usize) -> T {
        T::from(std::array::from_fn(|i| raw[at + i]))
    }

    #[inline]
    pub(in crate::pdu) fn put<T: Into<[u8; N]>, const N: usize>(
        raw: &mut Raw,
        at: usize,
        value: T,
    ) {
        raw[at..at + N].copy_from_slice(&value.into());
    }
}

/// Declares a code of the wire: a byte with names for the assigned values. All 256 values are
/// representable, so that what a newer peer sends survives a round trip; `match` works on the names.
macro_rules! code {
    ($(#[$meta:meta])* $name:ident { $($(#[$value_meta:meta])* $value:ident = $number:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub u8);

        #[allow(missing_docs, reason = "each value carries its doc where it is declared")]
        impl $name {
            $($(#[$value_meta])* pub const $value: Self = Self($number);)*

            /// The assigned name of this value, `None` for values that no standard assigns.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$value => Some(stringify!($value)),)*
                    _ => None,
                }
            }
        }

        impl From<u8> for $name {
            #[inline]
            fn from(value: u8) -> Self {
                Self(value)
            }
        }

        impl From<$name> for u8 {
            #[inline]
            fn from(value: $name) -> u8 {
                value.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name}"),
                    None => write!(f, concat!(stringify!($name), "({:#04x})"), self.0),
                }
            }
        }
    };
}

/// Declares a PDU: its opcode, the bits of byte 1 that are always 1, and for each field where it lies.
/// `check` names a method that refuses combinations of fields which the standard forbids outright.
macro_rules! pdu {
    (
        $(#[$meta:meta])*
        $name:ident = $opcode:ident, always $always:literal $(, check $check:ident)? {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty = $codec:ident($($arg:expr),*),)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl $name {
            /// The opcode of this PDU.
            pub const OPCODE: $crate::pdu::Opcode = $crate::pdu::Opcode::$opcode;

            /// Reads all fields of a header.
            ///
            /// # Errors
            /// [`PduError::Opcode`](crate::pdu::PduError::Opcode) if the header is another PDU's; a PDU
            /// with forbidden combinations of fields says so in its own error.
            #[inline]
            pub fn parse(bhs: &$crate::pdu::Bhs) -> Result<Self, $crate::pdu::PduError> {
                if bhs.opcode() != Self::OPCODE {
                    return Err($crate::pdu::PduError::Opcode {
                        expected: Self::OPCODE,
                        found: bhs.opcode(),
                    });
                }
                let pdu = Self {
                    $($field: $crate::pdu::field::$codec::get(bhs.bytes(), $($arg),*),)*
                };
                $(pdu.$check()?;)?
                Ok(pdu)
            }

            /// Writes the whole header: all fields, and 0 in every reserved bit.
            #[inline]
            pub fn emit(&self, out: &mut [u8; $crate::pdu::BHS_LEN_BYTES]) {
                *out = [0; $crate::pdu::BHS_LEN_BYTES];
                out[0] = Self::OPCODE.0;
                out[1] = $always;
                $($crate::pdu::field::$codec::put(out, $($arg,)* self.$field);)*
            }

            /// The header as owned bytes; see [`Self::emit`].
            #[must_use]
            #[inline]
            pub fn to_bhs(&self) -> $crate::pdu::Bhs {
                let mut out = [0; $crate::pdu::BHS_LEN_BYTES];
                self.emit(&mut out);
                $crate::pdu::Bhs::new(out)
            }
        }
    };
}

pub(super) use {code, pdu};
