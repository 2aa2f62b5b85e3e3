//! Who it is that a member asks another one for.

use axum::http::{HeaderMap, HeaderValue};
use group::accounts::Role;
use member::printable::printable;
use serde::{Deserialize, Serialize};

use super::ON_BEHALF;
use crate::problem::{Code, Problem};

/// Letters of a text that is sent: more than a name has.
const LETTERS_MAX: usize = 200;

/// Bytes of the header that is read: all that is sent, with each letter written out.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// Who asks, as the member says that was asked. It travels as JSON in one header; later versions may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::server) struct Behalf {
    /// `account 'ada'`, `token 'ci'` or `user root (uid 0)`.
    pub(in crate::server) who: String,
    /// What tells it from others that ask: whose keys of requests, and whose place at long questions these are.
    pub(in crate::server) owner: String,
    /// What it may do.
    pub(in crate::server) role: Role,
    /// From where it asks: an address, or the socket of the member that was asked.
    pub(in crate::server) from: String,
}

/// Whom a member asks for, and the name of that member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Carried {
    pub(in crate::server) behalf: Behalf,
    pub(in crate::server) member: String,
}

impl Behalf {
    /// Of one that has these.
    pub(in crate::server) fn new(who: &str, owner: String, role: Role, from: String) -> Self {
        // The names of users of a machine may be anything.
        Self { who: who.chars().take(LETTERS_MAX).collect(), owner, role, from }
    }

    /// As the header has it.
    pub(super) fn header(&self) -> HeaderValue {
        let json = serde_json::to_string(self).expect("four texts can be written out");
        HeaderValue::try_from(ascii(&json)).expect("it is printable ASCII")
    }

    /// As another member has said it.
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut all = headers.get_all(ON_BEHALF).iter();
        let one = all.next().filter(|_| all.next().is_none());
        let one = one.filter(|value| value.len() <= HEADER_BYTES_MAX);
        let read = one.and_then(|value| serde_json::from_slice::<Self>(value.as_bytes()).ok());
        let behalf = read.filter(Self::is_whole).ok_or_else(|| {
            let sentence = "the member that carries this request here does not say for whom in a way that this \
                            version understands: let all members run the same version";
            Problem::new(Code::BadRequest, sentence)
        })?;
        let shown = |text: String| printable(&text).into_owned();
        Ok(Self { who: shown(behalf.who), from: shown(behalf.from), ..behalf })
    }

    /// Nothing is left out: who has no name would be on record as nobody.
    fn is_whole(&self) -> bool {
        [&self.who, &self.owner, &self.from].iter().all(|text| !text.trim().is_empty())
    }
}

/// JSON in printable ASCII alone, as headers have it (RFC 9110 5.5). What is not that stands in texts, where it can be
/// written out (RFC 8259 7).
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if matches!(letter, ' '..='~') {
            text.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(ON_BEHALF, HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn whoever_it_is_comes_as_it_was_sent() {
        for who in ["account 'ada'", "user Zoë 漢字 🦀 (uid 7)", "\"quoted\" \\ back"] {
            let (owner, from) = ("account 'ada' of 7".to_owned(), "192.0.2.1:9".to_owned());
            let sent = Behalf::new(who, owner, Role::Operator, from);
            let value = sent.header();
            assert!(value.as_bytes().iter().all(|byte| matches!(byte, b' '..=b'~')), "{value:?}");
            assert_eq!(Behalf::read(&headers(value.as_bytes())), Ok(sent));
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_written_out_and_a_long_name_is_cut() {
        let from = "\u{1b}[2J".to_owned();
        let sent = Behalf::new(&"\u{7f}".repeat(5000), "x".to_owned(), Role::ReadOnly, from);
        let read = Behalf::read(&headers(sent.header().as_bytes())).unwrap();
        assert_eq!(read.who, "\\u{7f}".repeat(LETTERS_MAX));
        assert_eq!(read.from, "\\u{1b}[2J");
    }

    #[test]
    fn what_does_not_read_is_refused() {
        let whole = r#"{"who": "a", "owner": "b", "role": "operator", "from": "c", "later": 1}"#;
        assert_eq!(Behalf::read(&headers(whole.as_bytes())).unwrap().role, Role::Operator);
        let refused = |headers: &HeaderMap| Behalf::read(headers).unwrap_err().code;
        for wrong in [
            "",
            "x",
            "{}",
            r#"{"who": "a", "owner": "b", "role": "root", "from": "c"}"#,
            r#"{"who": "a", "owner": "b", "from": "c"}"#,
            r#"{"who": " ", "owner": "b", "role": "operator", "from": "c"}"#,
            r#"{"who": "a", "owner": "", "role": "operator", "from": "c"}"#,
            r#"{"who": "a", "owner": "b", "role": "operator", "from": ""}"#,
        ] {
            assert_eq!(refused(&headers(wrong.as_bytes())), Code::BadRequest, "{wrong}");
        }
        assert_eq!(refused(&headers(b"\xff\xfe")), Code::BadRequest);
        assert_eq!(refused(&HeaderMap::new()), Code::BadRequest);
        let long = whole.replace("\"a\"", &format!("\"{}\"", "a".repeat(HEADER_BYTES_MAX)));
        assert_eq!(refused(&headers(long.as_bytes())), Code::BadRequest);
        let mut twice = headers(whole.as_bytes());
        twice.append(ON_BEHALF, HeaderValue::from_static("{}"));
        assert_eq!(refused(&twice), Code::BadRequest, "one of them would be believed");
    }
}
