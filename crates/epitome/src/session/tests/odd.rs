//! Odd input: what is carried, what is reported, and what is refused.

use super::fixtures::{Fixture, STAMP, compacted, read, seen};
use crate::session::{NoticeKind, ReadOptions, Session};

const HALF: &str = r#"{"type":"message","message":{"role":"us"#;

#[test]
fn a_half_written_last_line_is_carried_and_reported_in_every_format_of_lines() {
    for fixture in [Fixture::PiEvents, Fixture::PiTree, Fixture::Claude, Fixture::Codex, Fixture::ChatLines] {
        let text = fixture.text("u1 a1 u2 a2") + HALF;
        let session = read(&text);
        assert_eq!(seen(&session), "u1 a1 u2 a2", "{fixture:?}");
        let [notice] = session.notices() else { panic!("{fixture:?}: {:?}", session.notices()) };
        assert_eq!(notice.kind, NoticeKind::HalfLine, "{fixture:?}");
        assert_eq!(notice.sentence, format!("Line {} is half-written; it is kept as it is and not read.", notice.line));
        let written = session.write(&compacted(&session, 2), STAMP).expect("it can be written").apply(&text);
        assert!(written.contains(HALF), "{fixture:?}");
        assert_eq!(seen(&read(&written)), "[sum] u2 a2", "{fixture:?}");
    }
}

#[test]
fn a_last_line_without_its_newline_is_a_line() {
    for fixture in Fixture::ALL {
        let text = fixture.text("u1 a1 u2 a2");
        let session = read(text.trim_end());
        let written = session.write(&compacted(&session, 2), STAMP).expect("it can be written").apply(text.trim_end());
        assert_eq!(seen(&read(&written)), "[sum] u2 a2", "{fixture:?}");
    }
}

#[test]
fn a_bad_line_in_the_middle_is_refused_or_carried_as_asked() {
    for fixture in [Fixture::PiEvents, Fixture::PiTree, Fixture::Claude, Fixture::Codex, Fixture::ChatLines] {
        let text = fixture.text("u1 a1") + "not json\n" + &fixture.more(&fixture.text("u1 a1"), "u2");
        let line = text.lines().position(|line| line == "not json").expect("it is there") + 1;
        let refused = Session::read(&text, &ReadOptions::default()).expect_err("it is not JSON").to_string();
        assert_eq!(
            refused,
            format!("Line {line} is not JSON (expected ident at column 2); skip bad lines to carry it unread.")
        );
        let session = Session::read(&text, &ReadOptions { skip_bad_lines: true, format: None }).expect("it is carried");
        assert_eq!(seen(&session), "u1 a1 u2", "{fixture:?}");
        assert_eq!(session.notices()[0].kind, NoticeKind::BadLine, "{fixture:?}");
        assert_eq!(session.entries().len(), text.lines().count(), "{fixture:?}");
    }
}

#[test]
fn windows_line_ends_a_byte_order_mark_and_blank_lines_change_nothing() {
    for fixture in Fixture::ALL {
        let text = format!("\u{feff}{}", fixture.text("u1 a1 u2 a2").replace('\n', "\r\n\r\n"));
        let session = read(&text);
        assert_eq!(seen(&session), "u1 a1 u2 a2", "{fixture:?}");
        assert_eq!(session.notices(), [], "{fixture:?}");
        let written = session.write(&compacted(&session, 2), STAMP).expect("it can be written").apply(&text);
        assert_eq!(seen(&read(&written)), "[sum] u2 a2", "{fixture:?}");
    }
}

#[test]
fn what_is_no_session_is_refused_with_a_sentence() {
    let cases = [
        ("", "This is not a session that can be read: there is nothing in it: an empty text is not a message list."),
        (
            "  \n\n",
            "This is not a session that can be read: there is nothing in it: an empty text is not a message list.",
        ),
        (
            "hello",
            "This is not a session that can be read: this is not JSON, neither a request nor a list of messages.",
        ),
        (
            "[{\"role\":\"user\",\"content\":\"u1\"},",
            "This is not a session that can be read: line 1, column 32: EOF while parsing a value.",
        ),
        (
            "{\"messages\":[\n{\"role\":\"user\"",
            "This is not a session that can be read: line 2, column 14: EOF while parsing an object.",
        ),
    ];
    for (text, expected) in cases {
        let error = Session::read(text, &ReadOptions::default()).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn oddities_are_carried_and_named_with_their_lines() {
    let user = |id: &str, parent: &str, message: &str| {
        format!(r#"{{"type":"message","id":"{id}","parentId":{parent},"message":{message}}}"#)
    };
    let result = r#"{"role":"toolResult","toolCallId":"k9","toolName":"x","content":[]}"#;
    let call = r#"{"role":"assistant","content":[{"type":"toolCall","id":"k1","name":"x","arguments":{}}]}"#;
    let text = [
        user("1", "null", r#"{"role":"user","content":"u1"}"#),
        user("2", r#""1""#, r#"{"role":"oracle","content":"u2"}"#),
        user("2", r#""1""#, r#"{"role":"user","content":[]}"#),
        user("3", r#""2""#, call),
        user("4", r#""3""#, result),
        user("5", r#""gone""#, r#"{"role":"user","content":"u5"}"#),
        r#"{"type":"from_the_future","id":"6","parentId":"5","x":[1,2]}"#.to_owned(),
        "42".to_owned(),
    ];
    let session = read(&text.join("\n"));
    let told: Vec<&str> = session.notices().iter().map(|notice| &*notice.sentence).collect();
    assert_eq!(
        told,
        [
            "Line 2 has a role that is not known; it is carried.",
            "Line 3 repeats the id `2` of line 2; the later entry counts.",
            "Line 3 is a message without content.",
            "Line 4 makes the call `k1`, which has no result.",
            "Line 5 answers the call `k9`, which was not made before it.",
            "Line 6 follows the entry `gone`, which is not in the file.",
            "Line 7 is an entry of the type `from_the_future`, which is not known; it is carried.",
            "Line 8 is a value that is no entry; it is carried.",
        ]
    );
    assert_eq!((session.entries().len(), session.log().len()), (8, 6));
    assert_eq!(seen(&session), "u5");
}

/// The notices of one kind that a text gets.
fn told(text: &str, kind: NoticeKind) -> Vec<String> {
    let session = read(text);
    session.notices().iter().filter(|notice| notice.kind == kind).map(|notice| notice.sentence.clone()).collect()
}

#[test]
fn an_entry_of_an_unknown_type_is_carried_and_reported_once_for_its_type() {
    let known = " is known; it is not reported.";
    let cases = [
        (Fixture::Claude, r#"{"type":"quantum-entry"}"#, "is an entry of the type `quantum-entry`, which is not known"),
        (Fixture::Claude, r#"{"no_type":true}"#, "is an entry without a type"),
        (Fixture::Claude, "[1,2,3]", "is a value that is no entry"),
        (Fixture::Claude, r#""a string""#, "is a value that is no entry"),
        (Fixture::Claude, "42", "is a value that is no entry"),
        (Fixture::Claude, r#"{"type":"user"}"#, "is a `user` without a message"),
        (Fixture::Claude, r#"{"type":"progress"}"#, known),
        (Fixture::Claude, r#"{"type":"system","subtype":"turn_duration"}"#, known),
        (Fixture::Codex, r#"{"type":"brand_new"}"#, "is an entry of the type `brand_new`, which is not known"),
        (
            Fixture::Codex,
            r#"{"type":"brand_new","payload":{}}"#,
            "is an entry of the type `brand_new`, which is not known",
        ),
        (Fixture::Codex, r#"{"type":"response_item"}"#, "is a `response_item` without a payload"),
        (Fixture::Codex, r#"{"type":"event_msg","payload":{"type":"any"}}"#, known),
        (Fixture::Codex, r#"{"type":"world_state","payload":{}}"#, known),
        (Fixture::PiTree, r#"{"type":"novel"}"#, "is an entry of the type `novel`, which is not known"),
        (Fixture::PiTree, r#"{"type":"label"}"#, known),
        (Fixture::PiEvents, r#"{"type":"novel"}"#, "is an entry of the type `novel`, which is not known"),
    ];
    for (fixture, entry, expected) in cases {
        let text = fixture.text("u1 a1");
        let line = text.lines().count() + 1;
        let one = format!("{text}{entry}\n");
        let many = text.clone() + &format!("{entry}\n").repeat(5000);
        let (once, often) = match expected == known {
            true => (vec![], vec![]),
            false => (
                vec![format!("Line {line} {expected}; it is carried.")],
                vec![format!("Line {line} {expected}; it is carried, with 4999 more like it.")],
            ),
        };
        assert_eq!(told(&one, NoticeKind::UnknownEntry), once, "{fixture:?} {entry}");
        assert_eq!(told(&many, NoticeKind::UnknownEntry), often, "{fixture:?} {entry}");
        assert_eq!(seen(&read(&many)), "u1 a1", "{fixture:?} {entry}");
    }
}

#[test]
fn a_part_of_an_unknown_type_is_carried_and_reported_once_for_its_type() {
    let cases = [
        (r#"[{"role":"user","content":[{"type":"text","text":"u1"},{"type":"hologram"}]}]"#, "hologram"),
        (
            r#"{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":[{"type":"new_block"}]}]}"#,
            "new_block",
        ),
        (
            r#"{"model":"m","input":[{"type":"message","role":"user","content":"u1"},{"type":"alien_item"}]}"#,
            "alien_item",
        ),
        (r#"{"type":"response_item","payload":{"type":"alien"}}"#, "alien"),
        (r#"{"type":"response_item","payload":{"type":"ghost_snapshot"}}"#, ""),
        (r#"{"model":"m","input":[{"type":"item_reference","id":"i1"}]}"#, ""),
        (r#"[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]"#, ""),
    ];
    for (text, kind) in cases {
        let expected = format!("Line 1 has a part of the type `{kind}`, which is not understood; it is carried.");
        let expected = if kind.is_empty() { vec![] } else { vec![expected] };
        assert_eq!(told(text, NoticeKind::UnknownPart), expected, "{text}");
    }
}

#[test]
fn a_call_that_repeats_the_id_of_another_is_reported_once_for_its_id() {
    let call = r#"{"role":"assistant","tool_calls":[{"id":"k1","function":{"name":"x","arguments":"{}"}}]}"#;
    let result = r#"{"role":"tool","tool_call_id":"k1","content":"r"}"#;
    let named = r#"{"role":"assistant","content":null,"function_call":{"name":"x","arguments":"{}"}}"#;
    let cases = [
        (vec![call, result], vec![]),
        (vec![call, result, call, result], vec!["Line 3 repeats the id `k1` of the call that line 1 makes."]),
        (
            vec![call, result, call, result, call, result],
            vec!["Line 3 repeats the id `k1` of the call that line 1 makes; 3 calls have it in all."],
        ),
        (vec![named, named], vec![]),
    ];
    for (lines, expected) in cases {
        assert_eq!(told(&lines.join("\n"), NoticeKind::DuplicateId), expected, "{lines:?}");
    }
}
