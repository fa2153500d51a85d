//! A part of a text as a model reads it: what it is, the lines, and how to read on when it was cut.

use epitome::budget::{Characters, TokenCounter, Tokens, truncate};
use epitome_runtime::artifact::{Excerpt, ExcerptLimit, Text, TextMatch};
use epitome_runtime::engine::{Engine, EngineError};
use serde_json::json;

use super::Outcome;
use super::call::{ReadRequest, TextPart};
use super::reader::{ReadContent, Reader};

/// The tokens of the heading and of the line about reading on.
const FRAME: Tokens = Tokens::new(160);
/// However little may be shown, a part is never empty.
const ROOM_MIN: Tokens = Tokens::new(16);
/// The most characters of a line around one that was found.
const LINE_CHARS_MAX: usize = 400;

/// Reads what is wanted, within a number of tokens. A part that is not there is a failure that says so.
pub async fn read(
    engine: &Engine,
    reader: &mut Reader<'_>,
    max: Tokens,
    wanted: &ReadRequest,
) -> Result<Outcome, EngineError> {
    let target = &wanted.target;
    let ReadContent { text, media } = reader.read(target).await?;
    let page = TextPage { key: target.key(), id: &target.name(), text: &text, counter: &**engine.counter(), max };
    Ok(Outcome { media, ..page.part(&wanted.part) })
}

/// A text and how much of it may be shown.
struct TextPage<'a> {
    /// The argument that names it.
    key: &'static str,
    id: &'a str,
    text: &'a str,
    counter: &'a dyn TokenCounter,
    max: Tokens,
}

impl TextPage<'_> {
    fn part(&self, part: &TextPart) -> Outcome {
        match part {
            _ if self.text.is_empty() => Outcome::answer(format!("[{} is empty]", self.id)),
            TextPart::Lines { from, .. } if *from > self.line_count() => {
                Outcome::failure(format!("{} has {} lines; there is no line {from}.", self.id, self.line_count()))
            }
            TextPart::Lines { from, to } => self.excerpt(&Text::new(self.text).lines(*from..=*to, self.limit()), *to),
            TextPart::After { byte } if *byte >= self.text.len() => {
                Outcome::answer(format!("[{} ends at byte {}]", self.id, self.text.len()))
            }
            TextPart::After { byte } => self.excerpt(&Text::new(self.text).from_byte(*byte, self.limit()), usize::MAX),
            TextPart::Holding { text, context, from, to } => self.holding(text, *context, (*from, *to)),
        }
    }

    fn limit(&self) -> ExcerptLimit<'_> {
        ExcerptLimit { counter: self.counter, max: self.room() }
    }

    /// The tokens for the text itself.
    fn room(&self) -> Tokens {
        (self.max - FRAME).max(self.max.share(0.5)).max(ROOM_MIN)
    }

    fn line_count(&self) -> usize {
        Text::new(self.text).line_count()
    }

    fn excerpt(&self, part: &Excerpt, to: usize) -> Outcome {
        let (first, last, all) = (part.lines.start(), part.lines.end(), self.line_count());
        let heading = format!("[{}, lines {first}-{last} of {all}]", self.id);
        let body = part.text.strip_suffix('\n').unwrap_or(&part.text);
        Outcome::answer(if part.is_whole {
            format!("{heading}\n{body}")
        } else {
            format!("{heading}\n{body}\n{}", self.read_on(part, to))
        })
    }

    /// Says how to read on: from the next line, or inside one that is too long.
    fn read_on(&self, part: &Excerpt, to: usize) -> String {
        let end = part.bytes.end;
        if !part.text.ends_with('\n') {
            let call = json!({self.key: self.id, "byte": end});
            let (line, all) = (part.lines.end(), self.text.len());
            return format!("[cut inside line {line}, at byte {end} of {all}; read on with {call}]");
        }
        let mut call = json!({self.key: self.id, "from": part.lines.end() + 1});
        if to < self.line_count() {
            call["to"] = json!(to);
        }
        format!("[cut; read on with {call}]")
    }

    /// The lines that hold a text, each with some around it.
    fn holding(&self, wanted: &str, context: usize, (from, to): (usize, usize)) -> Outcome {
        let all = ExcerptLimit { counter: &Characters::Four, max: Tokens::new(u64::MAX / 2) };
        let hits: Vec<TextMatch> = Text::new(self.text)
            .grep(wanted, all)
            .shown
            .into_iter()
            .filter(|hit| (from..=to).contains(&hit.line))
            .collect();
        if hits.is_empty() {
            let (id, all) = (self.id, self.line_count());
            return Outcome::answer(format!("[{id}: none of the lines that were looked at holds that; it has {all}]"));
        }
        let (shown, body) = self.fitting(&hits, context);
        let heading = format!("[{}, {} of {} matching lines]", self.id, shown, hits.len());
        Outcome::answer(match hits.get(shown) {
            None => format!("{heading}\n{body}"),
            Some(next) => {
                let mut call = json!({self.key: self.id, "grep": wanted, "from": next.line});
                if context > 0 {
                    call["context"] = json!(context);
                }
                if to < self.line_count() {
                    call["to"] = json!(to);
                }
                format!("{heading}\n{body}\n[cut; read on with {call}]")
            }
        })
    }

    /// As many of the hits as there is room for, and how they read.
    fn fitting(&self, hits: &[TextMatch], context: usize) -> (usize, String) {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut blocks: Vec<String> = Vec::new();
        let (mut left, mut last) = (self.room(), 0);
        for (at, hit) in hits.iter().enumerate() {
            let next = hits.get(at + 1).map_or(usize::MAX, |next| next.line);
            let block = block(&lines, hit, context, last, next);
            let cost = self.counter.count(&block) + Tokens::new(1);
            if cost > left {
                break;
            }
            left -= cost;
            last = (hit.line + context).min(next - 1);
            blocks.push(block);
        }
        // Counts do not add up, so what is shown is counted once more as a whole.
        while self.counter.count(&blocks.join("\n")) > self.room() && blocks.pop().is_some() {}
        if blocks.is_empty() {
            (1, truncate(self.counter, &format!("{}: {}", hits[0].line, hits[0].text), self.room()).to_owned())
        } else {
            (blocks.len(), blocks.join("\n"))
        }
    }
}

/// A hit with the lines around it that are not shown already: those after `last`, and before the next hit.
fn block(lines: &[&str], hit: &TextMatch, context: usize, last: usize, next: usize) -> String {
    let first = hit.line.saturating_sub(context).max(last + 1);
    let end = hit.line.saturating_add(context).min(next - 1).min(lines.len());
    let gap = if context > 0 && last > 0 && first > last + 1 { "--\n" } else { "" };
    let shown = |number: usize| match number == hit.line {
        true => format!("{number}: {}", hit.text),
        false => format!("{number}- {}", cut(lines[number - 1])),
    };
    format!("{gap}{}", (first..=end).map(shown).collect::<Vec<_>>().join("\n"))
}

/// The beginning of a line.
fn cut(line: &str) -> &str {
    line.char_indices().nth(LINE_CHARS_MAX).map_or(line, |(end, _)| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_its_characters_in_any_script() {
        for letter in ["a", "ä", "語", "🌊"] {
            assert_eq!(cut(&letter.repeat(LINE_CHARS_MAX + 1)), letter.repeat(LINE_CHARS_MAX));
            assert_eq!(cut(&letter.repeat(LINE_CHARS_MAX)).chars().count(), LINE_CHARS_MAX);
        }
    }
}
