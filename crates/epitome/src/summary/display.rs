//! The display summary: two sentences for a list of threads or a notice to a person.
//!
//! It quotes what the summary holds, in whatever language that is; it does not translate, rank or leave the room it is
//! given. No model reads it.

use super::fence::one_line;
use super::{OpenItem, RequestState, StructuredSummary};

/// A length that fits a notice.
pub const DISPLAY_CHARS_MAX: usize = 280;

/// The shortest room in which two sentences can still say something.
const CHARS_MIN: usize = 80;

/// Two sentences: what was asked, then what was done and what is open. At most `chars_max` characters, 80 at least.
pub fn display(summary: &StructuredSummary, chars_max: usize) -> String {
    let share = (chars_max.max(CHARS_MIN) - "Asked: “”. Done: “”; open: “”.".chars().count()) / 3;
    let quoted = |text: Option<&str>, none: &str| match text.map(|text| bare(text, share)) {
        Some(text) if !text.is_empty() => format!("“{text}”"),
        _ => none.to_owned(),
    };
    let done = match done(summary) {
        Some(text) => quoted(Some(text), "nothing"),
        None => one_line(&deeds(summary), share),
    };
    format!("Asked: {}. Done: {done}; open: {}.", quoted(asked(summary), "nothing"), quoted(open(summary), "nothing"))
}

fn asked(summary: &StructuredSummary) -> Option<&str> {
    let newest = summary.requests.iter().rev().find(|request| request.state == RequestState::Open);
    let newest = newest.or(summary.requests.last()).map(|request| request.text.as_str());
    let turn = summary.turn_context.as_ref().map(|turn| turn.request.text.as_str());
    turn.or(newest).or(summary.current_task.as_ref().map(|task| task.text.as_str()))
}

fn done(summary: &StructuredSummary) -> Option<&str> {
    let turn = summary.turn_context.as_ref().and_then(|turn| turn.progress.last());
    let plan = summary.current_plan.iter().rev().find(|item| item.is_done()).map(|item| item.text.as_str());
    let decision = summary.decisions.last().map(|decision| decision.decision.as_str());
    turn.or(summary.facts.last()).map(|fact| fact.text.as_str()).or(plan).or(decision)
}

/// What was done, counted, where nothing says it in words.
fn deeds(summary: &StructuredSummary) -> String {
    let counted = |count: usize, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    let changed = summary.files.iter().filter(|file| file.deed() != "read").count();
    let deeds = [
        counted(changed, "file changed", "files changed"),
        counted(summary.files.len() - changed, "file read", "files read"),
        counted(summary.commands.len(), "command run", "commands run"),
    ];
    let deeds: Vec<String> = deeds.into_iter().flatten().collect();
    if deeds.is_empty() { "nothing".into() } else { deeds.join(", ") }
}

fn open(summary: &StructuredSummary) -> Option<&str> {
    let item = summary
        .open_items
        .iter()
        .min_by_key(|item| item.priority)
        .map(|OpenItem { description, .. }| description.as_str());
    let plan = summary.current_plan.iter().find(|item| !item.is_done()).map(|item| item.text.as_str());
    let error = summary.errors.iter().rev().find(|error| error.fixed.is_none()).map(|error| error.line.as_str());
    item.or(plan).or(error)
}

/// A text on one line without the marks that would end our sentence or our quotation.
fn bare(text: &str, chars_max: usize) -> String {
    let text = text.trim().trim_end_matches(['.', '!', '。', '！', '।', '؟', '?', '？', '…']);
    one_line(&text.replace(['“', '”'], "\""), chars_max)
}

#[cfg(test)]
mod tests {
    use super::{DISPLAY_CHARS_MAX, display};
    use crate::summary::{FileFact, OpenItem, Priority, Quote, RequestState, StructuredSummary, UserRequest};

    fn quote(text: &str) -> Quote {
        Quote { text: text.into(), place: 0 }
    }

    fn summary(asked: &str, done: &str, open: &str) -> StructuredSummary {
        let request = UserRequest { text: asked.into(), place: 0, turn: 1, state: RequestState::Open };
        let item = OpenItem { description: open.into(), context: String::new(), priority: Priority::High };
        let later = OpenItem { description: "later".into(), context: String::new(), priority: Priority::Low };
        StructuredSummary {
            requests: vec![request],
            facts: vec![quote(done)],
            open_items: vec![later, item],
            ..Default::default()
        }
    }

    #[test]
    fn two_sentences_quote_any_language() {
        let cases = [
            (
                summary("Fix the login.", "Token refresh\nrepaired", "Write tests!"),
                "Asked: “Fix the login”. Done: “Token refresh repaired”; open: “Write tests”.",
            ),
            (
                summary("ログインを直して。", "原因を特定した", "テストを書く"),
                "Asked: “ログインを直して”. Done: “原因を特定した”; open: “テストを書く”.",
            ),
            (summary("أصلح تسجيل الدخول؟", "تم", "“x”"), "Asked: “أصلح تسجيل الدخول”. Done: “تم”; open: “\"x\"”."),
        ];
        for (summary, expected) in cases {
            assert_eq!(display(&summary, DISPLAY_CHARS_MAX), expected);
        }
    }

    #[test]
    fn an_empty_summary_says_so_and_deeds_are_counted_where_no_words_tell() {
        let mut summary = StructuredSummary::default();
        assert_eq!(display(&summary, 280), "Asked: nothing. Done: nothing; open: nothing.");
        summary.files = vec![FileFact { path: "a".into(), read: None, written: Some(3), patched: None }];
        summary.current_task = Some(quote("Écris le README"));
        assert_eq!(display(&summary, 280), "Asked: “Écris le README”. Done: 1 file changed; open: nothing.");
    }

    #[test]
    fn it_never_outgrows_its_room() {
        let long = "長い文章です。 and more words ".repeat(100);
        for chars_max in [80, 120, 280] {
            assert!(display(&summary(&long, &long, &long), chars_max).chars().count() <= chars_max, "{chars_max}");
        }
    }
}
