//! Request bodies: taken in within limits, and unpacked to be read. What came is kept as it came.
//!
//! Memory follows what arrived, never what was announced: a body grows piece by piece, and what a packed one becomes is
//! bounded by what is worth reading. Each byte is counted in the gateway's [`BodyMemory`].

use std::io::Read;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::body_memory::{BodyMemory, Reservation};
use crate::refusal::Refusal;

/// How many times as long as between two pieces of it a whole body may take.
const PAUSES_MAX: u32 = 10;

/// The largest window that a zstd body may ask for.
const WINDOW_BYTES_MAX: u64 = 8 << 20;

/// How much is unpacked at once.
pub const PIECE_BYTES: usize = 4096;

/// Takes a whole body in.
pub async fn take<B>(mut body: B, max: usize, pause: Duration, memory: &BodyMemory) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    let max = max.min(memory.max());
    if body.size_hint().lower() > max as u64 {
        return Err(Refusal::BodyTooLarge { max });
    }
    let mut room = memory.reservation();
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    let begun = Instant::now();
    let patience = pause.saturating_mul(PAUSES_MAX);
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        let frame = tokio::time::timeout(pause.min(left), body.frame()).await.map_err(|_| match left < pause {
            true => Refusal::BodySlow { seconds: patience.as_secs() },
            false => Refusal::BodyTimeout { seconds: pause.as_secs() },
        })?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|error| Refusal::BadBody { reason: error.to_string() })?.into_data() else {
            continue;
        };
        let is_last = body.is_end_stream();
        let so_far = first.as_ref().map_or(all.len(), Bytes::len);
        if so_far + data.len() > max {
            return Err(Refusal::BodyTooLarge { max });
        }
        if !room.grow(data.len()) {
            return Err(Refusal::OutOfMemory { max: memory.max() });
        }
        match first.take() {
            None if all.is_empty() => first = Some(data),
            // It grows with what has come: what was announced may never come.
            before => {
                all.extend_from_slice(&before.unwrap_or_default());
                all.extend_from_slice(&data);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(room.keep(first.unwrap_or_else(|| all.freeze())))
}

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Packing {
    /// How a body with these headers is packed; `None` where it is not, an error where nobody here can unpack it.
    pub fn of(headers: &HeaderMap) -> Result<Option<Packing>, Unpackable> {
        let Some(name) = headers.get(CONTENT_ENCODING) else { return Ok(None) };
        match name.to_str().map_err(|_| Unpackable::Unknown)?.trim().to_ascii_lowercase().as_str() {
            "identity" | "" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Packing::Gzip)),
            "deflate" => Ok(Some(Packing::Deflate)),
            "br" => Ok(Some(Packing::Brotli)),
            "zstd" => Ok(Some(Packing::Zstd)),
            _ => Err(Unpackable::Unknown),
        }
    }
}

/// Why a body cannot be had unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpackable {
    /// It is packed in a way that nobody here knows.
    Unknown,
    /// It is not what it says it is.
    Broken,
    /// It becomes larger than it may.
    TooLarge,
    /// There is no memory for it now.
    OutOfMemory,
}

/// A packed body's content, up to so many bytes; `room` grows with it.
pub fn unpack(packing: Packing, body: &[u8], max: usize, room: &mut Reservation) -> Result<Bytes, Unpackable> {
    match packing {
        Packing::Gzip => read(flate2::read::MultiGzDecoder::new(body), max, room),
        Packing::Deflate => read(flate2::read::ZlibDecoder::new(body), max, room),
        Packing::Brotli => read(brotli_decompressor::Decompressor::new(body, PIECE_BYTES), max, room),
        Packing::Zstd => {
            if zstd_window(body).ok_or(Unpackable::Broken)? > WINDOW_BYTES_MAX {
                return Err(Unpackable::TooLarge);
            }
            let decoder = ruzstd::decoding::StreamingDecoder::new(body).map_err(|_| Unpackable::Broken)?;
            read(decoder, max, room)
        }
    }
}

/// The content of a body with these headers, as it came or unpacked, up to so many bytes.
pub fn unpacked(headers: &HeaderMap, body: &Bytes, max: usize) -> Option<Bytes> {
    match Packing::of(headers).ok()? {
        None => Some(body.clone()),
        Some(packing) => unpack(packing, body, max, &mut BodyMemory::new(usize::MAX).reservation()).ok(),
    }
}

fn read(mut from: impl Read, max: usize, room: &mut Reservation) -> Result<Bytes, Unpackable> {
    let mut out = Vec::new();
    let mut piece = [0; PIECE_BYTES];
    loop {
        let count = match from.read(&mut piece) {
            Ok(0) => return Ok(out.into()),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Unpackable::Broken),
        };
        if out.len() + count > max {
            return Err(Unpackable::TooLarge);
        }
        if !room.grow(count) {
            return Err(Unpackable::OutOfMemory);
        }
        out.extend_from_slice(&piece[..count]);
    }
}

/// The window that the first frame of a zstd body asks for (RFC 8878, 3.1.1.1), which its decoder holds before anything of the
/// content is given out; `None` where it is none.
fn zstd_window(body: &[u8]) -> Option<u64> {
    let frame = body.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd])?;
    let (descriptor, rest) = frame.split_first()?;
    if descriptor & 0x20 == 0 {
        let window = rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment is its own window.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let bytes = rest.get(dictionary..dictionary + size)?;
    let content = bytes.iter().rev().fold(0u64, |content, byte| content << 8 | u64::from(*byte));
    Some(if size == 2 { content + 256 } else { content })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn a_body_over_the_limit_is_turned_away_before_it_is_held() {
        let body = |bytes: usize| Full::new(Bytes::from(vec![b'x'; bytes]));
        let (pause, memory) = (Duration::from_secs(1), BodyMemory::new(100));
        assert_eq!(take(body(9), 10, pause, &memory).await.unwrap().len(), 9);
        assert_eq!(take(body(11), 10, pause, &memory).await, Err(Refusal::BodyTooLarge { max: 10 }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_or_drips_is_not_waited_for() {
        let (pause, memory) = (Duration::from_secs(2), BodyMemory::new(1 << 20));
        let dripping = |every: Duration| {
            let drops = futures_util::stream::unfold((), move |()| async move {
                tokio::time::sleep(every).await;
                Some((Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(b"x"))), ()))
            });
            http_body_util::StreamBody::new(Box::pin(drops))
        };
        let (begun, max) = (Instant::now(), 1000);
        assert_eq!(take(dripping(pause * 2), max, pause, &memory).await, Err(Refusal::BodyTimeout { seconds: 2 }));
        assert_eq!(begun.elapsed().as_secs(), 2);
        assert_eq!(take(dripping(pause / 2), max, pause, &memory).await, Err(Refusal::BodySlow { seconds: 20 }));
        assert_eq!(begun.elapsed().as_secs(), 22);
        assert_eq!(take(dripping(pause / 2), 5, pause, &memory).await, Err(Refusal::BodyTooLarge { max: 5 }));
    }

    #[tokio::test]
    async fn bodies_have_room_together_and_give_it_back() {
        let (pause, memory) = (Duration::from_secs(1), BodyMemory::new(100));
        let body = |bytes: usize| Full::new(Bytes::from(vec![b'x'; bytes]));
        let first = take(body(60), 100, pause, &memory).await.unwrap();
        assert_eq!(take(body(60), 100, pause, &memory).await, Err(Refusal::OutOfMemory { max: 100 }));
        assert_eq!(take(body(101), 1000, pause, &memory).await, Err(Refusal::BodyTooLarge { max: 100 }));
        drop(first);
        assert!(take(body(60), 100, pause, &memory).await.is_ok());
    }

    #[test]
    fn a_zstd_frame_says_how_large_its_window_is() {
        let magic = [0x28, 0xb5, 0x2f, 0xfd];
        let window = |header: &[u8]| zstd_window(&[&magic, header].concat());
        assert_eq!(window(&[0x00, 0x00]), Some(1024));
        assert_eq!(window(&[0x00, (13 << 3) | 4]), Some((8 << 20) + (4 << 20)));
        assert_eq!(window(&[0x20, 200]), Some(200));
        assert_eq!(window(&[0x61, 7, 0x00, 0x01]), Some(256 + 256), "behind a dictionary's number");
        assert_eq!(window(&[0xe0, 0, 0, 0, 0, 1, 0, 0, 0]), Some(1 << 32));
        assert_eq!((window(&[]), zstd_window(b"{}")), (None, None));
    }

    #[test]
    fn packed_bodies_are_read_and_bombs_are_not() {
        let text = "hello ".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        let zstd = Bytes::from(ruzstd::encoding::compress_to_vec(
            text.as_bytes(),
            ruzstd::encoding::CompressionLevel::Fastest,
        ));
        let headers = |name: &'static str| HeaderMap::from_iter([(CONTENT_ENCODING, name.parse().unwrap())]);
        let brotli = Bytes::from_static(&[
            0x1b, 0x6f, 0x17, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x55, 0x86, 0x96, 0x6c, 0x20, 0x6f, 0x71, 0x5b, 0x1c,
            0x80, 0xe4, 0x01, 0x20, 0x0e,
        ]);
        for (name, body) in [("gzip", &gzip), ("zstd", &zstd), ("br", &brotli)] {
            assert_eq!(unpacked(&headers(name), body, 10_000).unwrap(), text, "{name}");
            assert_eq!(unpacked(&headers(name), body, 1000), None, "{name}");
            assert_eq!(unpacked(&headers(name), &body.slice(..body.len() / 2), 10_000), None, "{name}");
        }
        assert_eq!(unpacked(&headers("br"), &gzip, 10_000), None);
        assert_eq!(unpacked(&headers("compress"), &gzip, 10_000), None);
    }
}
