//! What the engine costs, measured for `scripts/bench`: one line of JSON for each question asked.
//!
//! It compares nothing and judges nothing; `benches/compare.py` does. Run it by hand with
//! `cargo run --release --example speed -- cold THREAD.json 3`.

use std::sync::Arc;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Instant;

use epitome::budget::{Bpe, Meter, TokenCounter, Tokens};
use epitome::plan::{Compaction, Room};
use epitome::planner::{PlanOptions, Planner, Verdict};
use epitome::policy::{Policy, preset};
use epitome::render::render;
use epitome::thread::{Raw, Thread};
use epitome::wire::{Dialect, Document};

/// The window that the thread must be brought into.
const WINDOW: Tokens = Tokens::new(200_000);
/// Warm steps measured on one thread: few enough to stay below the trigger.
const STEPS: usize = 25;

const USAGE: &str = "speed load | cold THREAD RUNS | memory THREAD | warm THREAD EXCHANGE | ranks FILE";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let line = match words[..] {
        ["load"] => load(),
        ["cold", path, runs] => cold(&std::fs::read_to_string(path)?, runs.parse()?),
        ["memory", path] => memory(path)?,
        ["warm", path, exchange] => warm(&std::fs::read_to_string(path)?, &std::fs::read_to_string(exchange)?),
        ["ranks", path] => ranks(path)?,
        _ => return Err(USAGE.into()),
    };
    writeln!(io::stdout(), "{line}")?;
    Ok(())
}

/// Loads the vocabulary, as everything below needs it; answers the milliseconds.
fn load_vocabulary() -> f64 {
    let start = Instant::now();
    assert_eq!(Bpe::O200k.count("hello world"), Tokens::new(2));
    ms_since(start)
}

fn load() -> String {
    format!("{{\"load_ms\":{:.3}}}", load_vocabulary())
}

/// Bytes in, prompt bytes out, several times; the milliseconds of each run, in all and step by step.
fn cold(input: &str, runs: usize) -> String {
    let policy = ladder();
    load_vocabulary();
    let mut out = String::from("{\"runs\":[");
    for run in 0..runs {
        let (prompt, laps) = compact(input.to_owned(), &policy);
        let gap = if run == 0 { "" } else { "," };
        let _ = write!(out, "{gap}{}", laps.json(&prompt));
    }
    out.push_str("]}");
    out
}

/// One cold run in a process of its own: what it adds to the memory of a process that has only loaded the vocabulary.
fn memory(path: &str) -> io::Result<String> {
    let policy = ladder();
    load_vocabulary();
    let before = kilobytes("VmRSS")?;
    let input = std::fs::read_to_string(path)?;
    let bytes = input.len();
    let (prompt, _) = compact(input, &policy);
    let peak = kilobytes("VmHWM")?;
    Ok(format!(
        "{{\"input_bytes\":{bytes},\"prompt_bytes\":{},\"before_kb\":{before},\"peak_kb\":{peak}}}",
        prompt.len()
    ))
}

/// Appends an exchange to a compacted thread and decides, again and again; the microseconds of each.
fn warm(input: &str, exchange: &str) -> String {
    let policy = ladder();
    load_vocabulary();
    let document = Document::decode(input, Some(Dialect::Chat)).expect("the thread is JSON");
    let meter = Meter::new(&Bpe::O200k, Dialect::Chat);
    let mut thread = Thread::new();
    thread.extend(document.messages(), &meter);
    // A caller keeps its compaction and shares it with each step.
    let compaction = Arc::new(compacted(&thread, &policy, meter));
    let mut out = String::from("{\"steps_us\":[");
    for step in 0..STEPS {
        let start = Instant::now();
        let new = Document::decode(exchange, Some(Dialect::Chat)).expect("the exchange is JSON");
        for message in new.messages() {
            thread.append(message, &meter);
        }
        let ask = PlanOptions { previous: Some(Arc::clone(&compaction)), ..PlanOptions::default() };
        let verdict = Planner::new(&thread, &policy, meter, room(&policy), &ask).decide();
        let us = start.elapsed().as_secs_f64() * 1e6;
        assert!(matches!(verdict, Verdict::Fits { .. }), "a step after a compaction fits: {verdict:?}");
        let gap = if step == 0 { "" } else { "," };
        let _ = write!(out, "{gap}{us:.2}");
    }
    out.push_str("]}");
    out
}

/// Writes the vocabulary in hexadecimal, one token a line, so that another tokenizer can be given the very same.
fn ranks(path: &str) -> io::Result<String> {
    let vocabulary = tiktoken::get_encoding("o200k_base").expect("it is compiled in");
    let ordinary = vocabulary.vocab_size();
    let mut out = String::new();
    for rank in 0..ordinary as u32 {
        for byte in vocabulary.decode(&[rank]) {
            let _ = write!(out, "{byte:02x}");
        }
        out.push('\n');
    }
    std::fs::write(path, out)?;
    Ok(format!("{{\"ranks\":{ordinary}}}"))
}

/// The milliseconds that each step of a cold run took.
struct Laps {
    last: Instant,
    laps: Vec<(&'static str, f64)>,
}

impl Laps {
    fn start() -> Laps {
        Laps { last: Instant::now(), laps: Vec::new() }
    }

    fn lap(&mut self, name: &'static str) {
        self.laps.push((name, ms_since(self.last)));
        self.last = Instant::now();
    }

    fn json(&self, prompt: &str) -> String {
        let total: f64 = self.laps.iter().map(|(_, ms)| ms).sum();
        let laps: Vec<String> = self.laps.iter().map(|(name, ms)| format!("\"{name}\":{ms:.3}")).collect();
        format!("{{\"total\":{total:.3},\"prompt_bytes\":{},{}}}", prompt.len(), laps.join(","))
    }
}

/// One cold run. The input is given away: nobody needs it once it is decoded.
fn compact(input: String, policy: &Policy) -> (String, Laps) {
    let mut laps = Laps::start();
    let document = Document::read(Raw::whole(input), Some(Dialect::Chat)).expect("the thread is JSON");
    let messages = document.messages();
    laps.lap("decode");
    let meter = Meter::new(&Bpe::O200k, Dialect::Chat);
    let mut thread = Thread::new();
    thread.extend(messages, &meter);
    laps.lap("count");
    let options = PlanOptions::default();
    let planner = Planner::new(&thread, policy, meter, room(policy), &options);
    let Verdict::Act(draft) = planner.decide() else {
        panic!("a thread of {} tokens must be compacted", thread.total());
    };
    laps.lap("plan");
    let compaction = planner.finish(*draft, None);
    laps.lap("summary");
    let prompt = render(&thread, Some(&compaction), policy, meter, &[]);
    let bytes = document.encode(&prompt.marked_messages(&thread));
    laps.lap("render");
    assert!(compaction.plan.shortfall.is_none(), "the prompt fits");
    (bytes, laps)
}

fn compacted(thread: &Thread, policy: &Policy, meter: Meter<'_>) -> Compaction {
    let options = PlanOptions::default();
    let made = Planner::new(thread, policy, meter, room(policy), &options).compact();
    made.unwrap_or_else(|| panic!("a thread of {} tokens must be compacted", thread.total()))
}

fn ladder() -> Policy {
    preset("ladder").expect("it ships with the library")
}

fn room(policy: &Policy) -> Room {
    Room::in_window(policy, WINDOW, Tokens::ZERO)
}

fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// A line of `/proc/self/status`.
fn kilobytes(name: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("/proc/self/status has no {name}")))
}
