//! Files of some 300 KB in base64: their first bytes are true, the rest of them is not.

/// The size of every file.
pub const BYTES: usize = 300_000;

pub fn pdf() -> String {
    let pages = "<</Type/Page/Parent 1 0 R>>\n".repeat(12);
    base64(format!("%PDF-1.4\n<</Type/Pages/Count 12>>\n{pages}").as_bytes())
}

pub fn png() -> String {
    let mut head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    head.extend(1024u32.to_be_bytes());
    head.extend(768u32.to_be_bytes());
    base64(&head)
}

/// A recording at 32 000 bytes for a second.
pub fn wav() -> String {
    let mut head = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3E\0\0\x00\x7d\0\0\x02\0\x10\0data".to_vec();
    head.extend((BYTES as u32).to_le_bytes());
    base64(&head)
}

pub fn mp3() -> String {
    base64(b"ID3\x04\0\0\0\0\0\0")
}

/// Something that nobody knows.
pub fn unknown() -> String {
    base64(b"\x01\x02\x03\x04")
}

/// These bytes and as many others as are missing.
fn base64(head: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let filling = (head.len()..BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8);
    let bytes: Vec<u8> = head.iter().copied().chain(filling).collect();
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let signs = (0..4).map(|at| SIGNS[(bits >> (18 - 6 * at) & 63) as usize] as char);
        text.extend(signs.take(three.len() + 1).chain(std::iter::repeat_n('=', 3 - three.len())));
    }
    text
}
