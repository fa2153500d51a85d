//! An engine with threads in it: long results that were moved out, and messages of any text.

use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::Dialect;
use epitome_gateway::mcp::{Server, Session};
use epitome_gateway::tools::{Caps, Outcome, perform};
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{ArtifactRetention, Engine, EngineParts, EngineSettings, OpenThread, StepRequest};
use epitome_runtime::ids::{Moment, TenantId, ThreadId, ThreadKey};
use epitome_runtime::store::ArtifactRow;
use serde_json::{Value, json};

/// The lines of a long result.
pub const LINES: usize = 100;

pub fn owner(tenant: &str) -> Access {
    Access::owner(tenant.parse::<TenantId>().unwrap(), "tester")
}

pub fn id(thread: &str) -> ThreadId {
    thread.parse().unwrap()
}

pub struct World {
    pub engine: Engine,
    pub caps: Caps,
}

impl World {
    pub async fn new() -> World {
        World::keeping(ArtifactRetention::default()).await
    }

    pub async fn keeping(retention: ArtifactRetention) -> World {
        let policy = preset("ladder").unwrap();
        let settings = EngineSettings { window: Some(Tokens::new(6_000)), retention, ..EngineSettings::new(policy) };
        World { engine: Engine::new(EngineParts::in_memory(settings)).await.unwrap(), caps: Caps::default() }
    }

    pub fn reading(self, tokens: u64) -> World {
        World { caps: Caps { read_tokens_max: Tokens::new(tokens) }, ..self }
    }

    pub async fn open(&self, tenant: &str, thread: &str) -> OpenThread {
        self.engine.open(&owner(tenant), id(thread), Dialect::Chat).await.unwrap()
    }

    /// A thread whose first message, `m1`, is this text.
    pub async fn saying(&self, text: &str) -> OpenThread {
        let mut open = self.open("acme", "said").await;
        open.append([json!({"role": "user", "content": text}).to_string()]).await.unwrap();
        open
    }

    /// A thread whose first results, so many, are long and were moved out of its prompt.
    pub async fn moved_out(&self, tenant: &str, thread: &str, results: usize) -> OpenThread {
        self.moved_out_as(tenant, thread, thread, results).await
    }

    /// The same, with what another thread says.
    pub async fn moved_out_as(&self, tenant: &str, thread: &str, other: &str, results: usize) -> OpenThread {
        let mut open = self.open(tenant, thread).await;
        for at in 0..results {
            open.append(turn(other, at, LINES)).await.unwrap();
        }
        for at in results..results + 60 {
            open.append(turn(other, at, 5)).await.unwrap();
            if open.prepare_step(&StepRequest::default()).await.unwrap().version > 0 {
                return open;
            }
        }
        panic!("nothing was compacted");
    }

    pub async fn artifacts(&self, tenant: &str) -> Vec<ArtifactRow> {
        let tenant = tenant.parse().unwrap();
        self.engine.log().store().artifacts(&tenant, None, 1000).await.unwrap()
    }

    /// An artifact that a model may ask for.
    pub async fn artifact(&self, open: &OpenThread) -> String {
        let plan = self.engine.log().plan(open.key(), None).await.unwrap().unwrap();
        plan.1.hints.first().expect("something was moved out").id.clone()
    }

    /// Keeps these many more artifacts of a thread, each later than the one before.
    pub async fn add_artifacts(&self, tenant: &str, thread: &str, count: usize) {
        let access = owner(tenant);
        for at in 0..count {
            let options = epitome_runtime::artifact::PutOptions {
                at: Moment(1_800_000_000_000 + at as i64),
                sensitivity: Default::default(),
                ttl: None,
                tokens: Tokens::new(3),
            };
            let content = format!("{thread} keeps {at}");
            let write = self.engine.artifacts().put(&access, &id(thread), content.as_bytes(), options).await.unwrap();
            self.engine.log().apply(&[write]).await.unwrap();
        }
    }

    pub async fn call(&self, open: &mut OpenThread, name: &str, arguments: Value) -> Outcome {
        perform(&self.engine, open, self.caps, name, &arguments.to_string()).await
    }

    pub fn server(&self, access: Access, thread: Option<&str>) -> Server {
        Server::new(self.engine.clone(), self.caps, Session { access, thread: thread.map(id) })
    }

    pub async fn version(&self, tenant: &str, thread: &str) -> u64 {
        let key = ThreadKey::new(tenant.parse().unwrap(), id(thread));
        self.engine.log().thread(&key).await.unwrap().unwrap().version
    }
}

/// One turn of work: a request, a call, its result of so many lines, an answer.
fn turn(thread: &str, at: usize, lines: usize) -> Vec<String> {
    let result = (1..lines).map(|line| format!("{line}: value_{thread}_{at}_{line} of module_{at}\n"));
    let result = result.chain([format!("the zephyr{at} turns\n")]).collect::<String>();
    let path = json!({"path": format!("src/module_{at}.rs")}).to_string();
    let call = json!({"id": format!("call_{at}"), "type": "function", "function": {"name": "read", "arguments": path}});
    [
        json!({"role": "user", "content": format!("Request {at}: look at module_{at}.rs.")}),
        json!({"role": "assistant", "content": format!("I read module_{at}.rs."), "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": format!("call_{at}"), "content": result}),
        json!({"role": "assistant", "content": format!("module_{at} is fine.")}),
    ]
    .map(|message| message.to_string())
    .to_vec()
}
