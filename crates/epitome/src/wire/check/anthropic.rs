//! The rules of Anthropic Messages, A1 to A16.
//!
//! Consecutive messages of one role are judged as the one turn that the API merges them into. Signatures, original
//! bytes and headers are not in a request, so what depends on them (A10, A15, most of A8 and A9) is not judged.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use serde_json::Value;

use super::calls::{Answer, Calls};
use super::{LastExchange, List, Place, Report, Request, Rule, list, parts, present, text};
pub(super) fn check(request: &Value, tail: LastExchange, report: &mut Report) {
    let body = request;
    let Some(request) = Request::open(request, List::Messages).filter(|request| !request.entries.is_empty()) else {
        let whole = Place::whole(List::Messages);
        return report.add(Rule::A5, whole, "`messages` must be a list with at least one message.");
    };
    let turns = turns(request.entries);
    check_first(request.entries, report);
    check_messages(request.entries, report);
    check_system(&request, report);
    check_pairs(&turns, tail, report);
    check_thinking(&request, &turns, report);
    check_tools(&request, report);
    if tail == LastExchange::Closed {
        check_end(request.entries, report);
    }
    check_marks(&request, report);
    check_size(body, request.entries, report);
}

crate::named_enum! {
    enum Role {
        System = "system",
        User = "user",
        Assistant = "assistant",
    }
}

fn role(message: &Value) -> Option<Role> {
    Role::from_name(text(message, "role")?)
}

/// Consecutive messages of one role, which the API merges.
struct Turn<'a> {
    role: Option<Role>,
    messages: &'a [Value],
    at: Range<usize>,
}

fn turns(messages: &[Value]) -> Vec<Turn<'_>> {
    let mut start = 0;
    messages
        .chunk_by(|one, next| role(one).is_some() && role(one) == role(next))
        .map(|run| {
            let at = start..start + run.len();
            start = at.end;
            Turn { role: run.first().and_then(role), messages: run, at }
        })
        .collect()
}

/// A piece of content: a plain string, or one block of a list.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Plain(&'a str),
    Block(&'a Value),
}

impl Piece<'_> {
    fn is_result(self) -> bool {
        matches!(self, Piece::Block(block) if is_result(block))
    }

    fn is_compaction(self) -> bool {
        matches!(self, Piece::Block(block) if is_compaction(block))
    }

    fn is_thinking(self) -> bool {
        matches!(self, Piece::Block(block) if is_thinking(block))
    }
}

fn pieces(message: &Value, at: usize) -> impl Iterator<Item = (Place, Piece<'_>)> {
    let place = Place::entry(List::Messages, at);
    let plain = text(message, "content").map(|text| (place, Piece::Plain(text)));
    plain.into_iter().chain(blocks(message, at).map(|(place, block)| (place, Piece::Block(block))))
}

fn blocks(message: &Value, at: usize) -> impl Iterator<Item = (Place, &Value)> {
    let place = Place::entry(List::Messages, at);
    parts(message).iter().enumerate().map(move |(part, block)| (place.content(part), block))
}

impl<'a> Turn<'a> {
    fn pieces(&self) -> impl Iterator<Item = (Place, Piece<'a>)> + use<'a> {
        self.at.clone().zip(self.messages).flat_map(|(at, message)| pieces(message, at))
    }

    fn blocks(&self) -> impl Iterator<Item = (Place, &'a Value)> + use<'a> {
        self.at.clone().zip(self.messages).flat_map(|(at, message)| blocks(message, at))
    }
}

fn is_result(block: &Value) -> bool {
    text(block, "type") == Some("tool_result")
}

fn is_compaction(block: &Value) -> bool {
    text(block, "type") == Some("compaction")
}

fn is_thinking(block: &Value) -> bool {
    matches!(text(block, "type"), Some("thinking" | "redacted_thinking"))
}

fn check_first(messages: &[Value], report: &mut Report) {
    let Some(first) = messages.first() else { return };
    let compaction = parts(first).first().is_some_and(is_compaction);
    if matches!(role(first), Some(Role::Assistant | Role::System)) && !compaction {
        report.add(Rule::A4, Place::entry(List::Messages, 0), "The first message must be the user's, or a compaction.");
    }
}

fn check_messages(messages: &[Value], report: &mut Report) {
    let last = messages.len() - 1;
    for (at, message) in messages.iter().enumerate() {
        let place = Place::entry(List::Messages, at);
        let role = role(message);
        if role.is_none() {
            report.add(Rule::A5, place, unknown_role(message));
        }
        let may_be_empty = at == last && role == Some(Role::Assistant);
        check_content(message, may_be_empty, place, report);
        for (place, block) in blocks(message, at) {
            check_block(block, role, place, report);
        }
    }
}

fn unknown_role(message: &Value) -> String {
    match present(message, "role") {
        Some(role) => format!("{role} is not a role; the roles are user, assistant and system."),
        None => "A message must be an object with a role.".into(),
    }
}

fn check_content(message: &Value, may_be_empty: bool, place: Place, report: &mut Report) {
    match message.get("content") {
        Some(Value::String(text)) if !may_be_empty && is_blank(text) => {
            report.add(Rule::A5, place, "All messages must have non-empty content.");
        }
        Some(Value::Array(blocks)) if !may_be_empty && blocks.is_empty() => {
            report.add(Rule::A5, place, "All messages must have non-empty content.");
        }
        Some(Value::String(_) | Value::Array(_)) => {}
        _ if !message.is_object() => {}
        _ => report.add(Rule::A5, place, "`content` must be a string or a list of blocks."),
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn check_block(block: &Value, role: Option<Role>, place: Place, report: &mut Report) {
    match text(block, "type") {
        Some("text") => check_text(block, place, report),
        Some("thinking" | "redacted_thinking") => check_thought(block, role, place, report),
        Some("tool_use") => check_call(block, role, place, report),
        Some("tool_result") => check_result(block, role, place, report),
        Some(_) => {}
        None => report.add(Rule::A5, place, "A block must be an object with a `type`."),
    }
}

fn check_text(block: &Value, place: Place, report: &mut Report) {
    match text(block, "text") {
        Some(text) if !is_blank(text) => {}
        Some(_) => report.add(Rule::A5, place, "Text content blocks must be non-empty."),
        None => report.add(Rule::A5, place, "The `text` of a text block must be a string."),
    }
}

fn check_thought(block: &Value, role: Option<Role>, place: Place, report: &mut Report) {
    if matches!(role, Some(Role::User | Role::System)) {
        report.add(Rule::A8, place, "A thinking block belongs to the assistant's message.");
    }
    let redacted = text(block, "type") == Some("redacted_thinking");
    if text(block, if redacted { "data" } else { "thinking" }).is_none() {
        report.add(Rule::A8, place, "The block's own content is gone, so it is not what the model made.");
    }
    if !redacted && text(block, "signature").is_none_or(str::is_empty) {
        report.add(Rule::A9, place, "The thinking block has no `signature`.");
    }
}

fn check_call(block: &Value, role: Option<Role>, place: Place, report: &mut Report) {
    if matches!(role, Some(Role::User | Role::System)) {
        report.add(Rule::A5, place, "A tool_use block is only taken in an assistant message.");
    }
    match text(block, "id") {
        Some(id) if is_word(id) => {}
        Some(id) => {
            report.add(Rule::A12, place, format!("The id `{id}` must be made of letters, digits, `_` and `-`."));
        }
        None => report.add(Rule::A5, place, "A tool_use block must have an `id`."),
    }
    match text(block, "name") {
        Some(name) => check_name(name, place, report),
        None => report.add(Rule::A5, place, "A tool_use block must have a `name`."),
    }
    if !block.get("input").is_some_and(Value::is_object) {
        report.add(Rule::A5, place, "The `input` of a tool_use block must be an object.");
    }
}

fn is_word(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
const NAME_CHARS_MAX: usize = 128;

fn check_name(name: &str, place: Place, report: &mut Report) {
    if !is_word(name) || name.len() > NAME_CHARS_MAX {
        let detail = format!("The name `{name}` must be 1 to 128 letters, digits, `_` and `-`.");
        report.add(Rule::A12, place, detail);
    }
}

fn check_result(block: &Value, role: Option<Role>, place: Place, report: &mut Report) {
    if matches!(role, Some(Role::Assistant | Role::System)) {
        report.add(Rule::A5, place, "A tool_result block is only taken in a user message.");
    }
    if text(block, "tool_use_id").is_none() {
        report.add(Rule::A5, place, "A tool_result block must have a `tool_use_id`.");
    }
    match present(block, "content") {
        Some(Value::Array(nested)) => check_nested(nested, place, report),
        Some(Value::String(_)) | None => {}
        Some(_) => report.add(Rule::A5, place, "The `content` of a tool_result must be a string or a list of blocks."),
    }
}

/// A result may be blank, but a text block in it may not be empty.
fn check_nested(nested: &[Value], place: Place, report: &mut Report) {
    for block in nested {
        match text(block, "type") {
            Some("text") if text(block, "text").is_none_or(str::is_empty) => {
                report.add(Rule::A5, place, "Text content blocks must be non-empty, also inside a tool_result.");
            }
            Some(_) => {}
            None => report.add(Rule::A5, place, "A block inside a tool_result must be an object with a `type`."),
        }
    }
}

fn check_system(request: &Request<'_>, report: &mut Report) {
    match request.field("system") {
        Some(Value::Array(blocks)) => {
            for (at, block) in blocks.iter().enumerate() {
                check_block(block, Some(Role::System), Place::entry(List::System, at), report);
            }
        }
        Some(Value::String(_)) | None => {}
        Some(_) => {
            report.add(Rule::A5, Place::whole(List::System), "`system` must be a string or a list of text blocks.");
        }
    }
}

fn check_pairs(turns: &[Turn<'_>], tail: LastExchange, report: &mut Report) {
    let mut pairs = Pairs::default();
    for turn in turns {
        match turn.role {
            Some(Role::User) => pairs.read_user(turn, report),
            Some(Role::Assistant) => pairs.read_assistant(turn, report),
            Some(Role::System) | None => pairs.close(report),
        }
    }
    if tail == LastExchange::Closed {
        pairs.close(report);
    }
}

/// The calls of the turn before, and every id seen so far.
#[derive(Default)]
struct Pairs<'a> {
    calls: Calls<'a>,
    used: HashSet<&'a str>,
    server: HashSet<&'a str>,
}

impl<'a> Pairs<'a> {
    fn read_assistant(&mut self, turn: &Turn<'a>, report: &mut Report) {
        self.close(report);
        for (place, block) in turn.blocks() {
            match text(block, "type") {
                Some("tool_use") => self.make(block, place, report),
                Some("server_tool_use" | "mcp_tool_use") => self.server.extend(text(block, "id")),
                Some(kind) if kind.ends_with("_tool_result") => self.check_server_result(block, kind, place, report),
                _ => {}
            }
        }
    }

    fn make(&mut self, block: &'a Value, place: Place, report: &mut Report) {
        let Some(id) = text(block, "id") else { return };
        if !self.used.insert(id) {
            report.add(Rule::A16, place, format!("`tool_use` ids must be unique, but `{id}` was used before."));
        }
        self.calls.make(id, place);
    }

    /// A server's result may come turns after its call, when code it ran called the client's tools in between.
    fn check_server_result(&self, block: &Value, kind: &str, place: Place, report: &mut Report) {
        if let Some(id) = text(block, "tool_use_id").filter(|id| !self.server.contains(id)) {
            let detail =
                format!("The `{kind}` for `{id}` must have a corresponding `server_tool_use` block before it.");
            report.add(Rule::A2, place, detail);
        }
    }

    /// More results may follow a user turn of results only; once the user says more, the calls are over.
    fn read_user(&mut self, turn: &Turn<'a>, report: &mut Report) {
        for (place, block) in turn.blocks().filter(|(_, block)| is_result(block)) {
            self.answer(block, place, report);
        }
        let mut from_others = turn.pieces().skip_while(|(_, piece)| piece.is_result()).peekable();
        if from_others.peek().is_some() {
            self.close(report);
        }
        if let Some((place, _)) = from_others.find(|(_, piece)| piece.is_result()) {
            report.add(Rule::A3, place, "The tool_result comes after other content of the same turn.");
        }
    }

    fn answer(&mut self, block: &Value, place: Place, report: &mut Report) {
        let Some(id) = text(block, "tool_use_id") else { return };
        match self.calls.answer(id) {
            Answer::First => {}
            Answer::Again => {
                report.add(Rule::A16, place, format!("`{id}` has more than one tool_result."));
            }
            Answer::Stray => {
                let detail = format!("The tool_result for `{id}` has no `tool_use` block in the previous message.");
                report.add(Rule::A2, place, detail);
            }
        }
    }

    fn close(&mut self, report: &mut Report) {
        for (id, place) in self.calls.close() {
            let detail = format!("The tool_use `{id}` was found without a tool_result block in the next message.");
            report.add(Rule::A1, place, detail);
        }
    }
}

fn check_thinking(request: &Request<'_>, turns: &[Turn<'_>], report: &mut Report) {
    match request.field("thinking").and_then(|thinking| text(thinking, "type")) {
        Some("enabled") => check_loop_opening(turns, report),
        Some("disabled") => check_no_final_thinking(turns, report),
        _ => {}
    }
}

/// The open loop runs from the last user turn without results; the model thinks at its start, and need not again.
fn check_loop_opening(turns: &[Turn<'_>], report: &mut Report) {
    let asks = |turn: &Turn<'_>| turn.role == Some(Role::User) && !turn.pieces().any(|(_, piece)| piece.is_result());
    let start = turns.iter().rposition(asks).map_or(0, |at| at + 1);
    let answer = turns.iter().skip(start).find(|turn| turn.role == Some(Role::Assistant));
    if let Some((place, opening)) = answer.and_then(|turn| turn.pieces().find(|(_, piece)| !piece.is_compaction()))
        && !opening.is_thinking()
    {
        report.add(
            Rule::A6,
            place,
            "When `thinking` is enabled, a final assistant turn must start with a thinking block.",
        );
    }
}

fn check_no_final_thinking(turns: &[Turn<'_>], report: &mut Report) {
    let last = turns.last().filter(|turn| turn.role == Some(Role::Assistant));
    if let Some((place, _)) = last.and_then(|turn| turn.pieces().find(|(_, piece)| piece.is_thinking())) {
        let detail = "When thinking is disabled, an assistant message in the final position cannot contain thinking.";
        report.add(Rule::A7, place, detail);
    }
}

fn check_tools(request: &Request<'_>, report: &mut Report) {
    if request.field("tools").is_some_and(|tools| !tools.is_array()) {
        report.add(Rule::A5, Place::whole(List::Tools), "`tools` must be a list.");
    }
    for (at, tool) in tools(request).iter().enumerate() {
        if let Some(name) = text(tool, "name") {
            check_name(name, Place::entry(List::Tools, at), report);
        }
    }
    if request.lacks_tools()
        && let Some(place) = first_use(request.entries)
    {
        report.add(Rule::A11, place, "Requests which include tool_use or tool_result blocks must define `tools`.");
    }
}

fn tools<'a>(request: &Request<'a>) -> &'a [Value] {
    request.field("tools").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn first_use(messages: &[Value]) -> Option<Place> {
    let mut all = messages.iter().enumerate().flat_map(|(at, message)| blocks(message, at));
    all.find(|(_, block)| matches!(text(block, "type"), Some("tool_use" | "tool_result"))).map(|(place, _)| place)
}

fn check_end(messages: &[Value], report: &mut Report) {
    let Some(last) = messages.last().filter(|last| role(last) == Some(Role::Assistant)) else { return };
    let end = pieces(last, messages.len() - 1).last();
    let (place, text) = match end {
        Some((place, Piece::Plain(plain))) => (place, plain),
        Some((place, Piece::Block(block))) => (place, text(block, "text").filter(|text| !is_blank(text)).unwrap_or("")),
        None => return,
    };
    if text.ends_with(char::is_whitespace) {
        report.add(Rule::A13, place, "Final assistant content cannot end with trailing whitespace.");
    }
}
const MARKS_MAX: usize = 4;

fn check_marks(request: &Request<'_>, report: &mut Report) {
    let marks = marks(request);
    let automatic = usize::from(request.field("cache_control").is_some());
    let found = marks.len() + automatic;
    if found > MARKS_MAX
        && let Some(mark) = marks.get(MARKS_MAX - automatic)
    {
        let detail = format!("A maximum of 4 blocks with cache_control may be provided, and {found} were found.");
        report.add(Rule::A14, mark.place, detail);
    }
    for mark in marks.iter().filter(|mark| mark.on_thinking) {
        report.add(Rule::A14, mark.place, "A thinking block cannot carry cache_control.");
    }
    if let Some(mark) = marks.iter().skip_while(|mark| mark.lives_long).find(|mark| mark.lives_long) {
        report.add(Rule::A14, mark.place, "A cache mark with a ttl of 1h must not come after one of 5m.");
    }
}

/// A block that ends a cached prefix.
struct Mark {
    place: Place,
    lives_long: bool,
    on_thinking: bool,
}

impl Mark {
    fn on(place: Place, block: &Value) -> Option<Self> {
        let control = present(block, "cache_control")?;
        Some(Mark { place, lives_long: text(control, "ttl") == Some("1h"), on_thinking: is_thinking(block) })
    }
}

/// The marks in the order in which the provider reads a request: tools, system, messages.
fn marks(request: &Request<'_>) -> Vec<Mark> {
    let system = request.field("system").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut marks = marks_in(List::Tools, tools(request));
    marks.extend(marks_in(List::System, system));
    for (at, message) in request.entries.iter().enumerate() {
        for (place, block) in blocks(message, at) {
            marks.extend(list(block, "content").iter().filter_map(|nested| Mark::on(place, nested)));
            marks.extend(Mark::on(place, block));
        }
    }
    marks
}

fn marks_in(list: List, entries: &[Value]) -> Vec<Mark> {
    entries.iter().enumerate().filter_map(|(at, entry)| Mark::on(Place::entry(list, at), entry)).collect()
}
const MESSAGES_MAX: usize = 100_000;
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

fn check_size(body: &Value, messages: &[Value], report: &mut Report) {
    if messages.len() > MESSAGES_MAX {
        let detail = format!("A request may have 100 000 messages, and this one has {}.", messages.len());
        report.add(Rule::A14, Place::whole(List::Messages), detail);
    }
    let bytes = json_bytes(body);
    if bytes > BODY_BYTES_MAX {
        let detail = format!("A request may have 32 MB, and the shortest JSON of this one has {bytes} bytes.");
        report.add(Rule::A14, Place::whole(List::Request), detail);
    }
}

fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl fmt::Write for Counter {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A value that cannot be written is no longer than what was written of it.
    let _ = fmt::write(&mut counter, format_args!("{value}"));
    counter.0
}
