//! Numbers in sentences.

/// So many things of a noun whose plural ends in `s`: "1 volume", "2 volumes".
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "host")), ["0 hosts", "1 host", "2 hosts"]);
    }
}
