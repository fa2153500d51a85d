//! Counting without a tokenizer: a script-aware estimate, and a fixed number of characters for a token.
//!
//! The estimate walks over runs of one kind of character and prices each run. The prices are hundredths of a token,
//! fitted by least squares to o200k over 1 900 samples (Rust, Python, JavaScript, CSS, HTML, JSON, TOML, Markdown, logs,
//! agent sessions, and the translations of one project into 42 languages). The sum is raised by a margin: too high a count
//! compacts early, too low a count is refused by the provider. It learns nothing and knows no model; see `calibration.rs` for that.

use super::tokens::{CountSource, TokenCounter, Tokens};

/// What every estimate is raised by.
const MARGIN_PERCENT: u64 = 3;

/// The script-aware estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate;

impl TokenCounter for Estimate {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new((hundredths(text) * (100 + MARGIN_PERCENT)).div_ceil(100 * 100))
    }

    fn source(&self) -> CountSource {
        CountSource::Estimated
    }

    fn name(&self) -> &str {
        "estimate"
    }
}

impl Estimate {
    /// The estimate without its margin.
    pub(super) fn bare(text: &str) -> Tokens {
        Tokens::new(hundredths(text).div_ceil(100))
    }
}

/// The sum of the prices of all runs.
fn hundredths(text: &str) -> u64 {
    let mut sum = 0;
    let mut before = None;
    let mut rest = text;
    while let Some((kind, run, after)) = split_run(rest) {
        sum += price(kind, run, before, after.chars().next().map(Kind::of));
        before = Some(kind);
        rest = after;
    }
    sum
}

/// One token for every so many characters, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Characters {
    /// Four characters for a token, as many agents count.
    Four,
    /// Three characters for a token, the more careful rule of thumb.
    Three,
}

impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        let each = match self {
            Characters::Four => 4,
            Characters::Three => 3,
        };
        Tokens::new((text.chars().count() as u64).div_ceil(each))
    }

    fn source(&self) -> CountSource {
        CountSource::Characters
    }

    fn name(&self) -> &str {
        match self {
            Characters::Four => "chars/4",
            Characters::Three => "chars/3",
        }
    }
}

/// What a run is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Latin,
    Digits,
    Punctuation,
    Blank,
    LineEnd,
    WidePunctuation,
    Symbol,
    Emoji,
    Greek,
    Cyrillic,
    Hebrew,
    Arabic,
    Devanagari,
    Indic,
    SoutheastAsian,
    Kana,
    Han,
    Hangul,
    Other,
}

impl Kind {
    fn of(c: char) -> Kind {
        match c {
            '0'..='9' => Kind::Digits,
            'a'..='z' | 'A'..='Z' => Kind::Latin,
            ' ' | '\t' => Kind::Blank,
            '\r' | '\n' => Kind::LineEnd,
            '\0'..='\u{7F}' => Kind::Punctuation,
            _ => Kind::beyond_ascii(c),
        }
    }

    fn beyond_ascii(c: char) -> Kind {
        match c as u32 {
            0x80..=0xBF | 0x2000..=0x206F | 0x3000..=0x303F | 0xFF00..=0xFFEF => Kind::WidePunctuation,
            0xC0..=0x24F | 0x1E00..=0x1EFF => Kind::Latin,
            0x370..=0x3FF | 0x1F00..=0x1FFF => Kind::Greek,
            0x400..=0x52F => Kind::Cyrillic,
            0x590..=0x5FF => Kind::Hebrew,
            0x600..=0x77F | 0xFB50..=0xFDFF | 0xFE70..=0xFEFC => Kind::Arabic,
            0x900..=0x97F => Kind::Devanagari,
            0x980..=0xDFF => Kind::Indic,
            0xE00..=0x109F | 0x1780..=0x17FF => Kind::SoutheastAsian,
            0x1100..=0x11FF | 0xAC00..=0xD7AF => Kind::Hangul,
            0x2190..=0x2BFF => Kind::Symbol,
            0x3040..=0x30FF => Kind::Kana,
            0x3400..=0x9FFF | 0xF900..=0xFAFF => Kind::Han,
            0xFE00..=0xFE0F | 0x1F000.. => Kind::Emoji,
            _ => Kind::Other,
        }
    }
}

fn split_run(text: &str) -> Option<(Kind, &str, &str)> {
    let kind = Kind::of(text.chars().next()?);
    let end = text.find(|c| Kind::of(c) != kind).unwrap_or(text.len());
    let (run, rest) = text.split_at(end);
    Some((kind, run, rest))
}

/// The price of a run between its neighbors, in hundredths of a token.
fn price(kind: Kind, run: &str, before: Option<Kind>, after: Option<Kind>) -> u64 {
    let of_word = |word: u64, letter: u64| word + letter * run.chars().count() as u64;
    match kind {
        Kind::Latin => latin(run, matches!(before, None | Some(Kind::Blank))),
        Kind::Digits => 109 * (run.len() as u64).div_ceil(3),
        Kind::Punctuation => marks(run, 104, 37),
        Kind::Blank => blank(run, before, after),
        Kind::LineEnd if before == Some(Kind::Punctuation) => 78,
        Kind::LineEnd => 43,
        Kind::WidePunctuation => marks(run, 120, 120),
        Kind::Symbol => marks(run, 125, 125),
        Kind::Emoji => of_word(0, 230),
        Kind::Greek => of_word(50, 30),
        Kind::Cyrillic => of_word(92, 11),
        Kind::Hebrew => of_word(48, 33),
        Kind::Arabic => of_word(0, 37),
        Kind::Devanagari => of_word(0, 40),
        Kind::Indic => of_word(56, 32),
        Kind::SoutheastAsian => of_word(0, 41),
        Kind::Kana => of_word(0, 66),
        Kind::Han => of_word(0, 71),
        Kind::Hangul => of_word(53, 49),
        Kind::Other => of_word(59, 28),
    }
}

/// Words of Latin letters; `camelCase` is two of them.
fn latin(run: &str, follows_blank: bool) -> u64 {
    let mut total = if follows_blank { 97 } else { 46 };
    let mut word = Word::default();
    for c in run.chars() {
        if word.after_small && c.is_uppercase() {
            total += word.length_price() + 46;
            word = Word::default();
        }
        total += if c.is_ascii() { 0 } else { 48 };
        word.push(c);
    }
    total + word.length_price()
}

/// The part of a Latin run that starts at its start or at a hump.
#[derive(Default)]
struct Word {
    letters: u64,
    capitals: u64,
    after_small: bool,
}

impl Word {
    fn push(&mut self, c: char) {
        self.letters += 1;
        self.capitals += u64::from(c.is_uppercase());
        self.after_small = c.is_lowercase();
    }

    fn length_price(&self) -> u64 {
        if self.capitals >= 2 { 26 * self.letters.saturating_sub(2) } else { 31 * self.letters.saturating_sub(6) }
    }
}

/// A run of marks: a price for the first, one for each change, and little for a repetition.
fn marks(run: &str, first: u64, change: u64) -> u64 {
    let next = |pair: (char, char)| match pair {
        (a, b) if a == b => 6,
        // `":"`, `","` and `\"` are tokens.
        ('"', _) | (_, '"') => change / 2,
        _ => change,
    };
    first + run.chars().zip(run.chars().skip(1)).map(next).sum::<u64>()
}

/// One blank before a word is part of the word; before a number it is a token of its own.
fn blank(run: &str, before: Option<Kind>, after: Option<Kind>) -> u64 {
    match (before, after) {
        (_, Some(Kind::Digits)) => 99,
        (Some(Kind::LineEnd), _) => 10,
        (_, Some(_)) if run.len() == 1 => 0,
        _ => 50,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Bpe;

    const SAMPLES: [(&str, &str); 20] = [
        (
            "english",
            "The compaction layer keeps the whole log and decides what the model sees next. When a request would not fit, older exchanges are summarized, large results move to artifacts, and nothing that the user asked for is lost along the way.",
        ),
        (
            "german",
            "Die Anwendung speichert jede Nachricht unverändert und entscheidet erst beim Senden, welche Teile das Modell noch sehen soll. Ältere Abschnitte werden zusammengefasst, große Ergebnisse ausgelagert, und nichts geht dabei verloren.",
        ),
        (
            "french",
            "Le journal complet est conservé, et seule la partie utile est envoyée au modèle. Les anciens échanges sont résumés, les résultats volumineux sont déplacés, et l'utilisateur peut toujours relire ce qui a été retiré.",
        ),
        (
            "russian",
            "Система хранит полный журнал сообщений и решает, что модель увидит дальше. Старые части разговора сокращаются, большие результаты переносятся в хранилище, и пользователь всегда может вернуть то, что было убрано.",
        ),
        (
            "greek",
            "Το σύστημα κρατά ολόκληρο το ιστορικό των μηνυμάτων και αποφασίζει τι θα δει το μοντέλο στη συνέχεια. Τα παλιά τμήματα συνοψίζονται και τίποτα δεν χάνεται.",
        ),
        (
            "arabic",
            "يحتفظ النظام بسجل كامل للرسائل ويقرر ما الذي سيراه النموذج بعد ذلك. يتم تلخيص الأجزاء القديمة من المحادثة ونقل النتائج الكبيرة إلى مكان آخر، ولا يضيع شيء.",
        ),
        (
            "hebrew",
            "המערכת שומרת את כל ההודעות ומחליטה מה המודל יראה בהמשך. חלקים ישנים של השיחה מסוכמים, תוצאות גדולות מועברות למקום אחר, ושום דבר לא הולך לאיבוד.",
        ),
        (
            "hindi",
            "यह प्रणाली सभी संदेशों का पूरा अभिलेख रखती है और तय करती है कि मॉडल आगे क्या देखेगा। पुराने भागों का सारांश बनाया जाता है और कुछ भी खोता नहीं है।",
        ),
        ("thai", "ระบบเก็บบันทึกข้อความทั้งหมดไว้และตัดสินใจว่าโมเดลจะเห็นอะไรต่อไป ส่วนเก่าของการสนทนาจะถูกสรุป และไม่มีสิ่งใดสูญหาย"),
        (
            "chinese",
            "系统保存完整的消息日志，并决定模型接下来看到什么。较早的对话内容会被总结，较大的工具结果会被移到外部存储，用户随时可以查看被省略的部分。",
        ),
        (
            "japanese",
            "システムはすべてのメッセージを記録し、モデルが次に何を見るかを決定します。古い会話は要約され、大きな結果は外部に保存されますが、何も失われません。",
        ),
        (
            "korean",
            "시스템은 모든 메시지를 그대로 보관하고 모델이 다음에 무엇을 볼지 결정합니다. 오래된 대화는 요약되고 큰 결과는 외부로 옮겨지며 아무것도 사라지지 않습니다.",
        ),
        (
            "rust",
            "impl Ledger {\n    /// Adds an entry and returns its place.\n    pub fn append(&mut self, entry: Entry) -> usize {\n        let place = self.entries.len();\n        self.total += entry.amount;\n        self.entries.push(entry);\n        place\n    }\n}\n",
        ),
        (
            "python",
            "def read_rows(path, *, limit=None):\n    with open(path, encoding=\"utf-8\") as handle:\n        for number, line in enumerate(handle):\n            if limit is not None and number >= limit:\n                return\n            yield [cell.strip() for cell in line.split(\",\")]\n",
        ),
        (
            "javascript",
            "export const debounce = (callback, waitMs = 250) => {\n  let timer = null;\n  return (...args) => {\n    clearTimeout(timer);\n    timer = setTimeout(() => callback(...args), waitMs);\n  };\n};\n",
        ),
        (
            "json",
            "{\"id\":\"call_8Zk2\",\"type\":\"function\",\"function\":{\"name\":\"search_orders\",\"arguments\":\"{\\\"customer\\\": 4711, \\\"status\\\": \\\"open\\\", \\\"limit\\\": 25}\"},\"usage\":{\"prompt_tokens\":18230,\"completion_tokens\":412}}",
        ),
        (
            "indented json",
            "{\n  \"name\": \"inventory\",\n  \"version\": \"2.4.1\",\n  \"private\": true,\n  \"scripts\": {\n    \"build\": \"node build.mjs\",\n    \"test\": \"node --test\"\n  },\n  \"engines\": { \"node\": \">=20\" }\n}\n",
        ),
        (
            "log",
            "2026-03-14 09:26:53,589 INFO  [worker-3] job 48213 finished in 1874 ms\n2026-03-14 09:26:54,002 WARN  [worker-1] retry 2/5 for https://api.example.com/v2/items?page=7: timeout after 30000 ms\n2026-03-14 09:26:55,117 ERROR [worker-1] connection to 10.0.3.17:5432 refused (os error 111)\n",
        ),
        (
            "listing",
            "-rw-r--r--  1 deploy deploy   48213 Mar 14 09:26 Cargo.lock\n-rw-r--r--  1 deploy deploy    1874 Mar 14 09:12 Cargo.toml\ndrwxr-xr-x 14 deploy deploy    4096 Mar 13 17:40 crates\n",
        ),
        (
            "markdown",
            "## Install\n\n1. Run `cargo install ledger` and open a new shell.\n2. Copy **config.toml** to `~/.config/ledger/`.\n\n| key | meaning |\n|---|---|\n| `path` | where entries are kept |\n| `limit` | the most rows to read |\n",
        ),
    ];

    #[test]
    fn the_estimate_is_within_fifteen_percent_of_o200k_in_every_script() {
        let off: Vec<String> = SAMPLES
            .iter()
            .map(|(name, text)| (name, Estimate.count(text).get() as f64 / Bpe::O200k.count(text).get() as f64))
            .filter(|(_, ratio)| !(0.85..=1.15).contains(ratio))
            .map(|(name, ratio)| format!("{name}: {ratio:.2}"))
            .collect();
        assert!(off.is_empty(), "{off:?}");
    }

    #[test]
    fn the_estimate_errs_high_over_all_samples() {
        let sum = |counter: &dyn TokenCounter| SAMPLES.iter().map(|(_, text)| counter.count(text)).sum::<Tokens>();
        let (estimated, exact) = (sum(&Estimate), sum(&Bpe::O200k));
        assert!(exact <= estimated && estimated <= exact.scaled(1.08), "{estimated} for {exact}");
    }

    #[test]
    fn characters_are_unicode_characters_rounded_up() {
        for (text, four, three) in
            [("", 0, 0), ("a", 1, 1), ("abcd", 1, 2), ("日本語のテキスト", 2, 3), ("🙂🙂🙂🙂🙂", 2, 2)]
        {
            assert_eq!(Characters::Four.count(text), Tokens::new(four), "{text}");
            assert_eq!(Characters::Three.count(text), Tokens::new(three), "{text}");
        }
    }
}
