//! Paths and queries of what words are given.

/// A path of these words, whatever they hold.
pub(super) fn path<const N: usize>(words: [&str; N]) -> String {
    words.iter().fold("/v1".to_owned(), |path, word| format!("{path}/{}", encoded(word)))
}

/// With the words that there are.
pub(super) fn with_query(path: &str, words: &[(&str, Option<&str>)]) -> String {
    let words = words.iter().filter_map(|(key, word)| Some((key, (*word)?)));
    let words: Vec<String> = words.map(|(key, word)| format!("{key}={}", encoded(word))).collect();
    if words.is_empty() { path.to_owned() } else { format!("{path}?{}", words.join("&")) }
}

/// A word as a URI can hold it (RFC 3986 2.1).
pub(crate) fn encoded(word: &str) -> String {
    let mut text = String::new();
    for byte in word.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(byte.into());
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_travel_whatever_they_hold() {
        assert_eq!(path(["volumes", "a:b c/d"]), "/v1/volumes/a%3Ab%20c%2Fd");
        assert_eq!(with_query("/v1/x", &[("a", None), ("b", Some("#ä"))]), "/v1/x?b=%23%C3%A4");
        assert_eq!(with_query("/v1/x", &[("a", None)]), "/v1/x");
    }
}
