//! The command line as it is typed: verbs, options, and an example for each. The commands decide what it means.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use epitome::budget::{Tokens, UnknownAmount};
use epitome::session::Format;
use epitome::wire::Dialect;
use epitome_mock::ProviderFault;

use crate::failure::Exit;
use crate::screen::{ColorArg, WIDTH_MIN};

/// Returns what `--help` ends with: every exit code, and an example.
fn exit_codes() -> String {
    let code = |exit: Exit| format!("  {}  {}\n", exit as u8, exit.meaning());
    let codes: String = Exit::ALL.into_iter().map(code).collect();
    format!("Exit codes:\n{codes}\nExample:\n  epitome compact session.jsonl --budget 20k")
}

/// Reads a number of tokens or bytes as people write it: 12000, 12k, 1.5m, 12_000.
fn amount(text: &str) -> Result<u64, UnknownAmount> {
    text.parse::<Tokens>().map(Tokens::get)
}

/// Reads the size of an answer that holds more than its own frame.
fn read_tokens(text: &str) -> Result<u64, String> {
    let tokens = amount(text).map_err(|error| error.to_string())?;
    if tokens < READ_TOKENS_MIN { Err(format!("the least is {READ_TOKENS_MIN} tokens")) } else { Ok(tokens) }
}

/// The fewest tokens of an answer of read_artifact.
const READ_TOKENS_MIN: u64 = 200;

/// Reads a width that leaves something to read.
fn width(text: &str) -> Result<usize, String> {
    let width = text.parse().map_err(|_| format!("`{text}` is not a number of columns"))?;
    if width < WIDTH_MIN { Err(format!("the least is {WIDTH_MIN} columns")) } else { Ok(width) }
}

/// Reads an amount of what is held in memory.
fn size(text: &str) -> Result<usize, UnknownAmount> {
    amount(text).map(|amount| amount as usize)
}

/// Reads how many rows to list: at least one.
fn rows(text: &str) -> Result<usize, String> {
    let count = amount(text).map_err(|_| format!("`{text}` is not a number"))?;
    if count == 0 { Err("there is nothing to list below 1".to_owned()) } else { Ok(count as usize) }
}

/// Context compaction for LLM agents: see what fills a context, make it smaller, lose nothing
#[derive(Debug, Parser)]
#[command(name = "epitome", version, after_help = exit_codes(), max_term_width = 100)]
pub struct Cli {
    /// Print one JSON object instead of text, errors included
    #[arg(long, global = true)]
    pub json: bool,
    /// When to color: auto, always or never; `NO_COLOR` and `CLICOLOR_FORCE` count under auto
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    pub color: ColorArg,
    /// Cut the rows of tables at N columns; the terminal's width by default, and no cut in a pipe
    #[arg(long, global = true, value_name = "N", value_parser = width)]
    pub width: Option<usize>,
    /// Use this configuration file
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make a session smaller and write it back in its own format
    ///
    /// Session files (Claude Code, Codex, pi) get a compaction appended; nothing that was in them is changed. Message
    /// lists are written to OUT, by default NAME.compacted.EXT beside the file; a file that exists is not replaced without
    /// `--overwrite`. What leaves the prompt is kept under
    /// .epitome/ beside the file, and `epitome read` gives it back.
    #[command(after_help = "\
Examples:
  epitome compact session.jsonl
  epitome compact thread.json --budget 8000 -o small.json
  epitome compact session.jsonl --policy pi --pin 'Never touch the migrations' --dry-run
  epitome compact session.jsonl --model-url https://api.openai.com --summarizer-model gpt-5-mini")]
    Compact(Box<Compact>),
    /// Show where the tokens are
    #[command(after_help = "Example:\n  epitome show session.jsonl --top 5")]
    Show(Show),
    /// Show what a compaction would do and what each rung buys, without doing it
    #[command(after_help = "Example:\n  epitome plan session.jsonl --model claude-sonnet-4-5 --policy ladder")]
    Plan(Planned),
    /// Show what a compaction removed, moved and kept, and the prompt before and after
    ///
    /// Of the newest compaction in the file; with any option of `compact`, or in a file without one, of the compaction
    /// that would be made.
    #[command(after_help = "Examples:\n  epitome diff session.jsonl\n  epitome diff thread.json --budget 8000 --full")]
    Diff(Diff),
    /// Read a message or an artifact back
    #[command(after_help = "\
ID is one of
  m41               the 41st message; a message keeps its number through every compaction
  L212              the message on line 212 of the file
  a3f0c2            the beginning of a message's id
  9f86d081884c7d65  an artifact, as a placeholder in the prompt names it

Examples:
  epitome read session.jsonl m41 --range 10-40
  epitome read session.jsonl 9f86d081884c7d65 --grep error")]
    Read(Read),
    /// Start a new session from an earlier user message
    ///
    /// The new file holds everything up to and including that message. Leaving before a compaction undoes it, leaving
    /// after it keeps it.
    #[command(after_help = "Example:\n  epitome branch session.jsonl --at L57 -o retry.jsonl")]
    Branch(Branch),
    /// Check a file against the provider's strict rules
    #[command(after_help = "Examples:\n  epitome check request.json\n  epitome check --rules --dialect anthropic")]
    Check(Check),
    /// Count tokens
    #[command(
        after_help = "Examples:\n  epitome count thread.json --model gpt-4o\n  epitome count thread.json --tokenizer chars/4"
    )]
    Count(Count),
    /// List, show and check policies
    #[command(after_help = "\
Examples:
  epitome policy list
  epitome policy show ladder > mine.toml
  epitome policy check mine.toml")]
    Policy(PolicyArgs),
    /// Show the configuration and where each value came from; trust a folder's configuration
    #[command(after_help = "Examples:\n  epitome config show\n  epitome config trust")]
    Config(ConfigArgs),
    /// Keep a session or a message list as a thread of the store
    ///
    /// The file's exact bytes are kept too: `epitome export` gives them back. A message list becomes a thread that can be
    /// continued; an agent's own session can be read, searched and exported.
    #[command(after_help = "\
Examples:
  epitome import session.jsonl
  epitome import thread.json --thread weather --store sqlite:threads.db")]
    Import(Import),
    /// Write a thread of the store as a file
    ///
    /// A thread that has not grown since it was imported is the imported file, byte for byte. One that has grown is a
    /// message list of its dialect.
    #[command(after_help = "\
Examples:
  epitome export weather -o thread.json
  epitome export weather --format jsonl")]
    Export(Export),
    /// List the threads of the store
    #[command(after_help = "Example:\n  epitome threads --limit 10")]
    Threads(Threads),
    /// Show a thread: its messages, its plans or its events
    #[command(after_help = "\
Examples:
  epitome log weather --from m10 --limit 20
  epitome log weather --plans
  epitome log weather --events --json")]
    Log(Log),
    /// Show what requests through the gateway cost, and what they would have cost without it
    ///
    /// By day; with a thread, request by request. Amounts are in US dollars where the model's price is known and in
    /// uncached input tokens where it is not. What is below zero cost more with the gateway than without.
    #[command(after_help = "\
Examples:
  epitome ledger --since 2026-11-01
  epitome ledger weather --limit 20 --json")]
    Ledger(Ledger),
    /// List the windows of models and where they are from; forget what was learned of them
    ///
    /// A provider that refuses a prompt as too long may name its window, and the usage of answers shows how it counts. Both
    /// are learned for one tenant, one upstream and one model. A learned window expires after seven days.
    #[command(after_help = "\
Examples:
  epitome models
  epitome models --tenant acme --json
  epitome models reset gpt-4o
  epitome models reset --upstream http://127.0.0.1:4010")]
    Models(ModelsArgs),
    /// Search what is indexed of a thread: what left its prompts, and everything of an imported one
    #[command(after_help = "Example:\n  epitome recall weather error in the migration --tokens 1000")]
    Recall(Recall),
    /// Look after the store
    #[command(after_help = "\
Examples:
  epitome store check
  epitome store migrate
  epitome store vacuum
  epitome store rotate")]
    Store(StoreCommand),
    /// Run a proxy that keeps prompts within the context window
    ///
    /// Point an agent's base URL at it and change nothing else. Requests that fit pass byte for byte; others are compacted,
    /// and what left can be read back. Ctrl-C stops it: answers under way are finished, a second one ends them.
    #[command(after_help = "\
Examples:
  epitome serve
  epitome serve --demo
  epitome serve --budget 60000 --tools on
  epitome serve --upstream openai=http://127.0.0.1:8080 --upstream /groq=https://api.groq.com/openai/v1
  EPITOME_SERVE_KEYS=acme=env:ACME_KEY epitome serve --listen 0.0.0.0:8788 --tls-certificate c.pem --tls-key k.pem
  OPENAI_BASE_URL=http://127.0.0.1:8788/v1 codex
  ANTHROPIC_BASE_URL=http://127.0.0.1:8788 claude")]
    Serve(Box<Serve>),
    /// Compact threads in the background until stopped
    #[command(after_help = "Example:\n  epitome work --store postgres://epitome@db.example.com/epitome")]
    Work(Work),
    /// Run an MCP server that lets agents search and read removed content
    ///
    /// It speaks on standard input and output. The tools are read_artifact, recall and compact; artifacts are resources too. Standard output carries the protocol
    /// and nothing else.
    #[command(after_help = "\
Examples:
  claude mcp add epitome -- epitome mcp
  epitome mcp --thread weather --store sqlite:threads.db")]
    Mcp(Mcp),
    /// Run a strict mock provider, to test agents and gateways against
    ///
    /// It speaks OpenAI Chat Completions and Responses, Anthropic Messages and Gemini, enforces their rules with their own
    /// messages, has a window and a prefix cache, and fails in every way that is known of a provider.
    #[command(after_help = "\
Requests choose with headers:
  x-mock-window: N        the window in tokens; a model's name can do it too: mock-8k, claude-sonnet-4-5-32k
  x-mock-overflow: NAME   how an overflow is told
  x-mock-fault: NAME      a fault, whatever the size
  x-mock-encoding: gzip   a packed answer

Examples:
  epitome mock --port 4010 --window 32000
  epitome mock --work 30 --work-bytes 8000
  epitome mock --list")]
    Mock(Mock),
}

/// Which file, and how to read it.
#[derive(Debug, Args)]
pub struct Input {
    /// The session, request or message list; `-` reads standard input
    pub file: PathBuf,
    /// Input format (detected if omitted): pi-events, pi-tree, claude-code, codex, chat, responses, anthropic or ai-sdk
    #[arg(long, visible_alias = "dialect", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Carry lines that are not JSON along unread instead of stopping at them
    #[arg(long)]
    pub skip_bad_lines: bool,
    /// Where what left the prompt is kept; `.epitome` beside the file by default
    #[arg(long, value_name = "DIR")]
    pub artifacts: Option<PathBuf>,
}

/// What a compaction shall be like.
#[derive(Debug, Args)]
pub struct Planned {
    /// Which file
    #[command(flatten)]
    pub input: Input,
    /// What to aim for
    #[command(flatten)]
    pub aim: Aim,
}

/// What a compaction aims for.
#[derive(Debug, Args)]
pub struct Aim {
    /// A preset's name, or the path of a policy file
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// The model that will read the result: sets the window and the tokenizer
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The context window in tokens, such as 200k; overrides what is known of the model
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub window: Option<u64>,
    /// Maximum tokens for the compacted messages (system prompt not counted)
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub budget: Option<u64>,
    /// Ignore everything after message N
    #[arg(long, value_name = "N")]
    pub until: Option<usize>,
    /// What the summary should look at
    #[arg(long, value_name = "TEXT")]
    pub instructions: Option<String>,
    /// Words that every later prompt must hold; may be given again
    #[arg(long, value_name = "TEXT")]
    pub pin: Vec<String>,
    /// Compact even what is small enough already
    #[arg(long)]
    pub force: bool,
}

impl Aim {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        let named = self.policy.is_some() || self.model.is_some() || self.instructions.is_some();
        let sized = self.window.is_some() || self.budget.is_some() || self.until.is_some();
        !named && !sized && self.pin.is_empty() && !self.force
    }
}

/// `epitome compact`.
#[derive(Debug, Args)]
pub struct Compact {
    /// What a compaction shall be like
    #[command(flatten)]
    pub planned: Planned,
    /// Print the receipt, write nothing and ask no model
    #[arg(long)]
    pub dry_run: bool,
    /// Where to write; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Who writes the summary
    #[command(flatten)]
    pub author: Author,
}

/// Who writes the summary; what is not given comes from the configuration.
#[derive(Debug, Args)]
pub struct Author {
    /// Who writes the summary: embedded, model, or model-with-fallback
    #[arg(long, value_name = "KIND", help_heading = "Summary")]
    pub summarizer: Option<String>,
    /// The address of the model that writes it, or `script:PATH`; implies model-with-fallback
    #[arg(long, value_name = "URL", help_heading = "Summary")]
    pub model_url: Option<String>,
    /// The name of that model
    #[arg(long, value_name = "NAME", help_heading = "Summary")]
    pub summarizer_model: Option<String>,
    /// How it is spoken to: chat, responses or anthropic
    #[arg(long, value_name = "DIALECT", help_heading = "Summary")]
    pub summarizer_dialect: Option<String>,
    /// The variable that holds its key; with `--model-url` and no other, OPENAI_API_KEY or ANTHROPIC_API_KEY if it is set
    #[arg(long, value_name = "NAME", help_heading = "Summary")]
    pub summarizer_key_env: Option<String>,
    /// Seconds to wait for the summary
    #[arg(long, value_name = "S", help_heading = "Summary")]
    pub summarizer_timeout: Option<u64>,
}

/// `epitome show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Which file
    #[command(flatten)]
    pub input: Input,
    /// Count for this model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// How many of the largest messages, turns and tools to list
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub top: usize,
}

/// `epitome diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// What a compaction shall be like
    #[command(flatten)]
    pub planned: Planned,
    /// Print the texts whole
    #[arg(long)]
    pub full: bool,
}

/// `epitome read`.
#[derive(Debug, Args)]
pub struct Read {
    /// Which file
    #[command(flatten)]
    pub input: Input,
    /// What to read
    pub id: String,
    /// Only these lines of it, counted from 1: `10-40`, `10-` or `-40`
    #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
    pub range: Option<String>,
    /// Only the lines that hold this text, with their numbers
    #[arg(long, value_name = "TEXT")]
    pub grep: Option<String>,
    /// Its JSON as it stands in the file
    #[arg(long)]
    pub raw: bool,
}

/// `epitome branch`.
#[derive(Debug, Args)]
pub struct Branch {
    /// Which file
    #[command(flatten)]
    pub input: Input,
    /// The user message to leave at: `m41`, `L212` or the beginning of its id
    #[arg(long, value_name = "MESSAGE")]
    pub at: Option<String>,
    /// Where to write; `-` is standard output; NAME.branch.EXT beside the file by default
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, visible_alias = "force")]
    pub overwrite: bool,
}

/// `epitome check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The session, request or message list; `-` reads standard input
    #[arg(required_unless_present = "rules")]
    pub file: Option<PathBuf>,
    /// StoreArgs rules: chat, responses, anthropic or ai-sdk
    #[arg(long, value_name = "DIALECT")]
    pub dialect: Option<Dialect>,
    /// Calls of the last exchange may still be unanswered; session files are judged so in any case
    #[arg(long)]
    pub open: bool,
    /// Carry lines that are not JSON along unread instead of stopping at them
    #[arg(long)]
    pub skip_bad_lines: bool,
    /// Print the rules themselves
    #[arg(long)]
    pub rules: bool,
}

/// `epitome count`.
#[derive(Debug, Args)]
pub struct Count {
    /// Which file
    #[command(flatten)]
    pub input: Input,
    /// Count for this model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Count with this tokenizer: o200k, cl100k, estimate, chars/4, chars/3, or the path of a tokenizer.json
    #[arg(long, value_name = "TOKENIZER", conflicts_with = "model")]
    pub tokenizer: Option<String>,
}

/// `epitome policy`.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: PolicyVerb,
}

/// What can be done with policies.
#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// List the presets
    #[command(after_help = "Example:\n  epitome policy list")]
    List,
    /// Print a policy
    #[command(after_help = "Example:\n  epitome policy show ladder > mine.toml")]
    Show {
        /// A preset's name, or the path of a policy file
        name: String,
    },
    /// Check a policy file
    #[command(after_help = "Example:\n  epitome policy check mine.toml")]
    Check {
        /// The policy file
        file: PathBuf,
    },
}

/// `epitome config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// What can be done with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print every setting, its value and where it came from
    #[command(after_help = "Examples:\n  epitome config show\n  epitome config show --config other.toml --json")]
    Show,
    /// Accept everything that a folder's epitome.toml sets, as it is now
    ///
    /// Without this a file in the working folder cannot set addresses, keys, stores, paths or who is asked: it may have
    /// come with a repository. A file that changes has to be trusted again. A file named with `--config` or EPITOME_CONFIG
    /// and your own in ~/.config/epitome need no trust.
    #[command(after_help = "\
Examples:
  epitome config trust
  epitome config trust --list
  epitome config trust --remove work/epitome.toml")]
    Trust(TrustArgs),
}

/// `epitome config trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// The file; epitome.toml in the working folder by default
    pub file: Option<PathBuf>,
    /// List the files that are trusted
    #[arg(long, conflicts_with_all = ["file", "remove"])]
    pub list: bool,
    /// No longer trust the file
    #[arg(long)]
    pub remove: bool,
}

/// Which store, and store_args threads.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// The store, instead of the configured one: sqlite:PATH or postgres://…
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The tenant, instead of the configured one
    #[arg(long, value_name = "ID")]
    pub tenant: Option<String>,
}

/// `epitome import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The sessions, requests or message lists; `-` reads standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The thread's id; by default the session's own, or the file's name
    #[arg(long, value_name = "ID")]
    pub thread: Option<String>,
    /// Input format (detected if omitted)
    #[arg(long, visible_alias = "dialect", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Carry lines that are not JSON along unread instead of stopping at them
    #[arg(long)]
    pub skip_bad_lines: bool,
    /// Which store
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// `epitome export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Which thread
    pub thread: String,
    /// Where to write; standard output by default
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long, visible_alias = "force")]
    pub overwrite: bool,
    /// `jsonl` writes the log, one message a line, with its place, id and role; `documents` everything that is kept beside
    /// the messages (pins, memory, answers, ledger entries), one a line
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<ExportFormat>,
    /// Which store
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// How a thread is written that is not written as the file it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// The log.
    Jsonl,
    /// What is kept beside it.
    Documents,
}

/// `epitome threads`.
#[derive(Debug, Args)]
pub struct Threads {
    /// The most threads to list, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows)]
    pub limit: usize,
    /// Which store
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// `epitome log`.
#[derive(Debug, Args)]
pub struct Log {
    /// Which thread
    pub thread: String,
    /// The first message, such as `m10`
    #[arg(long, value_name = "MESSAGE")]
    pub from: Option<String>,
    /// The most rows
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = rows)]
    pub limit: usize,
    /// The events instead of the messages
    #[arg(long, conflicts_with = "plans")]
    pub events: bool,
    /// The plans instead of the messages
    #[arg(long)]
    pub plans: bool,
    /// Print the texts whole
    #[arg(long)]
    pub full: bool,
    /// Which store
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// `epitome ledger`.
#[derive(Debug, Args)]
pub struct Ledger {
    /// Which thread; all of the tenant's, by day, without one
    pub thread: Option<String>,
    /// The first day, such as 2026-11-16
    #[arg(long, value_name = "DAY", conflicts_with = "thread")]
    pub since: Option<String>,
    /// Only requests after this one, as the end of a shorter list names it
    #[arg(long, value_name = "REQUEST", requires = "thread")]
    pub after: Option<String>,
    /// The most requests to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows)]
    pub limit: usize,
    /// Which store
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// `epitome models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    /// What to do, if not list
    #[command(subcommand)]
    pub verb: Option<ModelsVerb>,
    /// Only what this tenant's requests taught; every tenant's by default
    #[arg(long, global = true, value_name = "ID")]
    pub tenant: Option<String>,
    /// Only what was learned of this upstream, such as http://127.0.0.1:4010
    #[arg(long, global = true, value_name = "URL")]
    pub upstream: Option<String>,
    /// The store, instead of the configured one: sqlite:PATH or postgres://…
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
}

/// What can be done with what was learned of models.
#[derive(Debug, Subcommand)]
pub enum ModelsVerb {
    /// Forget what was learned; a gateway that is running hears of it within seconds
    #[command(after_help = "\
Examples:
  epitome models reset
  epitome models reset gpt-4o --tenant acme
  epitome models reset --upstream http://127.0.0.1:4010")]
    Reset {
        /// The model's name; every model by default
        model: Option<String>,
    },
}

/// `epitome recall`.
#[derive(Debug, Args)]
pub struct Recall {
    /// Which thread
    pub thread: String,
    /// The words to look for
    #[arg(required = true)]
    pub query: Vec<String>,
    /// The most tokens of the answer; by default as configured
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub tokens: Option<u64>,
    /// Which store
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// `epitome store`.
#[derive(Debug, Args)]
pub struct StoreCommand {
    /// What to do
    #[command(subcommand)]
    pub verb: StoreVerb,
    /// The store, instead of the configured one: sqlite:PATH or postgres://…
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
}

/// What can be done for a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum StoreVerb {
    /// Check every thread, plan, document and artifact of all tenants
    #[command(after_help = "Example:\n  epitome store check --store sqlite:threads.db")]
    Check,
    /// Bring the schema up to date
    #[command(after_help = "Example:\n  epitome store migrate")]
    Migrate,
    /// Remove what has expired and finished jobs, and give space back
    #[command(after_help = "Example:\n  epitome store vacuum")]
    Vacuum,
    /// Seal everything under the current key, and make the search index anew
    ///
    /// It can be stopped and begun again. After it, older keys can be removed from the configuration.
    #[command(
        after_help = "Example:\n  EPITOME_KEYS_CURRENT=file:new.key EPITOME_KEYS_OLDER=file:old.key epitome store rotate"
    )]
    Rotate,
}

/// `epitome work`.
#[derive(Debug, Args)]
pub struct Work {
    /// The store, instead of the configured one: sqlite:PATH or postgres://…
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
}

/// `epitome serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// A provider, as WHAT=URL, where WHAT is openai, anthropic or gemini, a path such as /groq, or a model such as
    /// claude-*; can be given several times
    #[arg(long = "upstream", value_name = "WHAT=URL")]
    pub upstreams: Vec<String>,
    /// The most tokens of a prompt, where that is less than the model's window
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub budget: Option<u64>,
    /// Whether requests get the gateway's own tools: on or off
    #[arg(long, value_name = "SWITCH")]
    pub tools: Option<String>,
    /// A preset's name, or the path of a policy file
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// How to tell what it does: text or json
    #[arg(long, value_name = "FORMAT")]
    pub log: Option<String>,
    /// The certificate to show, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<String>,
    /// The certificate's key, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// The store, instead of the configured one: sqlite:PATH, postgres://… or memory:
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Listen beyond this machine without keys: whoever reaches it can read every thread
    #[arg(long)]
    pub insecure: bool,
    /// Show a compaction within a minute: a strict mock provider answers, and everything is kept in memory
    #[arg(long, conflicts_with_all = ["upstreams", "store"])]
    pub demo: bool,
}

/// `epitome mcp`.
#[derive(Debug, Args)]
pub struct Mcp {
    /// The one thread it is about; without it, each call names one or means the one that was used last
    #[arg(long, value_name = "ID")]
    pub thread: Option<String>,
    /// The most tokens of an answer of read_artifact
    #[arg(long, value_name = "TOKENS", default_value_t = 4000, value_parser = read_tokens)]
    pub read_tokens: u64,
    /// Which store
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// `epitome mock`.
#[derive(Debug, Args)]
pub struct Mock {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 4010)]
    pub port: u16,
    /// Print the catalog of faults and end
    #[arg(long)]
    pub list: bool,
    /// The window of models that name none themselves, in tokens; by default what is known of the model
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub window: Option<u64>,
    /// How an overflow is told, by its name in the catalog; by default as the protocol's own provider does
    #[arg(long, value_name = "NAME")]
    pub overflow: Option<ProviderFault>,
    /// Count the output that a request reserves against the window
    #[arg(long)]
    pub count_output: bool,
    /// Enforce what only some back-ends enforce for every model
    #[arg(long)]
    pub pedantic: bool,
    /// Answer the next N turns of each key with tool calls that the agent can run
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Work")]
    pub work: u64,
    /// About how many bytes each of these calls puts out
    #[arg(long, value_name = "BYTES", default_value_t = 6000, value_parser = size, help_heading = "Work")]
    pub work_bytes: usize,
    /// The file to read where no tool runs commands
    #[arg(long, value_name = "FILE", help_heading = "Work")]
    pub work_file: Option<PathBuf>,
    /// Call the gateway's own tools now and then
    #[arg(long, help_heading = "Work")]
    pub use_gateway_tools: bool,
    /// Milliseconds to the first token
    #[arg(long, value_name = "MS", default_value_t = 0, help_heading = "Timing")]
    pub ttft_ms: u64,
    /// Milliseconds between tokens
    #[arg(long, value_name = "MS", default_value_t = 0, help_heading = "Timing")]
    pub itl_ms: u64,
    /// The tokens of a plain answer; 0 is a short sentence
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = size, help_heading = "Timing")]
    pub answer_tokens: usize,
    /// Read the body and answer, without rules, counts or records
    #[arg(long, help_heading = "Timing")]
    pub lax: bool,
}
