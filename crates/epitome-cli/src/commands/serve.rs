//! `epitome serve`: the gateway, from the configuration to its end.
//!
//! Everything that can be wrong is found out before it listens. What it says goes to standard error.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use epitome::policy::preset;
use epitome_gateway::policy::usual;
use epitome_gateway::serve::{Gateway, ListenError, Listening, Openness};
use epitome_gateway::settings::{LogFormat, Provider, Settings, SettingsError};
use epitome_mock::{MockServer, MockSettings};
use epitome_runtime::engine::{Engine, EngineError};
use epitome_runtime::log::LogError;
use epitome_runtime::store::{RecoveringStore, Store, StoreError, TimeoutStore};
use serde_json::json;

use crate::cli::Serve;
use crate::failure::{Answer, Exit, Failure, sentence};
use crate::planning;
use crate::progress::Progress;
use crate::receipt::plural;
use crate::settings::{Configured, Flags};
use crate::telemetry;

/// How long the log may take to get what came last.
const LOG_WAIT: Duration = Duration::from_secs(10);
/// How long the start waits for the store.
const STORE_WAIT: Duration = Duration::from_secs(1);
/// How long work that nobody needs may go on at the end.
const LEFT_OVER_WAIT: Duration = Duration::from_millis(200);

/// Serves until it is told to stop.
pub fn run(args: &Serve, config: Option<&Path>, json: bool, progress: Progress) -> Result<Answer, Failure> {
    // It runs for days: there is no end to wait for.
    drop(progress);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Exit::CannotFit, format!("No threads can be started: {error}.")))?;
    let answer = runtime.block_on(serve(args, config, json));
    // Planning that nobody waits for any more is not waited for either.
    runtime.shutdown_timeout(LEFT_OVER_WAIT);
    answer
}

async fn serve(args: &Serve, config: Option<&Path>, json: bool) -> Result<Answer, Failure> {
    if let Some(policy) = &args.policy {
        planning::policy(Some(policy))?;
    }
    let demo = if args.demo { Some(Demo::start()?) } else { None };
    let configured = Configured::load(config, demo.iter().fold(flags(args), |flags, demo| demo.lay_over(flags, args)))?;
    let log_json = json || configured.serve().log == LogFormat::Json;
    let exporter = telemetry::start(&configured, log_json)?;
    let tenant = configured.config().tenant.id.clone();
    let settings = Arc::new(Settings::new(configured.serve().clone(), tenant, &configured.environment)?);
    let openness = if args.insecure { Openness::Anybody } else { Openness::Local };
    let listening = Listening::on(&settings, openness).await?;
    let compactions = Arc::new(epitome_runtime::event::CompactionMetrics::new());
    let store_wait = settings.serve.store_patience_ms.0;
    // Less than a request waits, so that the reason for the wait is known.
    let store = configured.config().recovering_store(store_wait * 3 / 4)?;
    let mut parts = configured.config().parts_over(Arc::new(store.clone()), &configured.environment)?;
    parts.bus = parts.bus.with_listener(compactions.clone());
    parts.settings.store_timeout = store_wait;
    if configured.names_no_policy() {
        parts.settings.policy.target = usual().target;
    }
    let engine = Engine::before_its_store(parts);
    let sealed = Arc::new(Mutex::new(None));
    let opening = keep_open(&store, &engine, &sealed);
    // Requests go out without it, so it is not waited for longer than it usually takes.
    let is_open = store.first_try(STORE_WAIT).await;
    // A key that is not configured does not come by waiting for it.
    if let Some(error) = sealed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        opening.abort();
        return Err(error.into());
    }
    if !log_json {
        say(&welcome(&listening, &settings, &configured, is_open));
        say(&demo.as_ref().map(|_| Demo::loop_at(&listening.url())).unwrap_or_default());
    }
    let report = Gateway::start(settings, engine, compactions, listening).stop_on_signals(LOG_WAIT).await;
    if !report.is_log_complete {
        say("The newest messages of some threads are not in the store; their clients will send them again.\n");
    }
    if let Err(error) = &report.ledger {
        say(&format!("The newest entries of the ledger are not written: {error}.\n"));
    }
    opening.abort();
    drop(exporter);
    Ok(farewell(report.cut))
}

/// Opens the store, as often as it takes, and again when it is lost. That it is sealed with a key that is not configured is
/// noted.
fn keep_open(
    store: &RecoveringStore,
    engine: &Engine,
    sealed: &Arc<Mutex<Option<LogError>>>,
) -> tokio::task::JoinHandle<()> {
    let (store, engine, sealed) = (store.clone(), engine.clone(), Arc::clone(sealed));
    let timeout = engine.settings().store_timeout;
    tokio::spawn(async move {
        let adopt = |opened: Arc<dyn Store>| {
            let (engine, sealed) = (engine.clone(), Arc::clone(&sealed));
            async move {
                match engine.adopt_store(Arc::new(TimeoutStore::new(opened, timeout))).await {
                    Ok(()) => Ok(()),
                    Err(EngineError::Log(LogError::Store(error))) => Err(error),
                    Err(EngineError::Log(error @ LogError::Sealed { .. })) => {
                        let reason = error.to_string();
                        *sealed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        Err(StoreError::Refused { reason })
                    }
                    Err(error) => Err(StoreError::Refused { reason: error.to_string() }),
                }
            }
        };
        store.keep_open(adopt).await;
    })
}

fn flags(args: &Serve) -> Flags {
    let upstreams = (!args.upstreams.is_empty()).then(|| args.upstreams.join(","));
    let is_preset = args.policy.as_deref().is_some_and(|name| preset(name).is_some());
    let (name, path) = if is_preset { (args.policy.as_ref(), None) } else { (None, args.policy.as_ref()) };
    Flags::default()
        .with("serve.listen", args.listen.as_ref())
        .with("serve.upstreams", upstreams)
        .with("serve.budget", args.budget)
        .with("serve.tools", args.tools.as_ref())
        .with("serve.log", args.log.as_ref())
        .with("serve.tls_certificate", args.tls_certificate.as_ref())
        .with("serve.tls_key", args.tls_key.as_ref())
        .with("store.url", args.store.as_ref())
        .with("policy.name", name)
        .with("policy.path", path)
}

/// Where it is, where requests go, and the two lines that point an agent at it.
fn welcome(listening: &Listening, settings: &Settings, configured: &Configured, is_open: bool) -> String {
    let url = listening.url();
    let store = &configured.config().store.url;
    let threads = match is_open {
        true => format!("store: {store}"),
        false => format!("{store} cannot be opened yet, so requests go out as they came"),
    };
    let mut text = format!("Listening on {url}; {threads}. Press Ctrl-C to stop.\n\n");
    for upstream in &settings.upstreams {
        let key = if upstream.key.is_some() { ", with a key of the gateway's" } else { "" };
        let address = upstream.url.to_string();
        text.push_str(&format!("  {:<12} {}{key}\n", upstream.route, address.trim_end_matches('/')));
    }
    text.extend(configured.summary_writer().map(|line| format!("\n{line}")));
    text.push_str(&format!("\n  export OPENAI_BASE_URL={url}/v1\n  export ANTHROPIC_BASE_URL={url}\n\n"));
    text
}

/// The most tokens of a prompt in a demonstration: little enough to be reached soon.
const DEMO_BUDGET: u64 = 3000;

/// A provider to show a compaction with.
struct Demo(MockServer);

impl Demo {
    fn start() -> Result<Demo, Failure> {
        let failed = |error| Failure::new(Exit::CannotFit, format!("The mock provider cannot be started: {error}."));
        MockServer::start(MockSettings::default()).map(Demo).map_err(failed)
    }

    /// The flags with every provider being the mock, and a memory that goes with the process.
    fn lay_over(&self, flags: Flags, args: &Serve) -> Flags {
        let upstreams = Provider::ALL.map(|provider| format!("{}={}", provider.name(), self.0.url()));
        let budget = args.budget.unwrap_or(DEMO_BUDGET);
        flags
            .with("store.url", Some("memory:"))
            .with("serve.upstreams", Some(upstreams.join(",")))
            .with("serve.budget", Some(budget))
    }

    /// A loop for another terminal: an agent store_args history grows.
    fn loop_at(url: &str) -> String {
        format!(
            r#"This is a demonstration: a mock provider answers. Paste this into another terminal and watch the tokens:

  m='{{"role":"system","content":"Be brief."}}'
  for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    m="$m,{{\"role\":\"user\",\"content\":\"Step $i. Never touch prod. $(seq -s ' ' $i 300)\"}}"
    a=$(curl -sD /tmp/epitome-demo {url}/v1/chat/completions -H 'authorization: Bearer demo' \
      -H 'content-type: application/json' -d "{{\"model\":\"gpt-4o\",\"messages\":[$m]}}" |
      sed 's/.*"content":"\([^"]*\)".*/\1/')
    echo "step $i:" $(grep '^x-epitome-\(plan\|tokens\)' /tmp/epitome-demo | tr -d '\r')
    m="$m,{{\"role\":\"assistant\",\"content\":\"$a\"}}"
  done
  t=$(sed -n 's/^x-epitome-thread: //p' /tmp/epitome-demo | tr -d '\r')
  curl -s {url}/api/threads/$t/receipt

"#
        )
    }
}

fn farewell(cut: usize) -> Answer {
    let text = match cut {
        0 => "Stopped. All requests completed.\n".to_owned(),
        cut => format!("Stopped. {cut} request{} cut off.\n", plural(cut)),
    };
    Answer::new(text, json!({"cut": cut}))
}

fn say(text: &str) {
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Failure::new(Exit::Usage, sentence(&error)).hint("`docs/configuration.md` lists every setting.")
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        let (exit, hint) = match &error {
            ListenError::Open { .. } => {
                (Exit::Usage, "Set `serve.keys`, listen on 127.0.0.1, or say `--insecure` if that is what you want.")
            }
            ListenError::Port { .. } => (Exit::CannotFit, "Name another address with `--listen`; port 0 takes any."),
            _ => (Exit::Unreadable, "`serve.tls_certificate` and `serve.tls_key` name the two files, both as PEM."),
        };
        Failure::new(exit, sentence(&error)).hint(hint)
    }
}
