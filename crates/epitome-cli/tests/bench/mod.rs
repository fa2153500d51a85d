//! A bench to run the program on: a folder of its own with copies of fixtures, and what a run said.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

static BENCHES: AtomicUsize = AtomicUsize::new(0);

/// A folder that goes when it is dropped.
pub struct Bench(PathBuf);

/// What a run said and how it ended.
pub struct Run {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Bench {
    pub fn new() -> Self {
        let number = BENCHES.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Bench(path)
    }

    /// With a copy of a file of `testdata`.
    pub fn with(self, fixture: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(fixture);
        fs::copy(&from, self.path(from.file_name().unwrap().to_str().unwrap())).unwrap();
        self
    }

    /// With a file of this content.
    pub fn holding(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), content).unwrap();
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// The names of everything in the folder.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0).env("SOURCE_DATE_EPOCH", "1771000000").env_remove("NO_COLOR").stdin(Stdio::null());
        // Nothing of whoever runs the tests: no configuration, no store, no key.
        let ours = |name: &str| name.starts_with("EPITOME_") || name.starts_with("XDG_") || name.ends_with("_API_KEY");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
            command.env_remove(name);
        }
        command.env("HOME", &self.0);
        command
    }

    /// Runs `epitome` with these words.
    pub fn run(&self, words: &[&str]) -> Run {
        Run::of(self.command(env!("CARGO_BIN_EXE_epitome")).args(words).output().unwrap())
    }

    /// Runs `epitome` with these words and variables.
    pub fn run_with(&self, variables: &[(&str, &str)], words: &[&str]) -> Run {
        let mut command = self.command(env!("CARGO_BIN_EXE_epitome"));
        Run::of(command.envs(variables.iter().copied()).args(words).output().unwrap())
    }

    /// Runs a shell line in which `epitome` is the program.
    pub fn shell(&self, line: &str) -> Run {
        let line = format!("epitome() {{ '{}' \"$@\"; }}; {line}", env!("CARGO_BIN_EXE_epitome"));
        Run::of(self.command("sh").args(["-c", &line]).output().unwrap())
    }

    /// The seconds that the processor works for a command, the fewest of three runs: the clock also tells what else the machine does.
    pub fn cpu_seconds(&self, command: &str, exit: i32) -> f64 {
        let once = || {
            let run = self.shell(&format!("epitome {command} >&2; echo ended $?; times")).ended(0);
            assert!(run.out.contains(&format!("ended {exit}")), "{}{}", run.out, run.err);
            // The last line is that of the children: `0m1.250s 0m0.031s`.
            let parts = run.out.lines().last().unwrap().split_whitespace();
            let seconds = parts.map(|part| {
                let (minutes, seconds) = part.trim_end_matches('s').split_once('m').unwrap();
                minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
            });
            seconds.sum()
        };
        (0..3).map(|_| once()).fold(f64::MAX, f64::min)
    }

    /// Starts `epitome` and lets it run.
    pub fn start(&self, words: &[&str]) -> std::process::Child {
        let mut command = self.command(env!("CARGO_BIN_EXE_epitome"));
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { out: text(output.stdout), err: text(output.stderr), code: output.status.code().unwrap_or(-1) }
    }

    /// Everything about it, as a snapshot shows it.
    pub fn whole(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.out, self.err)
    }

    /// The same with amounts and hashes blotted out, for what the engine is free to improve.
    pub fn outline(&self) -> String {
        let said: String = self.out.lines().map(|line| blot(line) + "\n").collect();
        format!("exit {}\n--- stdout\n{said}--- stderr\n{}", self.code, self.err)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// The run, if it ended like this.
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.whole());
        self
    }
}

/// A line with every row of numbers, message numbers and hashes as one `#`.
fn blot(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_whitespace() {
        let number = word.trim_end_matches([',', '.', ';', ')']).trim_start_matches('(');
        let digits = number.strip_prefix('m').unwrap_or(number);
        let is_hash = number.len() == 16 && number.bytes().all(|b| b.is_ascii_hexdigit());
        let is_number = is_hash || !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let word = if is_number { "#" } else { word };
        if word != "#" || !out.ends_with('#') {
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(word);
        }
    }
    out
}
