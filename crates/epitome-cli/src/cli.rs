//! The command line as it is typed: verbs, options and their help. `commands` decides what they mean.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use epitome::budget::{Tokens, UnknownAmount};
use epitome::session::Format;
use epitome::summary::FactKind;
use epitome::wire::Dialect;
use epitome_mock::ProviderFault;
use epitome_runtime::recall::Who;

use crate::failure::Exit;
use crate::screen::{ColorArg, WIDTH_MIN};

/// The heading that keeps the options of every verb apart from its own.
const GLOBAL: &str = "Global options";

/// Returns the end of `--help`: every exit code, and an example.
fn exit_codes() -> String {
    let code = |exit: Exit| format!("  {}  {}\n", exit as u8, exit.meaning());
    let codes: String = Exit::ALL.into_iter().map(code).collect();
    format!("Exit codes:\n{codes}\nExample:\n  epitome compact session.jsonl --budget 20k")
}

/// Parses a number of tokens or bytes as people write it: 12000, 12k, 1.5m, 12_000.
fn amount(text: &str) -> Result<u64, UnknownAmount> {
    text.parse::<Tokens>().map(Tokens::get)
}

/// Parses `--read-tokens`: below the minimum an answer would be all header.
fn read_tokens(text: &str) -> Result<u64, String> {
    let tokens = amount(text).map_err(|error| error.to_string())?;
    if tokens < READ_TOKENS_MIN { Err(format!("the least is {READ_TOKENS_MIN} tokens")) } else { Ok(tokens) }
}

const READ_TOKENS_MIN: u64 = 200;

fn width(text: &str) -> Result<usize, String> {
    let width = text.parse().map_err(|_| format!("`{text}` is not a number of columns"))?;
    if width < WIDTH_MIN { Err(format!("the least is {WIDTH_MIN} columns")) } else { Ok(width) }
}

/// Parses an amount that indexes memory.
fn amount_usize(text: &str) -> Result<usize, UnknownAmount> {
    amount(text).map(|amount| amount as usize)
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("the answer is yes or no".to_owned()),
    }
}

fn rows(text: &str) -> Result<usize, String> {
    let count = amount(text).map_err(|_| format!("`{text}` is not a number"))?;
    if count == 0 { Err("the least is 1".to_owned()) } else { Ok(count as usize) }
}

/// Context compaction for LLM agents: keeps prompts within the window, and loses nothing
#[derive(Debug, Parser)]
#[command(name = "epitome", version, after_help = exit_codes(), max_term_width = 100)]
pub struct Cli {
    /// Print one JSON object instead of text, errors included
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Color the output: auto, always or never; auto respects NO_COLOR and CLICOLOR_FORCE
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    #[arg(hide_possible_values = true, help_heading = GLOBAL)]
    pub color: ColorArg,
    /// Cut table rows at N columns [default: the terminal's width; no limit in a pipe]
    #[arg(long, global = true, value_name = "N", value_parser = width, help_heading = GLOBAL)]
    pub width: Option<usize>,
    /// Use this configuration file
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Make a session smaller and write it back in its own format
    ///
    /// A session file (Claude Code, Codex, pi) gets a compaction appended; its lines stay as they are. A message list is
    /// written to OUT, by default NAME.compacted.EXT beside the file. Removed content is stored in .epitome/ beside the
    /// file, and `epitome read` gives it back.
    #[command(after_help = "\
Examples:
  epitome compact session.jsonl
  epitome compact thread.json --budget 8000 -o small.json
  epitome compact session.jsonl --policy pi --pin 'Never touch prod' --dry-run
  epitome compact session.jsonl --model-url https://api.openai.com \\
    --summarizer-model gpt-5-mini")]
    Compact(Box<CompactArgs>),
    /// Write what a new thread needs of this one to reach a goal
    ///
    /// The file stays as it is. The text begins with the goal, and of the old thread it has what the goal needs.
    #[command(after_help = "\
Examples:
  claude \"$(epitome handoff session.jsonl 'Write the release notes')\"
  epitome handoff thread.json 'Port the parser' -o next.json")]
    Handoff(Box<HandoffArgs>),
    /// Show where the tokens of a context are
    #[command(after_help = "Example:\n  epitome show session.jsonl --top 5")]
    Show(ShowArgs),
    /// Show what a compaction would do and what each rung frees, without writing anything
    #[command(after_help = "Example:\n  epitome plan session.jsonl --model claude-sonnet-4-5")]
    Plan(PlanArgs),
    /// Show what a compaction removed, shortened and kept
    ///
    /// Shows the newest compaction in the file. With an option of `compact`, or if the file has no compaction, shows the
    /// one that would be made.
    #[command(after_help = "Examples:\n  epitome diff session.jsonl\n  epitome diff thread.json --budget 8000 --full")]
    Diff(DiffArgs),
    /// Print messages, an artifact or a file as it stands, also what a compaction removed
    ///
    /// Edits are printed as diffs. `--edits` and `--file` follow one file through the whole conversation.
    #[command(after_help = "\
ID is one of
  m41               the 41st message; compactions do not change its number
  m188-m193, m200   several of them
  L212              the message on line 212 of the file
  a3f0c2            the beginning of a message's id
  9f86d081884c7d65  an artifact, as a placeholder in the prompt names it

Examples:
  epitome read session.jsonl m41 --range 10-40
  epitome read session.jsonl m188-m193 m200
  epitome read session.jsonl m41 --around 2
  epitome read session.jsonl 9f86d081884c7d65 --grep error
  epitome read session.jsonl --edits src/cart.rs
  epitome read session.jsonl --file src/cart.rs")]
    Read(ReadArgs),
    /// Start a new session from an earlier user message
    ///
    /// The new file holds everything up to and including that message. Branching before a compaction undoes it; branching
    /// after it keeps it. Without --at, lists the user's messages.
    #[command(after_help = "Example:\n  epitome branch session.jsonl --at L57 -o retry.jsonl")]
    Branch(BranchArgs),
    /// Check a file against its provider's rules for requests
    #[command(after_help = "Examples:\n  epitome check request.json\n  epitome check --rules --dialect anthropic")]
    Check(CheckArgs),
    /// Count the tokens of a file, in total and by role
    #[command(
        after_help = "Examples:\n  epitome count thread.json --model gpt-4o\n  epitome count thread.json --tokenizer chars/4"
    )]
    Count(CountArgs),
    /// List what code takes from a conversation: requests, constraints, state, …
    ///
    /// Every summary without a model is made of these. Kinds: request, constraint, correction, approval, decision, task, state,
    /// file, command, error, value.
    #[command(after_help = "\
Examples:
  epitome facts session.jsonl
  epitome facts session.jsonl --kind constraint --kind approval
  epitome facts 0198f2 --until m40 --json")]
    Facts(FactsArgs),
    /// List, show and check policies
    #[command(after_help = "\
Examples:
  epitome policy list
  epitome policy show ladder > mine.toml
  epitome policy check mine.toml")]
    Policy(PolicyArgs),
    /// Show each setting and where it came from; trust a folder's configuration file
    #[command(after_help = "Examples:\n  epitome config show\n  epitome config trust")]
    Config(ConfigArgs),
    /// Import a session or a message list into the store, as a thread
    ///
    /// The file's exact bytes are stored too, and `epitome export` gives them back. A message list becomes a thread that can
    /// be continued; an agent's own session can be read, searched and exported.
    #[command(after_help = "\
Examples:
  epitome import session.jsonl
  epitome import thread.json --thread weather --store sqlite:threads.db")]
    Import(ImportArgs),
    /// Write a thread of the store to a file
    ///
    /// A thread that has not grown since it was imported becomes the imported file, byte for byte; one that has grown
    /// becomes a message list of its dialect.
    #[command(after_help = "\
Examples:
  epitome export weather -o thread.json
  epitome export weather --format jsonl")]
    Export(ExportArgs),
    /// List the threads of the store
    #[command(after_help = "Example:\n  epitome threads --limit 10")]
    Threads(ThreadsArgs),
    /// Show a thread: its messages, its plans or its events
    #[command(after_help = "\
Examples:
  epitome log weather --from m10 --limit 20
  epitome log weather --plans
  epitome log weather --events --json")]
    Log(LogArgs),
    /// Show what requests through the gateway cost, and would have cost without it
    ///
    /// Totals by day; with a thread, request by request. Amounts are US dollars where the model's price is known, else
    /// uncached input tokens. Negative savings mean that the gateway made it more expensive.
    #[command(after_help = "\
Examples:
  epitome ledger --since 2026-11-01
  epitome ledger weather --limit 20 --json")]
    Ledger(LedgerArgs),
    /// List the windows of models; forget what was learned about them
    ///
    /// When a provider refuses a prompt as too long it may name its window, and the usage in its answers shows how it
    /// counts. Both are learned for one tenant, one upstream and one model. A learned window expires after seven days.
    #[command(after_help = "\
Examples:
  epitome models
  epitome models --tenant acme --json
  epitome models reset gpt-4o
  epitome models reset --upstream http://127.0.0.1:4010")]
    Models(ModelsArgs),
    /// Search a session file or a thread: what left its prompts, or all of it
    ///
    /// Prints the passages that fit best, with the newest mention and the newest failure among the first; each with the function or
    /// section that it belongs to. What does not fit is listed by number. Lines that the compacted file still holds are left out.
    /// Where `embeddings.url` names an endpoint, passages are also found by meaning; the text of what is searched is sent there.
    #[command(after_help = "\
Examples:
  epitome recall session.jsonl round_half_up
  epitome recall session.jsonl total --file src/cart.rs --newest
  epitome recall session.jsonl --who user --after m120
  epitome recall weather error in the migration --tokens 1000
  epitome recall weather what broke at night --json")]
    Recall(RecallArgs),
    /// Show or change the notes on a thread: hidden messages, pins, memory, state, quality
    ///
    /// A hidden message stays in the store; later prompts show TEXT in its place. A pin and the memory block are in every later
    /// prompt. The workstream state is written by a model under a policy that keeps one.
    #[command(after_help = "\
Examples:
  epitome notes weather
  epitome notes weather --hide m12 --with 'a listing of no interest'
  epitome notes weather --pin 'Never call the staging API'
  epitome notes weather --remember 'The user prefers Celsius'
  epitome notes weather --completed yes --json")]
    Notes(NotesArgs),
    /// Check, migrate, clean up or re-encrypt the store
    #[command(after_help = "\
Examples:
  epitome store check
  epitome store migrate
  epitome store vacuum
  epitome store rotate")]
    Store(StoreArgs),
    /// Run a proxy that keeps prompts within the context window
    ///
    /// Point an agent's base URL at it and change nothing else. Requests that fit pass byte for byte; others are compacted,
    /// and removed content can be read back. Ctrl-C stops it after the requests in progress; a second Ctrl-C cuts them off.
    #[command(after_help = "\
Examples:
  epitome serve
  epitome serve --demo
  epitome serve --budget 60000 --tools on
  epitome serve --upstream openai=http://127.0.0.1:8080 \\
    --upstream /groq=https://api.groq.com/openai/v1
  EPITOME_SERVE_KEYS=acme=env:ACME_KEY epitome serve --listen 0.0.0.0:8788 \\
    --tls-certificate c.pem --tls-key k.pem

Agents:
  OPENAI_BASE_URL=http://127.0.0.1:8788/v1 codex
  ANTHROPIC_BASE_URL=http://127.0.0.1:8788 claude")]
    Serve(Box<ServeArgs>),
    /// Run queued compactions until stopped
    #[command(after_help = "Example:\n  epitome work --store postgres://epitome@db.example.com/epitome")]
    Work(WorkArgs),
    /// Run an MCP server that lets agents search and read removed content
    ///
    /// It speaks MCP on standard input and output. Its tools are read_artifact, recall, compact, notes and annotate; artifacts
    /// are resources too.
    #[command(after_help = "\
Examples:
  claude mcp add epitome -- epitome mcp
  epitome mcp --thread weather --store sqlite:threads.db")]
    Mcp(McpArgs),
    /// Run a strict mock provider, to test agents and gateways against
    ///
    /// It speaks OpenAI Chat Completions and Responses, Anthropic Messages and Gemini, and enforces their rules with their own
    /// error messages. It has a window and a prefix cache, and can fail in every way that providers are known to fail.
    #[command(after_help = "\
Headers of a request:
  x-mock-window: N        the window in tokens; so does a model's name: mock-8k
  x-mock-overflow: NAME   the error for a prompt that is too long
  x-mock-fault: NAME      a fault, for a prompt of any size
  x-mock-encoding: gzip   a compressed answer

Examples:
  epitome mock --port 4010 --window 32000
  epitome mock --work 30 --work-bytes 8000
  epitome mock --list")]
    Mock(MockArgs),
}

/// The file, and how to read it.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    /// The session, request or message list; `-` reads standard input
    pub file: PathBuf,
    /// Input format: pi-events, pi-tree, claude-code, codex, chat, responses, anthropic or ai-sdk [default: detected]
    #[arg(long, visible_alias = "dialect", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Keep lines that are not JSON without reading them, instead of failing
    #[arg(long)]
    pub skip_bad_lines: bool,
    /// Folder for removed content [default: .epitome beside the file]
    #[arg(long, value_name = "DIR")]
    pub artifacts: Option<PathBuf>,
}

/// A file, and how to compact it.
#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub goal: GoalArgs,
}

/// The policy, the size and the wishes for a compaction.
#[derive(Debug, Default, Args)]
pub struct GoalArgs {
    /// A preset (see `epitome policy list`) or the path of a policy file
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// The model that will read the result; decides window and tokenizer
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The context window in tokens, such as 200k; overrides the model's
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub window: Option<u64>,
    /// Maximum tokens for the compacted messages (system prompt not counted)
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub budget: Option<u64>,
    /// Ignore everything after message N
    #[arg(long, value_name = "N")]
    pub until: Option<usize>,
    /// Extra instructions for the summary
    #[arg(long, value_name = "TEXT")]
    pub instructions: Option<String>,
    /// Text that every later prompt must contain; can be repeated
    #[arg(long, value_name = "TEXT")]
    pub pin: Vec<String>,
    /// Compact even if it is small enough already
    #[arg(long)]
    pub force: bool,
}

impl GoalArgs {
    /// Returns whether no option was given.
    pub fn is_empty(&self) -> bool {
        let named = self.policy.is_some() || self.model.is_some() || self.instructions.is_some();
        let sized = self.window.is_some() || self.budget.is_some() || self.until.is_some();
        !named && !sized && self.pin.is_empty() && !self.force
    }
}

/// `epitome compact`.
#[derive(Debug, Args)]
pub struct CompactArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Print the receipt, but write nothing and call no model
    #[arg(long)]
    pub dry_run: bool,
    /// Output file; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Note in the session that nobody asked for this compaction: for hooks and scripts
    #[arg(long)]
    pub auto: bool,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

/// `epitome handoff`.
#[derive(Debug, Args)]
pub struct HandoffArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// The goal of the new thread
    pub goal: String,
    /// Output file, a list of one message [default: the text, on standard output]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// Maximum tokens
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub budget: Option<u64>,
    /// A policy that hands over [default: amp]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

/// The writer of the summary; the configuration decides what is not given.
#[derive(Debug, Args)]
pub struct SummaryArgs {
    /// The writer of the summary: embedded, model, or model-with-fallback
    #[arg(long, value_name = "KIND", help_heading = "Summary")]
    pub summarizer: Option<String>,
    /// The model's address, or `script:PATH`; implies model-with-fallback
    #[arg(long, value_name = "URL", help_heading = "Summary")]
    pub model_url: Option<String>,
    /// The model's name
    #[arg(long, value_name = "NAME", help_heading = "Summary")]
    pub summarizer_model: Option<String>,
    /// The model's API: chat, responses or anthropic
    #[arg(long, value_name = "DIALECT", help_heading = "Summary")]
    pub summarizer_dialect: Option<String>,
    /// Variable with the model's key [default with --model-url: OPENAI_API_KEY or ANTHROPIC_API_KEY]
    #[arg(long, value_name = "NAME", help_heading = "Summary")]
    pub summarizer_key_env: Option<String>,
    /// Seconds to wait for the summary
    #[arg(long, value_name = "S", help_heading = "Summary")]
    pub summarizer_timeout: Option<u64>,
}

/// `epitome show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Count for this model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Rows in each table
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub top: usize,
}

/// `epitome diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Print full texts
    #[arg(long)]
    pub full: bool,
}

/// `epitome read`.
#[derive(Debug, Args)]
pub struct ReadArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// The messages or the artifact; see below
    #[arg(value_name = "ID", required_unless_present_any = ["edits", "stands"])]
    pub ids: Vec<String>,
    /// Print N messages before and after each as well
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub around: u64,
    /// Print all edits of this file as diffs
    #[arg(long, value_name = "PATH", conflicts_with_all = ["ids", "stands", "raw"])]
    pub edits: Option<String>,
    /// Print this file as it stands after all edits, as far as it is known
    #[arg(id = "stands", long = "file", value_name = "PATH", conflicts_with_all = ["ids", "raw"])]
    pub stands: Option<String>,
    /// Print only these lines, counted from 1: `10-40`, `10-` or `-40`
    #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
    pub range: Option<String>,
    /// Print only lines that contain this text, with their numbers
    #[arg(long, value_name = "TEXT")]
    pub grep: Option<String>,
    /// Print the message's JSON as it is in the file
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome branch`.
#[derive(Debug, Args)]
pub struct BranchArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// The user message to branch at: `m41`, `L212` or the beginning of its id
    #[arg(long, value_name = "MESSAGE")]
    pub at: Option<String>,
    /// Output file; `-` is standard output [default: NAME.branch.EXT beside the file]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub overwrite: bool,
}

/// `epitome check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The session, request or message list; `-` reads standard input
    #[arg(required_unless_present = "rules")]
    pub file: Option<PathBuf>,
    /// Check the rules of this dialect: chat, responses, anthropic or ai-sdk [default: detected]
    #[arg(long, value_name = "DIALECT")]
    pub dialect: Option<Dialect>,
    /// Allow unanswered calls in the last exchange, as is always done for sessions
    #[arg(long)]
    pub open: bool,
    /// Keep lines that are not JSON without reading them, instead of failing
    #[arg(long)]
    pub skip_bad_lines: bool,
    /// List the rules
    #[arg(long)]
    pub rules: bool,
}

/// `epitome count`.
#[derive(Debug, Args)]
pub struct CountArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Count for this model
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Count with this tokenizer: o200k, cl100k, estimate, chars/4, chars/3, or the path of a tokenizer.json
    #[arg(long, value_name = "TOKENIZER", conflicts_with = "model")]
    pub tokenizer: Option<String>,
}

/// `epitome facts`.
#[derive(Debug, Args)]
pub struct FactsArgs {
    /// A session, request or message list, or a thread of the store
    #[arg(value_name = "FILE|THREAD")]
    pub source: PathBuf,
    /// Read only the messages up to this one, such as `m40`
    #[arg(long, value_name = "MESSAGE", value_parser = message_number)]
    pub until: Option<usize>,
    /// List only this kind; can be given more than once
    #[arg(long, value_name = "KIND", value_parser = fact_kind)]
    pub kind: Vec<FactKind>,
    /// Input format: pi-events, pi-tree, claude-code, codex, chat, responses, anthropic or ai-sdk [default: detected]
    #[arg(long, visible_alias = "dialect", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Keep lines that are not JSON without reading them, instead of failing
    #[arg(long)]
    pub skip_bad_lines: bool,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// Parses `m40` or `40`.
fn message_number(text: &str) -> Result<usize, String> {
    let number = text.strip_prefix('m').unwrap_or(text).parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{text}` is not a message; the first is `m1`"))
}

fn who(text: &str) -> Result<Who, String> {
    let names = || Who::ALL.map(Who::name).join(", ");
    Who::from_name(text).ok_or_else(|| format!("it is one of {}", names()))
}

fn fact_kind(text: &str) -> Result<FactKind, String> {
    let names = || FactKind::ALL.map(FactKind::name).join(", ");
    FactKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| format!("the kinds are {}", names()))
}

/// `epitome policy`.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub verb: PolicyVerb,
}

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
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print every setting, its value and where it came from
    #[command(after_help = "Examples:\n  epitome config show\n  epitome config show --config other.toml --json")]
    Show,
    /// Accept all settings of a folder's epitome.toml, as it is now
    ///
    /// A file in the working folder may have come with a repository, so until you trust it, it cannot set addresses, keys,
    /// stores, paths, or which model is called. Trust it again after it changes. Files named with --config or EPITOME_CONFIG,
    /// and your own in ~/.config/epitome, need no trust.
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
    /// The file [default: epitome.toml in the working folder]
    pub file: Option<PathBuf>,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["file", "remove"])]
    pub list: bool,
    /// Revoke the trust
    #[arg(long)]
    pub remove: bool,
}

/// The store and the tenant.
#[derive(Debug, Args)]
pub struct StoreOptions {
    /// The store: sqlite:PATH or postgres://… [default: as configured]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The tenant [default: as configured]
    #[arg(long, value_name = "ID")]
    pub tenant: Option<String>,
}

/// `epitome import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The sessions, requests or message lists; `-` reads standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The thread's id [default: the session's own id, or the file's name]
    #[arg(long, value_name = "ID")]
    pub thread: Option<String>,
    /// Input format [default: detected]
    #[arg(long, visible_alias = "dialect", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Keep lines that are not JSON without reading them, instead of failing
    #[arg(long)]
    pub skip_bad_lines: bool,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The thread's id, or the beginning of it
    pub thread: String,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub overwrite: bool,
    /// `jsonl`: the log, one message a line, with place, id and role; `documents`: pins, memory, answers and ledger entries,
    /// one a line
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<ExportFormat>,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// A format other than the file that the thread came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    Jsonl,
    Documents,
}

/// `epitome threads`.
#[derive(Debug, Args)]
pub struct ThreadsArgs {
    /// List at most N threads, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows)]
    pub limit: usize,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome log`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The thread's id, or the beginning of it
    pub thread: String,
    /// Start at this message, such as `m10`
    #[arg(long, value_name = "MESSAGE")]
    pub from: Option<String>,
    /// List at most N rows
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = rows)]
    pub limit: usize,
    /// List events instead of messages
    #[arg(long, conflicts_with = "plans")]
    pub events: bool,
    /// List plans instead of messages
    #[arg(long)]
    pub plans: bool,
    /// Print full texts
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome ledger`.
#[derive(Debug, Args)]
pub struct LedgerArgs {
    /// A thread's id, for its requests one by one
    pub thread: Option<String>,
    /// Start at this day, such as 2026-11-16
    #[arg(long, value_name = "DAY", conflicts_with = "thread")]
    pub since: Option<String>,
    /// Continue after this request, which the end of the list before names
    #[arg(long, value_name = "REQUEST", requires = "thread")]
    pub after: Option<String>,
    /// List at most N requests
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = rows)]
    pub limit: usize,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    pub verb: Option<ModelsVerb>,
    /// Only what was learned from this tenant's requests
    #[arg(long, global = true, value_name = "ID")]
    pub tenant: Option<String>,
    /// Only what was learned about this upstream, such as http://127.0.0.1:4010
    #[arg(long, global = true, value_name = "URL")]
    pub upstream: Option<String>,
    /// The store: sqlite:PATH or postgres://… [default: as configured]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ModelsVerb {
    /// Forget what was learned; a running gateway notices within seconds
    #[command(after_help = "\
Examples:
  epitome models reset
  epitome models reset gpt-4o --tenant acme
  epitome models reset --upstream http://127.0.0.1:4010")]
    Reset {
        /// The model's name [default: every model]
        model: Option<String>,
    },
}

/// `epitome recall`.
#[derive(Debug, Args)]
pub struct RecallArgs {
    /// A session, request or message list, or a thread of the store
    #[arg(value_name = "FILE|THREAD")]
    pub source: PathBuf,
    /// Words to search for
    #[arg(required_unless_present_any = ["who", "about", "tool", "after"])]
    pub query: Vec<String>,
    /// Only what they said: user, assistant or tool
    #[arg(long, value_name = "WHO", value_parser = who)]
    pub who: Option<Who>,
    /// Only what is about this file: its path, or the end of it
    #[arg(id = "about", long = "file", value_name = "PATH")]
    pub about: Option<String>,
    /// Only calls of this tool and their results
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only messages after this one, such as `m40`
    #[arg(long, value_name = "MESSAGE", value_parser = message_number)]
    pub after: Option<usize>,
    /// Show the newest first
    #[arg(long)]
    pub newest: bool,
    /// Show at most N passages
    #[arg(long, value_name = "N", value_parser = rows)]
    pub limit: Option<usize>,
    /// Size limit of the answer [default: as configured]
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub tokens: Option<u64>,
    /// Input format of a file [default: detected]
    #[arg(long, visible_alias = "dialect", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Keep lines that are not JSON without reading them, instead of failing
    #[arg(long)]
    pub skip_bad_lines: bool,
    /// Folder for removed content [default: .epitome beside the file]
    #[arg(long, value_name = "DIR")]
    pub artifacts: Option<PathBuf>,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome notes`.
#[derive(Debug, Args)]
pub struct NotesArgs {
    /// The thread's id, or the beginning of it
    pub thread: String,
    /// Hide this message, such as `m12`, from later prompts
    #[arg(long, value_name = "MESSAGE", requires = "with")]
    pub hide: Option<String>,
    /// Show this in the place of the hidden message
    #[arg(long, value_name = "TEXT", requires = "hide")]
    pub with: Option<String>,
    /// Show a hidden message again
    #[arg(long, value_name = "MESSAGE")]
    pub show: Option<String>,
    /// Add words that every later prompt must hold
    #[arg(long, value_name = "TEXT")]
    pub pin: Vec<String>,
    /// Remove a pin
    #[arg(long, value_name = "TEXT")]
    pub unpin: Vec<String>,
    /// Add an entry to the memory block
    #[arg(long, value_name = "TEXT")]
    pub remember: Vec<String>,
    /// Say whether the thread's task was completed: yes or no
    #[arg(long, value_name = "ANSWER", value_parser = yes_or_no)]
    pub completed: Option<bool>,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome store`.
#[derive(Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    pub verb: StoreVerb,
    /// The store: sqlite:PATH or postgres://… [default: as configured]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum StoreVerb {
    /// Check every thread, plan, document and artifact of all tenants
    #[command(after_help = "Example:\n  epitome store check --store sqlite:threads.db")]
    Check,
    /// Bring the schema up to date
    #[command(after_help = "Example:\n  epitome store migrate")]
    Migrate,
    /// Remove expired content and finished jobs, and free disk space
    #[command(after_help = "Example:\n  epitome store vacuum")]
    Vacuum,
    /// Re-encrypt everything with the current key, and rebuild the search index
    ///
    /// It can be interrupted and started again. Afterwards older keys can be removed from the configuration.
    #[command(after_help = "\
Example:
  EPITOME_KEYS_CURRENT=file:new.key EPITOME_KEYS_OLDER=file:old.key \\
    epitome store rotate")]
    Rotate,
}

/// `epitome work`.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// The store: sqlite:PATH or postgres://… [default: as configured]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
}

/// `epitome serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address and port to listen on, such as 127.0.0.1:8788
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// A provider: openai=URL, anthropic=URL, gemini=URL, PATH=URL (/groq) or MODEL=URL (claude-*); can be repeated
    #[arg(long = "upstream", value_name = "WHAT=URL")]
    pub upstreams: Vec<String>,
    /// Size limit of prompts, if smaller than the model's window
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub budget: Option<u64>,
    /// Add the gateway's own tools to requests: on or off
    #[arg(long, value_name = "SWITCH")]
    pub tools: Option<String>,
    /// A preset (see `epitome policy list`) or the path of a policy file
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// What to compact without being asked: on, overflow (what a provider refused as too long) or off
    #[arg(long, value_name = "SWITCH")]
    pub auto: Option<String>,
    /// Log format: text or json
    #[arg(long, value_name = "FORMAT")]
    pub log: Option<String>,
    /// TLS certificate, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<String>,
    /// The certificate's key, as PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// The store: sqlite:PATH, postgres://… or memory: [default: as configured]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Listen beyond this machine without keys: anybody who can connect can read every thread
    #[arg(long)]
    pub insecure: bool,
    /// Try it without a provider: a mock answers, and everything stays in memory
    #[arg(long, conflicts_with_all = ["upstreams", "store"])]
    pub demo: bool,
}

/// `epitome mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Serve this thread only [default: the one a call names, or the last one used]
    #[arg(long, value_name = "ID")]
    pub thread: Option<String>,
    /// Size limit of an answer of read_artifact
    #[arg(long, value_name = "TOKENS", default_value_t = 4000, value_parser = read_tokens)]
    pub read_tokens: u64,
    #[command(flatten)]
    pub store_options: StoreOptions,
}

/// `epitome mock`.
#[derive(Debug, Args)]
pub struct MockArgs {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 4010)]
    pub port: u16,
    /// List the faults and exit
    #[arg(long)]
    pub list: bool,
    /// Window in tokens, for models whose name has none [default: as known]
    #[arg(long, value_name = "TOKENS", value_parser = amount)]
    pub window: Option<u64>,
    /// The fault for a prompt that is too long, from --list [default: the protocol's own]
    #[arg(long, value_name = "NAME")]
    pub overflow: Option<ProviderFault>,
    /// Count the output that a request reserves against the window
    #[arg(long)]
    pub count_output: bool,
    /// Enforce for every model what only some back-ends enforce
    #[arg(long)]
    pub pedantic: bool,
    /// Answer the next N turns of each key with tool calls
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Work")]
    pub work: u64,
    /// Approximate output of each of these calls
    #[arg(long, value_name = "BYTES", default_value_t = 6000, value_parser = amount_usize, help_heading = "Work")]
    pub work_bytes: usize,
    /// The file to read, if no tool runs commands
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
    /// Tokens of a plain answer; 0 is a short sentence
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = amount_usize, help_heading = "Timing")]
    pub answer_tokens: usize,
    /// Read the body and answer, without checks, counts or records
    #[arg(long, help_heading = "Timing")]
    pub lax: bool,
}
