//! The lines that a prompt holds, so that a search does not return them once more.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use epitome::files::without_gutter;
use epitome::plan::{Action, Compaction};
use epitome::thread::Thread;

use crate::log::part_words;

/// Shorter lines, such as brackets, are in every prompt.
const LINE_BYTES_MIN: usize = 4;

/// The lines of a prompt, by their hashes.
#[derive(Clone, Debug, Default)]
pub struct PromptLines(HashSet<u64, BuildHasherDefault<DefaultHasher>>);

impl PromptLines {
    /// The lines of the prompt of a thread under a compaction: its summaries, and whatever no record takes out.
    pub fn of(thread: &Thread, compaction: Option<&Compaction>) -> PromptLines {
        let mut lines = PromptLines::default();
        let records = compaction.map(|compaction| &compaction.plan.records[..]).unwrap_or_default();
        let mut is_out = vec![false; thread.len()];
        let mut parts_out = HashSet::new();
        for record in records {
            match (record.part, &record.action) {
                (Some(part), _) => {
                    parts_out.insert((part.place, part.part));
                }
                (None, action) => {
                    let kept = if let Action::Summarize { kept, .. } = action { &kept[..] } else { &[] };
                    for place in record.span.range().filter(|place| *place < thread.len()) {
                        is_out[place] |= !kept.contains(&thread.message(place).id());
                    }
                }
            }
        }
        for (place, message) in thread.messages().iter().enumerate().filter(|(place, _)| !is_out[*place]) {
            for (at, part) in message.parts().iter().enumerate() {
                if !parts_out.contains(&(place, at)) {
                    part_words(part).into_iter().for_each(|words| lines.add(&words));
                }
            }
        }
        for summary in compaction.iter().flat_map(|compaction| &compaction.summaries) {
            lines.add(&summary.text);
        }
        lines
    }

    /// The lines of texts that stand in a prompt.
    pub fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> PromptLines {
        let mut lines = PromptLines::default();
        texts.into_iter().for_each(|text| lines.add(text));
        lines
    }

    fn add(&mut self, text: &str) {
        for line in text.lines().map(bare).filter(|line| line.len() >= LINE_BYTES_MIN) {
            self.0.insert(self.0.hasher().hash_one(line));
            // A summary tells a message with its number before it: `m38: The error is in total().`
            if let Some((_, said)) = line.split_once(": ").filter(|(number, _)| is_number(number)) {
                self.0.insert(self.0.hasher().hash_one(said));
            }
        }
    }

    /// Tells whether every line of a text that says something stands in the prompt.
    pub fn holds(&self, text: &str) -> bool {
        let mut lines = text.lines().map(bare).filter(|line| line.len() >= LINE_BYTES_MIN).peekable();
        lines.peek().is_some() && lines.all(|line| self.0.contains(&self.0.hasher().hash_one(line)))
    }
}

fn bare(line: &str) -> &str {
    without_gutter(line).trim()
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('m').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::PromptLines;

    #[test]
    fn a_text_is_in_the_prompt_when_all_its_telling_lines_are() {
        let lines = PromptLines::of_texts(["fn total() {\n    self.sum()\n}", "m38: The error is in total()."]);
        for (text, held) in [
            ("    12\tfn total() {\n    13\t    self.sum()\n    14\t}", true),
            ("The error is in total().", true),
            ("fn total() {\n    self.sum() + 1\n}", false),
            ("}", false),
            ("", false),
        ] {
            assert_eq!(lines.holds(text), held, "{text}");
        }
    }
}
