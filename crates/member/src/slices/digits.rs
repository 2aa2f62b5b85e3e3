//! What is drawn for an opening.

/// So many random bytes, in hexadecimal digits.
///
/// # Errors
/// The system has no randomness.
pub(super) fn draw_digits(bytes: usize) -> Result<String, getrandom::Error> {
    let mut bits = vec![0; bytes];
    getrandom::fill(&mut bits)?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}
