//! What is said: words by Zipf's law, the same every time.

use serde_json::json;

const VOCABULARY: f64 = 30_000.0;
const SYLLABLES: [&str; 20] = [
    "ta", "ri", "mo", "ken", "sul", "var", "pe", "lin", "dor", "ga", "the", "con", "bi", "ser", "no", "fal", "um", "qui",
    "ze", "hap",
];

/// Speaks without end.
#[derive(Debug)]
pub struct Speech(u64);

impl Speech {
    /// One that always says the same.
    pub fn new(seed: u64) -> Self {
        Speech(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn rank(&mut self) -> usize {
        let share = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        VOCABULARY.powf(share) as usize
    }

    /// This many words.
    pub fn words(&mut self, count: usize) -> String {
        let mut out = String::with_capacity(count * 8);
        for at in 0..count {
            if at > 0 {
                out.push(if at % 12 == 0 { '\n' } else { ' ' });
            }
            out.push_str(&word(self.rank()));
        }
        out
    }

    /// About this many bytes.
    pub fn bytes(&mut self, bytes: usize) -> String {
        let mut text = self.words(bytes / 4);
        text.truncate(bytes);
        text
    }

    /// One turn of work: a request, a call, its result of so many bytes, an answer.
    pub fn turn(&mut self, at: usize, result_bytes: usize) -> Vec<String> {
        let (id, path) = (format!("call_{at}"), format!("src/{}_{at}.rs", word(at)));
        let call = json!({"id": id, "type": "function",
            "function": {"name": "read", "arguments": json!({"path": path}).to_string()}});
        vec![
            said("user", &format!("Request {at}: {}", self.words(20))),
            json!({"role": "assistant", "content": self.words(15), "tool_calls": [call]}).to_string(),
            json!({"role": "tool", "tool_call_id": id, "content": self.bytes(result_bytes)}).to_string(),
            said("assistant", &self.words(40)),
        ]
    }
}

/// A message of a few words.
pub fn said(role: &str, words: &str) -> String {
    json!({"role": role, "content": words}).to_string()
}

/// The word of a rank; the most common one has rank 1.
pub fn word(rank: usize) -> String {
    let mut left = rank;
    let mut out = String::new();
    while left > 0 {
        out.push_str(SYLLABLES[left % SYLLABLES.len()]);
        left /= SYLLABLES.len();
    }
    out
}
