//! The public byte-pair tokenizers o200k and cl100k: exact counts, loaded once, safe on any text.
//!
//! Special tokens such as `<|endoftext|>` are counted as the ordinary text they are when a tool prints them. Text longer
//! than [`BLOCK_BYTES`] is counted in blocks cut where a piece must end anyway, which changes nothing. Only where a
//! whole block offers no such place (a megabyte of one letter) is it cut through a piece; each of those cuts adds
//! [`SEAM_TOKENS`], so the count is then an upper bound and not exact. Both keep counting linear in the text.
//!
//! This file refuses to give out token ids: nobody here needs them, and a cut at an id may fall inside a character.

use tiktoken::CoreBpe;

use super::tokens::{CountSource, TokenCounter, Tokens};

/// The longest stretch of text that is tokenized at once.
const BLOCK_BYTES: usize = 64 * 1024;

/// What a cut through the middle of a piece can hide. Merges reach a few tokens back from a cut; this is generous.
const SEAM_TOKENS: usize = 8;

/// A public byte-pair tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bpe {
    /// `o200k_base`: GPT-4o and later, the o-series, GPT-5.
    O200k,
    /// `cl100k_base`: GPT-4, GPT-4 Turbo, GPT-3.5.
    Cl100k,
}

impl TokenCounter for Bpe {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(count_in_blocks(self.vocabulary(), text, BLOCK_BYTES) as u64)
    }

    fn seam(&self, text: &str) -> usize {
        match text.len() {
            0 => 0,
            // Longer text is counted in blocks, whose seams depend on where it starts.
            len if len > BLOCK_BYTES => 0,
            len => forced_boundary(text, len - 1).unwrap_or(0),
        }
    }

    fn source(&self) -> CountSource {
        CountSource::Exact
    }

    fn name(&self) -> &str {
        match self {
            Bpe::O200k => "o200k",
            Bpe::Cl100k => "cl100k",
        }
    }
}

impl Bpe {
    fn vocabulary(self) -> &'static CoreBpe {
        let name = match self {
            Bpe::O200k => "o200k_base",
            Bpe::Cl100k => "cl100k_base",
        };
        tiktoken::get_encoding(name).expect("both vocabularies are compiled in")
    }
}

fn count_in_blocks(bpe: &CoreBpe, text: &str, block_bytes: usize) -> usize {
    let mut total = 0;
    let mut rest = text;
    let mut last = ("", 0);
    while rest.len() > block_bytes {
        let (at, seam) = match forced_boundary(rest, block_bytes) {
            Some(at) => (at, 0),
            None => (rest.floor_char_boundary(block_bytes), SEAM_TOKENS),
        };
        let (block, after) = rest.split_at(at);
        // A run of one character yields the same block over and over.
        if last.0 != block {
            last = (block, bpe.count(block));
        }
        total += last.1 + seam;
        rest = after;
    }
    total + bpe.count(rest)
}

/// The last place in the first `within` bytes where both tokenizers must end a piece.
fn forced_boundary(text: &str, within: usize) -> Option<usize> {
    let head = &text[..text.floor_char_boundary(within)];
    let mut right = text[head.len()..].chars().next()?;
    for (at, left) in head.char_indices().rev() {
        if ends_piece(left, right) {
            return Some(at + left.len_utf8());
        }
        right = left;
    }
    None
}

/// Whether every pattern ends a piece between these two characters, whatever stands around them.
fn ends_piece(left: char, right: char) -> bool {
    match right {
        // A piece takes a blank only as its first character or among other whitespace.
        ' ' | '\t' => !left.is_whitespace(),
        // Punctuation swallows the line ends after it, and a word its contraction.
        '\'' => false,
        _ if right.is_ascii_punctuation() || matches!(right, '\r' | '\n') => left.is_ascii_alphanumeric(),
        '、' | '。' | '，' | '！' | '？' | '；' | '：' => is_cjk_letter(left),
        _ => false,
    }
}

fn is_cjk_letter(c: char) -> bool {
    matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{AC00}'..='\u{D7A3}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Text, o200k, cl100k. Counted with Python tiktoken 0.14.0 over the published vocabulary files.
    const GOLDEN: [(&str, u64, u64); 14] = [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("The quick brown fox jumps over the lazy dog.", 10, 10),
        ("fn main() {\n    println!(\"{}\", 1_000 + 0x2f);\n}\n", 19, 19),
        ("{\"role\":\"tool\",\"content\":null,\"n\":[1,2.5,-3e10]}", 21, 21),
        ("東京は日本の首都です。", 8, 11),
        ("你好，世界！今天天气怎么样？", 9, 17),
        ("Съешь же ещё этих мягких французских булок.", 13, 29),
        ("مرحبا بالعالم", 4, 10),
        ("नमस्ते दुनिया", 5, 13),
        ("<|endoftext|>", 7, 7),
        ("2026-11-15T21:33:35.123Z ERROR [db] timeout after 30000ms", 25, 25),
        ("   \n\n\t  x  ", 4, 4),
        ("don't they'll WE'VE", 5, 7),
    ];

    #[test]
    fn counts_equal_those_of_the_reference_tokenizer() {
        for (text, o200k, cl100k) in GOLDEN {
            assert_eq!(Bpe::O200k.count(text), Tokens::new(o200k), "o200k of {text:?}");
            assert_eq!(Bpe::Cl100k.count(text), Tokens::new(cl100k), "cl100k of {text:?}");
        }
    }

    #[test]
    fn a_long_run_of_one_character_is_bounded_closely_and_never_too_low() {
        for character in ["a", " ", "\n", "=", "中", "क्", "🙂"] {
            let text = character.repeat(200_000);
            let whole = Bpe::O200k.vocabulary().count(&text);
            let counted = count_in_blocks(Bpe::O200k.vocabulary(), &text, BLOCK_BYTES);
            assert!((whole..=whole + whole / 20).contains(&counted), "{character:?}: {counted} for {whole}");
        }
    }

    #[test]
    fn fifty_megabytes_without_a_place_to_cut_are_counted() {
        assert!(Bpe::O200k.count(&" ".repeat(50_000_000)) > Tokens::new(100_000));
    }

    /// Texts with something of every kind of piece that the patterns know.
    fn mixed_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-zA-Z]{1,9}",
            "[0-9]{1,5}",
            "[ \t]{1,4}",
            "[\r\n]{1,3}",
            "[!-/:-@\\[-`{-~]{1,4}",
            "'(s|t|re|LL)",
            "[\u{4E00}-\u{4E80}]{1,6}",
            "[、。，！？]",
            "[а-я]{1,7}",
            "[\u{0915}-\u{0939}\u{093E}-\u{094D}]{1,5}",
            "\\PC",
        ];
        prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
    }

    /// Texts that are one piece, or nearly.
    fn one_piece() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-c]{200,900}",
            "[acgt]{200,900}",
            "[a-z]{200,900}",
            "[=\\-]{200,900}",
            "[ \n]{200,900}",
            "[\u{4E00}-\u{9FFF}]{99,300}"
        ]
    }

    proptest! {
        #[test]
        fn blocks_cut_at_forced_boundaries_change_no_count(text in mixed_text()) {
            for tokenizer in [Bpe::O200k, Bpe::Cl100k] {
                let mut at = 0;
                let mut sum = 0;
                while let Some(next) = forced_boundary(&text[at..], 40) {
                    sum += tokenizer.vocabulary().count(&text[at..at + next]);
                    at += next;
                }
                sum += tokenizer.vocabulary().count(&text[at..]);
                prop_assert_eq!(sum, tokenizer.vocabulary().count(&text));
            }
        }

        #[test]
        fn a_text_parted_at_its_seam_costs_the_same_however_it_goes_on(text in mixed_text(), at in 0usize..400) {
            for tokenizer in [Bpe::O200k, Bpe::Cl100k] {
                let seam = tokenizer.seam(&text[..text.floor_char_boundary(at)]);
                prop_assert_eq!(tokenizer.count(&text[..seam]) + tokenizer.count(&text[seam..]), tokenizer.count(&text));
            }
        }

        #[test]
        fn a_count_across_seams_is_never_too_low(text in one_piece()) {
            for tokenizer in [Bpe::O200k, Bpe::Cl100k] {
                let whole = tokenizer.vocabulary().count(&text);
                prop_assert!(count_in_blocks(tokenizer.vocabulary(), &text, 64) >= whole);
                prop_assert!(count_in_blocks(tokenizer.vocabulary(), &text, 64) <= whole + (SEAM_TOKENS + 64) * text.len().div_ceil(61));
            }
        }
    }
}
