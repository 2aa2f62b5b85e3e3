//! Arithmetic in GF(2^8): tables that the compiler works out.

/// x^8 = x^4 + x^3 + x^2 + 1, without the x^8.
pub(crate) const REDUCTION: u8 = 0x1d;

/// `POWERS[i]` is g^i; it repeats after 255.
const POWERS: [u8; 256] = powers();
/// `LOGARITHMS[g^i]` is i; that of 0 is not used.
const LOGARITHMS: [u8; 256] = logarithms();
/// For each factor its products with the 16 low nibbles, then with the 16 high ones: a product is
/// the sum of two of them, and 16 entries are what a shuffle instruction looks up at once.
pub(crate) const NIBBLES: [[u8; 32]; 256] = nibbles();

const fn powers() -> [u8; 256] {
    let mut table = [0; 256];
    let mut value: u8 = 1;
    let mut i = 0;
    while i < 256 {
        table[i] = value;
        value = (value << 1) ^ if value & 0x80 == 0 { 0 } else { REDUCTION };
        i += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 255 {
        table[POWERS[i] as usize] = i as u8;
        i += 1;
    }
    table
}

const fn nibbles() -> [[u8; 32]; 256] {
    let mut table = [[0; 32]; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[factor][nibble] = product(factor as u8, nibble as u8);
            table[factor][16 + nibble] = product(factor as u8, (nibble << 4) as u8);
            nibble += 1;
        }
        factor += 1;
    }
    table
}

/// g^`exponent`.
pub(crate) fn power(exponent: usize) -> u8 {
    POWERS[exponent % 255]
}

/// `a * b`.
pub(crate) const fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let sum = LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize;
    POWERS[sum % 255]
}

/// `1 / a`.
pub(crate) fn inverse(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    power(255 - LOGARITHMS[usize::from(a)] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long multiplication of polynomials, then long division: the definition itself.
    fn by_definition(a: u8, b: u8) -> u8 {
        let mut wide = 0u16;
        for bit in 0..8 {
            wide ^= if b >> bit & 1 == 1 { u16::from(a) << bit } else { 0 };
        }
        for bit in (8..16).rev() {
            wide ^= if wide >> bit & 1 == 1 { 0x11d << (bit - 8) } else { 0 };
        }
        wide as u8
    }

    #[test]
    fn the_tables_multiply_as_polynomials_do() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let table = &NIBBLES[usize::from(a)];
                let sum = table[usize::from(b & 15)] ^ table[16 + usize::from(b >> 4)];
                assert_eq!(product(a, b), by_definition(a, b));
                assert_eq!(sum, product(a, b));
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse_and_is_a_power() {
        let mut seen = [false; 256];
        for exponent in 0..255 {
            seen[usize::from(power(exponent))] = true;
        }
        assert!(!seen[0] && seen[1..].iter().all(|seen| *seen));
        for a in 1..=255 {
            assert_eq!(by_definition(a, inverse(a)), 1);
        }
    }
}
