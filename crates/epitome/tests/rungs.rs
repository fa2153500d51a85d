//! The rungs, one by one, through the library's front door: what each takes, what it leaves alone, what it says.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use std::collections::BTreeMap;

use epitome::budget::{Bpe, Meter, Tokens};
use epitome::plan::{Action, ClearReason, Compaction, Record, Room, normalize};
use epitome::planner::{CacheState, OwnProposal, PlanOptions, Planner, Verdict};
use epitome::policy::{Policy, ReadBy, preset};
use epitome::render::{layout, render};
use epitome::thread::{Determinism, Durability, Thread};
use epitome::wire::{Dialect, Document, decode_message};
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Chat;

fn meter() -> Meter<'static> {
    Meter::new(&Bpe::O200k, DIALECT)
}

fn policy(rungs: &str, more: &str) -> Policy {
    Policy::parse(&format!(
        "name = \"test\"\nversion = 1\nabout = \"\"\nrungs = [{rungs}]\n[trigger]\nat = {{ share_of_window = 1.0 }}\n{more}"
    ))
    .unwrap()
}

/// One exchange: a call of a tool with one argument, and its result.
fn call(id: &str, tool: &str, argument: (&str, &str), result: &str) -> [Value; 2] {
    let arguments = json!({argument.0: argument.1}).to_string();
    [
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}]}),
        json!({"role": "tool", "tool_call_id": id, "content": result}),
    ]
}

fn user(words: &str) -> [Value; 1] {
    [json!({"role": "user", "content": words})]
}

fn thread(messages: &[Value]) -> (Document, Thread) {
    let document = Document::decode(&Value::from(messages.to_vec()).to_string(), Some(DIALECT)).unwrap();
    let mut thread = Thread::new();
    thread.extend(document.messages(), &meter());
    (document, thread)
}

fn long(word: &str) -> String {
    (0..200).map(|n| format!("{word} line {n}\n")).collect()
}

/// A thread of four reads: two of the same file with the same text, one that was written to later, one of another file.
fn reads() -> Vec<Value> {
    [
        &user("Look at the files.")[..],
        &call("a", "read", ("path", "one.rs"), &long("alpha")),
        &call("b", "read", ("path", "two.rs"), &long("beta")),
        &call("c", "fetch_rates", ("page", "1"), &long("gamma")),
        &call("d", "write", ("path", "two.rs"), "ok"),
        &call("e", "list_rates", ("page", "1"), &long("gamma")),
        &user("Go on."),
        &[json!({"role": "assistant", "content": "Yes."})],
    ]
    .concat()
}

fn act(thread: &Thread, policy: &Policy, room: Room, ask: &PlanOptions) -> Option<Compaction> {
    Planner::new(thread, policy, meter(), room, ask).compact()
}

fn forced(thread: &Thread, policy: &Policy, target: u64) -> Compaction {
    let ask = PlanOptions { force: true, ..PlanOptions::default() };
    act(thread, policy, Room::exactly(Tokens::new(target)), &ask).expect("a compaction")
}

fn touched(compaction: &Compaction) -> Vec<(usize, &'static str)> {
    let place = |record: &Record| record.part.map_or(record.span.range().start, |part| part.place) + 1;
    compaction.plan.records.iter().map(|record| (place(record), record.action.name())).collect()
}

#[test]
fn the_older_of_two_equal_results_points_to_the_newer() {
    let (_, thread) = thread(&reads());
    let compaction = forced(&thread, &policy("\"deduplicate\"", ""), 4000);
    assert_eq!(touched(&compaction), [(7, "clear")]);
    let newest = thread.message(10).id();
    assert!(
        matches!(&compaction.plan.records[0].action, Action::Clear { why: ClearReason::Duplicate { of }, .. } if *of == newest)
    );
}

#[test]
fn a_read_is_out_of_date_once_its_file_was_written_and_others_are_not() {
    let (_, thread) = thread(&reads());
    let compaction = forced(&thread, &policy("\"supersede\"", ""), 4000);
    assert_eq!(touched(&compaction), [(5, "clear")]);
}

#[test]
fn large_results_move_out_oldest_first_until_the_target_is_reached() {
    let (document, thread) = thread(&reads());
    let policy =
        policy("\"externalize\"", "[externalize]\ntokens_min = 500\npreview = 20\n[protect]\nrecent_turns = 1\n");
    let target = thread.total().get() - 1000;
    let compaction = forced(&thread, &policy, target);
    assert_eq!(touched(&compaction), [(3, "externalize"), (5, "externalize")]);
    let prompt = render(&thread, Some(&compaction), &policy, meter(), &[]);
    let sent: Value = serde_json::from_str(&document.encode(&prompt.marked_messages(&thread))).unwrap();
    let artifact = &compaction.artifacts(&thread)[0];
    assert_eq!(artifact.content, long("alpha"));
    let words = sent[2]["content"].as_str().unwrap();
    assert!(
        words.starts_with(&format!("[Externalized Content - artifact:{}]\nSummary: m3, 200 lines", artifact.id)),
        "{words}"
    );
    assert!(words.ends_with(&format!("read_artifact(\"{}\")", artifact.id)), "{words}");
}

#[test]
fn clearing_follows_durability_and_a_replayable_result_stays_when_its_source_drifted() {
    let rules = "[tools.rules.ls]\ndurability = \"ephemeral\"\n[tools.rules.order]\ndurability = \"anchoring\"\npreserve = [\"order_id\"]\n\
        [tools.rules.search]\ndurability = \"non-replayable\"\n[tools.rules.read]\ndurability = \"replayable\"\n[protect]\nrecent_turns = 1\n";
    let order = json!({"order_id": "A-17", "lines": long("item")}).to_string();
    let messages = [
        &user("Do it.")[..],
        &call("l", "ls", ("path", "."), &long("file")),
        &call("o", "order", ("what", "tea"), &order),
        &call("s", "search", ("query", "tea"), &long("hit")),
        &call("same", "read", ("path", "same.rs"), &long("same")),
        &call("drifted", "read", ("path", "drifted.rs"), &long("drifted")),
        &call("unknown", "read", ("path", "unknown.rs"), &long("unknown")),
        &user("And now?"),
    ]
    .concat();
    let mark = |hash: &str| Determinism { content_hash: Some(hash.into()), ..Determinism::default() };
    let mut thread = Thread::new();
    for message in &messages {
        let mut decoded = decode_message(DIALECT, &epitome::thread::Raw::whole(message.to_string()));
        for part in &mut decoded.parts {
            if let epitome::thread::Part::ToolResult(result) = part {
                result.determinism = Some(mark("then"));
            }
        }
        thread.append(decoded, &meter());
    }
    let current = BTreeMap::from([("same".to_owned(), mark("then")), ("drifted".to_owned(), mark("now"))]);
    let ask = PlanOptions { force: true, current, ..PlanOptions::default() };
    let compaction = act(&thread, &policy("\"clear\"", rules), Room::exactly(Tokens::new(10)), &ask).unwrap();
    assert_eq!(touched(&compaction), [(3, "clear"), (5, "clear"), (9, "clear")]);
    let Action::Clear { preserved, .. } = &compaction.plan.records[1].action else { panic!("cleared") };
    assert_eq!(preserved, &BTreeMap::from([("order_id".to_owned(), "A-17".to_owned())]));
    let words = layout(&render(&thread, Some(&compaction), &policy("\"clear\"", rules), meter(), &[]), &thread);
    assert!(words.contains("[order]⏎Key data: {\\\"order_id\\\":\\\"A-17\\\"}"), "{words}");
}

#[test]
fn a_callers_own_word_on_durability_wins() {
    let messages = [&user("Do it.")[..], &call("l", "ls", ("path", "."), &long("file")), &user("And now?")].concat();
    let mut thread = Thread::new();
    for message in &messages {
        let mut decoded = decode_message(DIALECT, &epitome::thread::Raw::whole(message.to_string()));
        for part in &mut decoded.parts {
            if let epitome::thread::Part::ToolResult(result) = part {
                result.durability = Some(Durability::NonReplayable);
            }
        }
        thread.append(decoded, &meter());
    }
    let rules = "[tools.rules.ls]\ndurability = \"ephemeral\"\n[protect]\nrecent_turns = 1\n";
    let ask = PlanOptions { force: true, ..PlanOptions::default() };
    assert!(act(&thread, &policy("\"clear\"", rules), Room::exactly(Tokens::new(10)), &ask).is_none());
}

#[test]
fn dropped_spans_leave_an_index_of_what_they_were_about() {
    let (_, thread) = thread(&reads());
    let policy = policy("\"drop\"", "[protect]\nrecent_turns = 1\n");
    let compaction = forced(&thread, &policy, 1500);
    let Action::Drop { keywords } = &compaction.plan.records[0].action else { panic!("dropped") };
    assert!(keywords.iter().any(|word| word == "one.rs"), "{keywords:?}");
    let prompt = layout(&render(&thread, Some(&compaction), &policy, meter(), &[]), &thread);
    assert!(prompt.starts_with("00 user+ note \"[Dropped - Turns 1-1, m1-m"), "{prompt}");
}

#[test]
fn a_dropped_span_is_told_by_the_words_it_began_and_ended_with() {
    let long = "and so on, ".repeat(40);
    let said = [
        ("user", format!("Port the parser of src/one.rs to the new API.\n{long}")),
        ("assistant", "I begin.".to_owned()),
        ("user", "yes".to_owned()),
        ("assistant", format!("The parser is ported; {long}")),
        ("user", "Now the printer.".to_owned()),
        ("assistant", "It prints.".to_owned()),
    ];
    let messages: Vec<Value> = said.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    let (_, thread) = thread(&messages);
    let policy = policy("\"drop\"", "[protect]\nrecent_turns = 1\n");
    let compaction = forced(&thread, &policy, 120);
    let prompt = render(&thread, Some(&compaction), &policy, meter(), &[]);
    let index = prompt.to_raw(&thread)[0].to_string();
    assert!(index.contains(r#"It began, m1: \"Port the parser of src/one.rs to the new API.\""#), "{index}");
    assert!(index.contains(r#"It ended, m4: \"The parser is ported; and so on"#), "{index}");
    assert!(index.len() < 500, "{index}");
}

#[test]
fn trimming_keeps_head_and_tail_and_only_what_is_needed_goes() {
    let (_, thread) = thread(&reads());
    let policy = policy("\"trim\"", "");
    let target = thread.total().get() - 300;
    let compaction = forced(&thread, &policy, target);
    assert!(compaction.plan.records.iter().all(|record| record.before > Tokens::new(500)), "only long parts give");
    assert!(compaction.plan.after <= Tokens::new(target) && compaction.plan.after > Tokens::new(target - 150));
}

#[test]
fn a_callers_own_rung_is_climbed_and_may_not_touch_the_tail() {
    let (_, thread) = thread(&reads());
    let policy =
        policy("\"deduplicate\", \"externalize\"", "[protect]\nrecent_turns = 1\n[externalize]\ntokens_min = 100000\n");
    let own = |_: &Thread, _: std::ops::Range<usize>| -> Vec<OwnProposal> {
        [2, 10, 12].map(|place| OwnProposal { place, part: 0, placeholder: "[mine]".to_owned() }).into()
    };
    let ask = PlanOptions { force: true, own: Some(Arc::new(own)), ..PlanOptions::default() };
    let room = Room::exactly(Tokens::new(thread.total().get() - 1500));
    let compaction = act(&thread, &policy, room, &ask).unwrap();
    let own: Vec<usize> = compaction
        .plan
        .records
        .iter()
        .filter(|record| matches!(record.action, Action::Clear { why: ClearReason::Own { .. }, .. }))
        .map(|record| record.part.unwrap().place)
        .collect();
    assert_eq!(own, [2, 10]);
}

#[test]
fn a_rewrite_that_does_not_pay_waits_until_the_cache_is_cold_or_the_window_is_full() {
    let (_, thread) = thread(&reads());
    let policy = policy("\"deduplicate\"", "[price]\ncalls_expected = 2\n[protect]\nrecent_turns = 1\n");
    let total = thread.total().get();
    let room = |limit: u64| Room {
        trigger: Tokens::new(total - 10),
        target: Tokens::new(total / 2),
        limit: Tokens::new(limit),
    };
    let warm = PlanOptions { cache: CacheState::Warm { age_s: 5 }, ..PlanOptions::default() };
    let verdict = Planner::new(&thread, &policy, meter(), room(total * 2), &warm).decide();
    assert!(matches!(&verdict, Verdict::Wait { reason, .. } if reason.contains("cached")), "{verdict:?}");
    assert!(
        act(
            &thread,
            &policy,
            room(total * 2),
            &PlanOptions { cache: CacheState::Warm { age_s: 500 }, ..PlanOptions::default() }
        )
        .is_some()
    );
    assert!(act(&thread, &policy, room(total - 1), &warm).is_some());
}

#[test]
fn a_compaction_that_reached_its_floor_is_not_tried_again_until_the_thread_has_grown() {
    let (_, mut thread) = thread(&reads());
    let policy = preset("ladder").unwrap();
    let room = Room::exactly(Tokens::new(30));
    let first = act(&thread, &policy, room, &PlanOptions { force: true, ..PlanOptions::default() }).unwrap();
    let shortfall = first.plan.shortfall.clone().expect("it cannot fit");
    assert_eq!(shortfall.over, first.plan.after - room.limit);
    let again = PlanOptions { previous: Some(Arc::new(first.clone())), ..PlanOptions::default() };
    assert!(matches!(Planner::new(&thread, &policy, meter(), room, &again).decide(), Verdict::Wait { .. }));
    for message in call("z", "read", ("path", "z.rs"), &long("zeta")) {
        thread.append(decode_message(DIALECT, &epitome::thread::Raw::whole(message.to_string())), &meter());
    }
    let verdict = Planner::new(&thread, &policy, meter(), room, &again).decide();
    assert!(matches!(verdict, Verdict::Act(_)), "{verdict:?}");
}

#[test]
fn drop_wins_over_externalize_over_summarize_over_clear_and_the_loser_is_a_warning() {
    let (_, thread) = thread(&reads());
    let span = thread.span(1..3).unwrap();
    let part = Some(epitome::plan::PartPlace { place: 2, part: 0 });
    let artifact = epitome::plan::ArtifactId::of(b"x");
    let record = |part, action| Record {
        rung: epitome::policy::Rung::Clear,
        span: span.clone(),
        part,
        action,
        before: Tokens::new(9),
        after: Tokens::new(1),
    };
    let clear = || {
        record(
            part,
            Action::Clear { why: ClearReason::Durability, artifact: artifact.clone(), preserved: BTreeMap::new() },
        )
    };
    let externalize = || {
        record(
            part,
            Action::Externalize {
                artifact: artifact.clone(),
                head: Tokens::new(1),
                tail: Tokens::ZERO,
                by: ReadBy::Tool,
            },
        )
    };
    let summarize = || record(None, Action::Summarize { summary: 0, kept: Vec::new() });
    let drop = || record(None, Action::Drop { keywords: Vec::new() });
    let cases = [
        (vec![clear(), externalize()], "externalize", "clear"),
        (vec![summarize(), clear()], "summarize", "clear"),
        (vec![summarize(), externalize()], "externalize", "summarize"),
        (vec![externalize(), drop()], "drop", "externalize"),
    ];
    for (records, winner, loser) in cases {
        let (kept, warnings) = normalize(records);
        assert_eq!(kept.iter().map(|record| record.action.name()).collect::<Vec<_>>(), [winner]);
        assert!(
            warnings[0].contains(&format!("in both {winner} and {loser}; {winner} takes precedence")),
            "{warnings:?}"
        );
        assert_eq!(normalize(kept.clone()), (kept, Vec::new()));
    }
}

/// What the model has not seen yet, and what the user asks right now, is what a compaction makes room for.
#[test]
fn what_nobody_has_answered_stays_whole_while_it_fits_beside_a_compacted_past() {
    let word =
        |count: usize, from: usize| (0..count).map(|at| format!("w{} ", (at * 7 + from) % 97)).collect::<String>();
    let past = (0..12).flat_map(|at| {
        [json!({"role": "user", "content": word(250, at)}), json!({"role": "assistant", "content": word(250, at + 50)})]
    });
    let asked = vec![json!({"role": "user", "content": format!("PLEASE {}", word(2000, 3))})];
    let call = json!([{"id": "c1", "type": "function", "function": {"name": "b", "arguments": "{}"}}]);
    let result = vec![
        json!({"role": "user", "content": "look"}),
        json!({"role": "assistant", "content": null, "tool_calls": call}),
        json!({"role": "tool", "tool_call_id": "c1", "content": format!("RESULT {}", word(2000, 5))}),
    ];
    let counter = Bpe::O200k;
    let meter = Meter::new(&counter, Dialect::Chat);
    let mut policy = preset("ladder").unwrap();
    policy.target.low_water = 0.3;
    for open in [asked, result] {
        let newest = open.last().unwrap()["content"].as_str().unwrap().to_owned();
        let messages: Vec<Value> = past.clone().chain(open).collect();
        let mut thread = Thread::new();
        for message in &messages {
            thread.append(decode_message(Dialect::Chat, &epitome::thread::Raw::whole(message.to_string())), &meter);
        }
        let limit = Tokens::new(thread.total().get() * 9 / 10);
        let room = Room { trigger: limit.share(0.85), target: limit.share(0.25), limit };
        let options = PlanOptions::default();
        let compaction = Planner::new(&thread, &policy, meter, room, &options).compact().expect("it is due");
        let prompt = render(&thread, Some(&compaction), &policy, meter, &[]);
        let last = prompt.to_raw(&thread).last().unwrap().to_string();
        assert!(last.contains(&newest), "{:?} {room:?}", compaction.plan.steps);
        assert!(compaction.plan.after <= limit, "{} of {limit}", compaction.plan.after);
    }
}

#[test]
fn what_a_requests_tools_declare_of_their_results_is_obeyed() {
    let tool = |name: &str, durability: &str| {
        let schema = json!({"type": "object", "properties": {}, "x-epitome-durability": durability});
        json!({"type": "function", "function": {"name": name, "parameters": schema}})
    };
    let messages = [
        &user("Look.")[..],
        &call("a", "quote", ("page", "1"), &long("alpha")),
        &call("b", "scan", ("page", "2"), &long("beta")),
        &user("And now?"),
        &[json!({"role": "assistant", "content": "Yes."})],
        &user("Go on."),
    ]
    .concat();
    let policy = policy("\"clear\"", "[protect]\nrecent_turns = 1\n");
    let cleared = |tools: Value| {
        let request = json!({"model": "gpt-4o", "tools": tools, "messages": messages}).to_string();
        let options = PlanOptions { force: true, ..PlanOptions::default() };
        let conversation = epitome::Conversation::read(&request).unwrap();
        let limit = epitome::Limit::Budget(Tokens::new(10));
        let fitted = epitome::Compactor::new(&conversation, &policy, limit, options).preview().unwrap().unwrap();
        let records = fitted.compaction.plan.records;
        records.iter().map(|record| record.part.unwrap().place).collect::<Vec<usize>>()
    };
    assert_eq!(cleared(json!([tool("quote", "anchoring"), tool("scan", "ephemeral")])), [2, 4]);
    assert_eq!(cleared(json!([tool("quote", "non-replayable"), tool("scan", "ephemeral")])), [4]);
}
