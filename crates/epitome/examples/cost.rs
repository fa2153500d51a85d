//! What a policy costs on recorded threads when the provider's cache is priced in; for `scripts/cost`.
//!
//! Every recorded session is run as its agent ran it: before each of its messages a request goes out with the history so
//! far, as the policy leaves it. What the request has in common with the one before, in whole messages, is read from the
//! cache at 0.1; the rest is written at 1.25. Where the agent's next call names something that is no longer in the prompt,
//! it is read back with a request of its own: the prompt is read again, the call and what it answers are written.
//!
//! It compares nothing and judges nothing; `scripts/cost.py` does. Run it by hand with
//! `cargo run --release --example cost -- ours FOLDER ladder:20000`.

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, BufRead, Write as _};
use std::path::Path;
use std::rc::Rc;

use epitome::budget::{Bpe, Meter, Tokens};
use epitome::plan::{Compaction, Room};
use epitome::planner::{CacheState, PlanOptions, Planner};
use epitome::policy::{Policy, preset};
use epitome::render::render;
use epitome::thread::{NewMessage, Raw, Thread};
use epitome::wire::{Dialect, Document};
use serde_json::{Value, json};

/// What a token costs that is read from the cache, and one that is written to it.
const READ: f64 = 0.1;
const WRITE: f64 = 1.25;
/// The most tokens of one thing that is read back, as `recall` answers by default.
const ANSWER_MAX: u64 = 2000;
/// The tokens of a call that reads something back, and of what frames its answer.
const CALL: u64 = 80;

const USAGE: &str = "\
cost threads FOLDER             the sessions with their counts, one JSON line each
cost ours FOLDER POLICY:SIZE…   one JSON line for each policy
cost apart FOLDER POLICY:SIZE…  the same, with every file on its own
cost theirs FOLDER              prices prompts from standard input, as scripts/cost.py writes them";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["threads", folder] => threads(&sessions(Path::new(folder), Segments::Joined)?),
        ["ours", folder, ref policies @ ..] => ours(&sessions(Path::new(folder), Segments::Joined)?, policies),
        ["apart", folder, ref policies @ ..] => ours(&sessions(Path::new(folder), Segments::Apart)?, policies),
        ["theirs", folder] => theirs(&sessions(Path::new(folder), Segments::Joined)?),
        _ => Err(USAGE.into()),
    }
}

/// What to do with the segments that a shipped agent's compactions cut a session into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Segments {
    /// They are one session.
    Joined,
    /// Each is one of its own.
    Apart,
}

/// A recorded session: all its segments, without the summaries that a shipped agent put between them.
struct Session {
    name: String,
    messages: Vec<Recorded>,
}

/// One message of it.
struct Recorded {
    message: NewMessage,
    raw: Raw,
    is_request: bool,
    tokens: u64,
    /// Everything that is named in it.
    names: Rc<Names>,
    /// What its tool calls name.
    called: Names,
}

type Names = BTreeSet<u64>;

fn meter() -> Meter<'static> {
    Meter::new(&Bpe::O200k, Dialect::Chat)
}

/// The sessions of a folder with a manifest, in the order of their names.
fn sessions(folder: &Path, segments_are: Segments) -> Result<Vec<Session>, Failure> {
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("manifest.json"))?)?;
    let mut segments: BTreeMap<String, Vec<(u64, bool, String)>> = BTreeMap::new();
    for row in manifest["sessions"].as_array().ok_or("the manifest has no sessions")? {
        let file = row["file"].as_str().ok_or("a session without a file")?;
        let text = std::fs::read_to_string(folder.join(file))?;
        let family = row["family"].as_str().unwrap_or_default();
        let session = row["session"].as_str().filter(|_| segments_are == Segments::Joined);
        let name = format!("{family}/{}", session.unwrap_or(file));
        let begins_with_summary = row["starts_with_real_summary"].as_bool().unwrap_or(false);
        let segment = (row["segment"].as_u64().unwrap_or(0), begins_with_summary, text);
        segments.entry(name).or_default().push(segment);
    }
    segments.into_iter().map(|(name, segments)| Session::joined(name, segments)).collect()
}

impl Session {
    fn joined(name: String, mut segments: Vec<(u64, bool, String)>) -> Result<Session, Failure> {
        segments.sort();
        let mut lines: Vec<&str> = Vec::new();
        for (_, begins_with_summary, text) in &segments {
            let skipped = usize::from(*begins_with_summary && !lines.is_empty());
            lines.extend(text.lines().filter(|line| !line.trim().is_empty()).skip(skipped));
        }
        let text = lines.join("\n");
        let document = Document::read(Raw::whole(text), Some(Dialect::Chat))?;
        let messages = document.messages().into_iter().map(Recorded::of).collect();
        Ok(Session { name, messages })
    }

    /// The requests: how many messages there are before each.
    fn requests(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.messages.len()).filter(|at| self.messages[*at].is_request)
    }

    /// The thread as it was before a message.
    fn until(&self, end: usize, thread: &mut Thread) {
        let new = self.messages[thread.len()..end].iter().map(|recorded| recorded.message.clone());
        thread.extend(new.collect(), &meter());
    }
}

impl Recorded {
    fn of(message: NewMessage) -> Recorded {
        let raw = message.raw.clone();
        let value: Value = serde_json::from_str(raw.as_str()).unwrap_or_default();
        Recorded {
            is_request: value["role"] == "assistant",
            tokens: meter().message(&meter().parts(&message)).get(),
            names: Rc::new(names(&words(&value))),
            called: names(&called(&value)),
            message,
            raw,
        }
    }
}

/// What a message says, its calls included.
fn words(message: &Value) -> String {
    let mut words = String::new();
    gather(&message["content"], &mut words);
    words + &called(message)
}

/// What its tool calls say.
fn called(message: &Value) -> String {
    let mut words = String::new();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        match serde_json::from_str::<Value>(arguments) {
            Ok(value) => gather(&value, &mut words),
            Err(_) => words.push_str(arguments),
        }
    }
    words
}

fn gather(value: &Value, words: &mut String) {
    match value {
        Value::String(text) => {
            words.push_str(text);
            words.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, words)),
        Value::Object(fields) => fields.values().for_each(|item| gather(item, words)),
        Value::Number(number) => words.push_str(&format!("{number}\n")),
        _ => {}
    }
}

/// The files, ids, identifiers and numbers in a text; of a path its last two components.
fn names(text: &str) -> Names {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let pieces = text.split(|c| !is_part(c)).map(|piece| piece.trim_matches(['.', '/', '-']));
    pieces.filter(|piece| is_name(piece)).map(|piece| hash(last_two(piece))).collect()
}

fn last_two(path: &str) -> &str {
    path.rmatch_indices('/').nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

/// Whether nobody would write it by chance.
fn is_name(piece: &str) -> bool {
    let bytes = piece.as_bytes();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let camel = bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let joined = letters >= 3 && piece[1..].contains(['_', '/', '.']);
    let mixed = digits >= 2 && letters >= 2;
    bytes.len() >= 4 && (camel || joined || mixed || (digits >= 4 && letters == 0))
}

fn hash(text: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(text)
}

/// One message of a prompt.
#[derive(Clone)]
struct Piece {
    id: u64,
    tokens: u64,
    names: Rc<Names>,
}

/// Messages by their JSON, counted once.
#[derive(Default)]
struct Pieces {
    known: HashMap<u64, Piece>,
}

impl Pieces {
    fn of(&mut self, json: &str) -> Piece {
        let id = hash(json);
        self.known.entry(id).or_insert_with(|| counted(id, json)).clone()
    }

    fn recorded(&mut self, message: &Recorded) -> Piece {
        let id = hash(message.raw.as_str());
        Piece { id, tokens: message.tokens, names: Rc::clone(&message.names) }
    }
}

fn counted(id: u64, json: &str) -> Piece {
    let message = epitome::wire::decode_message(Dialect::Chat, &Raw::whole(json));
    let tokens = meter().message(&meter().parts(&message)).get();
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    Piece { id, tokens, names: Rc::new(names(&words(&value))) }
}

/// What a run costs.
#[derive(Default)]
struct Bill {
    calls: u64,
    sent: u64,
    read: u64,
    peak: u64,
    breaks: u64,
    cost: f64,
    /// How often something was called for by name that was not in the prompt, and what reading it back costs.
    missed: u64,
    recall_cost: f64,
    by_session: Vec<(String, f64, f64)>,
}

/// One session under one policy, request by request.
struct Run<'a> {
    session: &'a Session,
    before: Vec<Piece>,
    /// Where each name stood last.
    stood: HashMap<u64, usize>,
    seen: usize,
    cost: f64,
    recall_cost: f64,
}

impl<'a> Run<'a> {
    fn new(session: &'a Session) -> Self {
        Run { session, before: Vec::new(), stood: HashMap::new(), seen: 0, cost: 0.0, recall_cost: 0.0 }
    }

    /// A request with this prompt, whose answer is the message at a place.
    fn request(&mut self, bill: &mut Bill, prompt: Vec<Piece>, at: usize) {
        let same = self.before.iter().zip(&prompt).take_while(|(one, other)| one.id == other.id).count();
        let total: u64 = prompt.iter().map(|piece| piece.tokens).sum();
        let read: u64 = prompt[..same].iter().map(|piece| piece.tokens).sum();
        bill.calls += 1;
        bill.sent += total;
        bill.read += read;
        bill.peak = bill.peak.max(total);
        bill.breaks += u64::from(same < self.before.len());
        self.cost += read as f64 * READ + (total - read) as f64 * WRITE;
        self.read_back(bill, &prompt, total, at);
        self.before = prompt;
    }

    /// Prices what the answer names that was said before and is not in the prompt.
    fn read_back(&mut self, bill: &mut Bill, prompt: &[Piece], total: u64, at: usize) {
        for place in self.seen..at {
            self.stood.extend(self.session.messages[place].names.iter().map(|name| (*name, place)));
        }
        self.seen = self.seen.max(at);
        let called = &self.session.messages[at].called;
        let absent = called.iter().filter(|name| !prompt.iter().any(|piece| piece.names.contains(name)));
        let held: HashSet<usize> = absent.filter_map(|name| self.stood.get(name)).copied().collect();
        if held.is_empty() {
            return;
        }
        let answers: u64 = held.iter().map(|place| self.session.messages[*place].tokens.min(ANSWER_MAX) + CALL).sum();
        bill.missed += 1;
        self.recall_cost += total as f64 * READ + answers as f64 * WRITE;
    }

    fn done(self, bill: &mut Bill) {
        bill.cost += self.cost;
        bill.recall_cost += self.recall_cost;
        bill.by_session.push((self.session.name.clone(), self.cost, self.recall_cost));
    }
}

impl Bill {
    fn line(&self, policy: &str) -> Value {
        json!({
            "policy": policy, "calls": self.calls, "sent": self.sent, "read": self.read, "peak": self.peak,
            "breaks": self.breaks, "cost": self.cost.round(), "missed": self.missed,
            "recall_cost": self.recall_cost.round(),
            "sessions": self.by_session.iter().map(|(name, cost, recall)| json!([name, cost.round(), recall.round()]))
                .collect::<Vec<_>>(),
        })
    }
}

fn threads(sessions: &[Session]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    for session in sessions {
        let messages: Vec<Value> =
            session.messages.iter().map(|one| serde_json::from_str(one.raw.as_str()).unwrap_or_default()).collect();
        let tokens: Vec<u64> = session.messages.iter().map(|message| message.tokens).collect();
        writeln!(out, "{}", json!({"name": session.name, "tokens": tokens, "messages": messages}))?;
    }
    Ok(())
}

fn ours(sessions: &[Session], policies: &[&str]) -> Result<(), Failure> {
    for written in policies {
        let mut bill = Bill::default();
        for session in sessions {
            match *written {
                "nothing" => nothing(session, &mut bill),
                written => engine(session, &Setting::parse(written)?, &mut bill),
            }
        }
        writeln!(io::stdout(), "{}", bill.line(written))?;
    }
    Ok(())
}

fn nothing(session: &Session, bill: &mut Bill) {
    let (mut run, mut pieces) = (Run::new(session), Pieces::default());
    for at in session.requests() {
        let prompt = session.messages[..at].iter().map(|message| pieces.recorded(message)).collect();
        run.request(bill, prompt, at);
    }
    run.done(bill);
}

/// A policy and the room it works in.
struct Setting {
    policy: Policy,
    room: Room,
}

impl Setting {
    /// `ladder:20000` is the preset in a window of so many tokens, by its own marks; `pi:20000-10000` acts at the first
    /// number and goes down to the second. Values of the policy may follow: `ladder:20000:target.low_water=0.4`.
    fn parse(written: &str) -> Result<Setting, Failure> {
        let mut words = written.split(':');
        let mut policy = preset(words.next().unwrap_or_default()).ok_or("there is no such preset")?;
        let size = words.next().ok_or(USAGE)?;
        for change in words {
            let (key, value) = change.split_once('=').ok_or(USAGE)?;
            policy = changed(&policy, key, value)?;
        }
        let room = match size.split_once('-') {
            Some((trigger, target)) => {
                let trigger = Tokens::new(trigger.parse()?);
                Room { trigger, target: Tokens::new(target.parse()?), limit: trigger }
            }
            None => Room::in_window(&policy, Tokens::new(size.parse()?), Tokens::ZERO),
        };
        Ok(Setting { policy, room })
    }
}

/// The policy with one value changed: `protect.tail_max=0.4`.
fn changed(policy: &Policy, key: &str, value: &str) -> Result<Policy, Failure> {
    let mut tree = serde_json::to_value(policy)?;
    let pointer = format!("/{}", key.replace('.', "/"));
    *tree.pointer_mut(&pointer).ok_or_else(|| format!("a policy has no {key}"))? = serde_json::from_str(value)?;
    Ok(serde_json::from_value(tree)?)
}

fn engine(session: &Session, setting: &Setting, bill: &mut Bill) {
    let Setting { policy, room } = setting;
    let (mut run, mut pieces, mut thread) = (Run::new(session), Pieces::default(), Thread::new());
    let mut compaction: Option<Compaction> = None;
    for at in session.requests() {
        session.until(at, &mut thread);
        let ask = PlanOptions {
            previous: compaction.clone().map(Arc::new),
            cache: CacheState::Warm { age_s: 0 },
            ..PlanOptions::default()
        };
        if let Some(made) = Planner::new(&thread, policy, meter(), *room, &ask).compact() {
            compaction = Some(made);
        }
        let prompt = render(&thread, compaction.as_ref(), policy, meter(), &[]);
        let prompt = prompt.to_raw(&thread).iter().map(|raw| pieces.of(raw.as_str())).collect();
        run.request(bill, prompt, at);
    }
    run.done(bill);
}

/// Prices prompts that somebody else made: a line for each request, with places of recorded messages and new messages.
fn theirs(sessions: &[Session]) -> Result<(), Failure> {
    let mut bills: BTreeMap<String, Bill> = BTreeMap::new();
    let mut order = Vec::new();
    let mut lines = io::stdin().lock().lines().peekable();
    while let Some(line) = lines.next() {
        let head: Value = serde_json::from_str(&line?)?;
        let policy = head["policy"].as_str().ok_or("a run without a policy")?.to_owned();
        let at = head["session"].as_u64().ok_or("a run without a session")? as usize;
        if !bills.contains_key(&policy) {
            order.push(policy.clone());
        }
        priced(&sessions[at], &mut lines, bills.entry(policy).or_default())?;
    }
    for policy in order {
        writeln!(io::stdout(), "{}", bills[&policy].line(&policy))?;
    }
    Ok(())
}

fn priced(
    session: &Session,
    lines: &mut impl Iterator<Item = io::Result<String>>,
    bill: &mut Bill,
) -> Result<(), Failure> {
    let (mut run, mut pieces) = (Run::new(session), Pieces::default());
    for at in session.requests() {
        let prompt: Vec<Value> = serde_json::from_str(&lines.next().ok_or("a request is missing")??)?;
        let prompt = prompt.iter().map(|entry| match entry.as_u64() {
            Some(place) => pieces.recorded(&session.messages[place as usize]),
            None => pieces.of(&entry.to_string()),
        });
        let prompt = prompt.collect();
        run.request(bill, prompt, at);
    }
    run.done(bill);
    Ok(())
}
