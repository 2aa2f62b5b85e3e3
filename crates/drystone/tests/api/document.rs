//! What is answered is what the OpenAPI document says.

use crate::http::Reply;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The document, and which operations were called and did what they are for.
pub(crate) struct Document {
    document: Value,
    done: BTreeSet<String>,
}

impl Document {
    pub(crate) fn new(document: Value) -> Document {
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1.")));
        Document { document, done: BTreeSet::new() }
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
        let operation = self.operation(method, path);
        let name = operation["operationId"].as_str().expect("a name").to_owned();
        let answer = &operation["responses"][reply.status.to_string()];
        assert!(answer.is_object(), "{name} does not know {}: {}", reply.status, reply.text());
        let Some(content) = answer["content"].as_object() else {
            assert!(reply.body.is_empty(), "{name}: {}", reply.text());
            self.done.insert(name);
            return;
        };
        let media = reply.header("content-type").expect("a media type");
        let media = media.split(';').next().expect("a media type");
        let told = content.get(media).unwrap_or_else(|| panic!("{name} does not know {media}"));
        if media.ends_with("json") {
            let schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "components": self.document["components"],
                "allOf": [told["schema"]],
            });
            let schema = jsonschema::validator_for(&schema).expect("the schema is one");
            let value = reply.json();
            let wrong: Vec<String> = schema.iter_errors(&value).map(|e| e.to_string()).collect();
            assert!(wrong.is_empty(), "{name}: {wrong:?}\n{value}");
        }
        if reply.status < 300 {
            self.done.insert(name);
        }
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
