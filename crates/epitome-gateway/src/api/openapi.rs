//! The OpenAPI document, made of the table of endpoints and the types of their answers. It is checked in, and that copy is
//! the one that is served.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ApiError;
use super::extract::{NoParams, QueryParams};
use super::table::{AnswerKind, ENDPOINTS, Endpoint, Parameter, ParameterPlace, Shape};
use crate::caller::KEY_HEADER;

/// The document as it is checked in.
const CHECKED_IN: &str = include_str!("../../openapi.json");

/// An OpenAPI document.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Document {
    /// The version of OpenAPI.
    openapi: String,
    /// The described API.
    info: Map<String, Value>,
    /// The endpoints.
    paths: Map<String, Value>,
    /// Everything else.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The body of an error.
#[derive(Debug, Serialize, JsonSchema)]
struct Error {
    /// The error.
    error: ErrorDetail,
}

/// The error.
#[derive(Debug, Serialize, JsonSchema)]
struct ErrorDetail {
    /// Its name for programs.
    code: String,
    /// The error in a sentence.
    message: String,
    /// A hint.
    hint: String,
}

pub(super) async fn show(QueryParams(NoParams {}): QueryParams<NoParams>) -> Result<Response, ApiError> {
    Ok(([(CONTENT_TYPE, "application/json")], CHECKED_IN).into_response())
}

/// The document as the table makes it.
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let error = schemas.subschema_for::<Error>();
    let paths: Map<String, Value> =
        ENDPOINTS.iter().map(|endpoint| (endpoint.path.to_owned(), path(endpoint, &mut schemas))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "epitome",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "What a gateway keeps of threads, and what it did.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8788"}],
        "security": [{}, {"key": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER.as_str()},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "responses": {
                "Error": {
                    "description": "Why it was not answered.",
                    "content": {"application/json": {"schema": error}},
                },
            },
            "schemas": schemas.take_definitions(true),
        },
    })
}

fn path(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut operation = json!({
        "operationId": operation_id(endpoint.path),
        "summary": endpoint.about,
        "responses": responses(endpoint, schemas),
    });
    if !endpoint.parameters.is_empty() {
        operation["parameters"] = endpoint.parameters.iter().map(parameter).collect();
    }
    if is_open(endpoint) {
        operation["security"] = json!([]);
    }
    let with_body = |mut operation: Value, body: fn() -> Value| {
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": body()}}});
        operation
    };
    match endpoint.answers {
        AnswerKind::Written(_, body) => json!({"post": with_body(operation, body)}),
        AnswerKind::Changeable(_, body) => {
            let mut change = with_body(operation.clone(), body);
            change["operationId"] = format!("change_{}", operation_id(endpoint.path)).into();
            json!({"get": operation, "post": change})
        }
        _ => json!({"get": operation}),
    }
}

/// True for endpoints that need no key: probes have none.
fn is_open(endpoint: &Endpoint) -> bool {
    matches!(endpoint.path, "/livez" | "/readyz" | "/health")
}

/// `/api/threads/{thread}/plans` is `api_threads_thread_plans`.
fn operation_id(path: &str) -> String {
    let plain: String = path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    plain.split('_').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

fn responses(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let (content_type, schema) = match endpoint.answers {
        AnswerKind::Json(schema)
        | AnswerKind::Readiness(schema)
        | AnswerKind::Changeable(schema, _)
        | AnswerKind::Written(schema, _) => ("application/json", schema(schemas).to_value()),
        AnswerKind::Text => ("text/plain", json!({"type": "string"})),
        AnswerKind::Events => ("text/event-stream", json!({"type": "string"})),
    };
    let answer = json!({"description": endpoint.about, "content": {content_type: {"schema": schema}}});
    let mut responses = json!({"200": answer});
    if matches!(endpoint.answers, AnswerKind::Readiness(_)) {
        responses["503"] = answer;
    }
    for status in errors(endpoint) {
        responses[*status] = json!({"$ref": "#/components/responses/Error"});
    }
    responses
}

/// The statuses that an endpoint may answer with an error.
fn errors(endpoint: &Endpoint) -> &'static [&'static str] {
    let takes = |place: ParameterPlace| endpoint.parameters.iter().any(|parameter| parameter.place == place);
    match () {
        () if is_open(endpoint) => &[],
        () if endpoint.path == "/metrics" => &["401", "403"],
        () if ["/prompt", "/notes", "/handoff"].iter().any(|end| endpoint.path.ends_with(end)) => {
            &["400", "401", "403", "404", "409", "500", "503"]
        }
        () if takes(ParameterPlace::Path) => &["400", "401", "403", "404", "500", "503"],
        () => &["400", "401", "403", "500", "503"],
    }
}

fn parameter(parameter: &Parameter) -> Value {
    let place = match parameter.place {
        ParameterPlace::Path => "path",
        ParameterPlace::Query => "query",
        ParameterPlace::Header => "header",
    };
    json!({
        "name": parameter.name,
        "in": place,
        "required": parameter.place == ParameterPlace::Path,
        "description": parameter.about,
        "schema": shape(parameter),
    })
}

fn shape(parameter: &Parameter) -> Value {
    match parameter.shape {
        // Without it there is another path.
        Shape::Text if parameter.place == ParameterPlace::Path => json!({"type": "string", "minLength": 1}),
        Shape::Text => json!({"type": "string"}),
        Shape::Name => json!({"type": "string", "pattern": "^[A-Za-z0-9_:@+=-][A-Za-z0-9._:@+=-]{0,199}$"}),
        Shape::Flag => json!({"type": "boolean", "default": false}),
        Shape::Day => json!({"type": "string", "format": "date"}),
        Shape::Whole(least, most, None) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Shape::Whole(least, most, Some(default)) => {
            json!({"type": "integer", "minimum": least, "maximum": most, "default": default})
        }
    }
}
