//! Seals: signatures and encrypted content that the mock recognizes later without storing them.
//!
//! A signature names the prefix that it was made after and the words it stands for, each under the mock's own key, so
//! that a changed word, a changed prefix and a foreign signature can be told apart. Nothing here is a secret: the key
//! is the same in every mock, so that a restart changes nothing.

/// The hash of everything before a place in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct PromptPrefix([u8; 16]);

/// The result of checking a thinking block's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureCheck {
    /// Not one of ours.
    Foreign,
    /// One of ours, under other words.
    Changed,
    /// One of ours, made after this prefix.
    After(PromptPrefix),
}

const SIGNATURE: &str = "EmockThinking";
const ENCRYPTED: &str = "gAAAAAmock";
const DIGEST_CHARS: usize = 32;

impl PromptPrefix {
    /// The prefix with one more piece.
    pub(crate) fn then(&self, piece: &[u8]) -> PromptPrefix {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(piece);
        PromptPrefix(cut(hasher.finalize()))
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn read(hex: &str) -> Option<PromptPrefix> {
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(PromptPrefix(bytes))
    }
}

/// The signature of a thought after a prefix.
pub(crate) fn sign(thought: &str, prefix: PromptPrefix) -> String {
    let prefix = prefix.hex();
    format!("{SIGNATURE}{prefix}{}{}", digest("prefix", &prefix), digest(&prefix, thought))
}

/// Looks at a signature.
pub(crate) fn inspect(signature: &str, thought: &str) -> SignatureCheck {
    let parts = signature.strip_prefix(SIGNATURE).and_then(|rest| {
        let (prefix, rest) = rest.split_at_checked(DIGEST_CHARS)?;
        let (ours, words) = rest.split_at_checked(DIGEST_CHARS)?;
        (ours == digest("prefix", prefix)).then_some((PromptPrefix::read(prefix)?, prefix, words))
    });
    match parts {
        None => SignatureCheck::Foreign,
        Some((_, hex, words)) if words != digest(hex, thought) => SignatureCheck::Changed,
        Some((prefix, ..)) => SignatureCheck::After(prefix),
    }
}

/// A summary sealed for a model, with the prefix that it stands for.
pub(crate) fn seal_compaction(model: &str, prefix: PromptPrefix, summary: &str) -> String {
    encrypt(model, &format!("{}\n{summary}", prefix.hex()))
}

/// The prefix that a sealed summary stands for.
pub(crate) fn stands_for(model: &str, sealed: &str) -> Option<PromptPrefix> {
    PromptPrefix::read(decrypt(model, sealed)?.split_once('\n')?.0)
}

/// Content sealed for a model: nobody else can open it.
pub(crate) fn encrypt(model: &str, content: &str) -> String {
    let hex: String = content.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{ENCRYPTED}{}{hex}", digest(model, content))
}

/// The content of a seal, if it was made for this model.
pub(crate) fn decrypt(model: &str, sealed: &str) -> Option<String> {
    let (ours, hex) = sealed.strip_prefix(ENCRYPTED)?.split_at_checked(DIGEST_CHARS)?;
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    let content = String::from_utf8(bytes?).ok()?;
    (ours == digest(model, &content)).then_some(content)
}

fn digest(context: &str, text: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("epitome mock provider seal");
    hasher.update(context.as_bytes()).update(&[0]).update(text.as_bytes());
    hasher.finalize().to_hex()[..DIGEST_CHARS].to_owned()
}

fn cut(hash: blake3::Hash) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(&hash.as_bytes()[..16]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_tells_a_foreign_a_changed_and_a_true_one_apart() {
        let prefix = PromptPrefix::default().then(b"q");
        let signature = sign("so", prefix);
        assert_eq!(inspect(&signature, "so"), SignatureCheck::After(prefix));
        assert_eq!(inspect(&signature, "not so"), SignatureCheck::Changed);
        for foreign in ["", "EqQB", &signature[..40], &signature.replace("EmockThinking0", "EmockThinking1")[1..]] {
            assert_eq!(inspect(foreign, "so"), SignatureCheck::Foreign, "{foreign}");
        }
    }

    #[test]
    fn a_compaction_remembers_what_it_stands_for() {
        let prefix = PromptPrefix::default().then(b"q");
        let sealed = seal_compaction("m", prefix, "the summary");
        assert_eq!(stands_for("m", &sealed), Some(prefix));
        assert_eq!(stands_for("other", &sealed), None);
    }

    #[test]
    fn only_the_model_it_was_sealed_for_opens_a_seal() {
        let sealed = encrypt("gpt-5", "grün");
        assert_eq!(decrypt("gpt-5", &sealed).as_deref(), Some("grün"));
        assert_eq!(decrypt("gpt-4", &sealed), None);
        assert_eq!(decrypt("gpt-5", "gAAAA"), None);
    }
}
