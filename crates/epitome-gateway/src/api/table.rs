//! The table of endpoints: each once, with what it takes, what it answers, and who answers it.

use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::extract::{LIMIT, LIMIT_MAX, SAFE_MAX};
use super::{
    Api, artifact, event, handoff, ledger, message, notes, openapi, plan, prompt, reading_back, thread, version,
};
use crate::serve::{health, metrics};

/// An endpoint. It is asked with GET; one that can be changed takes POST as well, and one that writes something for the caller takes
/// POST alone.
pub struct Endpoint {
    /// Its path; names in braces stand for what is asked for.
    pub path: &'static str,
    /// A sentence about its answer.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    pub(super) answers: AnswerKind,
    pub(super) handler: fn() -> MethodRouter<Api>,
}

/// A parameter of an endpoint.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub about: &'static str,
    pub(super) place: ParameterPlace,
    pub(super) shape: Shape,
}

/// The place of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterPlace {
    Path,
    Query,
    Header,
}

/// The form of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    /// A thread's id.
    Name,
    Day,
    /// Yes or no.
    Flag,
    /// A whole number from here to there, and what it is when nobody says.
    Whole(u64, u64, Option<u64>),
}

/// The answer of an endpoint.
#[derive(Clone, Copy)]
pub(super) enum AnswerKind {
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// JSON, and 503 with the same shape when it is not well.
    Readiness(fn(&mut SchemaGenerator) -> Schema),
    /// JSON, and the same after a change: the schema of the answer, and of the body that says what to change.
    Changeable(fn(&mut SchemaGenerator) -> Schema, fn() -> serde_json::Value),
    /// JSON, written for the body of a POST: the schema of the answer, and of the body.
    Written(fn(&mut SchemaGenerator) -> Schema, fn() -> serde_json::Value),
    Text,
    Events,
}

const THREAD: Parameter =
    Parameter { name: "thread", about: "A thread's id.", place: ParameterPlace::Path, shape: Shape::Text };
const AFTER: Parameter = Parameter {
    name: "after",
    about: "The `next` of the page before.",
    place: ParameterPlace::Query,
    shape: Shape::Text,
};
const AFTER_NAME: Parameter = Parameter { shape: Shape::Name, ..AFTER };
const AFTER_NUMBER: Parameter = Parameter { shape: Shape::Whole(0, SAFE_MAX, Some(0)), ..AFTER };
const AT_MOST: Parameter = Parameter {
    name: "limit",
    about: "The most entries of one page.",
    place: ParameterPlace::Query,
    shape: Shape::Whole(1, LIMIT_MAX, Some(LIMIT)),
};

const fn query(name: &'static str, about: &'static str, shape: Shape) -> Parameter {
    Parameter { name, about, place: ParameterPlace::Query, shape }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Every endpoint of the gateway's own, except `/mcp`, which has its own protocol.
pub static ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        path: "/livez",
        about: "A sign of life.",
        parameters: &[],
        answers: AnswerKind::Text,
        handler: || get(health::live),
    },
    Endpoint {
        path: "/readyz",
        about: "Readiness, with each check; 503 if not ready. Without its store a gateway is `degraded` and keeps serving.",
        parameters: &[],
        answers: AnswerKind::Readiness(schema::<health::Readiness>),
        handler: || get(health::ready),
    },
    Endpoint {
        path: "/health",
        about: "A sign of life, with version and uptime.",
        parameters: &[],
        answers: AnswerKind::Json(schema::<health::Health>),
        handler: || get(health::health),
    },
    Endpoint {
        path: "/metrics",
        about: "Metrics in Prometheus' text format.",
        parameters: &[],
        answers: AnswerKind::Text,
        handler: || get(metrics::show),
    },
    Endpoint {
        path: "/api/version",
        about: "The program and its version.",
        parameters: &[],
        answers: AnswerKind::Json(schema::<version::Version>),
        handler: || get(version::show),
    },
    Endpoint {
        path: "/api/openapi.json",
        about: "This description, as OpenAPI 3.1.",
        parameters: &[],
        answers: AnswerKind::Json(schema::<openapi::Document>),
        handler: || get(openapi::show),
    },
    Endpoint {
        path: "/api/threads",
        about: "The threads.",
        parameters: &[AFTER_NAME, AT_MOST],
        answers: AnswerKind::Json(schema::<thread::Threads>),
        handler: || get(thread::list),
    },
    Endpoint {
        path: "/api/threads/{thread}",
        about: "A thread and its relatives.",
        parameters: &[THREAD],
        answers: AnswerKind::Json(schema::<thread::ThreadDetail>),
        handler: || get(thread::show),
    },
    Endpoint {
        path: "/api/threads/{thread}/messages",
        about: "A thread's messages as received.",
        parameters: &[
            THREAD,
            query("from", "The number of the first one.", Shape::Whole(1, SAFE_MAX, Some(1))),
            query(
                "to",
                "The number of the last one; by default 50 messages are returned.",
                Shape::Whole(1, SAFE_MAX, None),
            ),
        ],
        answers: AnswerKind::Json(schema::<message::Messages>),
        handler: || get(message::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/prompt",
        about: "The prompt that the model sees now.",
        parameters: &[THREAD],
        answers: AnswerKind::Json(schema::<prompt::Prompt>),
        handler: || get(prompt::show),
    },
    Endpoint {
        path: "/api/threads/{thread}/recall",
        about: "Searches what left a thread's prompts.",
        parameters: &[
            THREAD,
            query("query", "The words to look for; with another parameter there may be none.", Shape::Text),
            query("who", "Only what they said: user, assistant or tool.", Shape::Text),
            query("file", "Only what is about this file: its path, or the end of it.", Shape::Text),
            query("tool", "Only calls of this tool and their results.", Shape::Text),
            query("after", "Only messages after this one, such as m41.", Shape::Text),
            query("newest", "The newest first.", Shape::Flag),
            query("limit", "The most passages.", Shape::Whole(1, LIMIT_MAX, Some(12))),
        ],
        answers: AnswerKind::Json(schema::<reading_back::Recalled>),
        handler: || get(reading_back::recall),
    },
    Endpoint {
        path: "/api/threads/{thread}/read",
        about: "Messages, an artifact, the edits of a file, or a file as it stands. One of `id`, `edits` and `file` is needed.",
        parameters: &[
            THREAD,
            query("id", "An artifact's id, or messages: m41, or m188-m193, m200.", Shape::Text),
            query("around", "So many messages before and after these as well.", Shape::Whole(0, 50, Some(0))),
            query("edits", "A file, for all its edits as diffs.", Shape::Text),
            query("file", "A file, for its lines as they stand now, as far as they are known.", Shape::Text),
            query("from", "The first line.", Shape::Whole(1, SAFE_MAX, None)),
            query("to", "The last line.", Shape::Whole(1, SAFE_MAX, None)),
            query("grep", "Only lines that hold this text, in any case.", Shape::Text),
            query("context", "Lines around each of those.", Shape::Whole(0, 50, Some(0))),
            query("byte", "Where to go on inside a long line.", Shape::Whole(0, SAFE_MAX, None)),
        ],
        answers: AnswerKind::Json(schema::<reading_back::ReadBack>),
        handler: || get(reading_back::show),
    },
    Endpoint {
        path: "/api/threads/{thread}/plans",
        about: "A thread's plans, without their contents.",
        parameters: &[THREAD, AFTER_NUMBER, AT_MOST],
        answers: AnswerKind::Json(schema::<plan::Plans>),
        handler: || get(plan::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/plans/{version}",
        about: "A plan: what it took out of the prompt, and its summaries.",
        parameters: &[
            THREAD,
            Parameter {
                name: "version",
                about: "The plan's version.",
                place: ParameterPlace::Path,
                shape: Shape::Whole(1, SAFE_MAX, None),
            },
        ],
        answers: AnswerKind::Json(schema::<plan::PlanDetail>),
        handler: || get(plan::show),
    },
    Endpoint {
        path: "/api/threads/{thread}/receipt",
        about: "The outcome of every item that a plan took out of the prompt.",
        parameters: &[
            THREAD,
            query("version", "The plan's version; without it, the newest.", Shape::Whole(1, SAFE_MAX, None)),
        ],
        answers: AnswerKind::Json(schema::<plan::Receipt>),
        handler: || get(plan::receipt),
    },
    Endpoint {
        path: "/api/threads/{thread}/events",
        about: "A thread's events.",
        parameters: &[THREAD, AFTER_NUMBER, AT_MOST],
        answers: AnswerKind::Json(schema::<event::Events>),
        handler: || get(event::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/events/stream",
        about: "A thread's events, past and new, as server-sent events.",
        parameters: &[
            THREAD,
            Parameter {
                name: "Last-Event-ID",
                about: "The number of the last event that was seen; by default all events are sent.",
                place: ParameterPlace::Header,
                shape: Shape::Whole(0, SAFE_MAX, None),
            },
        ],
        answers: AnswerKind::Events,
        handler: || get(event::of_thread),
    },
    Endpoint {
        path: "/api/threads/{thread}/artifacts",
        about: "The artifacts that left a thread's prompts.",
        parameters: &[THREAD, AFTER_NUMBER, AT_MOST],
        answers: AnswerKind::Json(schema::<artifact::ThreadArtifacts>),
        handler: || get(artifact::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/notes",
        about: "Hidden messages, pins, memory block, workstream state and quality of a thread; POST changes them.",
        parameters: &[THREAD],
        answers: AnswerKind::Changeable(schema::<notes::Notes>, notes::change_schema),
        handler: || get(notes::show).post(notes::change),
    },
    Endpoint {
        path: "/api/threads/{thread}/handoff",
        about: "What a new thread needs of this one to reach a goal; the thread stays as it is.",
        parameters: &[THREAD],
        answers: AnswerKind::Written(schema::<handoff::Handoff>, handoff::request_schema),
        handler: || post(handoff::write),
    },
    Endpoint {
        path: "/api/threads/{thread}/ledger",
        about: "The cost of each request of a thread, with and without the gateway.",
        parameters: &[THREAD, AFTER, AT_MOST],
        answers: AnswerKind::Json(schema::<ledger::LedgerEntries>),
        handler: || get(ledger::of_thread),
    },
    Endpoint {
        path: "/api/artifacts/{artifact}",
        about: "An artifact's content, or a part of it.",
        parameters: &[
            Parameter { name: "artifact", about: "An artifact's id.", place: ParameterPlace::Path, shape: Shape::Text },
            query("from", "The first line.", Shape::Whole(1, SAFE_MAX, None)),
            query("to", "The last line.", Shape::Whole(1, SAFE_MAX, None)),
            query("grep", "Returns only lines that contain this text, in any case.", Shape::Text),
        ],
        answers: AnswerKind::Json(schema::<artifact::ArtifactContent>),
        handler: || get(artifact::read),
    },
    Endpoint {
        path: "/api/events",
        about: "New events of all threads on this gateway, as server-sent events.",
        parameters: &[],
        answers: AnswerKind::Events,
        handler: || get(event::all),
    },
    Endpoint {
        path: "/api/ledger",
        about: "The cost of all requests, with and without the gateway, by day.",
        parameters: &[query("since", "The first day, such as 2026-11-16.", Shape::Day)],
        answers: AnswerKind::Json(schema::<ledger::LedgerTotals>),
        handler: || get(ledger::all),
    },
];
