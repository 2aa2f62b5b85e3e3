//! Texts of others: what a terminal does not print but obeys, and what makes a text read otherwise than it is.

use std::borrow::Cow;

/// Whether a terminal obeys it (ECMA-48), or it turns the direction of what stands beside it (UAX 9), or ends
/// a line.
#[must_use]
pub const fn is_obeyed(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
    )
}

/// The text with what is obeyed written out, as `\u{1b}`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_is_written_out_and_nothing_else() {
        assert_eq!(printable("é 漢字 \\ 'a'"), "é 漢字 \\ 'a'");
        let all = "\u{1b}]0;x\u{7}\n\u{9b}2J\u{202e}gpj\u{2028}\u{2066}\u{7f}";
        let shown = r"\u{1b}]0;x\u{7}\u{a}\u{9b}2J\u{202e}gpj\u{2028}\u{2066}\u{7f}";
        assert_eq!(printable(all), shown);
    }
}
