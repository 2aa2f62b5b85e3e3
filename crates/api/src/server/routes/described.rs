//! What the OpenAPI document says of all operations alike.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::schema::{AdditionalProperties, Object, OneOf};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ContactBuilder, ContentBuilder, InfoBuilder, OpenApi, PathItem, Ref, RefOr, Response,
    ResponseBuilder, Schema, ServerBuilder, Tag,
};
use utoipa::{IntoParams, IntoResponses, PartialSchema, ToSchema};

use crate::problem::{Code, PROBLEM_JSON, Problem};
use crate::server::roles;

/// What all requests may be refused with.
const ALWAYS: [Code; 9] = [
    Code::BadRequest,
    Code::NoSuchPath,
    Code::Unavailable,
    Code::StillAtWork,
    Code::Failed,
    Code::MethodNotAllowed,
    Code::NotLoggedIn,
    Code::Forbidden,
    Code::TooManyTries,
];

/// What changes may be refused with besides.
const CHANGES: [Code; 7] = [
    Code::BodyTimeout,
    Code::BodyTooLarge,
    Code::NotJson,
    Code::Invalid,
    Code::InUse,
    Code::Changed,
    Code::NoSpace,
];

/// Problems of requests that change nothing.
pub(super) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(ALWAYS.into_iter().chain([Code::Invalid, Code::PageGone, Code::InUse]))
    }
}

/// Problems of requests that change something.
pub(super) struct ChangeRefusals;

impl IntoResponses for ChangeRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(ALWAYS.into_iter().chain(CHANGES))
    }
}

fn problems(codes: impl Iterator<Item = Code>) -> BTreeMap<String, RefOr<Response>> {
    let statuses = codes.map(Code::status);
    statuses.map(|status| (status.as_str().to_owned(), problem(status).into())).collect()
}

/// All kinds of problems that go with a status.
fn problem(status: StatusCode) -> Response {
    let of_status = Code::ALL.iter().filter(|code| code.status() == status);
    let words: Vec<String> =
        of_status.map(|code| format!("`{}`: {}.", code.word(), code.title())).collect();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name())));
    let content = content.build();
    ResponseBuilder::new().description(words.join(" ")).content(PROBLEM_JSON, content).build()
}

/// `If-Match`.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only described: it is read by `Wanted`")]
pub(super) struct IfMatch {
    /// Only if it is as this `ETag` said; else 412.
    #[param(rename = "If-Match")]
    tag: Option<String>,
}

/// `Idempotency-Key`.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only described: it is read by `idempotency`")]
pub(super) struct IdempotencyKey {
    /// The same key with the same request is done once, and answered as the first time.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255)]
    key: Option<String>,
}

/// Adds what the code of the operations does not say.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    document.info = InfoBuilder::new()
        .title("Drystone")
        .version("1")
        .description(Some(
            "What a member of Drystone can be asked. Sizes are in bytes, times in seconds since 1970 \
             (UTC). What is not done is a problem after RFC 9457 whose `code` programs can rely on and \
             whose `detail` is a sentence for people. Long lists come in pages: `Link` with \
             `rel=\"next\"` has the way to the next one. Any member of a group can be asked for anything: what is \
             about a volume is done by the member that has it. `Drystone-Member` in a request names the member \
             that is to do it instead, and in an answer the one that has.",
        ))
        .contact(Some(ContactBuilder::new().name(Some("Drystone")).build()))
        .license(Some(license()))
        .build();
    let server = |url: &str, told| ServerBuilder::new().url(url).description(Some(told)).build();
    document.servers = Some(vec![
        server(
            "http://localhost",
            "On the Unix socket of the member, without a login; the name of the host does not matter.",
        ),
        server("https://member.example.com:8443", "Over TLS, where the member listens for it."),
    ]);
    document.security = Some(vec![
        SecurityRequirement::new(TOKEN, NOTHING),
        SecurityRequirement::new(ACCOUNT, NOTHING),
    ]);
    document.tags = Some(tags());
    for (path, item) in &mut document.paths.paths {
        tell_roles(path, item);
    }
    let components = document.components.get_or_insert_default();
    for (name, scheme, told) in [
        (TOKEN, HttpAuthScheme::Bearer, "A token: see `POST /v1/tokens`."),
        (ACCOUNT, HttpAuthScheme::Basic, "An account and its password: see `POST /v1/accounts`."),
    ] {
        let mut scheme = Http::new(scheme);
        scheme.description = Some(told.to_owned());
        components.add_security_scheme(name, SecurityScheme::Http(scheme));
    }
    for (name, schema) in [(Problem::name(), Problem::schema()), (Code::name(), Code::schema())] {
        components.schemas.insert(name.into_owned(), schema);
    }
    spread(&mut components.schemas);
    components.schemas.values_mut().for_each(close);
    document
}

/// Says of what is one of several things and a number besides which fields each of these has in all: behind
/// `allOf` none of its parts could say that there are no others.
fn spread(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let known = schemas.clone();
    for schema in schemas.values_mut() {
        let RefOr::T(Schema::AllOf(all)) = schema else { continue };
        let [RefOr::Ref(of), RefOr::T(Schema::Object(besides))] = &all.items[..] else { continue };
        let name = of.ref_location.rsplit('/').next().unwrap_or_default();
        let Some(RefOr::T(Schema::OneOf(ways))) = known.get(name) else { continue };
        let with = |way: &RefOr<Schema>| match way {
            RefOr::T(Schema::Object(way)) => {
                let mut both = way.clone();
                both.required.extend(besides.required.iter().cloned());
                both.properties.extend(besides.properties.clone());
                RefOr::T(Schema::Object(both))
            }
            other => other.clone(),
        };
        let items = ways.items.iter().map(with).collect();
        let description = all.description.clone();
        *schema = RefOr::T(Schema::OneOf(OneOf { items, description, ..OneOf::default() }));
    }
}

/// Says of each of several things that it has no other fields: none is taken.
fn close(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::OneOf(ways)) = schema else { return };
    ways.items.iter_mut().for_each(close_object);
}

fn close_object(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(object)) = schema else { return };
    let Object { properties, additional_properties, .. } = object;
    if !properties.is_empty() {
        *additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        properties.values_mut().for_each(close_object);
    }
}

/// The names of the ways to log in.
const TOKEN: &str = "token";
const ACCOUNT: &str = "account";

/// Neither has scopes: roles say who may.
const NOTHING: [&str; 0] = [];

/// Says of each operation of a path which role it needs over TLS.
fn tell_roles(path: &str, item: &mut PathItem) {
    let operations = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PUT, &mut item.put),
        (Method::PATCH, &mut item.patch),
        (Method::DELETE, &mut item.delete),
    ];
    for (method, operation) in operations {
        let Some(operation) = operation else { continue };
        let role = roles::least(&method, path).word();
        operation.extensions = Some(Extensions::builder().add("x-role", role).build());
        let told = operation.description.take().map_or(String::new(), |told| format!("{told}\n\n"));
        operation.description = Some(format!("{told}Over TLS this needs the role `{role}`."));
    }
}

fn license() -> utoipa::openapi::License {
    let mut license = utoipa::openapi::License::new("Apache-2.0");
    license.identifier = Some("Apache-2.0".to_owned());
    license
}

fn tags() -> Vec<Tag> {
    let tag = |(name, told): (&str, &str)| {
        let mut tag = Tag::new(name);
        tag.description = Some(told.to_owned());
        tag
    };
    let all = [
        ("volumes", "What hosts see as disks."),
        ("snapshots", "What volumes held at a moment."),
        ("access", "Who may use which volume."),
        ("disks", "The disks of the array."),
        ("array", "The array as a whole."),
        ("work", "What runs in the background, and what was asked for that takes long."),
        ("hosts", "Who is connected."),
        ("events", "What happened, and who did what."),
        ("logins", "Who manages the member from afar, and where."),
        ("group", "Members that are one group."),
        ("figures", "What is measured, and this document."),
    ];
    all.into_iter().map(tag).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use utoipa::openapi::path::{HttpMethod, Operation};

    use super::*;
    use crate::server::routes::document;

    /// The operations of a document, with their methods and paths.
    fn operations(document: &OpenApi) -> Vec<(HttpMethod, String, Operation)> {
        let mut all = Vec::new();
        for (path, item) in &document.paths.paths {
            let methods = [
                (HttpMethod::Get, &item.get),
                (HttpMethod::Post, &item.post),
                (HttpMethod::Patch, &item.patch),
                (HttpMethod::Put, &item.put),
                (HttpMethod::Delete, &item.delete),
            ];
            for (method, operation) in methods {
                all.extend(operation.clone().map(|operation| (method, path.clone(), operation)));
            }
        }
        all
    }

    #[test]
    fn every_operation_says_what_it_is_called_what_it_does_and_all_answers() {
        let all = operations(&document());
        assert!(all.len() > 30, "{}", all.len());
        let mut names = BTreeSet::new();
        for (_, path, operation) in all {
            let name = operation.operation_id.expect("an operation has a name");
            assert!(names.insert(name.clone()), "{name} is there twice");
            assert!(operation.summary.is_some_and(|told| told.len() > 5), "{name}");
            assert!(operation.tags.is_some_and(|tags| tags.len() == 1), "{name}");
            let answers: BTreeSet<String> = operation.responses.responses.into_keys().collect();
            assert!(answers.iter().any(|status| status.starts_with('2')), "{name}: {answers:?}");
            for status in ["400", "500", "503", "504"] {
                assert!(answers.contains(status), "{name} {path}: {answers:?}");
            }
        }
    }

    #[test]
    fn no_operation_is_without_a_role_and_no_role_without_an_operation() {
        let all = operations(&document());
        let count = all.len();
        for (method, path, operation) in all {
            let word = serde_json::to_value(method).expect("a method is a word");
            let word = word.as_str().expect("a method is a word").to_uppercase();
            let method = Method::from_bytes(word.as_bytes()).expect("a method");
            let stated = roles::stated(&method, &path);
            let role = stated.unwrap_or_else(|| panic!("{method} {path} has no row in roles.rs"));
            let told = operation.extensions.expect("x-role");
            assert_eq!(serde_json::to_value(&told).expect("plain")["x-role"], role.word());
        }
        assert_eq!(roles::count(), count, "roles.rs states what there is not");
    }

    #[test]
    fn every_kind_of_problem_is_told_of() {
        let told = serde_json::to_string(&document()).expect("a document can be written out");
        for code in Code::ALL {
            assert!(told.contains(&format!("`{}`:", code.word())), "{code:?}");
        }
    }
}
