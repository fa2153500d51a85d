//! A client of a few lines: it writes JSON, a message a line, and reads the answer of the same id.

use epitome_gateway::mcp::{ServeError, Server, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::task::JoinHandle;

pub struct Client {
    output: BufReader<ReadHalf<DuplexStream>>,
    input: WriteHalf<DuplexStream>,
    served: JoinHandle<Result<(), ServeError>>,
    next: u64,
}

impl Client {
    /// A client that has said nothing yet.
    pub fn silent(server: Server) -> Client {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (input, output) = split(far);
        let served = tokio::spawn(serve(server, input, output));
        let (output, input) = split(near);
        Client { output: BufReader::new(output), input, served, next: 0 }
    }

    /// A client that has introduced itself.
    pub async fn of(server: Server) -> Client {
        let mut client = Client::silent(server);
        client.initialize("2025-06-18").await;
        client
    }

    pub async fn initialize(&mut self, version: &str) -> Value {
        let hello =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = self.ask("initialize", hello).await;
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
        answer["result"].clone()
    }

    pub async fn say(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Asks, and waits for the answer.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()).await;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).await.unwrap() > 0, "the server is gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// Calls a tool: the texts of the answer, and whether it is an error.
    pub async fn call(&mut self, name: &str, arguments: Value) -> (String, bool) {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        said(&answer)
    }

    /// Closes the connection, and waits for the server to end.
    pub async fn close(mut self) -> Result<(), ServeError> {
        self.input.shutdown().await.unwrap();
        drop((self.input, self.output));
        self.served.await.unwrap()
    }
}

/// The texts of the answer to a call, and whether it is an error.
pub fn said(answer: &Value) -> (String, bool) {
    let result = &answer["result"];
    let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let texts: Vec<&str> = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect();
    (texts.join("\n"), result["isError"].as_bool().unwrap())
}
