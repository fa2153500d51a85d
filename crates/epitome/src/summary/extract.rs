//! The deterministic extraction: the items of a span that must not depend on anyone's prose.
//!
//! It reads the typed messages and nothing else, and quotes what it finds, in any language.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::answered::{answered, left_open};
use super::clip::one_line;
use super::constraint::decisions;
use super::digest::{artifact_of, memory_read_of};
use super::done::{conclusion, purpose, resolution};
use super::parse::{listed_user_messages, parse_items};
use super::speech::{approval, constraints, is_rule, takes_back};
use super::structured::{
    CommandEnding, CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, RequestContext,
    RequestState, StructuredSummary, ToolOutcome, TurnContext, UserRequest,
};
use super::values::{ids, numbers, urls};
use super::work_state::{note_state, only_reads};
use crate::message::{SaidInResult, said_in_result};
use crate::policy::{CallEnding, CallMeaning, ToolClass, Tools, still_runs};
use crate::thread::{HarnessText, Media, Message, Role, Speaker, Thread, ToolCall, ToolResult, own_words, pieces};

/// What words are about is told in at most so many characters.
const CONTEXT_CHARS_MAX: usize = 160;
/// The most progress lines of a split turn.
const PROGRESS_MAX: usize = 12;
/// The most items of one kind; the newest stay.
const ITEMS_MAX: usize = 200;

/// Extracts the items of the messages in a range.
pub(crate) fn extract(thread: &Thread, range: Range<usize>, tools: &Tools) -> StructuredSummary {
    let mut items = StructuredSummary { span: thread.span(range.clone()), rounds: 1, ..StructuredSummary::default() };
    let mut seen = SeenItems::default();
    // What is not loaded was extracted when it was; its items are merged by code.
    let unloaded = thread.evicted().map(|evicted| evicted.at);
    for at in range.clone().filter(|at| Some(*at) != unloaded) {
        let message = thread.message(at);
        let place = message.log_place();
        if let Some(replacement) = thread.hidden(at) {
            // Nothing of what it says is told any more; its calls stay in the prompt.
            note_calls(&mut items, &mut seen, place, message, tools);
            items.hidden.push(Quote { text: replacement.to_owned(), place });
            continue;
        }
        if message.is_summary() {
            parse_items(&message.text(), place, &mut items);
            seen.know(&items);
        } else if message.role() == Role::User {
            note_listed_messages(&mut items, &mut seen, message);
            note_request(&mut items, &mut seen, thread, at, message);
        }
        note_calls(&mut items, &mut seen, place, message, tools);
        for (_, result) in message.results() {
            if tools.is_summarized(&result.tool) {
                let ending = tools.ending_at(thread, at, result);
                note_result(&mut items, &mut seen, message, result, ending, tools);
            }
            note_said_in_result(&mut items, &mut seen, message, result);
        }
        note_words(&mut items, place, message);
        items.conclusions.extend(conclusion(thread, at).map(|text| Quote { text, place }));
        items.media.extend(message.media().map(|media| Quote { text: media_line(media), place }));
    }
    let planned = open_items(&items.current_plan);
    items.open_items.extend(planned);
    // What is said inside a turn is about its request; it is not another one.
    let opens =
        |request: &&UserRequest| !matches!(request.context, Some(RequestContext::Rejects(_) | RequestContext::Retold));
    let latest = items.requests.iter().rev().find(opens);
    items.current_task = latest.map(|request| Quote { text: request.text.clone(), place: request.place });
    update_request_states(&mut items, thread);
    items.conclusions.sort_by_key(|told| told.place);
    keep_newest(&mut items.conclusions);
    keep_newest(&mut items.decisions);
    keep_newest(&mut items.commands);
    keep_newest(&mut items.errors);
    keep_newest(&mut items.artifacts);
    keep_newest(&mut items.memory_reads);
    keep_newest(&mut items.media);
    keep_last_mentions(&mut items.urls);
    keep_last_mentions(&mut items.values);
    items
}

/// Describes media in one line: its kind, name, type and size.
pub(super) fn media_line(media: &Media) -> String {
    format!("{}: {media}", media.kind.label())
}

/// The items of the messages before the current one, by name.
#[derive(Default)]
struct SeenItems<'t> {
    calls: HashMap<&'t str, (&'t ToolCall, CallMeaning)>,
    /// Indexes into the files.
    files: HashMap<String, usize>,
    constraints: HashSet<String>,
    /// Indexes into the errors of those that nothing has fixed yet, by their subject.
    open_errors: HashMap<String, Vec<usize>>,
    /// What the agent said last, and in which turn.
    purpose: Option<(u32, String)>,
    /// The changes of files: place, path, and what they are for.
    changes: Vec<(usize, String, Option<String>)>,
    /// What was known of files before a call changed them, by the call: it may turn out that it changed nothing.
    before_change: HashMap<&'t str, Vec<FileFact>>,
}

impl SeenItems<'_> {
    /// Takes in the items of an earlier summary.
    fn know(&mut self, items: &StructuredSummary) {
        self.constraints.extend(items.constraints.iter().map(|quote| quote.text.clone()));
        self.files.extend(items.files.iter().enumerate().map(|(at, file)| (file.path.clone(), at)));
        self.open_errors.clear();
        for (at, error) in items.errors.iter().enumerate().filter(|(_, error)| error.fixed.is_none()) {
            self.open_errors.entry(repaired_by(&error.about).to_owned()).or_default().push(at);
        }
    }
}

/// Returns the beginning of the turn that a cut at the end of the range splits: its request, and what was done since.
pub(super) fn turn_context(thread: &Thread, range: Range<usize>, items: &StructuredSummary) -> Option<TurnContext> {
    let turn = thread.message(range.end - 1).turn();
    let opening =
        range.clone().find(|place| thread.message(*place).turn() == turn && thread.message(*place).opens_turn());
    let request = match opening.map(|place| thread.message(place)) {
        Some(message) => Quote { text: message.own_text(), place: message.log_place() },
        // It is not loaded; its words are known.
        None => {
            let known = items.requests.iter().rev().find(|request| request.turn == turn)?;
            Quote { text: known.text.clone(), place: known.place }
        }
    };
    let start = request.place;
    // What was only looked at is no progress; a command that was run twice counts where it ran last.
    let changed = items.files.iter().filter_map(|file| Some((file, file.written.max(file.patched)?)));
    let files = changed
        .filter(|(_, place)| *place > start)
        .map(|(file, place)| Quote { text: format!("{} {}", file.last_action(), file.path), place });
    let commands = items.commands.iter().filter(|command| command.place > start && !only_reads(&command.command));
    let commands =
        commands.map(|command| Quote { text: first_line(&command.command).to_owned(), place: command.place });
    let mut progress: Vec<Quote> = files.chain(commands).collect();
    progress.sort_by_key(|quote| quote.place);
    let mut told = HashSet::new();
    progress.reverse();
    progress.retain(|quote| told.insert(quote.text.clone()));
    progress.reverse();
    let late = progress.len().saturating_sub(PROGRESS_MAX);
    Some(TurnContext { request, progress: progress.split_off(late) })
}

/// Notes the words of a message that opens a turn.
fn note_request(
    items: &mut StructuredSummary,
    seen: &mut SeenItems<'_>,
    thread: &Thread,
    at: usize,
    message: &Message,
) {
    let text = message.own_text();
    let text = text.trim();
    if text.is_empty() || !message.opens_turn() {
        return;
    }
    let (place, turn, state) = (message.log_place(), message.turn(), RequestState::Answered);
    let open = || left_open(thread, at, text).map(RequestContext::LeavesOpen);
    let context = answered(thread, at, text).map(RequestContext::Answers).or_else(open);
    add_words(items, seen, UserRequest { text: text.to_owned(), place, turn, state, context, supersedes: None });
}

/// Notes the user's messages that a harness's own summary lists.
fn note_listed_messages(items: &mut StructuredSummary, seen: &mut SeenItems<'_>, message: &Message) {
    let is_summary = |speaker: &Speaker| matches!(speaker, Speaker::Harness(HarnessText::Summary));
    for text in message.texts() {
        for (_, piece) in pieces(text).into_iter().filter(|(speaker, _)| is_summary(speaker)) {
            for words in listed_user_messages(piece) {
                let (text, place, turn) = (words.to_owned(), message.log_place(), message.turn());
                let (state, context) = (RequestState::Answered, Some(RequestContext::Retold));
                add_words(items, seen, UserRequest { text, place, turn, state, context, supersedes: None });
            }
        }
    }
}

/// Notes what a person said inside a tool result.
fn note_said_in_result(
    items: &mut StructuredSummary,
    seen: &mut SeenItems<'_>,
    message: &Message,
    result: &ToolResult,
) {
    for SaidInResult { question, words } in said_in_result(&result.text) {
        let call = seen.calls.get(&*result.call_id);
        let rejected = || call.map_or_else(|| result.tool.to_string(), |(call, meaning)| subject(call, meaning));
        let context = match question {
            Some(question) => RequestContext::Answers(one_line(question, CONTEXT_CHARS_MAX)),
            None => RequestContext::Rejects(one_line(&rejected(), CONTEXT_CHARS_MAX)),
        };
        let (text, place, turn) = (words.to_owned(), message.log_place(), message.turn());
        let state = RequestState::Answered;
        add_words(items, seen, UserRequest { text, place, turn, state, context: Some(context), supersedes: None });
    }
}

/// Adds words of the user, with the marks on them.
fn add_words(items: &mut StructuredSummary, seen: &mut SeenItems<'_>, request: UserRequest) {
    if !request.text.starts_with('<') && request.context != Some(RequestContext::Retold) {
        for sentence in constraints(&request.text) {
            if seen.constraints.insert(sentence.to_owned()) {
                items.constraints.push(Quote { text: sentence.to_owned(), place: request.place });
            }
        }
    }
    items.requests.push(request);
}

/// The most answers ("yes", "2") between words that take something back and what they take back.
const TAKEN_BACK_MAX: usize = 3;

/// Tells whether later words of the user take back those of the message at a place.
pub(crate) fn is_taken_back(thread: &Thread, place: usize) -> bool {
    let opening = thread.messages()[place..].iter().filter(|message| message.opens_turn());
    let words = opening.take(TAKEN_BACK_MAX + 1).map(|message| UserRequest {
        text: message.own_text(),
        place: message.log_place(),
        turn: message.turn(),
        state: RequestState::Answered,
        context: None,
        supersedes: None,
    });
    let mut items = StructuredSummary { requests: words.collect(), ..StructuredSummary::default() };
    mark_superseded(&mut items);
    items.requests.first().is_some_and(|first| first.state == RequestState::Superseded)
}

/// Marks the words that later ones of the user take back: those right before them, mere answers aside. They no longer bind then; they
/// stay where the user's words are told, with the mark.
///
/// ```text
/// m10  Never book a seafood restaurant.      a rule: it stands until somebody says otherwise
/// m14  Can we see the palace?                taken back by m16
/// m16  Forget the palace, rather the beach.
/// ```
///
/// Words with a rule in them ("never", "must not") are not marked by nearness: a wrong mark there would cost more than a missing one.
/// Called again with more words in front or behind, it changes nothing that it marked before.
fn mark_superseded(items: &mut StructuredSummary) {
    for at in 0..items.requests.len() {
        let own = &items.requests[at];
        if own.supersedes.is_some() || own.context == Some(RequestContext::Retold) || !takes_back(&own.text) {
            continue;
        }
        let said = |before: &usize| {
            let before = &items.requests[*before];
            before.context != Some(RequestContext::Retold)
                && before.place < own.place
                && approval(&before.text).is_none()
        };
        let Some(taken) = (0..at).rev().take(TAKEN_BACK_MAX).find(said) else { continue };
        let before = &items.requests[taken];
        if before.state == RequestState::Superseded || constraints(&before.text).any(is_rule) {
            continue;
        }
        let place = before.place;
        items.requests[taken].state = RequestState::Superseded;
        items.requests[at].supersedes = Some(place);
    }
    let taken_back: HashSet<usize> = items
        .requests
        .iter()
        .filter(|request| request.state == RequestState::Superseded)
        .map(|request| request.place)
        .collect();
    items.constraints.retain(|quote| !taken_back.contains(&quote.place) || is_rule(&quote.text));
}

/// Updates the states of requests: those of the current turn are open, and of the others at most the newest can be.
pub(super) fn update_request_states(items: &mut StructuredSummary, thread: &Thread) {
    mark_superseded(items);
    let (current, newest) = (thread.turn(), items.requests.len().saturating_sub(1));
    for (at, request) in items.requests.iter_mut().enumerate() {
        request.state = match request.state {
            RequestState::Superseded => RequestState::Superseded,
            _ if request.turn == current => RequestState::Open,
            RequestState::Open if at < newest => RequestState::Answered,
            state => state,
        };
    }
}

fn note_calls<'t>(
    items: &mut StructuredSummary,
    seen: &mut SeenItems<'t>,
    place: usize,
    message: &'t Message,
    tools: &Tools,
) {
    if message.role() == Role::Assistant
        && let Some(purpose) = purpose(message)
    {
        seen.purpose = Some((message.turn(), purpose));
    }
    for call in message.calls() {
        let meaning = tools.meaning(call);
        // A summarizer that is not shown a tool's parts is not told of them either. A list of tasks is the agent's own words.
        if !tools.is_summarized(&call.name) && meaning.class != Some(ToolClass::Plan) {
            continue;
        }
        for path in &meaning.paths {
            let before = note_file(items, seen, path, &meaning, message);
            seen.before_change.entry(&call.id).or_default().extend(before);
        }
        if meaning.class == Some(ToolClass::Plan) {
            note_plan(&mut items.current_plan, call, place);
        }
        if meaning.class == Some(ToolClass::Artifact) {
            items.artifacts.extend(artifact_of(call, place));
        }
        seen.calls.insert(&call.id, (call, meaning));
    }
}

/// Notes a file that a call names. Returns what was known of it before, where the call changes it.
fn note_file(
    items: &mut StructuredSummary,
    seen: &mut SeenItems<'_>,
    path: &str,
    meaning: &CallMeaning,
    message: &Message,
) -> Option<FileFact> {
    let place = message.log_place();
    let at = *seen.files.entry(path.to_owned()).or_insert_with(|| {
        items.files.push(FileFact { path: path.to_owned(), read: None, written: None, patched: None, purpose: None });
        items.files.len() - 1
    });
    let file = &mut items.files[at];
    let before = file.clone();
    match meaning.class {
        Some(ToolClass::Write) => file.written = Some(place),
        Some(ToolClass::Patch) => file.patched = Some(place),
        _ => file.read = Some(place),
    }
    if !matches!(meaning.class, Some(ToolClass::Write | ToolClass::Patch)) {
        return None;
    }
    let purpose = seen.purpose.clone().filter(|(turn, _)| *turn == message.turn()).map(|(_, purpose)| purpose);
    let request = items.requests.last().map(|request| format!("for m{}", request.place + 1));
    let purpose = purpose.or(request);
    seen.changes.push((place, path.to_owned(), purpose.clone()));
    file.purpose = purpose;
    Some(before)
}

/// Takes back what was noted of the files that a call was to change: it failed, or the user rejected it.
fn undo_changes(items: &mut StructuredSummary, seen: &mut SeenItems<'_>, call: &str, place: usize) {
    for before in seen.before_change.remove(call).unwrap_or_default() {
        let Some(file) = items.files.iter_mut().find(|file| file.path == before.path) else { continue };
        let newest = file.written.max(file.patched);
        seen.changes.retain(|(changed, path, _)| Some(*changed) != newest || *path != file.path);
        // It was looked at all the same.
        *file = FileFact { read: before.read.or(Some(place)), ..before };
    }
}

/// Notes a call that writes a plan down: a whole list at once, or one task of a list that the harness numbers.
fn note_plan(plan: &mut Vec<PlanItem>, call: &ToolCall, place: usize) {
    let Ok(arguments) = serde_json::from_str::<serde_json::Value>(&call.arguments) else { return };
    if let Some(listed) = listed_tasks(&arguments, place) {
        *plan = listed;
        return;
    }
    let state = word(&arguments, &["status", "state"]);
    let title = word(&arguments, &["subject", "title"]);
    match (word(&arguments, &["taskId", "task_id", "id"]), title) {
        (Some(id), title) => {
            let number = format!("#{}", id.trim_start_matches('#'));
            let at = plan.iter().position(|item| item.number() == Some(number.as_str())).unwrap_or_else(|| {
                plan.push(PlanItem { text: number.clone(), state: PENDING.to_owned(), place });
                plan.len() - 1
            });
            if let Some(title) = title {
                plan[at].text = format!("{number} {title}");
            }
            plan[at].state = state.unwrap_or_else(|| plan[at].state.clone());
            plan[at].place = place;
            plan.retain(|item| item.state != "deleted");
        }
        (None, Some(title)) => {
            let numbers = plan.iter().filter_map(|item| item.number()?.get(1..)?.parse::<usize>().ok());
            let number = numbers.max().unwrap_or(0) + 1;
            let state = state.unwrap_or_else(|| PENDING.to_owned());
            plan.push(PlanItem { text: format!("#{number} {title}"), state, place });
        }
        (None, None) => {}
    }
}

const PENDING: &str = "pending";

/// Parses a whole list: objects with words and a state, or a text of `- [x] words`.
fn listed_tasks(arguments: &serde_json::Value, place: usize) -> Option<Vec<PlanItem>> {
    let keys = ["todos", "plan", "items", "tasks", "todoList", "todo_list", "steps"];
    let list = keys.iter().find_map(|key| arguments.get(*key))?;
    if let Some(text) = list.as_str() {
        let boxed = |line: &str| {
            let (mark, words) = line.trim_start_matches(['-', '*', ' ']).strip_prefix('[')?.split_once("] ")?;
            let state = match mark {
                "x" | "X" => "completed",
                "-" | "~" => "in_progress",
                _ => PENDING,
            };
            Some(PlanItem { text: words.trim().to_owned(), state: state.to_owned(), place })
        };
        return Some(text.lines().filter_map(|line| boxed(line.trim())).collect())
            .filter(|items: &Vec<_>| !items.is_empty());
    }
    let items = list.as_array()?.iter().filter_map(|item| {
        let text = word(item, &["content", "step", "text", "title", "description", "task", "subject"])?;
        let state = word(item, &["status", "state"]).unwrap_or_else(|| PENDING.to_owned());
        Some(PlanItem { text, state, place })
    });
    Some(items.collect())
}

fn word(value: &serde_json::Value, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match value.get(*key)? {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn open_items(plan: &[PlanItem]) -> Vec<OpenItem> {
    let open = plan.iter().filter(|item| !item.is_done());
    open.map(|item| OpenItem {
        description: item.text.clone(),
        context: String::new(),
        priority: if item.state == "in_progress" { Priority::High } else { Priority::Medium },
    })
    .collect()
}

fn note_result(
    items: &mut StructuredSummary,
    seen: &mut SeenItems<'_>,
    message: &Message,
    result: &ToolResult,
    ending: CallEnding,
    tools: &Tools,
) {
    let place = message.log_place();
    let call = seen.calls.get(&*result.call_id);
    let failed = ending.failed();
    let about = call.map_or_else(|| result.tool.to_string(), |(call, meaning)| subject(call, meaning));
    if let Some((_, CallMeaning { command: Some(command), .. })) = call {
        let (command, exit, ended) = (command.clone(), ending.exit, CommandEnding::of(ending, &result.text));
        note_state(items, &command, &result.text, ended, place);
        items.commands.push(CommandFact { command, exit, failed, ending: ended, place });
    }
    if tools.class(&result.tool) == Some(ToolClass::MemoryRead) {
        items.memory_reads.push(memory_read_of(call.map(|(call, _)| *call), result, place));
    }
    if failed {
        undo_changes(items, seen, &result.call_id, place);
        let line = error_line(&result.text).to_owned();
        seen.open_errors.entry(repaired_by(&about).to_owned()).or_default().push(items.errors.len());
        items.errors.push(ErrorFact { line, about, place, fixed: None, resolution: String::new() });
    } else if !still_runs(&result.text) {
        let repaired = repaired_by(&about).to_owned();
        for (_, errors) in seen.open_errors.extract_if(|failed, _| *failed == repaired || settles_git(&about, failed)) {
            for error in errors {
                let error = &mut items.errors[error];
                let changed = seen.changes.iter().filter(|(changed, ..)| *changed > error.place);
                error.resolution = resolution(changed.map(|(_, path, purpose)| (path.as_str(), purpose.as_deref())));
                error.fixed = Some(place);
            }
        }
    }
    note_outcome(items, message, result, ending, tools);
}

/// Returns the beginning of a subject that a success must share to count as its repair: of git, `git rebase`, whatever its options.
/// Other commands have to be the same, since another test that passes repairs none.
fn repaired_by(about: &str) -> &str {
    // Where a command is run, and which lines of its output are shown, is nothing of it.
    let about =
        about.strip_prefix("cd ").and_then(|rest| rest.split_once(" && ")).map_or(about, |(_, command)| command);
    let about = [" | ", " 2>&1", " > "].iter().fold(about, |rest, sign| rest.split(sign).next().unwrap_or(rest)).trim();
    let end = about.strip_prefix("git ").and_then(|rest| rest.find(' ')).map(|end| end + "git ".len());
    end.map_or(about, |end| &about[..end])
}

/// Tells whether a command of git could not have ended well while an earlier one was still in trouble: a commit settles a rebase that
/// stopped, and a push settles every one.
fn settles_git(about: &str, failed: &str) -> bool {
    let is_git = failed.starts_with("git ") || failed.contains("&& git ");
    is_git && (about.contains("git push") || about.contains("git commit") && !failed.contains("git push"))
}

/// Names what a call is about, so that a later success on the same subject counts as the fix of an earlier failure.
fn subject(call: &ToolCall, meaning: &CallMeaning) -> String {
    match (&meaning.command, meaning.paths.first()) {
        (Some(command), _) => first_line(command).to_owned(),
        (None, Some(path)) => format!("{} {path}", call.name),
        (None, None) => call.name.to_string(),
    }
}

fn note_outcome(
    items: &mut StructuredSummary,
    message: &Message,
    result: &ToolResult,
    ending: CallEnding,
    tools: &Tools,
) {
    let key_fields = tools.preserved_fields(result);
    if !key_fields.is_empty() {
        items.tool_outcomes.push(ToolOutcome {
            tool: result.tool.to_string(),
            outcome: ending.outcome,
            key_fields,
            error: ending.failed().then(|| error_line(&result.text).to_owned()),
            message: Some(message.id()),
        });
    }
}

fn note_words(items: &mut StructuredSummary, place: usize, message: &Message) {
    for text in message.texts().flat_map(|text| authored(message, text)) {
        if message.role() == Role::Assistant {
            for sentence in decisions(text) {
                let decision = sentence.to_owned();
                items.decisions.push(Decision { decision, rationale: String::new(), turn: message.turn(), place });
            }
        }
        if message.is_summary() || message.role() == Role::System {
            continue;
        }
        items.urls.extend(urls(text).map(|url| Quote { text: url.to_owned(), place }));
        let values = numbers(text).chain(ids(text));
        items.values.extend(values.map(|value| Quote { text: value.to_owned(), place }));
    }
}

/// Returns the pieces of a text that its message's author wrote: a harness's additions to a user's message are not theirs.
fn authored<'t>(message: &Message, text: &'t str) -> Vec<&'t str> {
    match message.role() {
        Role::User => own_words(text).collect(),
        _ => vec![text],
    }
}

/// Keeps each value once, where it was mentioned last.
fn keep_last_mentions(quotes: &mut Vec<Quote>) {
    let mut seen: HashSet<String> = HashSet::new();
    let mut kept: Vec<Quote> = quotes.drain(..).rev().filter(|quote| seen.insert(quote.text.clone())).collect();
    kept.reverse();
    *quotes = kept;
    keep_newest(quotes);
}

fn keep_newest<T>(items: &mut Vec<T>) {
    let late = items.len().saturating_sub(ITEMS_MAX);
    items.drain(..late);
}

pub(super) fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default().trim()
}

/// Returns the line of a failed call's output that says what went wrong.
fn error_line(output: &str) -> &str {
    let tells = |line: &&str| {
        let lower = line.to_lowercase();
        ["error", "failed", "panicked", "exception", "fatal", "not found", "denied", "cannot"]
            .iter()
            .any(|word| lower.contains(word))
    };
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines().find(tells).or_else(|| lines().next()).unwrap_or_default();
    &line[..line.floor_char_boundary(240)]
}

#[cfg(test)]
mod tests {
    use super::error_line;

    #[test]
    fn the_error_line_is_the_one_that_names_the_error() {
        assert_eq!(
            error_line("Exit code 1\nrunning\nerror: no such table: users\nmore"),
            "error: no such table: users"
        );
        assert_eq!(error_line("nur so"), "nur so");
    }
}
