//! `/openapi.json`, from the table of routes and the types that are read and written.

use super::error::{Code, ProblemBody};
use super::route::{Content, Field, ROUTES, Route};
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

fn content(of: &Content, schemas: &mut SchemaGenerator) -> (String, Value) {
    let schema = of.schema.map(|schema| schema(schemas));
    let schema = schema.map_or_else(|| json!({}), Schema::to_value);
    (of.media.to_owned(), json!({ "schema": schema }))
}

fn schema_of(field: &Field) -> Value {
    if field.number {
        json!({ "type": "integer", "minimum": 0 })
    } else {
        json!({ "type": "string" })
    }
}

fn parameter(field: &Field, place: &str) -> Value {
    json!({
        "name": field.name, "in": place, "description": field.meaning, "required": place == "path",
        "schema": schema_of(field),
    })
}

fn headers(fields: &[Field]) -> Map<String, Value> {
    let id = Field { name: "X-Request-Id", meaning: "Names the request in logs.", number: false };
    let each = |field: &Field| {
        let header = json!({ "description": field.meaning, "schema": schema_of(field) });
        (field.name.to_owned(), header)
    };
    fields.iter().chain([&id]).map(each).collect()
}

fn errors(route: &Route, schemas: &mut SchemaGenerator) -> BTreeMap<u16, Value> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in route.codes() {
        by_status.entry(code.status()).or_default().push(code);
    }
    let retry =
        Field { name: "Retry-After", meaning: "Seconds to wait, at least 1.", number: true };
    let schema = schemas.subschema_for::<ProblemBody>().to_value();
    let answer = |(status, codes): (u16, Vec<Code>)| {
        let lines = codes.iter().map(|code| format!("`{}`: {}", code.name(), code.meaning()));
        let hint: &[Field] = if matches!(status, 429 | 503) { &[retry] } else { &[] };
        let names: Vec<&str> = codes.iter().map(|code| code.name()).collect();
        let answer = json!({
            "description": lines.collect::<Vec<_>>().join("\n\n"),
            "headers": headers(hint),
            "content": { "application/json": { "schema": schema } },
            "x-codes": names,
        });
        (status, answer)
    };
    by_status.into_iter().map(answer).collect()
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let queue = Field {
        name: "queue",
        meaning: "The queue's name, percent-encoded as one segment; `%2F` is a part of the name.",
        number: false,
    };
    let path =
        route.has_queue().then_some(&queue).into_iter().map(|field| parameter(field, "path"));
    let query = route.query.iter().map(|field| parameter(field, "query"));
    let sent = route.headers.iter().map(|field| parameter(field, "header"));
    let parameters: Vec<Value> = path.chain(query).chain(sent).collect();
    let mut answers: BTreeMap<u16, Value> = errors(route, schemas);
    for success in route.successes {
        let (media, body) = content(&success.content, schemas);
        let content = Map::from_iter([(media, body)]);
        let answer = json!({
            "description": success.meaning, "headers": headers(success.headers), "content": content,
        });
        answers.insert(success.status, answer);
    }
    let answers: Map<String, Value> =
        answers.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect();
    let mut operation = json!({
        "operationId": format!("{:?}", route.endpoint),
        "summary": route.summary,
        "parameters": parameters,
        "responses": answers,
    });
    if !route.body.is_empty() {
        let body: Map<String, Value> = route.body.iter().map(|of| content(of, schemas)).collect();
        operation["requestBody"] = json!({ "content": body });
    }
    operation
}

/// The document.
pub(super) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.name().to_ascii_lowercase()] = operation;
    }
    let codes: Map<String, Value> = Code::ALL
        .iter()
        .map(|code| {
            let of = json!({ "status": code.status(), "description": code.meaning() });
            (code.name().to_owned(), of)
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Plimsoll",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable work queues. Every answer has `X-Request-Id`; every error has a body of `Error`. \
                            `HEAD` is answered wherever `GET` is. A path that is not here is 404 `NOT_FOUND`, a method \
                            that is not here 405 `METHOD_NOT_ALLOWED`.",
        },
        "paths": paths,
        "components": { "schemas": schemas.take_definitions(true) },
        "x-codes": codes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_route_is_in_the_document_with_its_errors_and_every_reference_leads_somewhere() {
        let document = document();
        for route in ROUTES {
            let method = route.method.name().to_ascii_lowercase();
            let operation = &document["paths"][route.path][method];
            for code in route.codes() {
                let codes = &operation["responses"][code.status().to_string()]["x-codes"];
                let named = codes.as_array().is_some_and(|all| all.contains(&json!(code.name())));
                assert!(named, "{:?} {}: {code:?}", route.method, route.path);
            }
            for success in route.successes {
                assert!(operation["responses"][success.status.to_string()].is_object());
            }
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > ROUTES.len());
        for reference in found {
            let at = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(at).is_some(), "{reference}");
        }
    }
}
