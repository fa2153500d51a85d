//! What a person says inside a tool result: the words with which they rejected a call, and their answers to an agent's questions.
//!
//! ```text
//! The user doesn't want to proceed with this tool use. […] the user said:      ─► rejects the call:  "use the helper"
//! use the helper
//! User has answered your questions: "Which PR?"="#325". You can now continue   ─► "Which PR?"        "#325"
//! ```
//!
//! The marks are those of `data/harness.toml`. A result that only quotes such a mark somewhere is a tool's, and so is all of it.

use super::harness::result_marks;

/// Words of a person in a tool result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaidInResult<'t> {
    /// The question that they answer; `None` where they reject the call.
    pub(crate) question: Option<&'t str>,
    /// The words.
    pub(crate) words: &'t str,
}

/// Returns what a person says in a tool result, in its order.
pub(crate) fn said_in_result(text: &str) -> Vec<SaidInResult<'_>> {
    let marks = result_marks();
    let text = text.trim_start();
    let text = text.strip_prefix("Error: ").unwrap_or(text);
    if let Some(mark) = marks.answers.prefixes_of(text).next() {
        return answers(&text[mark.len()..]);
    }
    if !marks.rejected.starts(text) {
        return Vec::new();
    }
    let words = marks.said.iter().filter_map(|mark| text.split_once(mark)).map(|(_, words)| words);
    let Some(words) = words.min_by_key(|words| std::cmp::Reverse(words.len())) else { return Vec::new() };
    let end = marks.after.iter().filter_map(|mark| words.find(mark)).min().unwrap_or(words.len());
    let words = words[..end].trim().trim_start_matches("<feedback>").trim();
    if words.is_empty() { Vec::new() } else { vec![SaidInResult { question: None, words }] }
}

/// Tells whether a tool result says that the user rejected the call.
pub(crate) fn is_rejected(text: &str) -> bool {
    let text = text.trim_start();
    result_marks().rejected.starts(text.strip_prefix("Error: ").unwrap_or(text))
}

/// Parses `"question"="answer", "question"="answer". …`. Quotes inside are not escaped, so only the signs around tell where one ends.
fn answers(text: &str) -> Vec<SaidInResult<'_>> {
    let mut said = Vec::new();
    let mut rest = text;
    while let Some((question, after)) =
        rest.trim_start_matches([',', ' ']).strip_prefix('"').and_then(|rest| rest.split_once("\"=\""))
    {
        let end = ["\", \"", "\". ", "\" "].iter().filter_map(|sign| after.find(sign)).min();
        let end = end.unwrap_or_else(|| after.trim_end().trim_end_matches('.').trim_end_matches('"').len());
        let words = after[..end].trim();
        if !words.is_empty() {
            said.push(SaidInResult { question: Some(question.trim()), words });
        }
        rest = after.get(end + 1..).unwrap_or_default();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::said_in_result;

    /// A result's text, and the questions and words that are found in it.
    type Case<'a> = (&'a str, &'a [(Option<&'a str>, &'a str)]);

    #[test]
    fn a_persons_words_are_found_in_rejections_and_answers_and_nowhere_else() {
        let cases: [Case<'_>; 8] = [
            (
                "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, the user said:\nuse the helper",
                &[(None, "use the helper")],
            ),
            (
                "The user doesn't want to proceed with this tool use. The tool use was rejected. STOP what you are doing and wait.",
                &[],
            ),
            (
                "Error: The user rejected permission to use this specific tool call with the following feedback: not on main",
                &[(None, "not on main")],
            ),
            (
                "The user denied this operation and provided the following feedback:\n<feedback>\nuse pnpm\n</feedback>",
                &[(None, "use pnpm")],
            ),
            (
                "User has answered your questions: \"Which PR?\"=\"#325\". You can now continue.",
                &[(Some("Which PR?"), "#325")],
            ),
            (
                "User has answered your questions: \"Which?\"=\"A\", \"Where?\"=\"in \"src\"\". You can now continue.",
                &[(Some("Which?"), "A"), (Some("Where?"), "in \"src\"")],
            ),
            ("log: The user doesn't want to proceed with this tool use. the user said:\nx", &[]),
            ("ok", &[]),
        ];
        for (text, expected) in cases {
            let said: Vec<_> = said_in_result(text).iter().map(|said| (said.question, said.words)).collect();
            assert_eq!(said, expected, "{text}");
        }
    }
}
