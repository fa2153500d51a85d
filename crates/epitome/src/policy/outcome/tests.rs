//! What outputs tell, shape by shape, both ways.

use super::CallEnding;
use crate::policy::Tools;
use crate::thread::{Outcome, ToolCall, ToolResult};

const FAILED: Option<Outcome> = Some(Outcome::Failure);
const WELL: Option<Outcome> = Some(Outcome::Success);
const PART: Option<Outcome> = Some(Outcome::Partial);

fn ending(tool: &str, arguments: &str, text: &str, declared: Option<Outcome>) -> CallEnding {
    let call = ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.into() };
    Tools::default().ending(Some(&call), &ToolResult::new("c", text, declared))
}

/// What the output of a command tells.
fn ran(command: &str, text: &str) -> CallEnding {
    ending("bash", &serde_json::json!({ "command": command }).to_string(), text, None)
}

#[test]
fn an_exit_status_is_read_in_every_spelling() {
    let filler = "a line of output\n".repeat(400);
    let cases = [
        ("Exit code 2\nbad", 2),
        ("Exit code: 101", 101),
        ("Exit code: 1\nWall time: 0.3 seconds\nOutput:\nboom", 1),
        ("Chunk ID: 6f\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno", 2),
        ("Chunk ID: 6f\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nfine", 0),
        ("lots of words\n\nProcess exited with code 101", 101),
        ("no\n\nCommand exited with code 1", 1),
        ("go: no\nexit status 1", 1),
        ("<returncode>0</returncode>\n<output>error: an old one", 0),
        ("<returncode>127</returncode>\n<output>sh: no", 127),
        ("Command: make\nDirectory: (root)\nOutput: x\nError: (none)\nExit Code: 0\nSignal: (none)", 0),
        ("Command: make\nDirectory: (root)\nOutput: x\nError: (none)\nExit Code: 2\nSignal: (none)", 2),
        ("Command execution was not successful, inspect the cause. Exit code: 3\nOutput:\nx", 3),
        ("killed\n[exit code: -9]", -9),
        (r#"{"output":"x","metadata":{"exit_code":1,"duration_seconds":0.2}}"#, 1),
        (r#"{"output":"error: old","metadata":{"exit_code":0,"duration_seconds":0.2}}"#, 0),
        (r#"{"stdout":"","stderr":"no","exitCode":4}"#, 4),
        (r#"{"stdout":"","stderr":"no","code":5}"#, 5),
        (r#"{"returncode":6,"stdout":""}"#, 6),
        (r#"{"type":"bash_code_execution_result","stdout":"","stderr":"no","return_code":7}"#, 7),
        (
            r#"[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}},{"stdout":"","stderr":"b","outcome":{"type":"exit","exit_code":8}}]"#,
            8,
        ),
    ];
    for (text, code) in cases {
        let outcome = if code == 0 { WELL } else { FAILED };
        assert_eq!(ran("make all", text), CallEnding { outcome, exit: Some(code) }, "{text:?}");
    }
    let long = format!("{filler}Exit code: 101");
    assert_eq!(ran("cargo test", &long).exit, Some(101), "at the end of a long output");
}

#[test]
fn a_status_of_zero_is_believed_unless_a_pipe_lost_the_real_one() {
    let text = "Exit code: 0\nWall time: 1 s\nOutput:\nrunning 2 tests\ntest result: FAILED. 1 passed; 1 failed";
    assert_eq!(ran("cargo test", text).outcome, WELL);
    assert_eq!(ran("cargo test 2>&1 | tail -5", text).outcome, FAILED);
    assert_eq!(ran("cargo test || true", text).outcome, FAILED);
    let words = "Exit code: 0\nOutput:\nerror: this is only a word\nError: so is this";
    assert_eq!(ran("sh report.sh | tail", words).outcome, WELL);
}

#[test]
fn builds_and_tests_that_fail_say_so_in_their_own_words() {
    let cases = [
        (
            "cargo test",
            "test a ... FAILED\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n\nerror: test failed, to rerun pass `--lib`",
        ),
        (
            "cargo build",
            "   Compiling a v0.1.0\nerror[E0432]: unresolved import\nerror: could not compile `a` (lib) due to 1 previous error",
        ),
        ("cargo run", "thread 'main' panicked at src/main.rs:2:5:\nboom"),
        (
            "pytest -q",
            "F.\n=== FAILURES ===\nFAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed, 1 passed in 0.03s",
        ),
        ("pytest", "=================== 2 failed, 3 passed in 0.12s ==================="),
        ("python -m unittest", "Ran 2 tests in 0.001s\n\nFAILED (failures=1)"),
        ("python a.py", "starting\nTraceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'"),
        ("npx jest", "FAIL src/a.test.ts\nTests:       2 failed, 3 passed, 5 total"),
        (
            "npx vitest run",
            "\u{1b}[31m Test Files \u{1b}[39m 1 failed | 2 passed (3)\n      Tests  1 failed | 3 passed (4)",
        ),
        ("npx mocha", "  3 passing (12ms)\n  2 failing"),
        ("go test ./...", "ok  \tx/a\t0.1s\n--- FAIL: TestB (0.00s)\nFAIL\tx/b\t0.2s\nFAIL"),
        ("go run .", "panic: runtime error: index out of range\n\ngoroutine 1 [running]:"),
        ("mvn test", "[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE"),
        ("./gradlew build", "FAILURE: Build failed with an exception.\n\nBUILD FAILED in 3s"),
        ("make", "cc -c a.c\na.c:3:5: error: expected ';'\nmake: *** [Makefile:3: a.o] Error 1"),
        ("make -C sub", "make[1]: *** No rule to make target 'x'.  Stop."),
        ("gcc a.c", "a.c:1:10: fatal error: x.h: No such file or directory"),
        ("ninja", "ninja: build stopped: subcommand failed."),
        ("npx tsc --noEmit", "src/a.ts(3,5): error TS2322: Type 'a' is not assignable to type 'b'."),
        ("npx tsc", "src/a.ts:3:5 - error TS2322: no\n\nFound 3 errors in 2 files."),
        ("npx eslint .", "/x/a.js\n  1:1  error  no\n\n✖ 3 problems (2 errors, 1 warning)"),
        ("npm test", "> a@1.0.0 test\nnpm ERR! Test failed.  See above for more details."),
        ("npm ci", "npm error code ERESOLVE\nnpm error ERESOLVE could not resolve"),
        ("yarn build", "error Command failed with exit code 1."),
        ("node a.js", "Error: Cannot find module 'x'\n    at a.js:1:1\n\nNode.js v22.1.0"),
        ("dotnet test", "Failed!  - Failed:     1, Passed:     4, Skipped:     0, Total:     5"),
        ("rspec", "5 examples, 1 failure"),
        ("phpunit", "FAILURES!\nTests: 5, Assertions: 9, Failures: 1."),
        ("ctest", "80% tests passed, 1 tests failed out of 5"),
        ("xcodebuild", "** BUILD FAILED **"),
        ("git push", "fatal: could not read from remote repository"),
        ("git merge x", "Auto-merging a\nCONFLICT (content): Merge conflict in a"),
        ("foo", "bash: foo: command not found"),
        ("sleep 900; make", "Command timed out after 2m 0.0s"),
        (
            "make",
            "building\n\n<bash_metadata>\nbash tool terminated command after exceeding timeout 120000 ms\n</bash_metadata>",
        ),
        ("curl x", "curl: (28) Operation timed out after 5000 milliseconds"),
        ("rm -rf /", "The user doesn't want to proceed with this tool use. The tool use was rejected"),
        ("rm -rf /", "Permission to use Bash with command rm has been denied."),
        ("anything", "<tool_use_error>InputValidationError: no</tool_use_error>"),
        ("anything", "error: unknown option"),
    ];
    for (command, text) in cases {
        assert_eq!(ran(command, text).outcome, FAILED, "{command}: {text}");
    }
}

#[test]
fn builds_and_tests_that_pass_say_so_too() {
    let cases = [
        ("cargo test", "test error_is_shown ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored"),
        ("pytest -q", "..\n2 passed in 0.01s"),
        ("pytest", "=========== 12 passed, 1 warning in 0.10s ==========="),
        ("npx jest", "Tests:       5 passed, 5 total"),
        ("npx mocha", "  3 passing (12ms)"),
        ("go test ./...", "ok  \tx/a\t0.1s\n?   \tx/b\t[no test files]"),
        ("mvn test", "[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS"),
        ("./gradlew build", "BUILD SUCCESSFUL in 3s"),
        ("npx tsc", "Found 0 errors. Watching for file changes."),
        ("python -m unittest", "Ran 2 tests in 0.001s\n\nOK"),
        ("rspec", "5 examples, 0 failures"),
        ("ctest", "100% tests passed, 0 tests failed out of 5"),
        ("dotnet test", "Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5"),
    ];
    for (command, text) in cases {
        assert_eq!(ran(command, text).outcome, WELL, "{command}: {text}");
    }
}

#[test]
fn what_was_broken_off_or_cut_is_partial() {
    for (command, text) in [
        ("make", "[Request interrupted by user for tool use]"),
        ("make", "compiling\nUser aborted the command"),
        ("make", "compiling\n(command cancelled)"),
        ("./serve", "listening\n[output truncated: 10000 lines]"),
    ] {
        assert_eq!(ran(command, text).outcome, PART, "{command}: {text}");
    }
    assert_eq!(ending("deploy", "{}", r#"{"stdout":"a","interrupted":true}"#, None).outcome, PART);
    assert_eq!(ending("deploy", "{}", r#"{"status":"in_progress"}"#, None).outcome, PART);
}

#[test]
fn json_tells_by_its_states_flags_and_errors() {
    for (text, outcome) in [
        (r#"{"status":"failed","id":7}"#, FAILED),
        (r#"{"status":"Timed out"}"#, FAILED),
        (r#"{"conclusion":"failure"}"#, FAILED),
        (r#"{"success":false}"#, FAILED),
        (r#"{"ok":false,"error":"channel_not_found"}"#, FAILED),
        (r#"{"error":{"message":"no"}}"#, FAILED),
        (r#"{"errors":["a"]}"#, FAILED),
        (r#"{"isError":true,"content":[]}"#, FAILED),
        (r#"{"code":500,"message":"boom"}"#, FAILED),
        (r#"{"type":"bash_code_execution_tool_result_error","error_code":"unavailable"}"#, FAILED),
        (r#"{"status":"success"}"#, WELL),
        (r#"{"ok":true,"error":null}"#, WELL),
        (r#"{"success":true,"errors":[]}"#, WELL),
        (r#"{"code":200,"message":"fine"}"#, WELL),
        (r#"{"order_id":"A-17","status":"paid","error":null}"#, None),
        (r#"{"code":49,"name":"Germany"}"#, None),
        (r#"{"errors":[],"items":[1]}"#, None),
    ] {
        assert_eq!(ending("deploy", "{}", text, None).outcome, outcome, "{text}");
    }
}

#[test]
fn text_that_a_tool_only_shows_says_nothing_about_the_call() {
    let log =
        "2026-01-01 ERROR boom\nTraceback (most recent call last):\nKeyError: 'x'\n1 failed, 2 passed\nexit status 1";
    let source = "     1→fn main() {\n     2→    // error: test failed\n     3→    panic!(\"Exit code: 2\");\n     4→}";
    let json = r#"{"status":"failed","success":false,"error":"old","exit_code":3}"#;
    for text in [log, source, json] {
        assert_eq!(ending("Read", r#"{"file_path":"/a"}"#, text, None).outcome, None, "{text}");
        assert_eq!(ending("Grep", r#"{"pattern":"error"}"#, text, None).outcome, None, "{text}");
        assert_eq!(ending("Edit", r#"{"file_path":"/a"}"#, text, None).outcome, None, "{text}");
        assert_eq!(ending("Read", r#"{"file_path":"/a"}"#, text, WELL).outcome, WELL, "{text}");
        for command in
            ["cat run.log", "cd /x && tail -50 run.log | grep -v DEBUG", "git show HEAD:run.log", "sed -n 1,20p a"]
        {
            assert_eq!(ran(command, text).outcome, None, "{command}: {text}");
        }
    }
    assert_eq!(ending("get_order", "{}", r#"{"id":1,"status":"failed"}"#, None).outcome, None, "the order failed");
    assert_eq!(ending("mcp__tracker__getIssue", "{}", r#"{"error":"not found"}"#, None).outcome, FAILED);
}

#[test]
fn a_tool_that_had_nothing_to_show_failed() {
    for (tool, arguments, text) in [
        ("Read", r#"{"file_path":"/a"}"#, "File does not exist."),
        ("read_file", r#"{"path":"/a"}"#, "Error: ENOENT: no such file or directory, open '/a'"),
        ("Edit", r#"{"file_path":"/a"}"#, "<tool_use_error>String to replace not found in file.</tool_use_error>"),
        ("bash", r#"{"command":"cat /a"}"#, "cat: /a: No such file or directory"),
        ("bash", r#"{"command":"grep -r x ."}"#, "Exit code 1"),
        ("WebFetch", r#"{"url":"x"}"#, "Request failed with status code 404"),
    ] {
        assert_eq!(ending(tool, arguments, text, None).outcome, FAILED, "{tool}: {text}");
    }
}

#[test]
fn words_that_are_no_verdict_are_none() {
    for (command, text) in [
        ("make docs", "wrote the chapter on error: handling"),
        ("ls-things", "failed_runs/\nerror.log"),
        ("make", "0 errors, nothing to be done for 'all'."),
        ("./report", "The last run had 3 errors and 2 of them failed later."),
        ("node build.js", "bundled 12 modules"),
        ("true", ""),
        ("npm run lint", "const error = new Error(\"exit code\");"),
    ] {
        assert_eq!(ran(command, text).outcome, None, "{command}: {text}");
    }
}

#[test]
fn what_the_host_declares_counts_where_the_output_is_silent_and_a_failure_always() {
    assert_eq!(ending("bash", "{}", "fine", FAILED).outcome, FAILED);
    assert_eq!(ending("bash", "{}", "fine", WELL).outcome, WELL);
    assert_eq!(ending("bash", "{}", "fine", None).outcome, None);
    assert_eq!(ending("bash", "{}", "Exit code: 101", WELL).outcome, FAILED, "an answer came, and it says no");
    assert_eq!(ending("bash", "{}", "test result: ok. 1 passed; 0 failed", FAILED).outcome, FAILED);
}
