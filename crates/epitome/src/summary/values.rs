//! Values: numbers with the names they belong to, ids and URLs, as people and agents wrote them.

/// The longest pair that is taken for a value.
const PAIR_BYTES_MAX: usize = 80;
/// Shorter and longer words are not ids.
const ID_BYTES_MIN: usize = 6;
const ID_BYTES_MAX: usize = 64;

/// Returns the `name: 30`, `name = 30` and `name=30` pairs of a text.
pub(super) fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices([':', '=']).filter_map(|(sign, _)| pair(text, sign))
}

fn pair(text: &str, sign: usize) -> Option<&str> {
    let (before, after) = (&text[..sign], &text[sign + 1..]);
    let name = before.trim_end_matches([' ', '`', '"', '*']);
    let start = name
        .rfind(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)))
        .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    let value = after.trim_start_matches([' ', '`', '"', '*']);
    let digits = value.find(|c: char| !(c.is_ascii_digit() || ".,_".contains(c))).unwrap_or(value.len());
    let number = value[..digits].trim_end_matches(['.', ',']);
    let named = name[start..].chars().any(char::is_alphabetic);
    if !named || !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let end = sign + 1 + (after.len() - value.len()) + number.len();
    // A unit or a percent sign belongs to its number.
    let unit = text[end..].find(|c: char| !(c.is_alphabetic() || c == '%')).unwrap_or(text.len() - end);
    let end = if unit <= 4 { end + unit } else { end };
    text.get(start..end).filter(|pair| pair.len() <= PAIR_BYTES_MAX && !pair.contains('\n'))
}

/// Returns the words of a text that identify something: `3f9a1c7`, `A1B2C3`, `ENT-221`.
pub(super) fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).filter(|word| is_id(word))
}

fn is_id(word: &str) -> bool {
    let word = word.trim_matches(['-', '_']);
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let ticket = word.split_once('-').is_some_and(|(left, right)| {
        left.len() >= 2
            && left.bytes().all(|b| b.is_ascii_uppercase())
            && right.bytes().all(|b| b.is_ascii_digit())
            && !right.is_empty()
    });
    ticket || ((ID_BYTES_MIN..=ID_BYTES_MAX).contains(&word.len()) && digits >= 2 && letters >= 1)
}

/// Returns the URLs in a text.
pub(super) fn urls(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("http").filter(|(at, _)| {
        let rest = &text[*at..];
        rest.starts_with("http://") || rest.starts_with("https://")
    });
    starts.map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| c.is_whitespace() || "\"'<>)]}`|\\".contains(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', ',', ';', ':'])
    })
}

#[cfg(test)]
mod tests {
    use super::{ids, numbers};

    #[test]
    fn numbers_keep_the_names_they_belong_to() {
        let cases: [(&str, &[&str]); 5] = [
            ("set timeout: 30s and retries=5.", &["timeout: 30s", "retries=5"]),
            ("`max_tokens` = 8192", &["max_tokens` = 8192"]),
            ("端口: 8080", &["端口: 8080"]),
            ("see http://x:y and 12:30", &[]),
            ("no numbers: here", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(numbers(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn ids_are_words_that_only_one_thing_is_called() {
        let text = "Order A1B2C3 (ENT-221) in commit 3f9a1c7, not in the year 2024 or utf-8";
        assert_eq!(ids(text).collect::<Vec<_>>(), ["A1B2C3", "ENT-221", "3f9a1c7"]);
    }
}
