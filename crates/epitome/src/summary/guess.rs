//! A cheap guess at tokens, to rank candidates before they are counted.

/// Guesses the tokens of `text` from its runs of letters, digits and signs.
pub fn guess(text: &str) -> usize {
    let (mut tenths, mut run, mut before) = (0usize, 0usize, Run::Space);
    for &byte in text.as_bytes() {
        let now = Run::of(byte);
        run = if now == before { run + 1 } else { 0 };
        tenths += now.cost(run);
        before = now;
    }
    tenths.div_ceil(10)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Letter,
    Digit,
    Space,
    Sign,
    Beyond,
}

impl Run {
    fn of(byte: u8) -> Run {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Run::Letter,
            b'0'..=b'9' => Run::Digit,
            b' ' | b'\t' | b'\n' | b'\r' => Run::Space,
            128.. => Run::Beyond,
            _ => Run::Sign,
        }
    }

    /// Tenths of a token that the byte at place `run` of its run adds.
    fn cost(self, run: usize) -> usize {
        match self {
            Run::Letter => {
                if run == 0 {
                    9
                } else if run >= 6 {
                    2
                } else {
                    0
                }
            }
            Run::Digit => {
                if run % 3 == 0 {
                    12
                } else {
                    0
                }
            }
            Run::Space => {
                if run == 1 {
                    10
                } else {
                    0
                }
            }
            Run::Sign => {
                if run % 3 == 0 {
                    9
                } else {
                    0
                }
            }
            Run::Beyond => 4,
        }
    }
}
