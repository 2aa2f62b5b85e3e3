//! What a member answers is printed by whoever asked: no text of it makes a terminal obey.
//!
//! A member that was taken over, or a name that somebody chose, could else clear the screen, or forge lines. It
//! is done here, where all answers are read, and so for whatever prints them.

use member::printable::printable;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An answer, with what a terminal would obey written out in all its texts.
pub(super) fn printed<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    let mut value = serde_json::from_slice(json)?;
    write_out(&mut value);
    serde_json::from_value(value)
}

fn write_out(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text).into_owned(),
        Value::Array(all) => all.iter_mut().for_each(write_out),
        Value::Object(fields) => {
            let all = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                write_out(&mut value);
                (printable(&name).into_owned(), value)
            });
            *fields = all.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_texts_of_an_answer_are_written_out() {
        let json = br#"{"a\u001b":["\u009b2J",{"b":"x\ny\u202e"}],"c":18446744073709551615}"#;
        let read: Value = printed(json).unwrap();
        let wanted =
            r#"{"a\\u{1b}":["\\u{9b}2J",{"b":"x\\u{a}y\\u{202e}"}],"c":18446744073709551615}"#;
        assert_eq!(read, serde_json::from_str::<Value>(wanted).unwrap());
    }
}
