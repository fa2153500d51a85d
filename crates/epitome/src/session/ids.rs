//! New ids: hashes of what they name and where it stands, in the shape a format wants.
//!
//! The same compaction of the same session at the same stamp gets the same ids.

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

    fn draw(&mut self) -> blake3::Hash {
        self.drawn += 1;
        let mut hasher = self.hasher.clone();
        hasher.update(&self.drawn.to_le_bytes());
        hasher.finalize()
    }

    /// A UUID of version 8, the one whose bits are free.
    pub(super) fn uuid(&mut self) -> String {
        let mut bytes = *self.draw().as_bytes();
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = blake3::Hash::from_bytes(bytes).to_hex();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32])
    }

    /// Eight hexadecimal digits that are not taken yet.
    pub(super) fn short(&mut self, taken: impl Fn(&str) -> bool) -> String {
        loop {
            let id = self.draw().to_hex()[..8].to_owned();
            if !taken(&id) {
                return id;
            }
        }
    }
}
