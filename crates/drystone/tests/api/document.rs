//! What is answered is what the OpenAPI document says.

use crate::http::Reply;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// The document, and which operations were called and did what they are for.
pub(crate) struct Document {
    document: Value,
    done: BTreeSet<String>,
    /// Made once for each schema, which takes long.
    validators: HashMap<String, Validator>,
}

/// The name of an operation.
pub(crate) fn name_of(operation: &Value) -> String {
    operation["operationId"].as_str().expect("an operation has a name").to_owned()
}

impl Document {
    pub(crate) fn new(mut document: Value) -> Document {
        bound_numbers(&mut document);
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1.")));
        Document { document, done: BTreeSet::new(), validators: HashMap::new() }
    }

    /// The operation for a request: its parts of the path that stand for something fit anything.
    fn operation(&self, method: &str, path: &str) -> &Value {
        let path = path.split('?').next().expect("a path");
        let words = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
        let asked = words(path);
        let fits = |template: &str| {
            let template = words(template);
            let mut pairs = template.iter().zip(&asked);
            template.len() == asked.len() && pairs.all(|(t, a)| t.starts_with('{') || t == a)
        };
        let all = self.document["paths"].as_object().expect("paths");
        // A path without parts of that kind goes before.
        let mut found: Vec<&String> = all.keys().filter(|template| fits(template)).collect();
        found.sort_by_key(|template| template.matches('{').count());
        let found = found.first().unwrap_or_else(|| panic!("{path} is not in the document"));
        let operation = &all[*found][method.to_lowercase()];
        assert!(operation.is_object(), "{method} {found} is not in the document");
        operation
    }

    /// Checks an answer against the document.
    #[track_caller]
    pub(crate) fn check(&mut self, method: &str, path: &str, reply: &Reply) {
        let operation = self.operation(method, path).clone();
        let name = name_of(&operation);
        if let Err(fault) = self.fits(&operation, reply) {
            panic!("{name}: {fault}: {}", reply.text());
        }
        if reply.status < 300 {
            self.done.insert(name);
        }
    }

    /// Whether an answer is one of those that the document gives for an operation: its status, its media
    /// type, and its schema.
    pub(crate) fn fits(&mut self, operation: &Value, reply: &Reply) -> Result<(), String> {
        let told = &operation["responses"][reply.status.to_string()];
        if !told.is_object() {
            return Err(format!("the document does not know {}", reply.status));
        }
        let media = reply.header("content-type").unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default();
        let Some(content) = told["content"].as_object() else {
            let is_empty = reply.body.is_empty();
            return if is_empty { Ok(()) } else { Err("it has a body".to_owned()) };
        };
        let told = content.get(media).ok_or_else(|| format!("the media type is '{media}'"))?;
        if media == "application/problem+json" {
            reply.check_problem()?;
        }
        if !media.ends_with("json") {
            return Ok(());
        }
        let value = serde_json::from_slice(&reply.body);
        let value = value.map_err(|error| format!("it is no JSON: {error}"))?;
        let wrong = self.faults(&told["schema"], &value);
        if wrong.is_empty() { Ok(()) } else { Err(format!("its schema does not hold: {wrong:?}")) }
    }

    /// How a value breaks a schema of the document.
    pub(crate) fn faults(&mut self, schema: &Value, value: &Value) -> Vec<String> {
        let validator = self.validators.entry(schema.to_string()).or_insert_with(|| {
            let whole = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "components": self.document["components"],
                "allOf": [schema],
            });
            jsonschema::validator_for(&whole).expect("the schema is one")
        });
        validator.iter_errors(value).map(|error| error.to_string()).collect()
    }

    /// What a reference stands for.
    pub(crate) fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        while let Some(reference) = schema["$ref"].as_str() {
            let at = reference.strip_prefix('#').expect("it is in the same document");
            schema = self.document.pointer(at).expect("a reference leads somewhere");
        }
        schema
    }

    /// All operations, with their methods and paths.
    pub(crate) fn operations(&self) -> Vec<(String, String, Value)> {
        let paths = self.document["paths"].as_object().expect("paths");
        let of_path = |(path, item): (&String, &Value)| {
            let all = item.as_object().expect("operations").clone();
            let path = path.clone();
            all.into_iter().map(move |(method, told)| (method.to_uppercase(), path.clone(), told))
        };
        paths.iter().flat_map(of_path).collect()
    }

    /// Operations that were not called, or never did what they are for.
    pub(crate) fn left(&self) -> Vec<String> {
        let paths = self.document["paths"].as_object().expect("paths").values();
        let operations = paths.flat_map(|path| path.as_object().expect("operations").values());
        let names = operations.filter_map(|operation| operation["operationId"].as_str());
        names.filter(|name| !self.done.contains(*name)).map(str::to_owned).collect()
    }
}

#[test]
fn what_is_not_in_the_document_is_found() {
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/v1/a/{b}": {"get": {"operationId": "a", "responses": {"200": {}}}}},
    });
    let document = Document::new(document);
    assert_eq!(document.operation("GET", "/v1/a/x?y=1")["operationId"], "a");
    assert_eq!(document.left(), ["a"]);
}

#[test]
fn an_answer_that_is_not_as_the_document_says_is_found() {
    let problem =
        json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/P"}}});
    let made = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Made"}}});
    let operation = json!({"responses": {
        "201": {"content": made}, "204": {}, "404": {"content": problem},
    }});
    let made = json!({
        "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}},
    });
    let schemas = json!({"Made": made, "P": {"type": "object", "required": ["code"]}});
    let mut document =
        Document::new(json!({"openapi": "3.1.0", "paths": {}, "components": {"schemas": schemas}}));
    let mut fault = |status: u16, media: &str, body: &str| {
        let media = if media.is_empty() { String::new() } else { format!("content-type: {media}") };
        let reply = Reply::of(&format!("HTTP/1.1 {status} x\r\n{media}"), body);
        document.fits(&operation, &reply).err().unwrap_or_default()
    };
    const PROBLEM: &str = "application/problem+json";
    let told = |status: u16| {
        format!(
            "{{\"type\": \"urn:drystone:problem:no-such-volume\", \"title\": \"There is none\", \
             \"status\": {status}, \"detail\": \"there is none\", \"code\": \"no-such-volume\"}}"
        )
    };
    assert_eq!(fault(201, "application/json", "{\"name\": \"a\"}"), "");
    assert_eq!(fault(204, "", ""), "");
    assert_eq!(fault(404, PROBLEM, &told(404)), "");
    for (status, media, body, wanted) in [
        (200, "application/json", "{}", "does not know 200"),
        (500, PROBLEM, "{}", "does not know 500"),
        (201, "application/json", "{}", "schema does not hold"),
        (201, "application/json", "{\"name\": 7}", "schema does not hold"),
        (201, "application/json", "{\"name\": ", "no JSON"),
        (201, "text/plain", "a", "media type"),
        (201, "", "", "media type"),
        (204, "", "a", "has a body"),
        (404, "application/json", "{}", "media type"),
        (404, PROBLEM, "{\"code\": \"no-such-volume\"}", "no problem"),
        (404, PROBLEM, &told(400), "no problem"),
    ] {
        let found = fault(status, media, body);
        assert!(found.contains(wanted), "{status} {media} {body}: {found}");
    }
}

/// What the format of a number says of its size: no keyword of JSON Schema does. The last number of 64 bits that
/// is there as a floating point too, which some programs send.
fn bound_numbers(schema: &mut Value) {
    let most = match schema["format"].as_str() {
        Some("int32") => Some(u64::from(u32::MAX)),
        Some("int64") => Some(u64::MAX - 2047),
        _ => None,
    };
    if let (Some(most), Some(told)) = (most, schema.as_object_mut()) {
        told.entry("maximum").or_insert(most.into());
    }
    match schema {
        Value::Object(parts) => parts.values_mut().for_each(bound_numbers),
        Value::Array(parts) => parts.iter_mut().for_each(bound_numbers),
        _ => {}
    }
}
