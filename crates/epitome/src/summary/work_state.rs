//! The state of the work: the last test run, build and check with their outcomes, and what git has of it.
//!
//! ```text
//! m90  $ go test ./...          FAIL: TestTotal …              tests    `go test ./...` failed: --- FAIL: TestTotal; got 3, want 4
//! m95  $ git commit -m "…"      [feat/cart 3f9a1c7] Round up   commit   3f9a1c7 Round up
//!                                                              branch   feat/cart
//! m97  $ git push               …                              push     pushed
//! ```
//!
//! One line for each kind of thing, the newest. A line tells what a command printed; nothing is concluded from silence.

use serde::{Deserialize, Serialize};

use super::arguments::search_hit;
use super::clip::one_line;
use super::constraint::has_words;
use super::extract::first_line;
use super::structured::{CommandEnding, StructuredSummary};

/// A kind of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateKind {
    /// The newest run of tests.
    Tests,
    /// The newest build.
    Build,
    /// The newest run of a linter, a formatter or a type checker.
    Checks,
    /// The branch that the newest commit is on.
    Branch,
    /// The newest commit.
    Commit,
    /// The newest push.
    Push,
    /// What `git status` said last: how the branch stands to its remote, what is not committed.
    Tree,
}

impl StateKind {
    const ALL: [StateKind; 7] = [
        StateKind::Tests,
        StateKind::Build,
        StateKind::Checks,
        StateKind::Branch,
        StateKind::Commit,
        StateKind::Push,
        StateKind::Tree,
    ];

    /// Tells whether it is something that was run, and may end otherwise after the next change.
    pub(super) fn is_run(self) -> bool {
        matches!(self, StateKind::Tests | StateKind::Build | StateKind::Checks)
    }

    fn label(self) -> &'static str {
        match self {
            StateKind::Tests => "Tests",
            StateKind::Build => "Build",
            StateKind::Checks => "Checks",
            StateKind::Branch => "Branch",
            StateKind::Commit => "Commit",
            StateKind::Push => "Push",
            StateKind::Tree => "Git status",
        }
    }
}

/// One line of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLine {
    /// Its kind.
    pub kind: StateKind,
    /// What is known.
    pub line: String,
    /// The place of the message.
    pub place: usize,
}

impl StateLine {
    /// Returns the line with its kind: `Tests: …`.
    pub fn text(&self) -> String {
        format!("{}: {}", self.kind.label(), self.line)
    }

    /// Parses `Tests: … (m90)` and `Tests: … (m90; 2 files were changed since)`.
    pub(super) fn parse(text: &str, place: usize) -> Option<StateLine> {
        let (label, rest) = text.split_once(": ")?;
        let kind = StateKind::ALL.into_iter().find(|kind| kind.label() == label)?;
        let with_place = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (m"));
        let number = |text: &str| text.split_once(SINCE).map_or(text, |(number, _)| number).parse::<usize>().ok();
        let (line, place) = match with_place.and_then(|(line, text)| Some((line, number(text)?))) {
            Some((line, number)) => (line, number.saturating_sub(1)),
            None => (rest, place),
        };
        Some(StateLine { kind, line: line.to_owned(), place })
    }
}

/// Stands between the number of a run and what was changed after it.
pub(super) const SINCE: &str = "; ";

/// The most complaints of a compiler that are quoted; those about one file name it once.
const DIAGNOSTICS_MAX: usize = 10;

/// The most lines of a failed run that are quoted, and the most characters of each.
const FAILING_LINES_MAX: usize = 6;
const FAILING_CHARS_MAX: usize = 160;
/// The most characters of a command.
const COMMAND_CHARS_MAX: usize = 120;

/// Words of commands by what they run; the first kind that fits counts.
const RUNS: [(StateKind, &[&str]); 3] = [
    (
        StateKind::Tests,
        &[
            "test",
            "tests",
            "pytest",
            "nextest",
            "jest",
            "vitest",
            "mocha",
            "rspec",
            "phpunit",
            "ctest",
            "tox",
            "unittest",
            "test:integration",
            "test:unit",
            "test:e2e",
            "test:ci",
            "e2e",
        ],
    ),
    (
        StateKind::Checks,
        &[
            "lint",
            "clippy",
            "fmt",
            "eslint",
            "ruff",
            "mypy",
            "tsc",
            "typecheck",
            "check",
            "vet",
            "golangci-lint",
            "flake8",
            "prettier",
            "black",
            "shellcheck",
            "pyright",
            "biome",
        ],
    ),
    (
        StateKind::Build,
        &["build", "compile", "make", "cmake", "ninja", "gradle", "gradlew", "webpack", "vite", "bazel", "msbuild"],
    ),
];

/// Programs that print, search and move files.
const READERS: [&str; 24] = [
    "awk", "cat", "cd", "chmod", "cp", "diff", "echo", "find", "gh", "git", "grep", "head", "ls", "mkdir", "mv",
    "printf", "rg", "rm", "sed", "sleep", "sort", "tail", "touch", "wc",
];

/// Commands after which the working tree stands otherwise than `git status` told.
const MOVES_TREE: [&str; 8] =
    ["git checkout", "git commit", "git merge", "git pull", "git push", "git rebase", "git reset", "git switch"];

const NOT_PUSHED: &str = "the newest commit was not pushed";

/// Notes what a command and its output tell of the state.
pub(super) fn note_state(
    items: &mut StructuredSummary,
    command: &str,
    output: &str,
    ending: CommandEnding,
    place: usize,
) {
    let simple = first_line(command);
    // All commands of a line ended well where the line did; which of them failed it does not say.
    let told = if ending == CommandEnding::Failed { 1 } else { usize::MAX };
    for kind in run_kinds(simple).take(told) {
        let name = one_line(simple, COMMAND_CHARS_MAX);
        set_state(items, kind, format!("`{name}` {}", run_outcome(kind, simple, output, ending)), place);
    }
    if matches!(ending, CommandEnding::Failed | CommandEnding::Running) {
        return;
    }
    if MOVES_TREE.iter().any(|moves| command.contains(moves)) {
        // What `git status` said before is out of date.
        items.state.retain(|known| known.kind != StateKind::Tree);
    }
    if command.contains("git commit")
        && let Some((branch, commit)) = output.lines().find_map(commit_line)
    {
        set_state(items, StateKind::Branch, branch.to_owned(), place);
        set_state(items, StateKind::Commit, one_line(&commit, FAILING_CHARS_MAX), place);
        set_state(items, StateKind::Push, NOT_PUSHED.to_owned(), place);
    }
    if command.contains("git push") {
        set_state(items, StateKind::Push, "pushed".to_owned(), place);
    }
    if let Some(branch) = switched_branch(command) {
        set_state(items, StateKind::Branch, branch.to_owned(), place);
    }
    if command.contains("git status")
        && let Some(tree) = git_status(output)
    {
        // Another checkout than the one that is worked on may be meant.
        let elsewhere = command.trim().strip_prefix("cd ").and_then(|rest| rest.split_once(" && "));
        let place_of = elsewhere.map_or(String::new(), |(folder, _)| format!("in {}, ", folder.trim()));
        set_state(items, StateKind::Tree, format!("{place_of}{tree}"), place);
    }
}

/// So many files of each kind are named.
const TREE_NAMED_MAX: usize = 5;

/// Tells in one line what `git status` printed: the branch, how it stands to its remote, and which files are staged, changed and
/// untracked. `None` where it printed something else, such as the short form.
fn git_status(output: &str) -> Option<String> {
    let branch = output.lines().find_map(|line| line.trim().strip_prefix("On branch "))?;
    let mut told = vec![format!("on {}", branch.trim())];
    let remote = output.lines().map(str::trim).find(|line| line.starts_with("Your branch "));
    told.extend(remote.map(|line| line.trim_start_matches("Your branch ").trim_end_matches(['.', ',']).to_owned()));
    let heads =
        [("Changes to be committed:", "staged"), ("Changes not staged", "changed"), ("Untracked files:", "untracked")];
    let mut files: [Vec<&str>; 3] = Default::default();
    let mut open = None;
    for line in output.lines() {
        let opened = heads.iter().position(|(head, _)| line.trim().starts_with(head));
        open = opened.or(open).filter(|_| !line.trim().is_empty() || opened.is_some());
        let is_hint = line.trim().starts_with('(');
        if let Some(at) = open.filter(|_| opened.is_none() && !is_hint && line.starts_with([' ', '\t'])) {
            // `modified:   src/cart.rs`
            files[at].push(line.rsplit_once(":   ").map_or(line, |(_, name)| name).trim());
        }
    }
    for ((_, name), files) in heads.iter().zip(files).filter(|(_, files)| !files.is_empty()) {
        let more = if files.len() > TREE_NAMED_MAX { ", …" } else { "" };
        let named = &files[..files.len().min(TREE_NAMED_MAX)];
        told.push(format!("{} {name} ({}{more})", files.len(), named.join(", ")));
    }
    told.extend(output.contains("working tree clean").then(|| "nothing to commit".to_owned()));
    Some(told.join(", "))
}

/// Tells how a run of tests, a build or a check ended: `passed`, or `failed` with the lines that say why.
pub(super) fn run_outcome(kind: StateKind, command: &str, output: &str, ending: CommandEnding) -> String {
    // Behind a pipe, the exit code is that of `head` or `tail`.
    let is_hidden = command.contains('|');
    let diagnostics = if kind == StateKind::Tests { Vec::new() } else { diagnostics(output) };
    let is_untold = is_hidden || ending == CommandEnding::Unknown;
    if ending == CommandEnding::Failed || !diagnostics.is_empty() && is_untold {
        let lines = if diagnostics.is_empty() { failing_lines(output) } else { diagnostics };
        let gap = if lines.is_empty() { "" } else { ": " };
        format!("failed{gap}{}", lines.join("; "))
    } else if ending == CommandEnding::Running {
        "still runs in the background".to_owned()
    } else if is_untold && !output.trim().is_empty() && !tells_success(output) {
        "ran; the output does not say how it ended".to_owned()
    } else if ending == CommandEnding::Unknown && output.trim().is_empty() {
        "printed no error".to_owned()
    } else {
        "passed".to_owned()
    }
}

/// Puts a line in the place of the older one of its kind.
pub(super) fn set_state(items: &mut StructuredSummary, kind: StateKind, line: String, place: usize) {
    items.state.retain(|known| known.kind != kind);
    items.state.push(StateLine { kind, line, place });
    items.state.sort_by_key(|known| known.kind);
}

/// Tells whether a shell command only looks something up: every command of the line reads.
pub(super) fn only_reads(line: &str) -> bool {
    let mut commands = line.split(['&', '|', ';', '\n']).map(str::trim).filter(|command| !command.is_empty());
    commands.all(|command| {
        let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
        let program = words.next().map(name_of).unwrap_or_default();
        let subcommand = || words.clone().find(|word| !word.starts_with('-')).unwrap_or_default();
        // `2>&1` is split too.
        program.bytes().all(|byte| byte.is_ascii_digit())
            || LOOKUPS.contains(&program)
            || program == "sed" && !words.clone().any(|word| word.starts_with("-i"))
            || program == "git" && GIT_LOOKUPS.contains(&subcommand())
    })
}

/// Programs that only print what they find.
const LOOKUPS: [&str; 22] = [
    "awk", "cat", "cd", "cut", "diff", "echo", "file", "find", "grep", "head", "jq", "less", "ls", "printf", "pwd",
    "rg", "sort", "stat", "tail", "tree", "uniq", "wc",
];
const GIT_LOOKUPS: [&str; 10] =
    ["blame", "branch", "diff", "grep", "log", "ls-files", "ls-tree", "rev-parse", "show", "status"];

/// Returns what the first command of a line that runs something runs.
pub(super) fn run_kind(line: &str) -> Option<StateKind> {
    run_kinds(line).next()
}

/// Returns what the commands of a line run, in their order.
fn run_kinds(line: &str) -> impl Iterator<Item = StateKind> {
    line.split(['&', '|', ';', '\n']).filter_map(|command| {
        let words = command.split_whitespace().skip_while(|word| word.contains('=')).take(5);
        let words: Vec<&str> = words.map(|word| word.trim_matches(['"', '\'', '(', ')'])).collect();
        // A search for the word, or a file with that name, runs nothing.
        let reads = words.first().is_none_or(|program| READERS.contains(&name_of(program)));
        let runs = |names: &[&str]| words.iter().any(|word| names.contains(&name_of(word)));
        RUNS.iter().find(|(_, names)| !reads && runs(names)).map(|(kind, _)| *kind)
    })
}

fn name_of(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Parses the line that git prints for a commit, `[branch 3f9a1c7] subject`, into the branch and the rest.
fn commit_line(line: &str) -> Option<(&str, String)> {
    let (head, subject) = line.trim().strip_prefix('[')?.split_once("] ")?;
    let (branch, hash) = head.rsplit_once(' ')?;
    let is_hash = (7..=40).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && !subject.is_empty()).then(|| (branch.trim_end_matches(" (root-commit)"), format!("{hash} {subject}")))
}

/// Returns the branch that a command made or switched to.
fn switched_branch(command: &str) -> Option<&str> {
    let marks = ["git checkout -b ", "git switch -c ", "git checkout -B ", "git switch "];
    let (_, rest) = marks.iter().find_map(|mark| command.split_once(mark))?;
    let branch = rest.split(|c: char| c.is_whitespace() || "&|;\"'".contains(c)).next()?;
    (!branch.is_empty() && !branch.starts_with('-')).then_some(branch)
}

/// Returns the complaints of a compiler or a linter: `src/cart.go:12:3: undefined: total`. Warnings are none.
fn diagnostics(output: &str) -> Vec<String> {
    let complains = |line: &&str| search_hit(line).is_some_and(|(_, rest)| !rest.to_lowercase().contains("warning"));
    let mut lines: Vec<String> = Vec::new();
    let (mut file, mut said, mut more) = ("", "", 0);
    for line in output.lines().map(str::trim).filter(complains) {
        let own = search_hit(line).map_or("", |(path, _)| path);
        let told = line.strip_prefix(file).filter(|_| own == file).map_or(line, |rest| rest.trim_start_matches(':'));
        let (place, words) = told.split_once(": ").unwrap_or(("", told));
        let is_again = own == file && words == said;
        (file, said) = (own, words);
        let both = lines.last().and_then(|last| last.split_once(": ")).filter(|_| is_again && more == 0);
        if let Some((places, words)) = both {
            // The same about another line of the file: both places, and the words once.
            let told = format!("{places}, {place}: {words}");
            lines.pop();
            lines.push(told);
        } else if lines.len() < DIAGNOSTICS_MAX {
            lines.push(one_line(told, FAILING_CHARS_MAX));
        } else {
            more += 1;
        }
    }
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

/// Tells whether an output says that all went well.
fn tells_success(output: &str) -> bool {
    let lower = output.to_lowercase();
    [
        "ok",
        "pass",
        "passed",
        "passing",
        "success",
        "successful",
        "succeeded",
        "finished",
        "0 errors",
        "0 issues",
        "0 failed",
    ]
    .iter()
    .any(|words| has_words(&lower, words))
}

/// Tells whether a line says what failed: the name of a test, an error, what was expected and what came.
pub(super) fn tells_failure(line: &str) -> bool {
    const TELLING: [&str; 14] = [
        "--- fail",
        "fail:",
        "failed",
        "error[",
        "error:",
        "error ",
        "panicked",
        "assert",
        "expected",
        "got ",
        "want ",
        "✗",
        "×",
        "undefined:",
    ];
    let lower = line.to_lowercase();
    // In a string of a program it tells of no failure: `return fmt.Errorf("failed to open: %w", err)`.
    let is_quoted = |at: usize| ["(\"", "('", "(`", "(f\""].iter().any(|open| lower[..at].contains(open));
    TELLING.iter().any(|word| lower.find(word).is_some_and(|at| !is_quoted(at)))
}

/// Returns the lines that say what failed.
pub(super) fn failing_lines(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in output.lines().map(str::trim).filter(|line| tells_failure(line)) {
        let line = one_line(line, FAILING_CHARS_MAX);
        if !lines.contains(&line) {
            lines.push(line);
        }
        if lines.len() == FAILING_LINES_MAX {
            break;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{StateKind, StateLine, note_state, run_kind};
    use crate::summary::{CommandEnding, StructuredSummary};

    const WELL: CommandEnding = CommandEnding::Succeeded;
    const FAILED: CommandEnding = CommandEnding::Failed;

    #[test]
    fn the_state_is_the_newest_of_each_kind() {
        let mut items = StructuredSummary::default();
        note_state(&mut items, "go test ./...", "--- FAIL: TestTotal\n    got 3, want 4\nFAIL", FAILED, 1);
        note_state(&mut items, "git commit -m x", "[feat/cart 3f9a1c7] Round up\n 1 file changed", WELL, 3);
        note_state(&mut items, "go test ./cart", "ok", WELL, 5);
        note_state(&mut items, "go build ./... && git push", "", WELL, 7);
        note_state(&mut items, "golangci-lint run | tail -5", "cart.go:3:1: unused", WELL, 9);
        let lines: Vec<String> = items.state.iter().map(StateLine::text).collect();
        assert_eq!(
            lines,
            [
                "Tests: `go test ./cart` passed",
                "Build: `go build ./... && git push` passed",
                "Checks: `golangci-lint run | tail -5` failed: cart.go:3:1: unused",
                "Branch: feat/cart",
                "Commit: 3f9a1c7 Round up",
                "Push: pushed"
            ]
        );
    }

    #[test]
    fn a_command_that_only_reads_runs_no_test() {
        let cases = [
            ("cargo test -p cart", Some(StateKind::Tests)),
            ("cd x && npm run lint", Some(StateKind::Checks)),
            ("make", Some(StateKind::Build)),
            ("grep -rn test src", None),
            ("cat build", None),
            ("ls tests", None),
        ];
        for (command, expected) in cases {
            assert_eq!(run_kind(command), expected, "{command}");
        }
    }

    #[test]
    fn what_a_pipe_hides_is_not_told_as_passed() {
        let cases = [
            ("go build ./... | head", "", "passed"),
            ("go build ./... | head", "# shop\ncart.go:3:1: undefined: total", "failed: cart.go:3:1: undefined: total"),
            ("make | tail -3", "linking\ndone with it", "ran; the output does not say how it ended"),
            ("cargo build 2>&1 | tail -1", "Finished dev in 3s", "passed"),
            (
                "go vet ./... | head",
                "cart.go:3:1: undefined: total\ncart.go:9:2: undefined: tax\nmain.go:4:1: unused",
                "failed: cart.go:3:1: undefined: total; 9:2: undefined: tax; main.go:4:1: unused",
            ),
            (
                "go vet ./... | head",
                "cart.go:3:1: undefined: total\ncart.go:9:2: undefined: total\ncart.go:11:7: undefined: total\nmain.go:4:1: unused",
                "failed: cart.go:3:1, 9:2, 11:7: undefined: total; main.go:4:1: unused",
            ),
        ];
        for (command, output, expected) in cases {
            let mut items = StructuredSummary::default();
            note_state(&mut items, command, output, WELL, 0);
            assert_eq!(items.state[0].line, format!("`{command}` {expected}"));
        }
    }

    #[test]
    fn how_a_run_ended_is_told_only_where_something_tells() {
        let (unknown, running) = (CommandEnding::Unknown, CommandEnding::Running);
        let cases = [
            ("cargo test", "test result: ok. 3 passed; 0 failed", unknown, "passed"),
            ("make", "cc main.c\nld main.o", unknown, "ran; the output does not say how it ended"),
            ("make", "", unknown, "printed no error"),
            ("make", "", WELL, "passed"),
            ("tsc", "src/cart.ts:3:1: undefined: total", unknown, "failed: src/cart.ts:3:1: undefined: total"),
            ("npm test", "Command running in background with ID: b1", running, "still runs in the background"),
        ];
        for (command, output, ending, expected) in cases {
            let mut items = StructuredSummary::default();
            note_state(&mut items, command, output, ending, 0);
            assert_eq!(items.state[0].line, format!("`{command}` {expected}"));
        }
    }

    #[test]
    fn a_commit_is_not_pushed_until_it_is() {
        let mut items = StructuredSummary::default();
        let push = |items: &StructuredSummary| {
            items.state.iter().find(|line| line.kind == StateKind::Push).unwrap().line.clone()
        };
        note_state(&mut items, "git commit -m x", "[main 3f9a1c7] Round up", WELL, 1);
        assert_eq!(push(&items), super::NOT_PUSHED);
        note_state(&mut items, "git push", "", WELL, 3);
        assert_eq!(push(&items), "pushed");
    }

    #[test]
    fn a_string_of_a_program_tells_of_no_failure() {
        for (line, expected) in [
            ("return fmt.Errorf(\"failed to open: %w\", err)", false),
            ("raise ValueError('expected a port')", false),
            ("--- FAIL: TestTotal", true),
            ("error: no rule", true),
            ("assert_eq!(\"a\", b)", true),
        ] {
            assert_eq!(super::tells_failure(line), expected, "{line}");
        }
    }

    #[test]
    fn a_line_that_runs_two_things_tells_of_both_where_it_ended_well() {
        let kinds = |ending| {
            let mut items = StructuredSummary::default();
            note_state(&mut items, "mise run lint && mise run test", "all passed", ending, 3);
            items.state.iter().map(|line| line.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(WELL), [StateKind::Tests, StateKind::Checks]);
        assert_eq!(kinds(CommandEnding::Failed), [StateKind::Checks]);
    }

    #[test]
    fn what_git_status_told_is_out_of_date_after_a_push() {
        let mut items = StructuredSummary::default();
        note_state(&mut items, "git status", "On branch fix\nYour branch and 'origin/fix' have diverged,", WELL, 0);
        assert!(items.state.iter().any(|line| line.kind == StateKind::Tree));
        note_state(&mut items, "git push", "", WELL, 2);
        assert!(items.state.iter().all(|line| line.kind != StateKind::Tree));
    }

    #[test]
    fn git_status_is_told_in_one_line() {
        let cases = [
            (
                "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit, working tree clean",
                Some("on main, is up to date with 'origin/main', nothing to commit"),
            ),
            (
                "On branch fix\nYour branch is behind 'origin/fix' by 1 commit, and can be fast-forwarded.\n  (use \"git pull\")\n\nChanges not staged for commit:\n  (use \"git add\")\n\tmodified:   a.rs\n\tmodified:   b.rs\n\nUntracked files:\n  (use \"git add\")\n\tc.rs\n",
                Some(
                    "on fix, is behind 'origin/fix' by 1 commit, and can be fast-forwarded, 2 changed (a.rs, b.rs), 1 untracked (c.rs)",
                ),
            ),
            (" M a.rs\n?? b.rs", None),
        ];
        for (output, expected) in cases {
            for (command, folder) in [("git status", ""), ("cd ../web && git status", "in ../web, ")] {
                let mut items = StructuredSummary::default();
                note_state(&mut items, command, output, WELL, 0);
                let expected = expected.map(|tree| format!("{folder}{tree}"));
                assert_eq!(items.state.first().map(|line| line.line.clone()), expected, "{output}");
            }
        }
    }

    #[test]
    fn a_line_is_read_back() {
        let line = StateLine { kind: StateKind::Tests, line: "`x` failed: a (b)".into(), place: 89 };
        for number in ["m90", "m90; 2 files were changed since"] {
            assert_eq!(StateLine::parse(&format!("{} ({number})", line.text()), 0), Some(line.clone()));
        }
    }
}
