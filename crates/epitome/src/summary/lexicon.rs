//! What a line says, as numbers: its names, its joined names and its word triples.
//! It keeps no text and forgets no feature; case counts, because what agents write again is exact.

/// A feature: a name, a joined name or a triple.
pub type Feature = u32;

/// Features of all lines, told apart by hash.
pub struct Lexicon {
    /// Open addressing; a slot holds the hash and the feature.
    slots: Vec<(u64, Feature)>,
    pub len: usize,
    words: Vec<Word>,
}

#[derive(Clone, Copy)]
struct Word {
    hash: u64,
    start: u32,
    end: u32,
    is_name: bool,
    /// Joined to the word before it by one sign, as in paths and dotted names.
    is_joined: bool,
}

/// What kind of thing a feature is; decides how much it weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A word like any other: tells how common what it is part of is.
    Word,
    /// A word somebody coined: an identifier, an id, a long number.
    Name,
    /// Two words joined by a sign, as in paths and dotted names.
    Joined(Feature, Feature),
    Triple(Feature, Feature, Feature),
}

impl Lexicon {
    /// Makes room for the features of about `bytes` of text.
    pub fn for_text(bytes: usize) -> Lexicon {
        let slots = (bytes / 2).max(1024).next_power_of_two();
        Lexicon { slots: vec![(0, 0); slots], len: 0, words: Vec::new() }
    }

    /// Calls `visit` with each feature of `line`: every word, then what it makes with those before it.
    pub fn scan(&mut self, line: &str, visit: &mut dyn FnMut(Feature, Shape)) {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        split(line, &mut words);
        let (mut first, mut second) = (0, 0);
        for (at, word) in words.iter().enumerate() {
            let third = self.intern(mix(word.hash, 1));
            visit(third, if word.is_name { Shape::Name } else { Shape::Word });
            if at >= 1 && word.is_joined && !word.is_number(line) {
                visit(self.intern(mix(pair(second, third), 2)), Shape::Joined(second, third));
            }
            if at >= 2 && word.end - words[at - 2].start >= TRIPLE_CHARS_MIN {
                visit(self.intern(mix(pair(first, second), pair(third, 3))), Shape::Triple(first, second, third));
            }
            (first, second) = (second, third);
        }
        self.words = words;
    }

    fn intern(&mut self, hash: u64) -> Feature {
        if self.len * 2 >= self.slots.len() {
            self.grow();
        }
        let hash = hash | 1;
        let slot = find(&self.slots, hash);
        if self.slots[slot].0 == 0 {
            self.slots[slot] = (hash, self.len as Feature);
            self.len += 1;
        }
        self.slots[slot].1
    }

    fn grow(&mut self) {
        let mut wider = vec![(0, 0); self.slots.len() * 2];
        for &(hash, feature) in self.slots.iter().filter(|(hash, _)| *hash != 0) {
            let slot = find(&wider, hash);
            wider[slot] = (hash, feature);
        }
        self.slots = wider;
    }
}

/// Shorter triples ("if a b") say nothing of their own.
const TRIPLE_CHARS_MIN: u32 = 10;

fn find(slots: &[(u64, Feature)], hash: u64) -> usize {
    let mask = slots.len() - 1;
    let mut slot = (hash >> 20) as usize & mask;
    while slots[slot].0 != 0 && slots[slot].0 != hash {
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

impl Word {
    fn is_number(&self, line: &str) -> bool {
        line.as_bytes()[self.start as usize..self.end as usize].iter().all(u8::is_ascii_digit)
    }
}

/// Splits a line into runs of letters, digits and `_`; scripts without spaces go char by char.
fn split(line: &str, words: &mut Vec<Word>) {
    let mut chars = line.char_indices().peekable();
    let mut last_end = usize::MAX;
    while let Some((start, first)) = chars.next() {
        if !is_word(first) {
            continue;
        }
        let mut hash = mix(7, u64::from(u32::from(first)));
        let mut end = start + first.len_utf8();
        let mut shape = WordShape::new(first);
        while let Some(&(at, next)) = chars.peek() {
            if !is_word(next) || stands_alone(first) || stands_alone(next) {
                break;
            }
            hash = (hash.rotate_left(5) ^ u64::from(u32::from(next))).wrapping_mul(0x517C_C1B7_2722_0A95);
            shape.push(next);
            end = at + next.len_utf8();
            chars.next();
        }
        let is_joined = last_end != usize::MAX && start == last_end + 1 && is_joint(line.as_bytes()[last_end]);
        words.push(Word { hash, start: start as u32, end: end as u32, is_name: shape.is_name(end - start), is_joined });
        last_end = end;
    }
}

fn is_word(c: char) -> bool {
    c == '_' || if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphanumeric() }
}

/// Scripts written without spaces: a char is the unit.
fn stands_alone(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

fn is_joint(byte: u8) -> bool {
    matches!(byte, b'/' | b'.' | b'-' | b'@' | b':' | b'\\')
}

/// What the chars of a word tell about it being a name somebody coined.
struct WordShape {
    before: char,
    has_letter: bool,
    has_digit: bool,
    has_bar: bool,
    has_hump: bool,
}

impl WordShape {
    fn new(first: char) -> WordShape {
        let mut shape =
            WordShape { before: first, has_letter: false, has_digit: false, has_bar: false, has_hump: false };
        shape.note(first);
        shape
    }

    fn push(&mut self, c: char) {
        self.has_hump |= c.is_uppercase() && self.before.is_lowercase();
        self.note(c);
        self.before = c;
    }

    fn note(&mut self, c: char) {
        self.has_bar |= c == '_';
        self.has_digit |= c.is_ascii_digit();
        self.has_letter |= c.is_alphabetic();
    }

    fn is_name(&self, bytes: usize) -> bool {
        match (self.has_letter, self.has_digit) {
            (true, true) => bytes >= 4,
            (true, false) => bytes >= 4 && (self.has_bar || self.has_hump),
            (false, true) => bytes >= 4,
            (false, false) => false,
        }
    }
}
