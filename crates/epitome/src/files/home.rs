//! Homes: the function, type, test or section that a line of a text belongs to.
//!
//! Told by indentation and by the words that open definitions in common languages; no language is parsed.

use super::printed::without_gutter;

/// Returns the definition, the heading or the top-level statement that a line of a text belongs to: the nearest one above it that is less
/// indented.
pub fn home_of<'a>(text: &'a str, line: &str) -> Option<&'a str> {
    let at = (line.as_ptr() as usize).checked_sub(text.as_ptr() as usize).filter(|at| *at <= text.len())?;
    let from = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let own = text[from..].lines().next().map(without_gutter).map_or(0, indent);
    let mut most = own;
    for above in text[..from].lines().rev().take(HOME_LINES_MAX).map(without_gutter) {
        let trimmed = above.trim();
        if trimmed.is_empty() {
            continue;
        }
        let depth = indent(above);
        if trimmed.starts_with('#') && is_definition(trimmed) && depth <= own || depth < most && is_definition(trimmed)
        {
            return Some(trimmed).filter(|home| home.len() <= HOME_BYTES_MAX);
        }
        if depth == 0 && own > 0 {
            match top_level(trimmed) {
                TopLevel::Aside => {}
                TopLevel::Opens => return Some(trimmed).filter(|home| home.len() <= HOME_BYTES_MAX),
                TopLevel::Ends => return None,
            }
        }
        most = most.min(depth.max(1));
    }
    None
}

/// What a line in the first column that defines nothing means for an indented line below it.
enum TopLevel {
    /// A comment, a decorator, or the end of a signature over several lines.
    Aside,
    /// The statement that the line is part of: `RULES = {`.
    Opens,
    /// What stands above is over.
    Ends,
}

fn top_level(line: &str) -> TopLevel {
    let is_opening = line.ends_with(['{', '(', '[', ':', '=']);
    let is_comment = ["//", "/*", "*", "#", "--", "@", "\"\"\""].iter().any(|mark| line.starts_with(mark));
    match line.starts_with([')', '}', ']']) {
        _ if is_comment => TopLevel::Aside,
        true if is_opening => TopLevel::Aside,
        false if is_opening => TopLevel::Opens,
        _ => TopLevel::Ends,
    }
}

/// How far above a line its definition is looked for, and the longest one that is shown.
const HOME_LINES_MAX: usize = 400;
const HOME_BYTES_MAX: usize = 160;

fn indent(line: &str) -> usize {
    line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).map(|byte| if byte == b'\t' { 4 } else { 1 }).sum()
}

/// Tells whether a line opens a definition, a test or a section: `func (c *Cart) Total() int {`, `def total(self):`, `## Totals`.
pub(crate) fn is_definition(line: &str) -> bool {
    if line.starts_with('#') {
        return line.trim_start_matches('#').starts_with(' ') && !line.ends_with(';');
    }
    let skip = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "export",
        "default",
        "async",
        "static",
        "public",
        "private",
        "protected",
        "final",
        "abstract",
        "unsafe",
        "const",
        "override",
    ];
    let opens = [
        "fn",
        "func",
        "def",
        "class",
        "impl",
        "struct",
        "enum",
        "trait",
        "interface",
        "type",
        "function",
        "module",
        "mod",
        "namespace",
        "describe",
        "it",
        "test",
    ];
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || "_()".contains(c))).filter(|word| !word.is_empty());
    let word = words.find(|word| !skip.contains(word)).unwrap_or_default();
    let word = word.split('(').next().unwrap_or_default();
    opens.contains(&word) && line.contains(' ')
}

/// Returns the name that a definition gives: `Total` of `func (c *Cart) Total() int {`, `Cart` of `struct Cart {`.
pub(crate) fn definition_name(line: &str) -> Option<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = line.match_indices('(').map(|(at, _)| &line[..at]);
    let before_arguments = before.find(|before| before.ends_with(is_name) && *before != "pub");
    let named = match before_arguments {
        Some(before) => before,
        // A type: its name is the second word, after what opens it.
        None => line.trim_end_matches(|c: char| !is_name(c)).split([':', '<', '{']).next()?.trim(),
    };
    named.rsplit(|c: char| !is_name(c)).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{definition_name, home_of};

    #[test]
    fn a_definition_gives_a_name() {
        let cases = [
            ("func (c *Cart) Total(round bool) (int, error) {", Some("Total")),
            ("pub(crate) fn total(&self) -> Cents {", Some("total")),
            ("def total(self):", Some("total")),
            ("class Cart:", Some("Cart")),
            ("struct Cart {", Some("Cart")),
            ("## Rounding", Some("Rounding")),
            ("{", None),
        ];
        for (line, expected) in cases {
            assert_eq!(definition_name(line), expected, "{line}");
        }
    }

    #[test]
    fn a_line_belongs_to_the_nearest_definition_or_heading_above_it() {
        let rust =
            "impl Cart {\n    fn total(&self) -> Cents {\n        let sum = 1;\n        sum\n    }\n}\nfn other() {}\n";
        let python = "class Cart:\n    def total(self):\n        for line in self.lines:\n            add(line)\n";
        let numbered = "    1\tfunc Total() int {\n    2\t\treturn sum\n    3\t}\n";
        let table = "def senior(fare):\n    return fare\n\nRULES = {\n    \"senior\": senior,\n}\n\ndef price(\n    start, end\n) -> Fare:\n    total = 0\n";
        let page = "# Totals\nwords\n\n## Rounding\n- half up\n";
        for (text, line, home) in [
            (rust, "let sum", Some("fn total(&self) -> Cents {")),
            (rust, "fn total", Some("impl Cart {")),
            (rust, "fn other", None),
            (python, "add(line)", Some("def total(self):")),
            (numbered, "return sum", Some("func Total() int {")),
            (table, "return fare", Some("def senior(fare):")),
            (table, "\"senior\": senior", Some("RULES = {")),
            (table, "total = 0", Some("def price(")),
            (page, "half up", Some("## Rounding")),
            (page, "words", Some("# Totals")),
            ("plain words\nand more", "more", None),
        ] {
            let at = text.find(line).expect("it is in the text");
            assert_eq!(home_of(text, &text[at..at + line.len()]), home, "{line}");
        }
    }
}
