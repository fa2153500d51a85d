"""A witness: a plain proxy in front of a server that remembers every exchange, byte for byte.

It changes nothing that passes. It refuses two things itself, in the provider's own words, because the mock behind it takes
any key and any model: the key `wrong`, and the model `no-such-model`. `GET /witness?key=KEY` tells what it has seen.
"""

import dataclasses
import http.client
import http.server
import json
import threading
import urllib.parse

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}
PIECE_BYTES = 64 * 1024


@dataclasses.dataclass
class Exchange:
    """A request and its answer."""

    method: str
    path: str
    headers: dict
    body: bytes
    status: int = 0
    answer_headers: dict = dataclasses.field(default_factory=dict)
    answer: bytes = b""
    # Whether the reader closed its side before the answer was told.
    left: bool = False

    def key(self):
        """Whose it is."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or bearer

    def json(self):
        """The request's body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    def usage(self):
        """The tokens that the answer reports: (prompt, of it from the cache, output), or nothing."""
        found = None
        for document in documents(self.answer):
            found = merged(found, usage_of(document))
        return found


def documents(answer):
    """The JSON documents of an answer: one, or those of its events."""
    text = answer.decode("utf-8", "replace")
    lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")] or [text]
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def raw_usages(document):
    """The usage objects in a document."""
    if not isinstance(document, dict):
        return []
    places = [document, document.get("response") or {}, document.get("message") or {}]
    return [place[name] for place in places for name in ("usage", "usageMetadata") if isinstance(place.get(name), dict)]


def usage_of(document):
    """What one document says about tokens."""
    for usage in raw_usages(document):
        if "promptTokenCount" in usage:
            return (
                usage["promptTokenCount"],
                usage.get("cachedContentTokenCount", 0),
                usage.get("candidatesTokenCount", 0),
            )
        if "prompt_tokens" in usage:
            return (
                usage["prompt_tokens"],
                (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
                usage.get("completion_tokens", 0),
            )
        if "input_tokens_details" in usage:
            return (
                usage["input_tokens"],
                (usage.get("input_tokens_details") or {}).get("cached_tokens", 0),
                usage["output_tokens"],
            )
        if "input_tokens" in usage:
            read = usage.get("cache_read_input_tokens") or 0
            return (
                usage["input_tokens"] + read + (usage.get("cache_creation_input_tokens") or 0),
                read,
                usage.get("output_tokens", 0),
            )
        if "output_tokens" in usage:
            return 0, 0, usage["output_tokens"]
    return None


def merged(one, other):
    """The larger of two reports, number by number: streams report in pieces."""
    if one is None or other is None:
        return one or other
    return tuple(max(pair) for pair in zip(one, other))


def refusal(exchange):
    """What the witness refuses itself: a status and a body, or nothing."""
    messages = "/messages" in exchange.path
    if exchange.key() == "wrong":
        if messages:
            return 401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
        return 401, {
            "error": {
                "message": "Incorrect API key provided: wrong.",
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_api_key",
            }
        }
    if b'"no-such-model"' in exchange.body:
        if messages:
            return 404, {"type": "error", "error": {"type": "not_found_error", "message": "model: no-such-model"}}
        return 404, {
            "error": {
                "message": "The model `no-such-model` does not exist or you do not have access to it.",
                "type": "invalid_request_error",
                "param": None,
                "code": "model_not_found",
            }
        }
    return None


class Witness:
    """The proxy, listening on loopback until it is stopped."""

    def __init__(self, upstream_url):
        self.upstream = urllib.parse.urlsplit(upstream_url)
        self.exchanges = []
        self.lock = threading.Lock()
        witness = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def pass_on(self):
                witness.pass_on(self)

            do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = pass_on

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        """Stops listening."""
        self.server.shutdown()
        self.server.server_close()

    def seen(self, key=None):
        """The exchanges so far, oldest first: all of them, or those of one key."""
        with self.lock:
            return [exchange for exchange in self.exchanges if key is None or exchange.key() == key]

    def pass_on(self, client):
        body = body_of(client)
        if client.path.startswith("/witness?key="):
            seen = self.seen(urllib.parse.unquote(client.path.partition("=")[2]))
            return answer_json(
                client,
                200,
                [{"path": exchange.path, "status": exchange.status, "left": exchange.left} for exchange in seen],
            )
        headers = {name.lower(): value for name, value in client.headers.items()}
        exchange = Exchange(client.command, client.path, headers, body)
        with self.lock:
            self.exchanges.append(exchange)
        refused = refusal(exchange)
        if refused:
            exchange.status, exchange.answer = refused[0], answer_json(client, *refused)
            return None
        upstream = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=300)
        try:
            self.relay(client, upstream, exchange)
        finally:
            upstream.close()
        return None

    def relay(self, client, upstream, exchange):
        upstream.putrequest(exchange.method, exchange.path, skip_host=True, skip_accept_encoding=True)
        for name, value in client.headers.items():
            if name.lower() not in HOP_BY_HOP | {"content-length"}:
                upstream.putheader(name, value)
        upstream.putheader("Content-Length", str(len(exchange.body)))
        upstream.endheaders(exchange.body)
        answer = upstream.getresponse()
        exchange.status = answer.status
        exchange.answer_headers = {name.lower(): value for name, value in answer.getheaders()}
        try:
            self.tell(client, answer, exchange)
        except OSError:
            exchange.left = True
            client.close_connection = True

    def tell(self, client, answer, exchange):
        client.send_response_only(answer.status, answer.reason)
        length = answer.getheader("content-length")
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                client.send_header(name, value)
        if length is None:
            client.send_header("Transfer-Encoding", "chunked")
        client.end_headers()
        try:
            while piece := answer.read1(PIECE_BYTES):
                exchange.answer += piece
                client.wfile.write(piece if length is not None else b"%x\r\n%s\r\n" % (len(piece), piece))
                client.wfile.flush()
        except http.client.HTTPException:
            # The upstream broke off; so does the witness.
            client.close_connection = True
            return
        if length is None:
            client.wfile.write(b"0\r\n\r\n")


def answer_json(client, status, document):
    """Answers with a document of the witness's own, and returns its bytes."""
    body = json.dumps(document).encode()
    client.send_response_only(status)
    client.send_header("Content-Type", "application/json")
    client.send_header("Content-Length", str(len(body)))
    client.end_headers()
    client.wfile.write(body)
    return body


def body_of(client):
    """The body of a request."""
    if "chunked" not in client.headers.get("Transfer-Encoding", ""):
        return client.rfile.read(int(client.headers.get("Content-Length") or 0))
    body = b""
    while size := int(client.rfile.readline().split(b";")[0], 16):
        body += client.rfile.read(size)
        client.rfile.readline()
    client.rfile.readline()
    return body
