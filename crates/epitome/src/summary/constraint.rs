//! Constraints and decisions: sentences that bind.
//!
//! Found by words of obligation in the languages people write to agents in. A constraint is always the user's own
//! sentence, whole; nothing is rephrased.

/// Shorter sentences bind nothing.
const SENTENCE_CHARS_MIN: usize = 6;
/// Longer ones are prose.
const SENTENCE_CHARS_MAX: usize = 300;

/// Words of obligation, each to be found as a whole word (or words) in lower-case text.
const BINDING: [&str; 62] = [
    // English
    "never",
    "always",
    "must",
    "mustn't",
    "don't",
    "do not",
    "dont",
    "make sure",
    "avoid",
    "only",
    "forbidden",
    "not allowed",
    "from now on",
    "no matter what",
    "under no circumstances",
    "required",
    "prefer",
    "remember",
    "instead of",
    "at most",
    "at least",
    "without",
    "cannot",
    "can't use",
    "should not",
    "shouldn't",
    "stop using",
    "keep the",
    // German
    "nie",
    "niemals",
    "immer",
    "muss",
    "müssen",
    "darf",
    "dürfen",
    "auf keinen fall",
    "nur",
    "unbedingt",
    "ohne",
    // French
    "jamais",
    "toujours",
    "doit",
    "doivent",
    "il faut",
    "uniquement",
    "sans",
    "évite",
    "n'utilise",
    // Spanish, Portuguese, Italian
    "nunca",
    "siempre",
    "debe",
    "sempre",
    "deve",
    "solo",
    "sin",
    "sem",
    "mai",
    "soltanto",
    // Russian
    "никогда",
    "всегда",
    "нельзя",
    "обязательно",
];
/// Words of obligation in scripts without spaces, or glued to others: found anywhere.
const BINDING_ANYWHERE: [&str; 26] = [
    "不要",
    "必须",
    "必須",
    "永远",
    "总是",
    "禁止",
    "只能",
    "不能",
    "务必",
    "请勿",
    "不得",
    "不许",
    "ないで",
    "必ず",
    "絶対",
    "のみ",
    "いけない",
    "してはなら",
    "절대",
    "항상",
    "반드시",
    "하지 마",
    "금지",
    "말아",
    "يجب",
    "कभी नहीं",
];
/// Words with which an agent announces what it decided.
const DECIDING: [&str; 12] = [
    "decided to",
    "decided not to",
    "decided against",
    "decision:",
    "going with",
    "let's go with",
    "we chose",
    "i chose",
    "the root cause is",
    "the fix is",
    "entschieden",
    "решил",
];

/// The sentences of a user's message that bind.
pub fn constraints(text: &str) -> impl Iterator<Item = &str> {
    sentences(text).filter(|sentence| binds(sentence))
}

/// The sentences of an agent's message that tell a decision.
pub fn decisions(text: &str) -> impl Iterator<Item = &str> {
    sentences(text).filter(|sentence| {
        let lower = sentence.to_lowercase();
        DECIDING.iter().any(|words| has_words(&lower, words))
    })
}

fn binds(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    BINDING.iter().any(|words| has_words(&lower, words)) || BINDING_ANYWHERE.iter().any(|word| lower.contains(word))
}

/// Whether a text holds some words, not as a piece of longer ones.
fn has_words(text: &str, words: &str) -> bool {
    // Looking whether they are there at all is much faster than looking where.
    text.contains(words)
        && text.match_indices(words).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
}

/// The sentences of a text: up to a full stop, an exclamation or question mark, or a line's end.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(split_line).map(str::trim).filter(|sentence| {
        let chars = sentence.chars().count();
        (SENTENCE_CHARS_MIN..=SENTENCE_CHARS_MAX).contains(&chars)
            || (chars > 3 && !sentence.is_ascii() && chars <= SENTENCE_CHARS_MAX)
    })
}

fn split_line(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (sentence, more) = rest.split_at(sentence_end(rest));
        rest = more;
        Some(sentence)
    })
}

fn sentence_end(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let full_stop = matches!(c, '.' | '!' | '?') && next.is_none_or(char::is_whitespace);
        if full_stop || matches!(c, '。' | '！' | '？' | '।') {
            return at + c.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::constraints;

    fn check(text: &str, expect: &[&str]) {
        assert_eq!(constraints(text).collect::<Vec<_>>(), expect, "{text:?}");
    }

    #[test]
    fn a_users_binding_sentences_are_found_whole_in_many_languages() {
        check("Fix the parser. Never touch vendor/. Thanks!", &["Never touch vendor/."]);
        check("please use tabs, but only in Makefiles", &["please use tabs, but only in Makefiles"]);
        check("Bitte niemals auf main pushen. Danke", &["Bitte niemals auf main pushen."]);
        check("不要修改生产数据库。谢谢", &["不要修改生产数据库。"]);
        check("本番のデータは絶対に消さないでください。", &["本番のデータは絶対に消さないでください。"]);
        check("Никогда не трогай config.yaml! Потом тесты.", &["Никогда не трогай config.yaml!"]);
        check("the lonely mustache neverland", &[]);
        check("v1.2.3 is out", &[]);
    }
}
