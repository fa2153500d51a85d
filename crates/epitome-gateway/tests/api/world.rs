//! A gateway with a compacted thread of one tenant, a fork of it, and a short thread of another tenant.

use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::Dialect;
use epitome_gateway::settings::{ApiKey, Settings};
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Background, Engine, EngineParts, StepRequest};
use epitome_runtime::ids::{TenantId, ThreadId};
use epitome_runtime::model::Secret;
use serde_json::{Value, json};

use crate::fixture::Running;

pub const ACME: (&str, &str) = ("x-epitome-key", "ek-acme");
pub const BOLT: (&str, &str) = ("x-epitome-key", "ek-bolt");

const WINDOW: Tokens = Tokens::new(6_000);

pub fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

pub fn thread(name: &str) -> ThreadId {
    name.parse().unwrap()
}

pub fn owner(name: &str) -> Access {
    Access::owner(tenant(name), "tester")
}

/// The gateway, and what there is to ask for.
pub struct World {
    pub running: Running,
    pub artifact: String,
}

impl World {
    pub async fn new() -> World {
        let settings = epitome_runtime::engine::EngineSettings {
            window: Some(WINDOW),
            background: Background::Off,
            ..epitome_runtime::engine::EngineSettings::new(preset("ladder").unwrap())
        };
        let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
        compacted(&engine).await;
        engine.fork(&owner("acme"), thread("t-long"), 2, thread("t-short-fork")).await.unwrap();
        let mut other = engine.open(&owner("bolt"), thread("b-own"), Dialect::Chat).await.unwrap();
        other.append([says("user", "a secret of bolt")]).await.unwrap();
        let key = |name: &str| ApiKey { tenant: tenant(name), secret: Secret::new(&format!("ek-{name}")) };
        let settings = Settings { keys: vec![key("acme"), key("bolt")], ..Settings::default() };
        let running = Running::of(settings, engine).await;
        let (_, artifacts) = running.json("/api/threads/t-long/artifacts?limit=1", &[ACME]).await;
        let artifact = artifacts["artifacts"][0]["id"].as_str().expect("something was moved out").to_owned();
        World { running, artifact }
    }

    /// A gateway with one thread of acme, `t-talk`, that was summarized twice: a conversation without tools.
    pub async fn talking() -> World {
        let settings = epitome_runtime::engine::EngineSettings {
            window: Some(WINDOW),
            background: Background::Off,
            ..epitome_runtime::engine::EngineSettings::new(preset("ladder").unwrap())
        };
        let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
        let mut open = engine.open(&owner("acme"), thread("t-talk"), Dialect::Chat).await.unwrap();
        for at in 0..200 {
            let long: String =
                (0..20).map(|line| format!("Part {line} of module_{at} computes value_{at}_{line}. ")).collect();
            let asked = format!("Request {at}: tell me what module_{at} does, part by part.");
            open.append([says("user", &asked), says("assistant", &long)]).await.unwrap();
            if open.prepare_step(&StepRequest::default()).await.unwrap().version > 1 {
                break;
            }
        }
        assert!(open.row().version > 1, "it was not summarized twice");
        let key = ApiKey { tenant: tenant("acme"), secret: Secret::new("ek-acme") };
        let running = Running::of(Settings { keys: vec![key], ..Settings::default() }, engine).await;
        World { running, artifact: String::new() }
    }

    /// What acme is answered.
    pub async fn ask(&self, path: &str) -> (u16, Value) {
        self.running.json(path, &[ACME]).await
    }

    /// What acme is answered when all is well.
    pub async fn fine(&self, path: &str) -> Value {
        let (status, body) = self.ask(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

/// Appends turns with long results until something was moved out and something summarized.
async fn compacted(engine: &Engine) {
    let mut open = engine.open(&owner("acme"), thread("t-long"), Dialect::Chat).await.unwrap();
    for at in 0..60 {
        open.append(turn(at)).await.unwrap();
        let step = open.prepare_step(&StepRequest::default()).await.unwrap();
        if step.version > 1 {
            return;
        }
    }
    panic!("nothing was compacted");
}

pub fn says(role: &str, words: &str) -> String {
    json!({"role": role, "content": words}).to_string()
}

/// One turn of work: a request, a call, its result, an answer.
pub fn turn(at: usize) -> Vec<String> {
    let line = |line: usize| format!("{line}: let value_{at}_{line} = compute({at}, {line}); // part of module_{at}\n");
    let arguments = json!({"path": format!("src/module_{at}.rs")}).to_string();
    let call =
        json!({"id": format!("call_{at}"), "type": "function", "function": {"name": "read", "arguments": arguments}});
    vec![
        says("user", &format!("Request {at}: look at module_{at}.rs. Never delete production data.")),
        json!({"role": "assistant", "content": format!("I read module_{at}.rs now."), "tool_calls": [call]})
            .to_string(),
        json!({"role": "tool", "tool_call_id": format!("call_{at}"), "content": (0..60).map(line).collect::<String>()})
            .to_string(),
        says("assistant", &format!("module_{at} computes value_{at}_39.")),
    ]
}
