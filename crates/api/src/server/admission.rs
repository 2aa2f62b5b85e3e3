//! What goes through the door of members: a server asks to be let in, and is told what a member needs.
//!
//! Texts are borrowed where they are sent and owned where they are read, so that no further copy of a secret is made.

use group::membership::Applicant;
use group::ownership::MemberId;
use member::{Admission, SecretWord};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Where it is asked for; nothing else is answered there.
pub(super) const JOIN_PATH: &str = "/door/v1/join";

/// Bytes of a question, and of an answer.
pub(super) const ADMISSION_BYTES_MAX: usize = 64 << 10;

/// A server that has a token asks to be let in. Not printed: the secret is in it. Later versions may add fields.
#[derive(Serialize, Deserialize)]
pub(super) struct Asking<Text> {
    /// What the token is known by.
    pub(super) id: Text,
    /// What proves it.
    pub(super) secret: Text,
    pub(super) applicant: Applicant,
}

/// It is let in. Not printed: two keys are in it.
#[derive(Serialize, Deserialize)]
pub(super) struct Admitted<Text> {
    group: Text,
    group_name: Text,
    member: u16,
    authority: Text,
    authority_key: Text,
    certificate: Text,
    key: Text,
    endpoints: Vec<Text>,
    #[serde(default)]
    further_endpoints: Vec<Text>,
}

impl<'a> From<&'a Admission> for Admitted<&'a str> {
    fn from(admission: &'a Admission) -> Self {
        let texts = |all: &'a [String]| all.iter().map(String::as_str).collect();
        Self {
            group: &admission.group,
            group_name: &admission.group_name,
            member: admission.member.0,
            authority: &admission.authority,
            authority_key: &admission.authority_key.0,
            certificate: &admission.certificate,
            key: &admission.key.0,
            endpoints: texts(&admission.endpoints),
            further_endpoints: texts(&admission.further_endpoints),
        }
    }
}

impl From<Admitted<String>> for Admission {
    fn from(admitted: Admitted<String>) -> Self {
        let secret = |text: String| SecretWord(Zeroizing::new(text));
        Self {
            group: admitted.group,
            group_name: admitted.group_name,
            member: MemberId(admitted.member),
            authority: admitted.authority,
            authority_key: secret(admitted.authority_key),
            certificate: admitted.certificate,
            key: secret(admitted.key),
            endpoints: admitted.endpoints,
            further_endpoints: admitted.further_endpoints,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admission_comes_as_it_was_sent_and_later_versions_may_say_more() {
        let secret = |text: &str| SecretWord(Zeroizing::new(text.to_owned()));
        let sent = Admission {
            group: "00c0ffee00c0ffee00c0ffee00c0ffee".to_owned(),
            group_name: "lab".to_owned(),
            member: MemberId(2),
            authority: "A".to_owned(),
            authority_key: secret("hush"),
            certificate: "C".to_owned(),
            key: secret("hush-hush"),
            endpoints: vec!["https://192.0.2.1:3263".to_owned()],
            further_endpoints: vec!["https://192.0.2.2:3263".to_owned()],
        };
        let mut json = serde_json::to_value(Admitted::from(&sent)).unwrap();
        json["colour"] = "red".into();
        let text = json.to_string();
        assert!(text.contains("hush-hush"), "{text}");
        let read: Admitted<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(Admission::from(read), sent);
        assert!(!format!("{sent:?}").contains("hush"));
    }
}
