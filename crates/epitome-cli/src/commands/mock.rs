//! `epitome mock`: runs a strict mock provider until a signal stops it, or lists its faults.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use epitome::budget::Tokens;
use epitome_gateway::serve::signaled;
use epitome_mock::{MockServer, MockSettings, MockWork, ProviderFault, Timing};
use serde_json::json;

use crate::cli;
use crate::failure::{Answer, Exit, Failure, Result, words};
use crate::open_store::wait;
use crate::progress::Progress;
use crate::receipt::count;
use crate::telemetry;

pub fn run(args: &cli::MockArgs, progress: Progress) -> Result<Answer> {
    drop(progress);
    if args.list {
        return Ok(catalog());
    }
    wait(async {
        let settings = settings(args);
        let listen = settings.listen;
        let mock = MockServer::start(settings).map_err(|error| {
            Failure::new(Exit::CannotFit, format!("The mock cannot listen on {listen}: {}.", words(&error)))
                .hint("`--port 0` takes a free port.")
        })?;
        telemetry::say(&welcome(&mock));
        signaled().await;
        let answer = violations(&mock);
        mock.stop().await;
        Ok(answer)
    })
}

fn settings(args: &cli::MockArgs) -> MockSettings {
    MockSettings {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)),
        window: args.window.map(Tokens::new),
        overflow: args.overflow,
        counts_output: args.count_output.then_some(true),
        pedantic: args.pedantic,
        lax: args.lax,
        work: MockWork {
            turns: args.work,
            bytes: args.work_bytes,
            file: args.work_file.clone(),
            gateway_tools: args.use_gateway_tools,
        },
        timing: Timing {
            first_token: Duration::from_millis(args.ttft_ms),
            between_tokens: Duration::from_millis(args.itl_ms),
            answer_tokens: args.answer_tokens,
        },
        // Nobody can ask this process for recorded bodies, so it must not collect them.
        records_max: 0,
        ..MockSettings::default()
    }
}

fn welcome(mock: &MockServer) -> String {
    let url = mock.url();
    format!(
        "Mock provider on {url}; press Ctrl-C to stop.\n  OPENAI_BASE_URL={url}/v1\n  ANTHROPIC_BASE_URL={url}\n  \
         GOOGLE_GEMINI_BASE_URL={url}\n  {url}/mock/stats shows what was used and which rules were broken.\n"
    )
}

fn violations(mock: &MockServer) -> Answer {
    let violations = mock.violations();
    let mut text = format!("{}.\n", count(violations.len(), "violation"));
    for broken in &violations {
        let _ = writeln!(text, "{:<6} {}: {}", broken.rule, broken.path, broken.message);
    }
    Answer::new(text, json!({"violations": violations}))
}

fn catalog() -> Answer {
    let mut text = String::new();
    for fault in ProviderFault::all() {
        let _ = writeln!(text, "{:<24} {:<12} {}", fault.name(), fault.kind(), fault.summary());
    }
    let list: Vec<_> = ProviderFault::all()
        .map(|fault| json!({"name": fault.name(), "kind": fault.kind().to_string(), "summary": fault.summary()}))
        .collect();
    Answer::new(text, json!({"faults": list}))
}
