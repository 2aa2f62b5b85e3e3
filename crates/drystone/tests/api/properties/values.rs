//! Values for the schemas of the document: such as fit, and such as nearly do.

use crate::document::Document;
use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Texts that have surprised others: empty, long, of many alphabets, of bytes that mean something elsewhere.
const ODD_TEXTS: [&str; 22] = [
    "",
    " ",
    "\0",
    "a\0b",
    "\n",
    "a\r\nx: y",
    "\u{7f}",
    "\u{202e}abc",
    "é",
    "日本語",
    "🧱",
    "..",
    "...",
    "%2e%2e%2f",
    "'; --",
    "null",
    "-1",
    "0x10",
    "1e9",
    "{}",
    "${HOME}",
    "*",
];

/// Numbers at and beyond the ends of what programs count with.
const ODD_NUMBERS: [&str; 16] = [
    "0",
    "-0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "0.5",
    "1e308",
];

/// Makes values. What there is in the member already comes up often, so that requests meet something.
pub(super) struct Values<'a> {
    pub(super) document: &'a Document,
    pub(super) names: &'a [String],
}

impl Values<'_> {
    /// A value that fits a schema, as far as that says; `key` is what it is called.
    pub(super) fn fitting(&self, rng: &mut Rng, schema: &Value, key: &str) -> Value {
        let schema = self.document.resolved(schema);
        if let Some(words) = schema["enum"].as_array() {
            return rng.choice(words).expect("there are words").clone();
        }
        if let Some(ways) = schema["oneOf"].as_array() {
            let way = rng.choice(ways).expect("there are ways");
            return self.fitting(rng, way, key);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts = parts.iter().map(|part| self.fitting(rng, part, key));
            let all = parts.filter_map(|part| part.as_object().cloned()).flatten();
            return Value::Object(all.collect());
        }
        match kind(rng, schema) {
            "object" => self.object(rng, schema),
            "array" => self.list(rng, schema, key),
            "string" => Value::String(self.text(rng, key)),
            "integer" => number(rng, schema, key),
            "boolean" => self.flag(rng, key),
            _ => Value::Null,
        }
    }

    fn object(&self, rng: &mut Rng, schema: &Value) -> Value {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let properties = schema["properties"].as_object().into_iter().flatten();
        // Some with few, some with many of those that may be left out.
        let share = rng.f64();
        let kept = properties.filter_map(|(key, told)| {
            let is_kept = required.iter().any(|one| one == key) || rng.f64() < share;
            is_kept.then(|| (key.clone(), self.fitting(rng, told, key)))
        });
        Value::Object(kept.collect())
    }

    fn list(&self, rng: &mut Rng, schema: &Value, key: &str) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(0);
        let most = schema["maxItems"].as_u64().unwrap_or(least + 4).min(least + 4);
        let items = (0..rng.u64(least..=most)).map(|_| self.fitting(rng, &schema["items"], key));
        Value::Array(items.collect())
    }

    /// To accept a loss would end the array, and with it what there is to be asked.
    #[expect(clippy::unused_self, reason = "beside those of its kind")]
    fn flag(&self, rng: &mut Rng, key: &str) -> Value {
        Value::Bool(key != "accept_loss" && rng.bool())
    }

    /// A text: mostly one that means something under such a key.
    pub(super) fn text(&self, rng: &mut Rng, key: &str) -> String {
        if rng.u8(..8) == 0 {
            return odd_text(rng);
        }
        let words: &[&str] = match key {
            "secret" | "password" => &["hush-hush-hush", "correct horse battery", "short"],
            "iqn" => &["iqn.2026-11.com.example:web", "iqn.2026-11.com.example:db", "web"],
            "address" => &["10.1.*.*", "10.0.0.0/8", "fd00::/8", "192.0.2.7", "10.1.2.3/8"],
            "at" => &["03:00", "23:59", "24:00", "3", "03:00:00"],
            "disk" | "by" => &["0", "1", "2", "9", "disk-0", "new-0:64M", "new-1:96M", "x:-1"],
            "severity" => &["info", "warning", "error", "critical", "all"],
            "kinds" => &["rebuild", "rebuild,rebalance", "scrub", "all", ","],
            "page" => &["1-0", "x", "-1", "18446744073709551615-0"],
            "number" => &["1", "2", "3", "4294967295", "-1", "x"],
            "If-Match" => &["*", "\"x\"", "W/\"x\"", "\"", "x, y"],
            "Idempotency-Key" => &["k1", "k2", "k3", " ", "é"],
            _ => &["a", "b", "c", "d", "e"],
        };
        match rng.choice(self.names) {
            Some(name) if rng.u8(..3) == 0 => name.clone(),
            _ => (*rng.choice(words).expect("there are words")).to_owned(),
        }
    }

    /// One place of a value made wrong: another type, a field too many or too few, a number or a text of the
    /// odd ones.
    pub(super) fn spoil(&self, rng: &mut Rng, value: &mut Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() && rng.u8(..4) > 0 => {
                let key = rng.choice(fields.keys()).expect("there are fields").clone();
                match rng.u8(..5) {
                    0 => drop(fields.remove(&key)),
                    1 => drop(fields.insert(odd_text(rng), json!(1))),
                    _ => self.spoil(rng, fields.get_mut(&key).expect("it is there")),
                }
            }
            Value::Array(items) if !items.is_empty() && rng.bool() => {
                let at = rng.usize(..items.len());
                if rng.bool() {
                    items.resize(rng.usize(30..2000), items[at].clone());
                } else {
                    self.spoil(rng, &mut items[at]);
                }
            }
            other => *other = odd(rng),
        }
    }
}

/// One of the types that a schema allows.
fn kind<'a>(rng: &mut Rng, schema: &'a Value) -> &'a str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => rng.choice(kinds).and_then(Value::as_str).unwrap_or("null"),
        _ => "null",
    }
}

/// A number between the bounds of its schema.
fn number(rng: &mut Rng, schema: &Value, key: &str) -> Value {
    let most = if schema["format"] == "int32" { i64::from(i32::MAX) } else { i64::MAX };
    let least = schema["minimum"].as_i64().unwrap_or(0);
    let most = schema["maximum"].as_i64().unwrap_or(most);
    let likely: &[i64] = match key {
        "size_bytes" => &[1 << 20, 16 << 20, 64 << 20, 512, 4096, 1 << 40, 1 << 62],
        "block_bytes" => &[512, 4096, 1024],
        "read_ahead_bytes" => &[0, 4096, 1 << 20],
        _ => &[0, 1, 2, 3, 60, 1000],
    };
    let likely: Vec<i64> = likely.iter().copied().filter(|n| (least..=most).contains(n)).collect();
    match (rng.u8(..8), rng.choice(&likely)) {
        (1.., Some(number)) => json!(number),
        _ => {
            let between = rng.i64(least..=most);
            json!(rng.choice([least, most, between]).expect("one of three"))
        }
    }
}

fn odd_text(rng: &mut Rng) -> String {
    match rng.u8(..6) {
        0 => rng.choice(["x", "é", "."]).expect("one of three").repeat(rng.usize(40..700)),
        1 => (0..rng.usize(1..12)).map(|_| rng.char(..)).filter(|c| *c != '/').collect(),
        _ => (*rng.choice(ODD_TEXTS).expect("there are some")).to_owned(),
    }
}

/// Anything.
fn odd(rng: &mut Rng) -> Value {
    match rng.u8(..8) {
        0 => Value::Null,
        1 => Value::Bool(false),
        2 => json!([]),
        3 => json!({}),
        4 => json!([[{"a": [null]}]]),
        5 => Value::String(odd_text(rng)),
        _ => odd_number(rng),
    }
}

/// Numbers that do not fit are kept as they are written, where JSON has them as floating point.
fn odd_number(rng: &mut Rng) -> Value {
    let text = rng.choice(ODD_NUMBERS).expect("there are some");
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// A query, from what the operation takes and what it does not.
pub(super) fn queries(values: &Values<'_>, rng: &mut Rng, told: &[&Value]) -> Map<String, Value> {
    let mut all = Map::new();
    for parameter in told.iter().filter(|it| it["in"] == "query") {
        if rng.bool() {
            let name = parameter["name"].as_str().expect("a name");
            let value = values.fitting(rng, &parameter["schema"], name);
            all.insert(name.to_owned(), if rng.u8(..5) == 0 { odd(rng) } else { value });
        }
    }
    if rng.u8(..12) == 0 {
        all.insert(odd_text(rng), odd(rng));
    }
    all
}
