//! Request bodies as agents send them: a system prompt, tools, and exchanges of calls and results up to a size.

use bytes::Bytes;

const MODEL: &str = "gpt-4.1";
/// About the size of one tool result.
const RESULT_BYTES: usize = 1500;

/// How the next request relates to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is the same one.
    Again,
    /// The conversation has grown by an exchange.
    Growing,
    /// It is another conversation.
    New,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Again, Mode::Growing, Mode::New];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Again => "again",
            Mode::Growing => "growing",
            Mode::New => "new",
        }
    }
}

/// A conversation of an agent.
pub struct Conversation {
    name: String,
    messages: Vec<String>,
    bytes: usize,
    bytes_wanted: usize,
}

impl Conversation {
    /// One of about so many bytes. Two names have nothing in common but the system prompt.
    pub fn new(name: String, bytes_wanted: usize) -> Self {
        let mut conversation = Conversation { name, messages: Vec::new(), bytes: 0, bytes_wanted };
        conversation.begin();
        conversation
    }

    fn begin(&mut self) {
        self.messages.clear();
        self.bytes = 0;
        self.push(r#"{"role":"system","content":"You are a careful engineer. Work in small steps, run the tests after each of them, and never delete a file that you did not make."}"#.to_owned());
        let task = format!(
            "The parser of {} loses the last line of a file without a newline. Find out why, and fix it.",
            self.name
        );
        self.push(format!(r#"{{"role":"user","content":"{task}"}}"#));
        while self.bytes + 700 < self.bytes_wanted {
            self.exchange();
        }
    }

    fn push(&mut self, message: String) {
        self.bytes += message.len() + 1;
        self.messages.push(message);
    }

    /// A call and its result.
    fn exchange(&mut self) {
        let (at, name) = (self.messages.len(), self.name.clone());
        let command = format!(r#"{{\"command\":\"sed -n {at},{}p src/{name}.rs\"}}"#, at + 40);
        self.push(format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{at}","type":"function","function":{{"name":"bash","arguments":"{command}"}}}}]}}"#
        ));
        let room = self.bytes_wanted.saturating_sub(self.bytes + 600).clamp(120, RESULT_BYTES);
        let result = source(&name, at, room);
        self.push(format!(r#"{{"role":"tool","tool_call_id":"call_{at}","content":"{result}"}}"#));
    }

    /// Goes on as a mode has it. A conversation that has grown by half begins anew.
    pub fn next(&mut self, mode: Mode, turn: usize) {
        match mode {
            Mode::Again => {}
            Mode::Growing if self.bytes < self.bytes_wanted + self.bytes_wanted / 2 => self.exchange(),
            Mode::Growing | Mode::New => {
                let stem = self.name.split('-').next().unwrap_or_default().to_owned();
                self.name = format!("{stem}-{turn}");
                self.begin();
            }
        }
    }

    /// The request.
    pub fn request(&self, is_streamed: bool) -> Bytes {
        const TOOLS: &str = r#"[{"type":"function","function":{"name":"bash","description":"Runs a command.","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}]"#;
        let messages = self.messages.join(",");
        format!(r#"{{"model":"{MODEL}","stream":{is_streamed},"tools":{TOOLS},"messages":[{messages}]}}"#).into()
    }
}

/// Lines of a program, as a tool puts them out.
fn source(name: &str, at: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 80);
    let mut line = at;
    while text.len() < bytes {
        let next = format!(r"{line:>5}  let {name}_{line} = lines.next().map(|text| text.trim_end().len() + {at});\n");
        text.push_str(&next.replace('-', "_"));
        line += 1;
    }
    text
}
