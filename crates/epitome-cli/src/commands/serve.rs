//! `epitome serve`: runs the gateway until a signal stops it.
//!
//! Configuration errors are found before it listens. All of its own output goes to standard error.

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
use epitome_runtime::sentence;
use epitome_runtime::store::{RecoveringStore, Store, StoreError, TimeoutStore};
use serde_json::json;

use crate::cli::ServeArgs;
use crate::cli_config::{CliConfig, Flags};
use crate::failure::{Answer, Exit, Failure, Result};
use crate::file_compaction::load_policy;
use crate::open_store::no_threads;
use crate::progress::Progress;
use crate::receipt::count;
use crate::telemetry::{self, say};

/// At the end, the time to write the newest messages to the log.
const LOG_WAIT: Duration = Duration::from_secs(10);
/// At the start, the time to wait for the store before requests are taken without it.
const STORE_WAIT: Duration = Duration::from_secs(1);
/// At the end, the time for plans that nobody waits for any more.
const LEFT_OVER_WAIT: Duration = Duration::from_millis(200);

pub fn run(args: &ServeArgs, config: Option<&Path>, json: bool, progress: Progress) -> Result<Answer> {
    drop(progress);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(no_threads)?;
    let answer = runtime.block_on(serve(args, config, json));
    runtime.shutdown_timeout(LEFT_OVER_WAIT);
    answer
}

async fn serve(args: &ServeArgs, config: Option<&Path>, json: bool) -> Result<Answer> {
    if let Some(policy) = &args.policy {
        load_policy(policy)?;
    }
    let demo = if args.demo { Some(Demo::start()?) } else { None };
    let flags = demo.iter().fold(flags(args), |flags, demo| demo.override_flags(flags, args));
    let config = CliConfig::load(config, flags)?;
    let log_json = json || config.serve().log == LogFormat::Json;
    let exporter = telemetry::start(&config, log_json)?;
    let tenant = config.values().tenant.id.clone();
    let settings = Arc::new(Settings::new(config.serve().clone(), tenant, &config.environment)?);
    let openness = if args.insecure { Openness::Anybody } else { Openness::Local };
    let listening = Listening::on(&settings, openness).await?;
    let compactions = Arc::new(epitome_runtime::event::CompactionMetrics::new());
    let store_wait = settings.serve.store_patience_ms.0;
    // Less than a request waits, so that the reason for the wait is known.
    let store = config.values().recovering_store(store_wait * 3 / 4)?;
    let mut parts = config.values().parts_over(Arc::new(store.clone()), &config.environment)?;
    parts.bus = parts.bus.with_listener(compactions.clone());
    parts.settings.store_timeout = store_wait;
    if config.has_default_policy() {
        let usual = usual();
        (parts.settings.policy.name, parts.settings.policy.target) = (usual.name, usual.target);
    }
    let engine = Engine::before_its_store(parts);
    let sealed = Arc::new(Mutex::new(None));
    let opening = keep_open(&store, &engine, &sealed);
    // Requests are forwarded without it, so it gets only the time that it usually takes.
    let is_open = store.first_try(STORE_WAIT).await;
    // Waiting does not help when the key is not configured.
    if let Some(error) = sealed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        opening.abort();
        return Err(error.into());
    }
    if !log_json {
        say(&welcome(&listening, &settings, &config, is_open));
        say(&demo.as_ref().map(|_| Demo::loop_at(&listening.url())).unwrap_or_default());
    }
    let report = Gateway::start(settings, engine, compactions, listening).stop_on_signals(LOG_WAIT).await;
    if !report.is_log_complete {
        say("The newest messages of some threads were not stored; their clients will send them again.\n");
    }
    if let Err(error) = &report.ledger {
        say(&format!("The newest ledger entries were not written: {error}.\n"));
    }
    opening.abort();
    drop(exporter);
    Ok(farewell(report.cut))
}

/// Opens the store, as often as it takes, and again when the connection is lost. Puts the error into `sealed` if the store
/// is sealed with a key that is not configured.
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
                    Err(EngineError::Log(error @ LogError::Sealed(..))) => {
                        let reason = error.to_string();
                        *sealed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        Err(StoreError::Refused(reason))
                    }
                    Err(error) => Err(StoreError::Refused(error.to_string())),
                }
            }
        };
        store.keep_open(adopt).await;
    })
}

fn flags(args: &ServeArgs) -> Flags {
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
        .with("policy.auto", args.auto.as_ref())
}

/// Returns the address, the store, the upstreams, and the two lines that point an agent here.
fn welcome(listening: &Listening, settings: &Settings, config: &CliConfig, is_open: bool) -> String {
    let url = listening.url();
    let store = &config.values().store.url;
    let state = if is_open {
        format!("store: {store}")
    } else {
        format!("{store} cannot be opened yet, so requests are forwarded unchanged")
    };
    let mut text = format!("Listening on {}; {state}. Press Ctrl-C to stop.\n\n", listening.bound_url());
    for upstream in &settings.upstreams {
        let key = if upstream.key.is_some() { ", with the gateway's own key" } else { "" };
        let address = upstream.url.to_string();
        text.push_str(&format!("  {:<12} {}{key}\n", upstream.route, address.trim_end_matches('/')));
    }
    text.extend(config.summarizer_line().map(|line| format!("\n{line}")));
    text.push_str(&format!("\n  export OPENAI_BASE_URL={url}/v1\n  export ANTHROPIC_BASE_URL={url}\n\n"));
    text
}

/// The prompt budget of a demonstration: small enough to be reached soon.
const DEMO_BUDGET: u64 = 3000;

/// The mock provider that a demonstration runs against.
struct Demo(MockServer);

impl Demo {
    fn start() -> Result<Demo> {
        let failed = |error| Failure::new(Exit::CannotFit, format!("The mock provider cannot be started: {error}."));
        MockServer::start(MockSettings::default()).map(Demo).map_err(failed)
    }

    /// Makes the mock every provider, and memory the store.
    fn override_flags(&self, flags: Flags, args: &ServeArgs) -> Flags {
        let upstreams = Provider::ALL.map(|provider| format!("{}={}", provider.name(), self.0.url()));
        let budget = args.budget.unwrap_or(DEMO_BUDGET);
        flags
            .with("store.url", Some("memory:"))
            .with("serve.upstreams", Some(upstreams.join(",")))
            .with("serve.budget", Some(budget))
    }

    /// Returns a shell loop for another terminal: an agent whose history grows.
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
        cut => format!("Stopped. Cut off {}.\n", count(cut, "request")),
    };
    Answer::new(text, json!({"cut": cut}))
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Failure::new(Exit::Usage, sentence(&error)).hint("`docs/configuration.md` lists every setting.")
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        let (exit, hint) = match &error {
            ListenError::Open(_) => (Exit::Usage, "Set `serve.keys`, listen on 127.0.0.1, or add `--insecure`."),
            ListenError::Port(..) => {
                (Exit::CannotFit, "Name another address with `--listen`; port 0 takes a free port.")
            }
            _ => (Exit::Unreadable, "`serve.tls_certificate` and `serve.tls_key` name the two PEM files."),
        };
        Failure::new(exit, sentence(&error)).hint(hint)
    }
}
