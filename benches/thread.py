"""The thread that everyone is measured on: an OpenAI Chat list, the same bytes every time.

One system message, then cycles of user / assistant with a call / tool result / assistant. Tool results are about 85 % of
the characters: JSON rows, log lines and code in rotation. Two thousand messages are one million o200k tokens.
"""

import json
import random
import sys

TOOLS = ("query_rows", "tail_log", "read_file")
NOUNS = """account adapter archive batch billing broker bucket buffer builder bundle cache catalog channel checkout cluster
column commit config consumer context cookie counter cursor dataset deployment digest dispatcher document driver endpoint
engine event exporter fallback feature fetcher filter fixture flag folder formatter gateway handler header history hook
identity importer index ingest invoice issue job journal kernel key label ledger limiter listener loader lock manifest
mapper merge message metric migration mirror module monitor node notice object offset operator order outbox owner packet
page parser partition patch payload pipeline planner plugin policy pool probe profile proxy queue quota reader record
region registry release renderer replica report request resolver response retry role route rule runner sampler scheduler
schema scope segment sensor sequence server session shard signal slot snapshot socket source span state step storage
stream subscriber summary switch symbol table tag target task template tenant ticket timer token topic trace tracker
trigger tuple update upload user validator vault vector version view volume watcher window worker writer zone""".split()
VERBS = """accept append apply attach balance bind build cancel check claim clean close collect compare compile compute
confirm connect convert copy create decode defer delete deliver detect drain drop emit encode enqueue evict expand export
fetch filter find flush fold format gather guard handle hash hold import index inspect join keep lease limit link list
load lock log map mark match measure merge migrate move name notify open order pack parse patch pause plan poll prune pull
push query rank read rebuild reclaim record reduce refresh reject release reload remove render repair replay report reset
resolve restart restore resume retry revert rotate route run sample save scan schedule seal search seed select send serve
set share shift sign skip sort split stage start stop store submit sum swap sync tag take test trace track trim update
upload validate verify wait warm watch wrap write yield""".split()
LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR")
RESULT_CHARS = 6050


def thread(messages, seed=20):
    """The list of `messages` messages."""
    dice = random.Random(seed)
    out = [{"role": "system", "content": system(dice)}]
    cycle = 0
    while len(out) < messages:
        out.extend(exchange(dice, cycle))
        cycle += 1
    return out[:messages]


def exchange(dice, cycle):
    """One cycle."""
    tool = TOOLS[cycle % 3]
    path = f"src/{dice.choice(NOUNS)}/{dice.choice(NOUNS)}_{dice.choice(NOUNS)}.py"
    call = {"id": f"call_{cycle:06d}", "type": "function",
            "function": {"name": tool, "arguments": json.dumps(arguments(dice, tool, path))}}
    return [
        {"role": "user", "content": request(dice)},
        {"role": "assistant", "content": prose(dice, 2), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": result(dice, tool)},
        {"role": "assistant", "content": prose(dice, 5)},
    ]


def system(dice):
    return "You are a careful engineer. " + prose(dice, 12)


def request(dice):
    verb, noun, other = dice.choice(VERBS), dice.choice(NOUNS), dice.choice(NOUNS)
    more = f" Do not touch the {dice.choice(NOUNS)} {dice.choice(NOUNS)}." if dice.random() < 0.1 else ""
    return f"Please {verb} the {noun} before the {other} does, and tell me why the {noun} did {dice.choice(VERBS)} it.{more}"


def prose(dice, sentences):
    def one():
        return (f"The {dice.choice(NOUNS)} has to {dice.choice(VERBS)} every {dice.choice(NOUNS)} that the "
                f"{dice.choice(NOUNS)} may {dice.choice(VERBS)}, so I will {dice.choice(VERBS)} the {dice.choice(NOUNS)} "
                f"in `{dice.choice(VERBS)}_{dice.choice(NOUNS)}` and {dice.choice(VERBS)} it again.")
    return " ".join(one() for _ in range(sentences))


def arguments(dice, tool, path):
    match tool:
        case "query_rows":
            return {"sql": f"select * from {dice.choice(NOUNS)}_{dice.choice(NOUNS)} where {dice.choice(NOUNS)} = "
                           f"'{dice.randrange(1 << 24):06x}' limit 50"}
        case "tail_log":
            return {"command": f"tail -n 80 /var/log/{dice.choice(NOUNS)}/{dice.choice(NOUNS)}.log"}
        case _:
            return {"path": path}


def result(dice, tool):
    line = {"query_rows": row, "tail_log": log_line, "read_file": code}[tool]
    lines, chars = [], 0
    while chars < RESULT_CHARS:
        lines.append(line(dice))
        chars += len(lines[-1]) + 1
    return "\n".join(lines)


def row(dice):
    return json.dumps({
        "id": dice.randrange(10**6), dice.choice(NOUNS): dice.choice(VERBS), "owner": f"{dice.choice(NOUNS)}-team",
        "state": dice.choice(("open", "closed", "waiting")), "note": f"{dice.choice(VERBS)} the {dice.choice(NOUNS)} of the "
        f"{dice.choice(NOUNS)}", "amount": dice.randrange(10**5) / 100, "active": dice.random() < 0.5})


def log_line(dice):
    return (f"2026-03-{dice.randrange(1, 29):02d}T{dice.randrange(24):02d}:{dice.randrange(60):02d}:"
            f"{dice.randrange(60):02d}Z {dice.choice(LEVELS)} {dice.choice(NOUNS)}.{dice.choice(NOUNS)}: could not "
            f"{dice.choice(VERBS)} {dice.choice(NOUNS)} {dice.randrange(1 << 32):08x} after {dice.randrange(5000)} ms, will "
            f"{dice.choice(VERBS)} the {dice.choice(NOUNS)}")


def code(dice):
    verb, noun, other = dice.choice(VERBS), dice.choice(NOUNS), dice.choice(NOUNS)
    return (f"    def {verb}_{noun}(self, {other}, {dice.choice(NOUNS)}=None):\n"
            f"        \"\"\"{verb.title()}s the {noun} and tells the {other} about it.\"\"\"\n"
            f"        for {noun} in self.{dice.choice(NOUNS)}s:\n"
            f"            if {noun}.{dice.choice(NOUNS)} is not {other}.{dice.choice(NOUNS)}:\n"
            f"                self.{dice.choice(VERBS)}({noun}, limit={dice.randrange(1000)})\n"
            f"        return {other}.{dice.choice(VERBS)}()\n")


def texts(messages):
    """What a tokenizer is given of each message: its words, its calls' names and arguments."""
    for message in messages:
        if message.get("content"):
            yield message["content"]
        for call in message.get("tool_calls", ()):
            yield call["function"]["name"]
            yield call["function"]["arguments"]


def main():
    what, path = sys.argv[1:]
    messages = exchange(random.Random(7), 999_999)[:3] if what == "exchange" else thread(int(what))
    with open(path, "w", encoding="utf-8") as out:
        json.dump(messages, out, ensure_ascii=False)


if __name__ == "__main__":
    main()
