//! What is said: words by Zipf's law, the same every time.

use std::time::Duration;

use serde_json::json;

const VOCABULARY: f64 = 30_000.0;
/// How many of the words may be rare ones.
const RARE_SHARE: f64 = 0.15;
/// What is said most often, commonest first; rarer words are made of two or more of these. None of them
/// forbids or demands: a constraint stays in every prompt, and so would those of a babbler.
const COMMON: &str = "the of to and in is that it for was on are as with be this from at by have or an we can which will if all \
     there they so but one use when file test error line code run new change value call then make check time \
     first out read write type name function list data user see work set into other found more now would after \
     path each where same two add does just build fail return message module key before next still like what \
     look open result text fix config store state number field part case start end order query page table \
     count report update remove request answer log server client thread token window cache index plan summary \
     prompt budget policy model tool agent session branch commit merge review deploy release version package \
     import export parse render decode encode string bytes array object json schema record row column lock \
     wait retry timeout limit range place span turn round step level mark share split join match search filter \
     sort group map reduce queue job worker lease event metric trace signal handle process memory disk network \
     socket port host address route header body status permission owner tenant secret seal vault artifact \
     document folder output input option flag default example about between during against within already \
     almost another later again possible likely certain simple small large long short full empty stable broken \
     correct missing extra";

/// Speaks without end.
#[derive(Debug)]
pub struct Speech {
    seed: u64,
    common: Vec<&'static str>,
}

impl Speech {
    /// One that always says the same.
    pub fn new(seed: u64) -> Self {
        Speech { seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, common: COMMON.split(' ').collect() }
    }

    fn next(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn rank(&mut self) -> usize {
        let many = if self.share() < RARE_SHARE { VOCABULARY } else { self.common.len() as f64 };
        many.powf(self.share()) as usize - 1
    }

    /// The word of a rank; the commonest one has rank 0.
    pub fn word(&self, rank: usize) -> String {
        let many = self.common.len();
        match rank < many {
            true => self.common[rank].to_owned(),
            false => format!("{}{}", self.word(rank / many - 1), self.common[rank % many]),
        }
    }

    /// Says nothing for up to five milliseconds. A file system is slower right after its clock has ticked; without
    /// pauses one side of a ratio could meet every tick.
    pub fn pause(&mut self) {
        std::thread::sleep(Duration::from_micros(self.next() % 5_000));
    }

    /// This many words.
    pub fn words(&mut self, count: usize) -> String {
        let mut out = String::with_capacity(count * 8);
        for at in 0..count {
            if at > 0 {
                out.push(if at % 12 == 0 { '\n' } else { ' ' });
            }
            let rank = self.rank();
            out.push_str(&self.word(rank));
        }
        out
    }

    /// About this many bytes.
    pub fn bytes(&mut self, bytes: usize) -> String {
        let mut text = self.words(bytes / 3);
        text.truncate(bytes);
        text
    }

    /// One turn of work: a request, a call, its result of so many bytes, an answer.
    pub fn turn(&mut self, at: usize, result_bytes: usize) -> Vec<String> {
        let file = format!("src/{}_{at}.rs", self.word(at));
        self.task(at, &[file], result_bytes)
    }

    /// A turn that reads some files, one after the other.
    pub fn task(&mut self, at: usize, files: &[String], result_bytes: usize) -> Vec<String> {
        let mut messages = vec![said("user", &format!("Request {at}: {}", self.words(20)))];
        for (number, path) in files.iter().enumerate() {
            let id = format!("call_{at}_{number}");
            let call = json!({"id": id, "type": "function",
                "function": {"name": "read", "arguments": json!({"path": path}).to_string()}});
            messages.push(json!({"role": "assistant", "content": self.words(15), "tool_calls": [call]}).to_string());
            let content = self.bytes(result_bytes);
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}).to_string());
        }
        messages.push(said("assistant", &self.words(40)));
        messages
    }
}

/// A message of a few words.
pub fn said(role: &str, words: &str) -> String {
    json!({"role": role, "content": words}).to_string()
}
