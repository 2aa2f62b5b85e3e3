//! Why something is not done: problem details after RFC 9457.

mod of_request;

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) use of_request::{code_of, of_access, of_placement, of_spread_rules};

/// The media type of problems.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What the URIs of all types of problems begin with; the code follows.
const TYPE_PREFIX: &str = "urn:drystone:problem:";

/// How somebody may log in (RFC 9110 11.6.1).
const LOGINS: [&str; 2] =
    ["Bearer realm=\"drystone\"", "Basic realm=\"drystone\", charset=\"UTF-8\""];

/// A problem. It is always about one request, and there is one for each that was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// `urn:drystone:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in a few words.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong and what to do, in one sentence: what the command line prints.
    pub detail: String,
    /// What programs can rely on.
    pub code: Code,
    /// After how long it may be tried again, which a header says.
    #[serde(skip)]
    pub(crate) retry_seconds: Option<u64>,
}

impl Problem {
    /// A problem of this kind, told by one sentence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("{TYPE_PREFIX}{}", code.word()),
            title: code.title().to_owned(),
            status: code.status().as_u16(),
            detail: detail.into(),
            code,
            retry_seconds: None,
        }
    }

    /// The same, which is worth another try after so long.
    pub(crate) fn with_retry(self, after: Duration) -> Self {
        // One second more rather than one less.
        Self { retry_seconds: Some(after.as_secs() + 1), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("a problem is plain text and numbers");
        let mut response =
            (self.code.status(), [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if self.code == Code::NotLoggedIn {
            for way in LOGINS {
                response.headers_mut().append(WWW_AUTHENTICATE, HeaderValue::from_static(way));
            }
        }
        if let Some(seconds) = self.retry_seconds {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Declares the kinds of problems once: their word, status and title.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $status:ident;)+) => {
        /// Kinds of problems. A kind keeps its word and its meaning; new ones may come.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word for it in JSON.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status),+ }
            }

            /// What it means, in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii()),+ }
            }
        }
    };
}

codes! {
    /// The request does not read
    BadRequest = "bad-request", BAD_REQUEST;
    /// Nobody has logged in, or not rightly
    NotLoggedIn = "not-logged-in", UNAUTHORIZED;
    /// Who asks may not do this
    Forbidden = "forbidden", FORBIDDEN;
    /// The token to join a group with is not right
    TicketRefused = "ticket-refused", FORBIDDEN;
    /// Too many logins have failed
    TooManyTries = "too-many-tries", TOO_MANY_REQUESTS;
    /// It was asked for too often
    TooOften = "too-often", TOO_MANY_REQUESTS;
    /// There is nothing at this path
    NoSuchPath = "no-such-path", NOT_FOUND;
    /// This cannot be done with what is at this path
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED;
    /// The body did not come in time
    BodyTimeout = "body-timeout", REQUEST_TIMEOUT;
    /// The body is too large
    BodyTooLarge = "body-too-large", PAYLOAD_TOO_LARGE;
    /// The body is not JSON
    NotJson = "not-json", UNSUPPORTED_MEDIA_TYPE;
    /// What is asked for cannot be
    Invalid = "invalid", UNPROCESSABLE_ENTITY;
    /// The key was used for another request
    KeyReused = "key-reused", UNPROCESSABLE_ENTITY;
    /// It has changed since it was read
    Changed = "changed", PRECONDITION_FAILED;
    /// The list has changed too much to be gone on with
    PageGone = "page-gone", GONE;
    /// There is no such volume
    NoSuchVolume = "no-such-volume", NOT_FOUND;
    /// There is no such slice of a volume
    NoSuchSlice = "no-such-slice", NOT_FOUND;
    /// There is no such snapshot
    NoSuchSnapshot = "no-such-snapshot", NOT_FOUND;
    /// There is no such disk
    NoSuchDisk = "no-such-disk", NOT_FOUND;
    /// There is no such policy
    NoSuchPolicy = "no-such-policy", NOT_FOUND;
    /// There is no such CHAP user
    NoSuchUser = "no-such-user", NOT_FOUND;
    /// There is no such account
    NoSuchAccount = "no-such-account", NOT_FOUND;
    /// There is no such token
    NoSuchToken = "no-such-token", NOT_FOUND;
    /// There is no such schedule
    NoSuchSchedule = "no-such-schedule", NOT_FOUND;
    /// There is no such destination of events
    NoSuchDestination = "no-such-destination", NOT_FOUND;
    /// There is no such entry on the list
    NoSuchEntry = "no-such-entry", NOT_FOUND;
    /// The member is in no group
    NoGroup = "no-group", NOT_FOUND;
    /// There is no such member of the group
    NoSuchMember = "no-such-member", NOT_FOUND;
    /// There is no such pool of the group
    NoSuchPool = "no-such-pool", NOT_FOUND;
    /// There is no such run
    NoSuchRun = "no-such-run", NOT_FOUND;
    /// The name is taken
    NameTaken = "name-taken", CONFLICT;
    /// The same is there already
    AlreadyThere = "already-there", CONFLICT;
    /// It is in the recycle bin
    InRecycleBin = "in-recycle-bin", CONFLICT;
    /// It is not in the recycle bin
    NotInRecycleBin = "not-in-recycle-bin", CONFLICT;
    /// It is in use
    InUse = "in-use", CONFLICT;
    /// It is not in the state that this needs
    WrongState = "wrong-state", CONFLICT;
    /// Data would be lost
    WouldLoseData = "would-lose-data", CONFLICT;
    /// There are as many as there may be
    LimitReached = "limit-reached", CONFLICT;
    /// There are too few disks
    TooFewDisks = "too-few-disks", CONFLICT;
    /// Whoever answers there is not of the group that was meant
    OtherGroup = "other-group", CONFLICT;
    /// The versions of two members do not go together
    OtherVersion = "other-version", CONFLICT;
    /// The clocks of two members are too far apart
    ClockOff = "clock-off", CONFLICT;
    /// It is about things of several members at once
    SeveralMembers = "several-members", CONFLICT;
    /// There is not enough space
    NoSpace = "no-space", INSUFFICIENT_STORAGE;
    /// The change was made, but hosts do not get in
    NotServed = "not-served", SERVICE_UNAVAILABLE;
    /// What is needed is not there now
    Unavailable = "unavailable", SERVICE_UNAVAILABLE;
    /// No member of a group answers there
    NotReached = "not-reached", SERVICE_UNAVAILABLE;
    /// Too much is under way
    TooBusy = "too-busy", SERVICE_UNAVAILABLE;
    /// The member is stopping
    Stopping = "stopping", SERVICE_UNAVAILABLE;
    /// It takes too long to be waited for
    StillAtWork = "still-at-work", GATEWAY_TIMEOUT;
    /// A disk or the system failed
    Failed = "failed", INTERNAL_SERVER_ERROR;
}

/// The table of docs/api.md.
#[must_use]
pub fn table_markdown() -> String {
    let mut text = "| code | status | what it means |\n|---|---|---|\n".to_owned();
    for code in Code::ALL {
        let status = code.status().as_u16();
        text.push_str(&format!("| `{}` | {status} | {}. |\n", code.word(), code.title()));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_a_word_and_a_title_of_its_own() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.word()).collect();
        let titles: BTreeSet<_> = Code::ALL.iter().map(|code| code.title()).collect();
        assert_eq!((words.len(), titles.len()), (Code::ALL.len(), Code::ALL.len()));
        for code in Code::ALL {
            assert!(code.status().is_client_error() || code.status().is_server_error());
            assert_eq!(serde_json::to_value(code).unwrap(), code.word());
        }
    }

    #[test]
    fn a_problem_is_what_rfc_9457_says() {
        let response = Problem::new(Code::NoSuchVolume, "there is no volume 'a'").into_response();
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()[CONTENT_TYPE], PROBLEM_JSON);
        let unknown = Problem::new(Code::NotLoggedIn, "who are you?").into_response();
        assert_eq!(unknown.headers().get_all(WWW_AUTHENTICATE).iter().count(), 2);
        let later = Problem::new(Code::TooOften, "wait").with_retry(Duration::from_millis(8_400));
        assert_eq!(later.into_response().headers()[RETRY_AFTER], "9");
        let problem = serde_json::to_value(Problem::new(Code::NoSuchVolume, "x")).unwrap();
        let wanted = serde_json::json!({
            "type": "urn:drystone:problem:no-such-volume", "title": "There is no such volume",
            "status": 404, "detail": "x", "code": "no-such-volume",
        });
        assert_eq!(problem, wanted);
    }
}
