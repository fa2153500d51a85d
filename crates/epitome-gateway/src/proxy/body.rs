//! Request bodies: taken in within limits, and unpacked to be read. What came is kept as it came.

use std::io::Read as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::refusal::Refusal;

/// How many times as long as between two pieces of it a whole body may take.
const PAUSES_MAX: u32 = 10;

/// How much is unpacked at once.
pub const PIECE_BYTES: usize = 4096;

/// Takes a whole body in.
pub async fn take<B>(mut body: B, max: usize, pause: Duration) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
{
    if body.size_hint().lower() > max as u64 {
        return Err(Refusal::BodyTooLarge { max });
    }
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
        match first.take() {
            None if all.is_empty() => first = Some(data),
            before => {
                all.reserve(body.size_hint().lower() as usize + data.len());
                all.extend_from_slice(&before.unwrap_or_default());
                all.extend_from_slice(&data);
            }
        }
        if is_last {
            break;
        }
    }
    Ok(first.unwrap_or_else(|| all.freeze()))
}

/// The content of a packed body; `None` when it is packed in another way, is broken, or is larger than `max`.
pub fn unpacked(headers: &HeaderMap, body: &Bytes, max: usize) -> Option<Bytes> {
    let Some(packing) = headers.get(CONTENT_ENCODING) else { return Some(body.clone()) };
    match packing.to_str().ok()?.trim().to_ascii_lowercase().as_str() {
        "identity" | "" => Some(body.clone()),
        "gzip" | "x-gzip" => read(flate2::read::MultiGzDecoder::new(&body[..]), max),
        "deflate" => read(flate2::read::ZlibDecoder::new(&body[..]), max),
        "br" => read(brotli_decompressor::Decompressor::new(&body[..], PIECE_BYTES), max),
        "zstd" => read(ruzstd::decoding::StreamingDecoder::new(&body[..]).ok()?, max),
        _ => None,
    }
}

fn read(from: impl std::io::Read, max: usize) -> Option<Bytes> {
    let mut out = Vec::new();
    from.take(max as u64 + 1).read_to_end(&mut out).ok()?;
    (out.len() <= max).then(|| out.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn a_body_over_the_limit_is_turned_away_before_it_is_held() {
        let body = |bytes: usize| Full::new(Bytes::from(vec![b'x'; bytes]));
        let pause = Duration::from_secs(1);
        assert_eq!(take(body(9), 10, pause).await.unwrap().len(), 9);
        assert_eq!(take(body(11), 10, pause).await, Err(Refusal::BodyTooLarge { max: 10 }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_or_drips_is_not_waited_for() {
        let pause = Duration::from_secs(2);
        let dripping = |every: Duration| {
            let drops = futures_util::stream::unfold((), move |()| async move {
                tokio::time::sleep(every).await;
                Some((Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(b"x"))), ()))
            });
            http_body_util::StreamBody::new(Box::pin(drops))
        };
        let (begun, max) = (Instant::now(), 1000);
        assert_eq!(take(dripping(pause * 2), max, pause).await, Err(Refusal::BodyTimeout { seconds: 2 }));
        assert_eq!(begun.elapsed().as_secs(), 2);
        assert_eq!(take(dripping(pause / 2), max, pause).await, Err(Refusal::BodySlow { seconds: 20 }));
        assert_eq!(begun.elapsed().as_secs(), 22);
        assert_eq!(take(dripping(pause / 2), 5, pause).await, Err(Refusal::BodyTooLarge { max: 5 }));
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
