//! The table of endpoints: each once, with what it takes, what it answers, and who answers it.

use axum::routing::{MethodRouter, get};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::ask::{LIMIT, LIMIT_MAX, SAFE_MAX};
use super::{Api, artifact, event, ledger, message, openapi, plan, prompt, thread, version};
use crate::serve::{health, metrics};

/// An endpoint. All are asked with GET.
pub struct Endpoint {
    /// Its path; names in braces stand for what is asked for.
    pub path: &'static str,
    /// What it answers.
    pub about: &'static str,
    /// What it takes.
    pub parameters: &'static [Parameter],
    pub(super) answers: Answers,
    pub(super) handler: fn() -> MethodRouter<Api>,
}

/// What an endpoint takes.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    pub(super) stands: Stands,
    pub(super) shape: Shape,
}

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    Path,
    Query,
    Header,
}

/// What a parameter looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    /// What can be a thread's id.
    Name,
    Day,
    /// A whole number from here to there, and what it is when nobody says.
    Whole(u64, u64, Option<u64>),
}

/// What an endpoint answers.
#[derive(Clone, Copy)]
pub(super) enum Answers {
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// JSON, and 503 with the same shape when it is not well.
    Readiness(fn(&mut SchemaGenerator) -> Schema),
    Text,
    Events,
}

const THREAD: Parameter =
    Parameter { name: "thread", about: "A thread's id.", stands: Stands::Path, shape: Shape::Text };
const AFTER: Parameter = Parameter {
    name: "after",
    about: "What `next` of the page before said.",
    stands: Stands::Query,
    shape: Shape::Text,
};
const AFTER_NAME: Parameter = Parameter { shape: Shape::Name, ..AFTER };
const AFTER_NUMBER: Parameter = Parameter { shape: Shape::Whole(0, SAFE_MAX, Some(0)), ..AFTER };
const AT_MOST: Parameter = Parameter {
    name: "limit",
    about: "The most of them in one answer.",
    stands: Stands::Query,
    shape: Shape::Whole(1, LIMIT_MAX, Some(LIMIT)),
};

const fn query(name: &'static str, about: &'static str, shape: Shape) -> Parameter {
    Parameter { name, about, stands: Stands::Query, shape }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Every endpoint of the gateway's own, but for `/mcp`, which speaks a protocol of its own.
pub static ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        path: "/livez",
        about: "Whether the process lives.",
        parameters: &[],
        answers: Answers::Text,
        handler: || get(health::live),
    },
    Endpoint {
        path: "/readyz",
        about: "Whether requests should be sent here, with each check; 503 when not. Without its store it is `degraded`, and goes on.",
        parameters: &[],
        answers: Answers::Readiness(schema::<health::Readiness>),
        handler: || get(health::ready),
    },
    Endpoint {
        path: "/health",
        about: "That the process lives, and what it is.",
        parameters: &[],
        answers: Answers::Json(schema::<health::Health>),
        handler: || get(health::health),
    },
    Endpoint {
        path: "/metrics",
        about: "What was counted, in Prometheus' text format.",
        parameters: &[],
        answers: Answers::Text,
        handler: || get(metrics::show),
    },
    Endpoint {
        path: "/api/version",
        about: "What program it is.",
        parameters: &[],
        answers: Answers::Json(schema::<version::Version>),
        handler: || get(version::show),
    },
    Endpoint {
        path: "/api/openapi.json",
        about: "This description, as OpenAPI 3.1.",
        parameters: &[],
        answers: Answers::Json(schema::<openapi::Document>),
        handler: || get(openapi::show),
    },
    Endpoint {
        path: "/api/threads",
        about: "The threads.",
        parameters: &[AFTER_NAME, AT_MOST],
        answers: Answers::Json(schema::<thread::Threads>),
        handler: || get(thread::list),
    },
    Endpoint {
        path: "/api/threads/{thread}",
        about: "A thread, and how it hangs together with others.",
        parameters: &[THREAD],
        answers: Answers::Json(schema::<thread::ThreadDetail>),
        handler: || get(thread::show),
    },
    Endpoint {
        path: "/api/threads/{thread}/messages",
        about: "A thread's messages as they came.",
        parameters: &[
            THREAD,
            query("from", "The number of the first one.", Shape::Whole(1, SAFE_MAX, Some(1))),
            query("to", "The number of the last one; without it, 50 are given.", Shape::Whole(1, SAFE_MAX, None)),
        ],
        answers: Answers::Json(schema::<message::Messages>),
        handler: || get(message::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/prompt",
        about: "What the model sees now.",
        parameters: &[THREAD],
        answers: Answers::Json(schema::<prompt::Prompt>),
        handler: || get(prompt::show),
    },
    Endpoint {
        path: "/api/threads/{thread}/plans",
        about: "A thread's plans, without what they say.",
        parameters: &[THREAD, AFTER_NUMBER, AT_MOST],
        answers: Answers::Json(schema::<plan::Plans>),
        handler: || get(plan::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/plans/{version}",
        about: "A plan: what it took out of the prompt, and what stands there.",
        parameters: &[
            THREAD,
            Parameter {
                name: "version",
                about: "The plan's version.",
                stands: Stands::Path,
                shape: Shape::Whole(1, SAFE_MAX, None),
            },
        ],
        answers: Answers::Json(schema::<plan::PlanDetail>),
        handler: || get(plan::show),
    },
    Endpoint {
        path: "/api/threads/{thread}/receipt",
        about: "What became of every item that a plan took out of the prompt.",
        parameters: &[
            THREAD,
            query("version", "The plan's version; without it, the newest.", Shape::Whole(1, SAFE_MAX, None)),
        ],
        answers: Answers::Json(schema::<plan::Receipt>),
        handler: || get(plan::receipt),
    },
    Endpoint {
        path: "/api/threads/{thread}/events",
        about: "What happened to a thread.",
        parameters: &[THREAD, AFTER_NUMBER, AT_MOST],
        answers: Answers::Json(schema::<event::Events>),
        handler: || get(event::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/events/stream",
        about: "What happened to a thread and what happens, as server-sent events.",
        parameters: &[
            THREAD,
            Parameter {
                name: "Last-Event-ID",
                about: "The number of the last event that was seen; without it, from the first on.",
                stands: Stands::Header,
                shape: Shape::Whole(0, SAFE_MAX, None),
            },
        ],
        answers: Answers::Events,
        handler: || get(event::of_thread),
    },
    Endpoint {
        path: "/api/threads/{thread}/artifacts",
        about: "What left a thread's prompts.",
        parameters: &[THREAD, AFTER_NUMBER, AT_MOST],
        answers: Answers::Json(schema::<artifact::ThreadArtifacts>),
        handler: || get(artifact::list),
    },
    Endpoint {
        path: "/api/threads/{thread}/ledger",
        about: "What each request of a thread cost, and what it would have cost.",
        parameters: &[THREAD, AFTER, AT_MOST],
        answers: Answers::Json(schema::<ledger::LedgerEntries>),
        handler: || get(ledger::of_thread),
    },
    Endpoint {
        path: "/api/artifacts/{artifact}",
        about: "An artifact's content, or a part of it.",
        parameters: &[
            Parameter { name: "artifact", about: "An artifact's id.", stands: Stands::Path, shape: Shape::Text },
            query("from", "The first line.", Shape::Whole(1, SAFE_MAX, None)),
            query("to", "The last line.", Shape::Whole(1, SAFE_MAX, None)),
            query("grep", "Gives only the lines that hold this text, in any case.", Shape::Text),
        ],
        answers: Answers::Json(schema::<artifact::ArtifactContent>),
        handler: || get(artifact::read),
    },
    Endpoint {
        path: "/api/events",
        about: "What happens to any thread on this gateway, from now on, as server-sent events.",
        parameters: &[],
        answers: Answers::Events,
        handler: || get(event::all),
    },
    Endpoint {
        path: "/api/ledger",
        about: "What all requests cost, and what they would have cost, day by day.",
        parameters: &[query("since", "The first day, such as 2026-11-16.", Shape::Day)],
        answers: Answers::Json(schema::<ledger::LedgerTotals>),
        handler: || get(ledger::all),
    },
];
