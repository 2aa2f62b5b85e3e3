//! Requests for the operations of the document: right, nearly right, and wrong.

use super::values::{Values, queries};
use fastrand::Rng;
use serde_json::Value;

/// The longest body that the interface reads.
const BODY_BYTES_MAX: usize = 1 << 20;

/// One request, as bytes and as what was meant by them.
#[derive(Debug, Clone, Default)]
pub(super) struct Request {
    pub(super) method: String,
    /// With its query, encoded.
    pub(super) path: String,
    /// Lines without their ends.
    pub(super) headers: Vec<String>,
    pub(super) body: Vec<u8>,
    /// The body as JSON, where it is sent whole, once and as such.
    pub(super) json: Option<Value>,
}

impl Request {
    /// For an operation.
    pub(super) fn made(
        values: &Values<'_>,
        rng: &mut Rng,
        (method, path, operation): &(String, String, Value),
    ) -> Self {
        let none = Vec::new();
        let parameters: Vec<&Value> =
            operation["parameters"].as_array().unwrap_or(&none).iter().collect();
        let mut request = Self { method: method.clone(), ..Self::default() };
        request.path = with_words(values, rng, path);
        let query = queries(values, rng, &parameters);
        let words = query.iter().map(|(key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}={}", encoded(key), encoded(&value))
        });
        let words: Vec<String> = words.collect();
        if !words.is_empty() {
            request.path = format!("{}?{}", request.path, words.join("&"));
        }
        for parameter in parameters.iter().filter(|it| it["in"] == "header") {
            let name = parameter["name"].as_str().expect("a name");
            // Most requests are not to be refused for what they were sent under.
            if rng.u8(..6) == 0 {
                let value = values.text(rng, name);
                // What is no HTTP is refused before there is an operation (400 or 431 without a body).
                let value = value.replace(|c: char| c.is_ascii_control(), "?");
                request.headers.push(format!("{name}: {value}"));
            }
        }
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        if schema.is_object() {
            request.fill(values, rng, schema);
        } else if rng.u8(..10) == 0 {
            request.send(rng, b"{\"nobody\": \"asked for this\"}".to_vec());
        }
        request
    }

    /// A body for a schema: half of them fit.
    fn fill(&mut self, values: &Values<'_>, rng: &mut Rng, schema: &Value) {
        let mut body = values.fitting(rng, schema, "");
        match rng.u8(..20) {
            0..10 => {}
            10..17 => (0..rng.u8(1..3)).for_each(|_| values.spoil(rng, &mut body)),
            _ => return self.garble(rng, &body),
        }
        let bytes = serde_json::to_vec(&body).expect("it is JSON");
        self.json = Some(body);
        self.send(rng, bytes);
    }

    /// Bytes that are no JSON, or more than are read, or none.
    fn garble(&mut self, rng: &mut Rng, body: &Value) {
        let text = body.to_string();
        let bytes = match rng.u8(..8) {
            0 => Vec::new(),
            1 => text.as_bytes()[..rng.usize(..text.len())].to_vec(),
            2 => "[".repeat(rng.usize(1..100_000)).into_bytes(),
            3 => vec![b' '; BODY_BYTES_MAX + 1],
            4 => [text.as_bytes(), &[0xff, 0xfe]].concat(),
            5 => text.replacen('{', "{\"name\":\"a\",\"name\":\"a\",", 1).into_bytes(),
            6 => text.replace(':', ": 1e999, ").into_bytes(),
            _ => (0..rng.usize(1..200)).map(|_| rng.u8(..)).collect(),
        };
        self.send(rng, bytes);
    }

    /// With a length and a media type, now and then a wrong one.
    fn send(&mut self, rng: &mut Rng, body: Vec<u8>) {
        let media = ["text/plain", "application/xml", "application/json; charset=utf-8", ""];
        let media = if rng.u8(..12) == 0 { rng.choice(media) } else { Some("application/json") };
        match media {
            Some("") | None => self.json = None,
            Some(media) => {
                if !media.starts_with("application/json") {
                    self.json = None;
                }
                self.headers.push(format!("content-type: {media}"));
            }
        }
        self.body = body;
    }

    /// All of it. The connection is closed behind the answer.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Self { method, path, .. } = self;
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        self.headers.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
        if !self.body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }

    /// As it can be sent again by hand.
    pub(super) fn shown(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let body: String = body.chars().take(600).collect();
        format!("{} {} {:?} {body}", self.method, self.path, self.headers)
    }
}

/// A path with something in the place of its `{words}`.
fn with_words(values: &Values<'_>, rng: &mut Rng, path: &str) -> String {
    let words = path.split('/').map(|word| {
        let Some(name) = word.strip_prefix('{').and_then(|it| it.strip_suffix('}')) else {
            return word.to_owned();
        };
        match rng.u8(..40) {
            // No UTF-8, and not even encoded.
            0 => "%ff%fe".to_owned(),
            1 => "%zz".to_owned(),
            _ => encoded(&values.text(rng, name)),
        }
    });
    words.collect::<Vec<_>>().join("/")
}

/// As it stands in a path or a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let byte = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
