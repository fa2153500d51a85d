//! `POST /v1/responses/compact`: the provider's own compaction of a history, or ours where it has none.
//!
//! What the provider answers goes back as it is. A provider that does not know the endpoint is stood in for: the answer has
//! all user messages and one compaction item, as the protocol wants, and the item holds the summary. Later requests with
//! that item have the summary in its place.

use std::sync::Arc;

use bytes::Bytes;
use epitome::budget::{Meter, Tokens};
use epitome::plan::Room;
use epitome::planner::{PlanOptions, Planner, Verdict};
use epitome::thread::{Raw, Role, Thread};
use epitome::wire::{Voice, decode_message, may_spell, say};
use epitome_runtime::engine::Engine;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::Inner;
use super::answer::Passing;
use super::asked::Asked;
use super::way::Way;
use crate::refusal::Refusal;
use crate::upstream;

/// What the content of our compaction items begins with.
const OURS: &str = "epitome.summary.1:";
/// The letters of that which are there however it is spelled.
pub(super) const OUR_NAME: &str = "epitome";

/// The size of the prompt that is compacted to, as a share of the history.
const SHARE: f64 = 0.3;

impl Inner {
    /// Compacts a history.
    pub(super) async fn compact(
        &self,
        way: &Way,
        packed: Bytes,
        asked: Arc<Asked>,
    ) -> Result<Response<Passing>, Refusal> {
        let response = self.sent_on(way, upstream::whole(packed), |_| {}).await?;
        let is_unknown = matches!(
            response.status(),
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        );
        if !is_unknown || asked.previous().is_some() || asked.messages().is_empty() {
            return Ok(self.unread(response));
        }
        let engine = self.engine_for(None, asked.model(), false);
        let artifact_key = engine.log().vault().artifact_key(&way.head.caller.tenant);
        let made = self.work.spawn_blocking(move || compacted(&engine, &asked, artifact_key)).await;
        match made {
            Ok(body) => {
                let mut own = Response::new(Passing::whole(body.to_string().into()));
                own.headers_mut()
                    .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
                Ok(own)
            }
            Err(error) => {
                tracing::error!(%error, "failed to compact a history");
                Ok(self.unread(response))
            }
        }
    }
}

/// The answer that a provider with this endpoint would give.
fn compacted(engine: &Engine, asked: &Asked, artifact_key: [u8; 32]) -> Value {
    let dialect = asked.dialect();
    let meter = Meter::new(&**engine.counter(), dialect);
    let mut thread = Thread::new();
    thread.extend(asked.messages().iter().map(|raw| decode_message(dialect, raw)).collect(), &meter);
    let policy = &engine.settings().policy;
    let target = thread.total().share(SHARE).max(Tokens::new(500));
    let room = Room::in_window(policy, target, Tokens::ZERO);
    let options = PlanOptions { force: true, artifact_key: Some(artifact_key), ..PlanOptions::default() };
    let planner = Planner { thread: &thread, policy, meter, room, options: &options };
    let summary = match planner.decide() {
        Verdict::Act(draft) => planner
            .finish(*draft, None)
            .summaries
            .into_iter()
            .map(|summary| summary.text)
            .collect::<Vec<_>>()
            .join("\n\n"),
        _ => String::new(),
    };
    let users =
        thread.messages().iter().filter(|message| message.role() == Role::User && message.results().next().is_none());
    let mut output: Vec<Value> =
        users.filter_map(|message| serde_json::from_str(message.raw().as_str()).ok()).collect();
    let id = blake3::hash(summary.as_bytes()).to_hex();
    let words = meter.text(&summary).get();
    output.push(json!({"type": "compaction", "id": format!("cmp_{}", &id[..24]), "encrypted_content": format!("{OURS}{summary}")}));
    let input = thread.total().get();
    json!({
        "id": format!("resp_{}", &id[..24]),
        "object": "response.compaction",
        "created_at": epitome_runtime::ids::Moment::now().0 / 1000,
        "output": output,
        "usage": {
            "input_tokens": input,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": words,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input + words,
        },
    })
}

/// The words that one of our compaction items stands for, as a message.
pub(super) fn restored(item: &Raw) -> Option<String> {
    if !may_spell(item.as_str(), OUR_NAME) {
        return None;
    }
    let value: Value = serde_json::from_str(item.as_str()).ok()?;
    let is_ours = value.get("type")?.as_str()? == "compaction";
    let words = value.get("encrypted_content")?.as_str()?.strip_prefix(OURS)?;
    is_ours.then(|| say(epitome::wire::Dialect::Responses, Voice::User, words))
}
