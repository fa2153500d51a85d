//! What the server offers and how it answers, whichever way a request came.
//!
//! A call that fails is an answer that the model reads. Only what no model can do anything about is an error of the
//! protocol: a tool that there is not, an address that names nothing.

use std::sync::Arc;

use epitome::thread::{Media, MediaKind, MediaSource};
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, EngineError};
use epitome_runtime::ids::ThreadId;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents, ServerCapabilities,
    ServerConfig, Tool as McpTool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::compact::{COMPACT, CompactParams, CompactReport, compact};
use super::resource::{ListCursor, ResourceUri, list, template};
use super::thread::ChosenThread;
use crate::tools::{
    ANNOTATE, Call, Caps, HANDOFF, NOTES, OpenedThread, Outcome, READ_ARTIFACT, RECALL, ReadTarget, Tool, answer,
    handoff, notes, refused, sentence,
};

/// The instructions that a client gives its model about the server.
const INSTRUCTIONS: &str = "epitome keeps long conversations inside the model's window: old content is summarized or \
    moved out of the prompt, and nothing is lost. When a summary or a placeholder is not enough, `recall` searches what \
    was left out and `read_artifact` reads it back, in parts. `compact` makes a thread's prompt smaller now, and `handoff` writes what a new \
    thread needs of an old one.";

/// The tools of the server.
const OFFERED: [Tool; 6] = [READ_ARTIFACT, RECALL, COMPACT, HANDOFF, NOTES, ANNOTATE];

/// The tenant that a client belongs to, and its thread.
#[derive(Clone, Debug)]
pub struct Session {
    /// The caller.
    pub access: Access,
    /// The one thread that it is about; without one, each call may name its own.
    pub thread: Option<ThreadId>,
}

/// The MCP server.
#[derive(Clone, Debug)]
pub struct Server {
    engine: Engine,
    caps: Caps,
    /// The session's caller; without one, each request brings its own.
    session: Option<Session>,
}

impl Server {
    /// A server of one client.
    pub fn new(engine: Engine, caps: Caps, session: Session) -> Self {
        Server { engine, caps, session: Some(session) }
    }

    /// A server of requests that bring their sessions.
    pub(super) fn for_requests(engine: Engine, caps: Caps) -> Self {
        Server { engine, caps, session: None }
    }

    fn session(&self, context: &RequestContext<RoleServer>) -> Result<Session, ErrorData> {
        let of_request = || context.extensions.get::<http::request::Parts>()?.extensions.get::<Session>().cloned();
        let nobody = || ErrorData::invalid_request("Nobody is known to be asking.", None);
        self.session.clone().or_else(of_request).ok_or_else(nobody)
    }

    async fn call(&self, session: &Session, name: &str, mut arguments: JsonObject) -> CallToolResult {
        let named = match arguments.remove("thread") {
            None | Some(Value::Null) => None,
            Some(Value::String(named)) if named.is_empty() => None,
            Some(Value::String(named)) => Some(named),
            Some(other) => return failed(format!("`thread` is {other}, and not the name of a thread.")),
        };
        let chosen = match ChosenThread::of(&self.engine, session, named.as_deref()).await {
            Ok(chosen) => chosen,
            Err(why) => return failed(why),
        };
        let thread = chosen.thread.clone();
        let report = if name == COMPACT.name {
            self.compact(session, thread, arguments.into()).await
        } else if name == HANDOFF.name {
            let (outcome, facts) = handoff(&self.engine, &session.access, thread, arguments.into()).await;
            CompactReport { outcome, facts }
        } else if [ANNOTATE, NOTES].iter().any(|tool| tool.name == name) {
            let (outcome, facts) = notes(&self.engine, &session.access, thread, name, arguments.into()).await;
            CompactReport { outcome, facts }
        } else {
            CompactReport { outcome: self.read(session, thread, name, arguments.into()).await, facts: None }
        };
        told(report, &chosen)
    }

    async fn compact(&self, session: &Session, thread: ThreadId, arguments: Value) -> CompactReport {
        match CompactParams::parse(arguments) {
            Ok(wishes) => compact(&self.engine, &session.access, thread, wishes).await,
            Err(outcome) => CompactReport { outcome, facts: None },
        }
    }

    async fn read(&self, session: &Session, thread: ThreadId, name: &str, arguments: Value) -> Outcome {
        let call = match Call::parse(name, &arguments.to_string()) {
            Ok(call) => call,
            Err(outcome) => return outcome,
        };
        match OpenedThread::load(&self.engine, &session.access, thread).await {
            Ok(mut opened) => answer(&self.engine, &mut opened.reader(), self.caps, &call).await,
            Err(error) => Outcome::failure(sentence(&error)),
        }
    }

    async fn contents(&self, session: &Session, uri: &str) -> Result<String, ErrorData> {
        let missing = || ErrorData::resource_not_found(format!("There is no resource {uri:.200}."), None);
        let address = ResourceUri::parse(uri).ok_or_else(missing)?;
        if session.thread.as_ref().is_some_and(|thread| *thread != address.thread) {
            return Err(missing());
        }
        let mut opened = OpenedThread::load(&self.engine, &session.access, address.thread).await.map_err(unreadable)?;
        let mut reader = opened.reader();
        match reader.read(&ReadTarget::named(&address.id, 0)).await {
            Ok(read) => Ok(read.text),
            Err(error @ EngineError::Log(_)) => Err(unreadable(error)),
            Err(error) => Err(ErrorData::resource_not_found(refused(&error, &address.id, reader.row()), None)),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        let name = Implementation::new("epitome", env!("CARGO_PKG_VERSION")).with_title("epitome");
        ServerConfig::new(capabilities).with_server_info(name).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let is_fixed = self.session(&context)?.thread.is_some();
        Ok(ListToolsResult::with_all_items(tools(is_fixed)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session(&context)?;
        if !OFFERED.iter().any(|tool| tool.name == request.name) {
            let said = format!(
                "There is no tool `{:.64}`. There are {}.",
                request.name,
                OFFERED.map(|tool| format!("`{}`", tool.name)).join(", ")
            );
            return Err(ErrorData::invalid_params(said, None));
        }
        Ok(self.call(&session, &request.name, request.arguments.unwrap_or_default()).await.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let session = self.session(&context)?;
        let after = match request.and_then(|request| request.cursor) {
            Some(text) => {
                let unknown = || ErrorData::invalid_params("The cursor is not one of this server's.", None);
                Some(ListCursor::parse(&text).ok_or_else(unknown)?)
            }
            None => None,
        };
        let listed = list(&self.engine, &session, after).await.map_err(unreadable)?;
        Ok(ListResourcesResult { next_cursor: listed.next, ..ListResourcesResult::with_all_items(listed.resources) })
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = self.contents(&self.session(&context)?, &request.uri).await?;
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }
}

/// The tools; one that is about a fixed thread does not ask for one.
fn tools(is_fixed: bool) -> Vec<McpTool> {
    let reads = || ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    // It is repeated with other results, and takes nothing away that cannot be read back.
    let writes = ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false);
    vec![
        tool(READ_ARTIFACT, "Read an artifact", reads(), is_fixed),
        tool(RECALL, "Recall", reads(), is_fixed),
        tool(COMPACT, "Compact a thread", writes.clone(), is_fixed),
        tool(HANDOFF, "Hand a thread over", reads(), is_fixed),
        tool(NOTES, "Notes on a thread", reads(), is_fixed),
        tool(ANNOTATE, "Change the notes on a thread", writes, is_fixed),
    ]
}

fn tool(tool: Tool, title: &str, annotations: ToolAnnotations, is_fixed: bool) -> McpTool {
    let mut schema: JsonObject = serde_json::from_str(tool.parameters).unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties").filter(|_| !is_fixed) {
        let about = "The thread; without it, the one that was used last";
        properties.insert("thread".to_owned(), json!({"type": "string", "description": about}));
    }
    McpTool::new(tool.name, tool.description, Arc::new(schema)).with_title(title).with_annotations(annotations)
}

/// Writes the result of a call; it names the thread if the client did not.
fn told(report: CompactReport, chosen: &ChosenThread) -> CallToolResult {
    let guess = chosen.is_guess.then(|| ContentBlock::text(format!("[thread {}, the one used last]", chosen.thread)));
    let media = report.outcome.media.iter().filter_map(shown);
    let content = guess.into_iter().chain([ContentBlock::text(report.outcome.text)]).chain(media).collect();
    let mut result =
        if report.outcome.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = report.facts;
    result
}

/// Media as the protocol shows it; `None` where only the provider has its bytes.
fn shown(media: &Media) -> Option<ContentBlock> {
    let MediaSource::Base64(data) = &media.source else { return None };
    let media_type = media.media_type.as_deref();
    Some(match media.kind {
        MediaKind::Image => ContentBlock::image(&**data, media_type.unwrap_or("image/png")),
        MediaKind::Audio => ContentBlock::audio(&**data, media_type.unwrap_or("audio/wav")),
        _ => {
            let name = media.name.as_deref().unwrap_or("file");
            ContentBlock::resource(ResourceContents::blob(&**data, format!("file:///{name}")))
        }
    })
}

fn failed(why: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

/// An error of the store as one of the protocol.
fn unreadable(error: EngineError) -> ErrorData {
    match &error {
        EngineError::Log(log) if log.is_passing() => ErrorData::internal_error(sentence(&error), None),
        _ => ErrorData::resource_not_found(sentence(&error), None),
    }
}
