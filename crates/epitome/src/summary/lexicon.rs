//! The lexicon: the features of lines (words, joined names, word triples) as numbers.
//!
//! It keeps no text, only hashes. Case counts, because what agents write again is exact.

/// The number of a feature, in the order in which features were met.
pub(super) type Feature = u32;

/// The kind of a feature; decides how much it weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureKind {
    Word,
    /// A word somebody coined: an identifier, an id, a long number.
    Name,
    /// Two words joined by a sign, as in paths and dotted names.
    Joined,
    /// Three words in a row.
    Triple,
}

/// The features of all lines.
pub(super) struct Lexicon {
    /// A hash table with open addressing; a slot holds the feature plus one, or zero when free.
    slots: Vec<u32>,
    hashes: Vec<u64>,
    words: Vec<Word>,
}

/// Triples of fewer bytes ("if a b") say nothing of their own.
const TRIPLE_BYTES_MIN: usize = 10;

impl Lexicon {
    /// Makes a lexicon with room for the features of about `bytes` of text.
    pub(super) fn for_text(bytes: usize) -> Lexicon {
        let slots = (bytes / 16).max(1024).next_power_of_two();
        Lexicon { slots: vec![0; slots], hashes: Vec::new(), words: Vec::new() }
    }

    /// Calls `visit` with each feature of `line`: every word, then the joined name and the triple that it ends.
    pub(super) fn scan(&mut self, line: &str, mut visit: impl FnMut(Feature, FeatureKind)) {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        split(line, &mut words);
        let (mut first, mut second) = (0, 0);
        for (at, word) in words.iter().enumerate() {
            let third = self.intern(mix(word.hash, 1));
            visit(third, if word.is_name { FeatureKind::Name } else { FeatureKind::Word });
            if word.is_joined {
                visit(self.intern(mix(pair(second, third), 2)), FeatureKind::Joined);
            }
            if at >= 2 && word.end - words[at - 2].start >= TRIPLE_BYTES_MIN {
                visit(self.intern(mix(pair(first, second), pair(third, 3))), FeatureKind::Triple);
            }
            (first, second) = (second, third);
        }
        self.words = words;
    }

    fn intern(&mut self, hash: u64) -> Feature {
        if self.hashes.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let slot = find_slot(&self.slots, &self.hashes, hash);
        if self.slots[slot] == 0 {
            self.hashes.push(hash);
            self.slots[slot] = self.hashes.len() as u32;
        }
        self.slots[slot] - 1
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for (feature, &hash) in self.hashes.iter().enumerate() {
            let slot = find_slot(&self.slots, &[], hash);
            self.slots[slot] = feature as u32 + 1;
        }
    }
}

/// Returns the slot of a hash: its own, or a free one. Without `hashes`, the next free one.
fn find_slot(slots: &[u32], hashes: &[u64], hash: u64) -> usize {
    let mask = slots.len() - 1;
    let mut slot = (hash >> 20) as usize & mask;
    while slots[slot] != 0 && hashes.get(slots[slot] as usize - 1) != Some(&hash) {
        slot = (slot + 1) & mask;
    }
    slot
}

fn pair(a: Feature, b: Feature) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9E37_79B9_7F4A_7C15) * u128::from(b ^ 0xD6E8_FEB8_6659_FD93);
    (product >> 64) as u64 ^ product as u64
}

/// Hashes a whole line, to recognize it when it comes again.
pub(super) fn fingerprint(text: &str) -> u64 {
    let (chunks, rest) = text.as_bytes().as_chunks::<8>();
    let hash = chunks.iter().fold(text.len() as u64, |hash, chunk| mix(hash, u64::from_le_bytes(*chunk)));
    mix(hash, rest.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

#[derive(Clone, Copy)]
struct Word {
    hash: u64,
    start: usize,
    end: usize,
    is_name: bool,
    /// Joined to the word before it by one sign, as in paths and dotted names.
    is_joined: bool,
}

/// Words of fewer bytes are not taken for names.
const NAME_BYTES_MIN: usize = 4;

/// Splits a line into runs of letters, digits and `_`; scripts without spaces go char by char.
fn split(line: &str, words: &mut Vec<Word>) {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let mut signs = NameSigns::default();
        let mut hash = 0xCBF2_9CE4_8422_2325;
        while let Some(width) = word_char_width(line, at) {
            if width > 1 && line[at..].starts_with(is_unit) {
                // Such a char ends the word before it and is a word itself.
                if at == start {
                    hash = blend(hash, &bytes[at..at + width]);
                    at += width;
                }
                break;
            }
            hash = blend(hash, &bytes[at..at + width]);
            signs.note(bytes[at]);
            at += width;
        }
        if at == start {
            at += 1;
            continue;
        }
        let is_name = at - start >= NAME_BYTES_MIN && signs.is_name();
        let is_joined = !signs.is_number()
            && words.last().is_some_and(|before| before.end + 1 == start && is_joint(bytes[before.end]));
        words.push(Word { hash, start, end: at, is_name, is_joined });
    }
}

/// Returns the width of the char at `at` when it can be part of a word.
fn word_char_width(line: &str, at: usize) -> Option<usize> {
    let byte = *line.as_bytes().get(at)?;
    if byte < 128 {
        return (byte.is_ascii_alphanumeric() || byte == b'_').then_some(1);
    }
    let c = line.get(at..)?.chars().next()?;
    c.is_alphanumeric().then_some(c.len_utf8())
}

/// Tells whether a char is of a script without spaces, where a char is a word of its own.
pub(super) fn is_unit(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

fn blend(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

fn is_joint(byte: u8) -> bool {
    matches!(byte, b'/' | b'.' | b'-' | b'@' | b':' | b'\\')
}

/// The signs that distinguish a coined name from a plain word.
#[derive(Default)]
struct NameSigns {
    before: u8,
    has_letter: bool,
    has_digit: bool,
    has_bar: bool,
    has_hump: bool,
}

impl NameSigns {
    fn note(&mut self, byte: u8) {
        self.has_hump |= byte.is_ascii_uppercase() && self.before.is_ascii_lowercase();
        self.has_bar |= byte == b'_';
        self.has_digit |= byte.is_ascii_digit();
        self.has_letter |= byte.is_ascii_alphabetic() || byte >= 128;
        self.before = byte;
    }

    fn is_number(&self) -> bool {
        self.has_digit && !self.has_letter
    }

    fn is_name(&self) -> bool {
        self.has_digit || self.has_letter && (self.has_bar || self.has_hump)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(line: &str) -> (Vec<String>, Vec<bool>) {
        let mut words = Vec::new();
        split(line, &mut words);
        (
            words.iter().map(|word| line[word.start..word.end].to_owned()).collect(),
            words.iter().map(|word| word.is_name).collect(),
        )
    }

    #[test]
    fn names_are_words_somebody_coined() {
        let (words, is_name) = features("run parse_tree in src/lib.rs with XyZ_1, HAT123");
        let names: Vec<&str> =
            words.iter().zip(is_name).filter(|(_, is_name)| *is_name).map(|(word, _)| word.as_str()).collect();
        assert_eq!(names, ["parse_tree", "XyZ_1", "HAT123"]);
    }

    #[test]
    fn scripts_without_spaces_go_char_by_char() {
        assert_eq!(features("修复parse错误").0, ["修", "复", "parse", "错", "误"]);
    }

    #[test]
    fn accents_do_not_cut_words() {
        assert_eq!(features("prüfe Größe – привет").0, ["prüfe", "Größe", "привет"]);
    }
}
