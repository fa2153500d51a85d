//! Tests of sessions. One notation for conversations (`u1 a1 t1`: the user, the model, a tool's result), written out in
//! every format; one door that reads a text and shows what the model sees in the same notation.

mod fixtures;
mod odd;
mod properties;
mod recorded;

use super::*;
use crate::wire::{PromptMessage, Voice};
use fixtures::{Fixture, STAMP, compacted, read, seen};

/// Example sessions in pi's first format, and what the model sees.
#[test]
fn the_seeds_examples_are_read_as_the_seed_says() {
    let long = "u1 a1 t1 t1 a1 u2 a2 u3 a3 t3 a3 t3 a3 u4 a4 t4 a4";
    let cases = [
        (long.to_owned(), long),
        (format!("{long} [one 4]"), "[one] u4 a4 t4 a4"),
        (format!("{long} [one 4] u5 a5"), "[one] u4 a4 t4 a4 u5 a5"),
        (format!("{long} [one 4] u5 a5 u6 a6 t6 a6 u7 a7 [two 3]"), "[two] u7 a7"),
        ("u1 a1 u2 a2 [one 2] u3 a3 [two 99]".into(), "[two] u3 a3"),
        ("u1 a1 t1 a1 t1 a1 [one 3]".into(), "[one] a1 t1 a1"),
        ("u1 a1 t1 a1 t1 a1 [one 2]".into(), "[one] a1"),
        ("u1 a1 [one 0]".into(), "[one]"),
    ];
    for (script, expected) in cases {
        assert_eq!(seen(&read(&Fixture::PiEvents.text(&script))), expected, "{script}");
    }
}

#[test]
fn a_branch_before_a_compaction_undoes_it_and_one_after_keeps_it() {
    let cases = [("u3", "[one] u2 a2 u3"), ("u2", "u1 a1 u2"), ("u1", "u1"), ("u4", "[one] u2 a2 u3 a3 u4")];
    for (at, expected) in cases {
        let session = read(&Fixture::PiEvents.text("u1 a1 u2 a2 [one 2] u3 a3 u4 a4"));
        assert_eq!(seen(&read(&branch_at(&session, at))), expected, "pi-events at {at}");
        for fixture in [Fixture::PiTree, Fixture::Claude, Fixture::Codex] {
            let first = read(&fixture.text("u1 a1 u2 a2"));
            let text =
                first.write(&compacted(&first, 2), STAMP).expect("it can be written").apply(first.source().as_str());
            let session = read(&format!("{text}{}", fixture.more(&text, "u3 a3 u4 a4")));
            assert_eq!(seen(&read(&branch_at(&session, at))), expected.replace("one", "sum"), "{fixture:?} at {at}");
        }
    }
}

#[test]
fn a_branch_of_a_list_is_the_list_up_to_its_message() {
    let session = read(&Fixture::ChatList.text("u1 a1 t1 a1 u2 a2"));
    assert_eq!(seen(&read(&branch_at(&session, "u2"))), "u1 a1 t1 a1 u2");
    let refused = session.branch(1, STAMP).expect_err("an answer is no place to leave at");
    assert_eq!(refused.to_string(), "Cannot branch at line 3: it is not a user message.");
    let beyond = session.branch(99, STAMP).expect_err("there is no such message");
    assert_eq!(beyond.to_string(), "There is no message 99: the session has 6, counted from 0.");
}

#[test]
fn a_branch_of_pi_and_codex_is_a_session_of_its_own() {
    for fixture in [Fixture::PiEvents, Fixture::PiTree, Fixture::Codex] {
        let session = read(&fixture.text("u1 a1 u2 a2"));
        let branch = read(&branch_at(&session, "u2"));
        assert!(branch.id().is_some_and(|id| id.len() == 36), "{fixture:?}: {:?}", branch.id());
        assert_ne!(branch.id(), session.id(), "{fixture:?}");
    }
}

/// The text of the branch that leaves at the message of this name.
fn branch_at(session: &Session, name: &str) -> String {
    let at = session.log().iter().position(|logged| fixtures::name(&logged.message) == name).expect("it is there");
    session.branch(at, STAMP).expect("it can be branched")
}

#[test]
fn every_format_keeps_its_lines_and_reads_back_what_was_compacted() {
    for fixture in Fixture::ALL {
        let session = read(&fixture.text("u1 a1 t1 t1 a1 u2 a2 u3 a3 t3 a3"));
        let written = session.write(&compacted(&session, 4), STAMP).expect("it can be written");
        let text = written.apply(session.source().as_str());
        if let SessionChange::Append(_) = written {
            assert!(text.starts_with(session.source().as_str()), "{fixture:?}");
        }
        let again = read(&text);
        assert_eq!(seen(&again), "[sum] u3 a3 t3 a3", "{fixture:?}\n{text}");
        assert_eq!(again.notices(), [], "{fixture:?}");
        if fixture.is_value() {
            continue;
        }
        let both = read(&format!("{text}{}", fixture.more(&text, "u4 a4 t4")));
        assert_eq!(seen(&both), "[sum] u3 a3 t3 a3 u4 a4 t4", "{fixture:?}");
        let third = both.write(&compacted(&both, 3), STAMP).expect("it can be written").apply(both.source().as_str());
        assert_eq!(seen(&read(&third)), "[sum] u4 a4 t4", "{fixture:?}");
    }
}

#[test]
fn free_formats_take_edits_and_words_anywhere_and_pi_refuses_them() {
    for fixture in Fixture::ALL {
        let session = read(&fixture.text("u1 a1 t1 a1 u2 a2 u3 a3"));
        let mut new = compacted(&session, 2);
        new.messages.insert(1, PromptMessage::Kept(0));
        new.messages.push(PromptMessage::note(Voice::User, "u9"));
        match (session.shape(), session.write(&new, STAMP)) {
            (PromptShape::Free, written) => {
                let text = written.expect("it can be written").apply(session.source().as_str());
                assert_eq!(seen(&read(&text)), "[sum] u1 u3 a3 u9", "{fixture:?}");
            }
            (PromptShape::SummaryThenTail, refused) => {
                let error = refused.expect_err("pi has no words for it").to_string();
                assert!(
                    error.ends_with(
                        "after the summary come the last messages of the session, all of them and unchanged."
                    ),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn an_edited_message_is_read_back_as_edited() {
    for fixture in [Fixture::Claude, Fixture::Codex, Fixture::ChatList, Fixture::AnthropicRequest, Fixture::ChatLines] {
        let session = read(&fixture.text("u1 a1 u2 a2"));
        let mut new = compacted(&session, 1);
        let json = session.context()[2].message.raw.as_str().replace("u2", "u7");
        new.messages.insert(1, PromptMessage::Edited { place: 2, json });
        let text = session.write(&new, STAMP).expect("it can be written").apply(session.source().as_str());
        assert_eq!(seen(&read(&text)), "[sum] u7 a2", "{fixture:?}");
    }
}

#[test]
fn pis_first_format_refuses_a_tail_that_its_loader_would_cut() {
    let session = read(&Fixture::PiEvents.text("u1 a1 u2 a2 [one 2] u3 a3 t3 a3"));
    assert_eq!(seen(&session), "[one] u2 a2 u3 a3 t3 a3");
    let may: Vec<bool> = (0..=session.context().len()).map(|at| session.tail_may_start(at)).collect();
    assert_eq!(may, [false, false, false, true, true, false, true, true]);
}

#[test]
fn pis_tree_is_read_along_the_path_to_its_last_entry() {
    let text = r#"{"type":"session","version":3,"id":"s","timestamp":"2030-01-01T00:00:00Z","cwd":"/x"}
{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"u1"}}
{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"text","text":"a1"}],"model":"m1"}}
{"type":"message","id":"3","parentId":"2","message":{"role":"user","content":"u2"}}
{"type":"branch_summary","id":"4","parentId":"2","fromId":"3","summary":"went astray"}
{"type":"custom_message","id":"5","parentId":"4","customType":"x","content":"u3","display":true}
{"type":"message","id":"6","parentId":"5","message":{"role":"bashExecution","command":"ls","output":"f","exitCode":1}}
{"type":"message","id":"7","parentId":"6","message":{"role":"bashExecution","command":"id","output":"","excludeFromContext":true}}
{"type":"model_change","id":"8","parentId":"7","provider":"p","modelId":"m2"}
{"type":"label","id":"9","parentId":"8","targetId":"1","label":"here"}
"#;
    let session = read(text);
    let words: Vec<String> = session.context().iter().map(|seen| reading::text_of(&seen.message.parts)).collect();
    assert_eq!(
        words,
        [
            "u1",
            "a1",
            "The following is a summary of a branch that this conversation came back from:\n\n<summary>\nwent astray</summary>",
            "u3",
            "Ran `ls`\n```\nf\n```\n\nCommand exited with code 1",
        ]
    );
    assert_eq!(session.model(), Some("m2"));
    let in_context: Vec<bool> = session.log().iter().map(|logged| logged.in_context).collect();
    assert_eq!(in_context, [true, true, false, true, true, true, false]);
}

#[test]
fn claude_code_shows_no_sidechain_and_no_error_but_every_parallel_result() {
    let call = |uuid: &str, parent: &str, id: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","parentUuid":"{parent}","isSidechain":false,"sessionId":"s","message":{{"id":"r1","role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"x","input":{{}}}}]}}}}"#
        )
    };
    let result = |uuid: &str, parent: &str, id: &str| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":"{parent}","isSidechain":false,"sessionId":"s","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"{uuid}"}}]}}}}"#
        )
    };
    let said = |kind: &str, uuid: &str, parent: &str, more: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s",{more}"message":{{"role":"{kind}","content":"{uuid}"}}}}"#
        )
    };
    let text = [
        said("user", "u1", "null", ""),
        call("c1", "u1", "k1"),
        call("c2", "c1", "k2"),
        said("user", "side", "null", r#""isSidechain":true,"#),
        result("t1", "c1", "k1"),
        result("t2", "c2", "k2"),
        said("assistant", "oops", r#""t2""#, r#""isApiErrorMessage":true,"#),
        said("user", "u2", r#""oops""#, ""),
        r#"{"type":"file-history-snapshot","messageId":"u2","snapshot":{}}"#.to_owned(),
    ];
    let session = read(&text.join("\n"));
    assert_eq!(seen(&session), "u1 a a t1 t2 u2");
    assert_eq!(session.notices(), []);
}

#[test]
fn claude_code_shows_what_the_user_said_while_the_model_worked() {
    let text = [
        r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"u1"}}"#,
        r#"{"type":"attachment","uuid":"2","parentUuid":"1","sessionId":"s","attachment":{"type":"queued_command","prompt":"u2"}}"#,
        r#"{"type":"attachment","uuid":"3","parentUuid":"2","sessionId":"s","attachment":{"type":"skill_listing","content":"x"}}"#,
        r#"{"type":"assistant","uuid":"4","parentUuid":"3","sessionId":"s","message":{"role":"assistant","content":"a1"}}"#,
    ];
    let session = read(&text.join("\n"));
    assert_eq!(seen(&session), "u1 u2 a1");
    let mut new = compacted(&session, 2);
    let kept = session.write(&new, STAMP).expect("it can be written").apply(session.source().as_str());
    assert_eq!(seen(&read(&kept)), "[sum] u2 a1");
    new.messages[1] = PromptMessage::Edited { place: 1, json: r#"{"role":"user","content":"u9"}"#.into() };
    let edited = session.write(&new, STAMP).expect("it can be written").apply(session.source().as_str());
    assert_eq!(seen(&read(&edited)), "[sum] u9 a1");
}

#[test]
fn codex_keeps_calls_and_their_results_byte_for_byte_and_renews_its_own_words() {
    let item = |payload: &str| format!(r#"{{"timestamp":"t","ordinal":7,"type":"response_item","payload":{payload}}}"#);
    let call = r#"{"type":"function_call","name":"look","arguments":"{ }","call_id":"k1","odd":1.50}"#;
    let result = r#"{ "type":"function_call_output","call_id":"k1","output":"t1"}"#;
    let text = [
        item(r#"{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}"#),
        item(r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}"#),
        item(r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"u1"}]}"#),
        item(call),
        item(result),
    ];
    let session = read(&text.join("\n"));
    let text =
        session.write(&compacted(&session, 2), STAMP).expect("it can be written").apply(session.source().as_str());
    let again = read(&text);
    let raws: Vec<&str> = again.context()[1..].iter().map(|seen| seen.message.raw.as_str()).collect();
    assert_eq!(raws, [call, result]);
    let ordinals: Vec<bool> = [8, 9].iter().map(|at| text.contains(&format!(r#""ordinal":{at},"#))).collect();
    assert_eq!(ordinals, [true, true]);
}

#[test]
fn claude_code_puts_a_preserved_segment_after_the_summary() {
    let line = |kind: &str, uuid: &str, parent: &str, more: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},{more}"sessionId":"s","message":{{"role":"{kind}","content":"{uuid}"}}}}"#
        )
    };
    let kept = [
        r#""preservedSegment":{"headUuid":"u2","anchorUuid":"sum","tailUuid":"a2"}"#,
        r#""preservedMessages":{"anchorUuid":"sum","uuids":["u2","a2"]}"#,
    ];
    for kept in kept {
        let boundary = format!(
            r#"{{"type":"system","subtype":"compact_boundary","uuid":"b","parentUuid":null,"sessionId":"s","compactMetadata":{{"trigger":"auto","preTokens":9,{kept}}}}}"#
        );
        let text = [
            line("user", "u1", "null", ""),
            line("assistant", "a1", r#""u1""#, ""),
            line("user", "u2", r#""a1""#, ""),
            line("assistant", "a2", r#""u2""#, ""),
            boundary,
            line("user", "sum", r#""b""#, r#""isCompactSummary":true,"#),
            line("user", "u3", r#""sum""#, ""),
        ];
        assert_eq!(seen(&read(&text.join("\n"))), "[sum] u2 a2 u3", "{kept}");
    }
}

#[test]
fn codex_rebuilds_a_history_that_a_compaction_does_not_hold_and_follows_roll_backs() {
    let compaction = r#"{"timestamp":"t","type":"compacted","payload":{"message":"sum"}}"#;
    let back = |turns: usize| {
        format!(
            r#"{{"timestamp":"t","type":"event_msg","payload":{{"type":"thread_rolled_back","num_turns":{turns}}}}}"#
        )
    };
    let first = Fixture::Codex.text("u1 a1 t1 a1 u2 a2");
    let more = |script: &str| Fixture::Codex.more(&first, script);
    assert_eq!(seen(&read(&format!("{first}{compaction}\n{}", more("u3 a3")))), "u1 u2 [sum] u3 a3");
    assert_eq!(seen(&read(&format!("{first}{}\n{}", back(1), more("u3 a3")))), "u1 a1 t1 a1 u3 a3");
    assert_eq!(seen(&read(&format!("{first}{}\n", back(9)))), "");
}

#[test]
fn a_file_tells_its_system_prompt_tools_model_and_usage() {
    let session = read(&Fixture::AnthropicRequest.text("u1 a1"));
    assert_eq!(session.system().map(Raw::as_str), Some("\"be brief\""));
    assert_eq!(session.tools().map(Raw::as_str), Some("[]"));
    assert_eq!((session.model(), session.max_output()), (Some("m"), Some(64)));
    for (fixture, input) in
        [(Fixture::PiEvents, 60), (Fixture::PiTree, 60), (Fixture::Claude, 60), (Fixture::Codex, 60)]
    {
        let session = read(&fixture.text("u1 a1 u2 a2 u3"));
        let usage = session.usage().map(|usage| (usage.input, usage.output, usage.covers));
        assert_eq!(usage, Some((input, 4, Some(4))), "{fixture:?}");
        let text =
            session.write(&compacted(&session, 3), STAMP).expect("it can be written").apply(session.source().as_str());
        assert_eq!(read(&text).usage().and_then(|usage| usage.covers), None, "{fixture:?}");
    }
    assert_eq!(read(&Fixture::Codex.text("u1")).system().map(Raw::as_str), Some("\"be brief\""));
}

#[test]
fn a_compaction_tells_what_was_seen_before_and_after_it() {
    let session = read(&Fixture::PiEvents.text("u1 a1 u2 a2 [one 2] u3 a3 [two 2]"));
    let told: Vec<_> = session.compactions().iter().map(|c| (c.line, &*c.summary, &*c.before, &*c.after)).collect();
    assert_eq!(told, [(6, "one", &[0, 1, 2, 3][..], &[2, 3][..]), (9, "two", &[2, 3, 4, 5][..], &[4, 5][..])]);
    for fixture in [Fixture::PiTree, Fixture::Claude, Fixture::Codex] {
        let first = read(&fixture.text("u1 a1 u2 a2"));
        let text = first.write(&compacted(&first, 2), STAMP).expect("it can be written").apply(first.source().as_str());
        let session = read(&text);
        let [compaction] = session.compactions() else { panic!("{fixture:?}: {:?}", session.compactions()) };
        let names = |places: &[usize]| {
            let messages = places.iter().map(|at| fixtures::name(&session.log()[*at].message));
            messages.filter(|name| !name.starts_with('[')).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&compaction.before), "u1 a1 u2 a2", "{fixture:?}");
        assert_eq!(names(&compaction.after), "u2 a2", "{fixture:?}");
        assert!(compaction.summary.contains("sum") && compaction.tokens_before == Some(1000), "{compaction:?}");
    }
}
