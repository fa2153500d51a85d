"""What a gateway costs: the same requests to a provider directly and through each proxy in front of it, in turns, so that
a busy machine is busy for all of them. Prints tables, and exits with 1 when a target is missed. It states no absolute
time as a target. `scripts/bench-gateway` runs it:

    gateway.py speed ROUNDS direct=PORT nginx=PORT litellm=PORT epitome=PORT
    gateway.py first ROUNDS direct=PORT nginx=PORT epitome=PORT
    gateway.py streams COUNT PID PORT
"""

import asyncio
import json
import os
import random
import re
import socket
import sys
import time

KB = 1024
SIZES = [("4 KB", 4 * KB, 8), ("100 KB", 100 * KB, 4), ("1 MB", 1024 * KB, 2)]
"""The bodies, and how many requests a contestant gets before it is another's turn."""
MODES = ["again", "growing", "new"]
"""The same request, the conversation one exchange later, another conversation."""
WARM_UP = 3
REST_S = 0.02
"""Between two turns: what one does beside its answers is not to be paid by the next."""

NGINX_FACTOR = 1.5
"""For 4 KB, the gateway adds at most this many times what nginx adds, at the median."""
LITELLM_SHARE = 0.1
"""For 1 MB, it adds at most this share of what LiteLLM adds."""
TOKEN_FACTOR = 1.05
"""The first token of a slow stream comes at most this many times later than directly."""
STREAMS_MB_MAX = 300
"""The most memory of the gateway while its streams are open."""

TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Runs a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
SYSTEM = "You are a careful engineer. Work in small steps, run the tests after each, and delete no file that you did not make."


class Conversation:
    """What an agent sends: a task, then calls and their results, up to a size."""

    def __init__(self, name, size):
        self.stem, self.size = name, size
        self.begin(name)

    def begin(self, name):
        self.name, self.messages, self.bytes = name, [], 0
        self.push({"role": "system", "content": SYSTEM})
        self.push({"role": "user", "content": f"The parser of {name} loses the last line of a file. Find out why, and fix it."})
        while self.bytes + 500 < self.size:
            self.exchange()

    def push(self, message):
        text = json.dumps(message, separators=(",", ":"))
        self.bytes += len(text) + 1
        self.messages.append(text)

    def exchange(self):
        at, call = len(self.messages), f"call_{len(self.messages)}"
        arguments = json.dumps({"command": f"sed -n {at},{at + 40}p src/{self.name}.rs"})
        calls = [{"id": call, "type": "function", "function": {"name": "bash", "arguments": arguments}}]
        self.push({"role": "assistant", "content": None, "tool_calls": calls})
        room = min(max(self.size // 40, 120), 1500)
        line = "{0:>5}  let {1}_{0} = lines.next().map(|text| text.trim_end().len());\n"
        lines = (line.format(at + number, self.name) for number in range(room // 60))
        self.push({"role": "tool", "tool_call_id": call, "content": "".join(lines)})

    def go_on(self, mode, turn):
        if mode == "growing" and self.bytes < self.size * 1.5:
            self.exchange()
        elif mode != "again":
            self.begin(f"{self.stem}_{turn}")

    def request(self, is_streamed):
        tools, messages = json.dumps(TOOLS, separators=(",", ":")), ",".join(self.messages)
        stream = "true" if is_streamed else "false"
        return f'{{"model":"gpt-4.1","stream":{stream},"tools":{tools},"messages":[{messages}]}}'.encode()


def whole_request(port, body):
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer sk-bench\r\n"
        f"content-type: application/json\r\nuser-agent: load/1\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Line:
    """One connection to a contestant, one request at a time."""

    def __init__(self, way):
        self.name, port = way.split("=")
        self.port, self.socket = int(port), None

    def connect(self):
        for _ in range(100):
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port))
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        else:
            raise SystemExit(f"{self.name} does not answer on port {self.port}.")
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body):
        """Seconds to the first byte of the answer's body, to the model's first word, and to the end."""
        if self.socket is None:
            self.connect()
        request, data, head_end, first, token = whole_request(self.port, body), b"", -1, None, None
        began = time.perf_counter()
        self.socket.sendall(request)
        while True:
            more = self.socket.recv(65536)
            now = time.perf_counter() - began
            if not more:
                raise SystemExit(f"{self.name} hung up: {data[:500]!r}")
            data += more
            if head_end < 0:
                head_end = data.find(b"\r\n\r\n")
                if head_end < 0:
                    continue
                head = data[:head_end].lower()
                length = re.search(rb"content-length: *(\d+)", head)
            if first is None and len(data) > head_end + 4:
                first = now
            if token is None and re.search(rb'"content": ?"[^"]', data[head_end:]):
                token = now
            if data.endswith(b"0\r\n\r\n") if length is None else len(data) >= head_end + 4 + int(length[1]):
                break
        if not data.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{self.name} answered {data[:500]!r}")
        if b"connection: close" in head:
            self.socket = None
        return first, token or now, now


def at(sample, share):
    ordered = sorted(sample)
    return ordered[round(share * (len(ordered) - 1))]


def told(seconds):
    return f"{seconds * 1e6:.0f} µs" if abs(seconds) < 0.01 else f"{seconds * 1e3:.1f} ms"


def both(low, high):
    return f"{told(low)} / {told(high)}"


def speed(rounds, lines):
    """Added latency for each size, each mode, streaming and not."""
    print("added latency, p50 / p99: through a proxy less direct; of a stream, to its first byte")
    names = " ".join(f"{line.name:>22}" for line in lines[1:])
    print(f"{'body':<7} {'mode':<8} {'answer':<7} {'n':>5} {'direct':>20} {names}", flush=True)
    misses = []
    wanted = os.environ.get("BENCH_BODY", "")
    for size, size_bytes, burst in (row for row in SIZES if wanted in ("", row[0])):
        for mode in MODES:
            for is_streamed in [False, True]:
                samples = compared(lines, size_bytes, burst, mode, is_streamed, rounds)
                case = f"{size:<7} {mode:<8} {'stream' if is_streamed else 'whole':<7}"
                direct = [at(samples[lines[0].name], share) for share in (0.5, 0.99)]
                added = {name: [at(sample, share) - was for share, was in zip((0.5, 0.99), direct)] for name, sample in samples.items()}
                columns = " ".join(f"{both(*added[line.name]):>22}" for line in lines[1:])
                print(f"{case} {rounds * burst:>5} {both(*direct):>20} {columns}", flush=True)
                misses += missed(size, mode, case, {name: low for name, (low, _) in added.items()})
    return misses


def compared(lines, size, burst, mode, is_streamed, rounds):
    samples = {line.name: [] for line in lines}
    talks = {line.name: Conversation(f"{line.name}{size}{mode}{is_streamed}", size) for line in lines}
    order, turn = list(lines), 0
    for number in range(rounds + 1):
        random.shuffle(order)
        for line in order:
            time.sleep(REST_S)
            # The first of a turn wakes everybody up and is not counted.
            for place in range(burst + 1 if number else WARM_UP):
                turn += 1
                talks[line.name].go_on(mode, turn)
                first, _, end = line.ask(talks[line.name].request(is_streamed))
                if number and place:
                    samples[line.name].append(first if is_streamed else end)
    return samples


def missed(size, mode, case, added):
    """The targets that a case misses. A conversation that is new each time has none: agents go on."""
    targets = {"4 KB": ("nginx", NGINX_FACTOR), "1 MB": ("litellm", LITELLM_SHARE)}
    peer, factor = targets.get(size, (None, None))
    if mode == "new" or peer not in added:
        return []
    own, other = added["epitome"], added[peer]
    if own <= other * factor:
        return []
    return [f"{' '.join(case.split())}: epitome adds {told(own)}, {peer} {told(other)}: {own / other:.2f}x, at most {factor}x"]


def first(rounds, lines):
    """A stream whose provider takes its time."""
    samples = {line.name: [] for line in lines}
    talks = {line.name: Conversation(f"first{line.name}", 4 * KB) for line in lines}
    for number in range(rounds + 1):
        for line in lines:
            talks[line.name].go_on("growing", number)
            took = line.ask(talks[line.name].request(True))
            if number:
                samples[line.name].append(took)
    print(f"{'a slow stream, p50':<20} {'first byte':>12} {'first token':>12} {'last byte':>12}")
    middle = {name: [at(column, 0.5) for column in zip(*rows)] for name, rows in samples.items()}
    for name, row in middle.items():
        print(f"{name:<20} " + " ".join(f"{told(value):>12}" for value in row))
    own, direct = middle["epitome"], middle["direct"]
    late = [(what, own[column], direct[column]) for column, what in [(1, "first token"), (2, "last byte")]]
    return [f"the {what} comes after {told(o)}, directly after {told(d)}" for what, o, d in late if o > d * TOKEN_FACTOR]


async def streams(count, pid, port):
    """So many streams at once, and the memory of who passes them on."""
    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1]) / 1024

    ready, finished, before = [], [], resident()

    async def stream(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole_request(port, Conversation(f"stream{number}", 4 * KB).request(True)))
        data = await reader.readuntil(b"\r\n\r\n")
        data += await reader.readuntil(b"\n\n")
        ready.append(number)
        while not data.endswith(b"0\r\n\r\n"):
            more = await reader.read(65536)
            if not more:
                break
            data = data[-16:] + more
        else:
            finished.append(number)
        writer.close()

    tasks, most, together = [], before, 0
    for number in range(count):
        tasks.append(asyncio.create_task(stream(number)))
        if number % 50 == 49:
            await asyncio.sleep(0.05)
    while not all(task.done() for task in tasks):
        most = max(most, resident())
        together = max(together, len(ready) - len(finished))
        await asyncio.sleep(0.05)
    print(f"{count} streams: {together} open at once, {len(finished)} finished; {before:.0f} MB before, {most:.0f} MB at most, {resident():.0f} MB after")
    misses = [] if len(finished) == count == together else [f"{together} of {count} streams were open at once, {len(finished)} finished"]
    return misses + ([f"{most:.0f} MB, at most {STREAMS_MB_MAX} MB"] if most > STREAMS_MB_MAX else [])


def main():
    random.seed(1)
    what, count, *rest = sys.argv[1:]
    if what == "streams":
        misses = asyncio.run(streams(int(count), *map(int, rest)))
    else:
        misses = {"speed": speed, "first": first}[what](int(count), [Line(way) for way in rest])
    for miss in misses:
        print(f"MISSED {miss}")
    sys.exit(1 if misses else 0)


main()
