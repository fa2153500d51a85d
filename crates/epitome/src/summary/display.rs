//! The display summary: two sentences for lists of threads, written by code.

use super::clip::one_line;
use super::parse::SHORT_BYTES_MAX;
use super::structured::{RequestContext, RequestState, StructuredSummary};

/// The most characters of each sentence.
const SENTENCE_CHARS_MAX: usize = 160;

impl StructuredSummary {
    /// Returns two sentences for people who look for a thread: what it is about, and how things stand.
    pub fn display(&self) -> String {
        let sentences = [self.subject(), self.standing()];
        sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Returns what the thread is about: the goal in a model's words, else the newest request that says so.
    fn subject(&self) -> Option<String> {
        let stands = self.requests.iter().filter(|own| own.state != RequestState::Superseded);
        let own: Vec<&str> =
            stands.filter(|own| own.context != Some(RequestContext::Retold)).map(|own| own.text.as_str()).collect();
        // "yes" and "go on" are about nothing.
        let told = own.iter().rev().find(|text| text.len() > SHORT_BYTES_MAX).or(own.first());
        self.goal.as_deref().or(told.copied()).map(sentence)
    }

    /// Returns how things stand: a model's newest finding, else the newest outcome, else the file that was touched last.
    fn standing(&self) -> Option<String> {
        let outcome = self.state.iter().max_by_key(|line| line.place).map(super::work_state::StateLine::text);
        let touched = self.files.iter().max_by_key(|file| file.last_touched());
        let touched = touched.map(|file| format!("Last {} {}", file.last_action(), file.path));
        self.facts.last().map(|fact| fact.text.clone()).or(outcome).or(touched).as_deref().map(sentence)
    }
}

/// Makes a sentence of a text's first line.
fn sentence(text: &str) -> String {
    let line = one_line(text.trim().lines().next().unwrap_or_default(), SENTENCE_CHARS_MAX);
    let is_ended = line.ends_with(['.', '!', '?', '…', '。', '！', '？', ')']);
    if is_ended || line.is_empty() { line } else { format!("{line}.") }
}

#[cfg(test)]
mod tests {
    use crate::policy::Tools;
    use crate::summary::extract;
    use crate::summary::testing::thread;

    #[test]
    fn a_thread_is_shown_by_what_it_is_about_and_how_things_stand() {
        let cases = [
            (
                "user: Add rounding to the cart's total in src/cart.go\\nand test it\ncall bash: {\"command\":\"go test ./...\"}\nresult bash: ok\nuser: yes",
                "Add rounding to the cart's total in src/cart.go. Tests: `go test ./...` passed.",
            ),
            ("user: Bonjour\nassistant: oui", "Bonjour."),
            ("assistant: x", ""),
        ];
        for (lines, expected) in cases {
            let thread = thread(lines);
            let items = extract(&thread, 0..thread.len(), &Tools::default());
            assert_eq!(items.display(), expected, "{lines}");
        }
        let items = crate::summary::StructuredSummary {
            goal: Some("Ship it".into()),
            facts: vec![crate::summary::Quote { text: "All is green. (m4)".into(), place: 3 }],
            ..Default::default()
        };
        assert_eq!(items.display(), "Ship it. All is green. (m4)");
    }
}
