//! New ids: hashes of what they name and where it stands, in the shape a format wants.
//!
//! The same compaction of the same session at the same stamp gets the same ids.

use std::fmt::Write;

/// Draws ids from a seed; each is different from the last.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    hasher: blake3::Hasher,
    drawn: u64,
}

impl Ids {
    /// Ids for one act on a session: what is written, after what, and when.
    pub(super) fn new(seeds: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for seed in seeds {
            hasher.update(&(seed.len() as u64).to_le_bytes());
            hasher.update(seed.as_bytes());
        }
        Ids { hasher, drawn: 0 }
    }

    fn draw(&mut self) -> [u8; 16] {
        self.drawn += 1;
        let mut hasher = self.hasher.clone();
        hasher.update(&self.drawn.to_le_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        bytes
    }

    /// A UUID of version 8, the one whose bits are free.
    pub(super) fn uuid(&mut self) -> String {
        let mut bytes = self.draw();
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = hex(&bytes);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Eight hexadecimal digits that are not taken yet.
    pub(super) fn short(&mut self, taken: impl Fn(&str) -> bool) -> String {
        loop {
            let id = hex(&self.draw()[..4]);
            if !taken(&id) {
                return id;
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
