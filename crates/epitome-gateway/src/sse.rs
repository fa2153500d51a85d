//! Server-sent events, framed: bytes in as they come, whole events out, each with the very bytes it came as.
//!
//! What is given out, put together, is what was put in. It refuses to wait for an event without end: one that grows
//! over [`EVENT_BYTES_MAX`] is passed on in pieces, unread. It does not interpret `id` and `retry`.

use bytes::{Bytes, BytesMut};

/// The most bytes of one event that are held to read it.
pub const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One event, or a comment, or a blank line: whatever a blank line ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The bytes it came as, the blank line included.
    pub raw: Bytes,
    /// The value of `event:`, if it was sent.
    pub name: Option<Bytes>,
    /// The value of `data:`, lines joined; absent for comments and for events that are too large to be read.
    pub data: Option<Bytes>,
}

impl Event {
    /// The event that these bytes spell.
    pub fn read(raw: Bytes) -> Event {
        let mut event = Event::default();
        let mut rest = raw.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&raw);
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| is_line_end(*byte)).unwrap_or(rest.len());
            event.take_line(&raw, &rest[..end]);
            rest = &rest[(end + 1).min(rest.len())..];
        }
        event.raw = raw;
        event
    }

    /// Bytes that are passed on unread.
    pub fn opaque(raw: Bytes) -> Event {
        Event { raw, name: None, data: None }
    }

    /// The name as text; empty without one.
    pub fn name(&self) -> &str {
        self.name.as_deref().and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// The data as text; nothing where there is none.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.data.as_deref()?).ok()
    }

    fn take_line(&mut self, raw: &Bytes, line: &[u8]) {
        if let Some(value) = field(line, b"data") {
            self.data = Some(match self.data.take() {
                None => raw.slice_ref(value),
                Some(before) => [&before, b"\n".as_slice(), value].concat().into(),
            });
        } else if let Some(value) = field(line, b"event") {
            self.name = Some(raw.slice_ref(value));
        }
    }
}

/// The value of a line that has this field.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&line[line.len()..]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// Cuts a stream of bytes into events, wherever the bytes were split on their way.
#[derive(Debug)]
pub struct Framer {
    /// The most bytes of one event that are held.
    event_bytes_max: usize,
    /// The beginning of an event whose end has not come.
    held: BytesMut,
    /// Bytes that were not scanned yet.
    chunk: Bytes,
    place: Place,
    /// True if the current event is too large and part of it was returned already.
    oversized: bool,
}

/// The framer's place in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    LineStart,
    InLine,
    /// After a carriage return, which a line feed may belong to.
    AfterReturn {
        /// True if the line that it ended was blank.
        blank: bool,
    },
}

impl Default for Framer {
    fn default() -> Self {
        Framer::within(EVENT_BYTES_MAX)
    }
}

impl Framer {
    /// A framer that holds no more than so many bytes of one event; a larger one is given out in pieces, unread.
    pub fn within(event_bytes_max: usize) -> Framer {
        let (held, chunk) = (BytesMut::new(), Bytes::new());
        Framer { event_bytes_max, held, chunk, place: Place::default(), oversized: false }
    }

    /// Takes a chunk and gives the events that are whole by now; they are slices of the chunk where it holds all of
    /// them. Events not asked for are given the next time.
    pub fn push(&mut self, chunk: impl Into<Bytes>) -> impl Iterator<Item = Event> {
        let chunk = chunk.into();
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [std::mem::take(&mut self.chunk), chunk].concat().into();
        }
        std::iter::from_fn(|| self.next_event())
    }

    /// Returns the rest of a stream that ended without a blank line, as an event.
    pub fn rest(&mut self) -> Option<Event> {
        self.held.extend_from_slice(&std::mem::take(&mut self.chunk));
        let raw = self.held.split().freeze();
        self.place = Place::LineStart;
        let oversized = std::mem::take(&mut self.oversized) || raw.len() > self.event_bytes_max;
        (!raw.is_empty()).then(|| whole(raw, oversized))
    }

    fn next_event(&mut self) -> Option<Event> {
        if self.chunk.is_empty() {
            return None;
        }
        match self.end() {
            Some(end) => {
                let raw = self.take(end);
                let oversized = std::mem::take(&mut self.oversized) || raw.len() > self.event_bytes_max;
                Some(whole(raw, oversized))
            }
            None if self.oversized || self.held.len() + self.chunk.len() > self.event_bytes_max => {
                self.oversized = true;
                let all = self.chunk.len();
                Some(Event::opaque(self.take(all)))
            }
            None => {
                self.held.extend_from_slice(&std::mem::take(&mut self.chunk));
                None
            }
        }
    }

    /// Joins the held bytes with the first bytes of the chunk.
    fn take(&mut self, end: usize) -> Bytes {
        let piece = self.chunk.split_to(end);
        if self.held.is_empty() {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        self.held.split().freeze()
    }

    /// Finds the end of the current event in the chunk. Each byte is scanned once.
    fn end(&mut self) -> Option<usize> {
        let bytes = &self.chunk[..];
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            match (self.place, byte) {
                (Place::AfterReturn { blank: true }, _) => {
                    self.place = Place::LineStart;
                    return Some(at + usize::from(byte == b'\n'));
                }
                (Place::AfterReturn { .. }, b'\n') => self.place = Place::LineStart,
                (Place::LineStart, b'\n') => return Some(at + 1),
                (Place::InLine, b'\n') => self.place = Place::LineStart,
                (place, b'\r') => self.place = Place::AfterReturn { blank: place != Place::InLine },
                _ => {
                    self.place = Place::InLine;
                    at += bytes[at..].iter().position(|byte| is_line_end(*byte)).unwrap_or(bytes.len() - at);
                    continue;
                }
            }
            at += 1;
        }
        None
    }
}

fn whole(raw: Bytes, oversized: bool) -> Event {
    if oversized { Event::opaque(raw) } else { Event::read(raw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each event as `name|data`, `-` for what is missing.
    fn framed(chunks: &[&[u8]]) -> Vec<String> {
        let mut framer = Framer::default();
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(framer.push(chunk.to_vec()));
        }
        events.extend(framer.rest());
        let all: Vec<u8> = events.iter().flat_map(|event| event.raw.to_vec()).collect();
        assert_eq!(all, chunks.concat(), "the bytes given out are the bytes put in");
        let shown =
            |part: &Option<Bytes>| part.as_ref().map_or("-".into(), |p| String::from_utf8_lossy(p).into_owned());
        events.iter().map(|event| format!("{}|{}", shown(&event.name), shown(&event.data))).collect()
    }

    fn check(stream: &str, expect: &[&str]) {
        let bytes = stream.as_bytes();
        assert_eq!(framed(&[bytes]), expect, "in one piece");
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            assert_eq!(framed(&[left, right]), expect, "split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(framed(&single), expect, "byte by byte");
    }

    #[test]
    fn events_end_at_a_blank_line_of_any_kind() {
        check("event: a\ndata: 1\n\ndata: 2\n\n", &["a|1", "-|2"]);
        check("event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", &["a|1", "-|2"]);
        check("event: a\rdata: 1\r\rdata: 2\r\r", &["a|1", "-|2"]);
        check("data: 1\n\r\ndata: 2\r\n\n", &["-|1", "-|2"]);
    }

    #[test]
    fn data_of_several_lines_is_joined() {
        check("data: a\ndata:b\ndata\ndata:  c\n\n", &["-|a\nb\n\n c"]);
        check("data: a\r\ndata: b\r\n\r\n", &["-|a\nb"]);
    }

    #[test]
    fn comments_and_unknown_fields_carry_no_data() {
        check(": ping\n\ndatum: 1\nid: 7\n\ndata: x\n\n", &["-|-", "-|-", "-|x"]);
    }

    #[test]
    fn a_stream_that_breaks_off_leaves_a_rest() {
        check("data: 1\n\ndata: [DONE]", &["-|1", "-|[DONE]"]);
        check("data: 1\n\ndata: [DONE]\n", &["-|1", "-|[DONE]"]);
        check("", &[]);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_a_field() {
        check("\u{feff}data: 1\n\n", &["-|1"]);
    }

    #[test]
    fn an_event_inside_a_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"data: 1\n\ndata: 2\n\n");
        let mut framer = Framer::default();
        let events: Vec<Event> = framer.push(chunk.clone()).collect();
        assert!(events.iter().all(|event| chunk.as_ptr_range().contains(&event.raw.as_ptr())));
    }

    #[test]
    fn events_not_asked_for_are_given_the_next_time() {
        let mut framer = Framer::default();
        assert!(framer.push("data: 1\n\ndata: 2\n\nda").next().is_some());
        let rest: Vec<Bytes> = framer.push("ta: 3\n\n").filter_map(|event| event.data).collect();
        assert_eq!(rest, ["2", "3"]);
    }

    #[test]
    fn an_event_without_end_is_passed_on_in_pieces_and_the_next_one_is_read() {
        let mut framer = Framer::default();
        let big = vec![b'x'; EVENT_BYTES_MAX / 2];
        let mut passed = 0;
        for _ in 0..3 {
            for event in framer.push(big.clone()) {
                assert_eq!(event.data, None);
                passed += event.raw.len();
            }
        }
        assert_eq!(passed, 3 * big.len(), "nothing is held any more");
        let after: Vec<Event> = framer.push("x\n\ndata: 1\n\n").collect();
        assert_eq!((after[0].data.as_deref(), after[1].data.as_deref()), (None, Some(b"1".as_slice())));
    }

    proptest! {
        #[test]
        fn framing_does_not_depend_on_where_the_bytes_were_split(
            stream in proptest::collection::vec(
                "(data: ?[a-c]{0,3}|event: [a-c]|:|x)?(\n|\r|\r\n|\n\n|\r\n\r\n){1,2}", 1..5,
            ),
            cuts in proptest::collection::vec(0usize..64, 0..5),
        ) {
            let stream = stream.concat();
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(framed(&chunks), framed(&[bytes]));
        }
    }
}
