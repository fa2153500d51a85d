"""A tap: copies bytes between a client and a server and remembers them; the exchanges are read out of them afterwards.

It takes no part in HTTP: connections are kept, closed and broken off exactly as both sides do it.
"""

import io
import socket
import threading
import urllib.parse

from witness import Exchange

PIECE_BYTES = 64 * 1024


class Tap:
    """The tap, listening on loopback until it is stopped."""

    def __init__(self, upstream_url):
        upstream = urllib.parse.urlsplit(upstream_url)
        self.upstream = (upstream.hostname, upstream.port)
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.upstream)
            except OSError:
                return
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            asked, told = bytearray(), bytearray()
            self.connections.append((asked, told))
            threading.Thread(target=pump, args=(client, server, asked), daemon=True).start()
            threading.Thread(target=pump, args=(server, client, told), daemon=True).start()

    def stop(self):
        """Stops listening."""
        self.listener.close()

    def seen(self, key=None):
        """The exchanges so far, connection by connection: all of them, or those of one key."""
        found = [exchange for asked, told in self.connections for exchange in exchanges(bytes(asked), bytes(told))]
        return [exchange for exchange in found if key is None or exchange.key() == key]


def pump(source, sink, kept):
    """Copies until one side ends, and ends the other the same way."""
    try:
        while piece := source.recv(PIECE_BYTES):
            kept += piece
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, sink):
            side.close()


def exchanges(asked, told):
    """The requests of a connection with their answers, in order."""
    requests, answers = io.BytesIO(asked), io.BytesIO(told)
    while head := read_head(requests):
        method, path, _ = head[0].split(" ", 2)
        exchange = Exchange(method, path, head[1], read_body(requests, head[1]))
        answer = read_head(answers)
        while answer and answer[0].split(" ")[1] == "100":
            answer = read_head(answers)
        if answer:
            exchange.status = int(answer[0].split(" ")[1])
            exchange.answer_headers = answer[1]
            exchange.answer = read_body(answers, answer[1], to_end=True)
        yield exchange


def read_head(stream):
    """The first line and the headers of a message, or nothing at the end."""
    first = stream.readline().decode("latin-1").strip()
    if not first:
        return None
    headers = {}
    while line := stream.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return first, headers


def read_body(stream, headers, to_end=False):
    """The body of a message; `to_end` where one without a length lasts until the connection ends."""
    if "chunked" in headers.get("transfer-encoding", ""):
        return read_chunks(stream)
    if "content-length" in headers:
        return stream.read(int(headers["content-length"]))
    return stream.read() if to_end else b""


def read_chunks(stream):
    """A chunked body, as much of it as came."""
    body = b""
    while size := int(stream.readline().split(b";")[0].strip() or b"0", 16):
        body += stream.read(size)
        stream.readline()
    stream.readline()
    return body
