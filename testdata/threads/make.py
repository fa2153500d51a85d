#!/usr/bin/env python3
"""Writes one invented conversation in every dialect and session format, the same bytes every time."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = "You look after the greenhouse. Use the tools."
LOG = "\n".join(f"2026-05-{1 + n // 24:02d} {n % 24:02d}:00 bed {1 + n % 6} moisture {30 + n * 7 % 41} % valve {'open' if n % 5 == 0 else 'shut'}" for n in range(160))
MENDED = "\n".join(f"bed {n}: valve {'replaced' if n == 4 else 'fine'}" for n in range(1, 7))
# Who speaks, what is said, which calls are made (id, tool, arguments), what they answered (id, text, failed).
STORY = [
    ("user", "Bed 4 is drying out. Find out why. Never water between 11:00 and 16:00.", [], []),
    ("assistant", "I read the log and the valve states.", [("call_a1", "read_log", {"days": 7}), ("call_a2", "valves", {})], []),
    ("tool", "", [], [("call_a1", LOG, False), ("call_a2", "bed 4: no answer", True)]),
    ("assistant", "The valve of bed 4 does not answer. I try to reset it.", [("call_b1", "reset_valve", {"bed": 4})], []),
    ("tool", "", [], [("call_b1", "error: valve 4 timed out after 30 s (code V-17)", True)]),
    ("assistant", "Valve 4 times out with code V-17. It has to be replaced.", [], []),
    ("user", "I replaced it. Check again. And no, don't reset the others, only bed 4.", [], []),
    ("assistant", "", [("call_c1", "reset_valve", {"bed": 4}), ("call_c2", "read_log", {"days": 7})], []),
    ("tool", "", [], [("call_c1", "valve 4: open, 2.1 l/min", False), ("call_c2", LOG, False)]),
    ("assistant", "Valve 4 answers now: 2.1 l/min. The other valves were left alone.", [], []),
    ("user", "Good. Write down what was mended.", [], []),
    ("assistant", "", [("call_d1", "write_note", {"title": "valves", "text": MENDED})], []),
    ("tool", "", [], [("call_d1", "note 12 written", False)]),
    ("assistant", "Note 12 says which valves are fine and that valve 4 was replaced.", [], []),
    ("user", "When may bed 4 be watered next?", [], []),
]


def chat():
    out = [{"role": "system", "content": SYSTEM}]
    for role, text, calls, results in STORY:
        if role == "tool":
            out += [{"role": "tool", "tool_call_id": id, "content": answer} for id, answer, _ in results]
            continue
        message = {"role": role, "content": text or None}
        if calls:
            message["tool_calls"] = [{"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(a)}} for id, name, a in calls]
        out.append(message)
    return out


def responses():
    out = []
    for role, text, calls, results in STORY:
        if text:
            kind = "input_text" if role == "user" else "output_text"
            out.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
        out += [{"type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(a)} for id, name, a in calls]
        out += [{"type": "function_call_output", "call_id": id, "output": answer} for id, answer, _ in results]
    return out


def anthropic():
    out = []
    for role, text, calls, results in STORY:
        content = [{"type": "tool_result", "tool_use_id": id, "content": answer, **({"is_error": True} if bad else {})} for id, answer, bad in results]
        content += [{"type": "text", "text": text}] if text else []
        content += [{"type": "tool_use", "id": id, "name": name, "input": a} for id, name, a in calls]
        out.append({"role": "user" if role == "tool" else role, "content": content})
    return out


def ai_sdk():
    names = {id: name for _, _, calls, _ in STORY for id, name, _ in calls}
    out = [{"role": "system", "content": SYSTEM}]
    for role, text, calls, results in STORY:
        if role == "tool":
            out.append({"role": "tool", "content": [{"type": "tool-result", "toolCallId": id, "toolName": names[id], "output": {"type": "error-text" if bad else "text", "value": answer}} for id, answer, bad in results]})
            continue
        parts = [{"type": "text", "text": text}] if text else []
        parts += [{"type": "tool-call", "toolCallId": id, "toolName": name, "input": a} for id, name, a in calls]
        out.append({"role": role, "content": parts})
    return out


def pi_messages():
    names = {id: name for _, _, calls, _ in STORY for id, name, _ in calls}
    for role, text, calls, results in STORY:
        for id, answer, bad in results:
            yield {"role": "toolResult", "toolCallId": id, "toolName": names[id], "content": [{"type": "text", "text": answer}], "isError": bad}
        if role != "tool":
            content = [{"type": "text", "text": text}] if text else []
            content += [{"type": "toolCall", "id": id, "name": name, "arguments": a} for id, name, a in calls]
            yield {"role": role, "content": content}


def stamp(n):
    return f"2026-05-08T07:{n:02d}:00.000Z"


def pi_events():
    yield {"type": "session", "id": "greenhouse-1", "timestamp": stamp(0), "cwd": "/greenhouse", "provider": "none", "modelId": "none", "thinkingLevel": "off"}
    for n, message in enumerate(pi_messages()):
        yield {"type": "message", "timestamp": stamp(n + 1), "message": message}


def pi_tree():
    yield {"type": "session", "version": 3, "id": "greenhouse-2", "timestamp": stamp(0), "cwd": "/greenhouse"}
    parent = None
    for n, message in enumerate(pi_messages()):
        id = f"ab{n:06x}"
        yield {"type": "message", "id": id, "parentId": parent, "timestamp": stamp(n + 1), "message": message}
        parent = id


def codex():
    yield {"timestamp": stamp(0), "type": "session_meta", "payload": {"id": "0198a000-0000-7000-8000-000000000001", "timestamp": stamp(0), "cwd": "/greenhouse", "originator": "codex_cli_rs", "cli_version": "0.60.1", "instructions": None}}
    for n, item in enumerate(responses()):
        yield {"timestamp": stamp(n + 1), "type": "response_item", "payload": item}


def save(name, text):
    with open(os.path.join(HERE, name), "w", encoding="utf-8", newline="\n") as f:
        f.write(text)


def lines(values):
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def pretty(value):
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


TOOLS = [("read_log", "Reads the moisture log."), ("valves", "Tells the state of all valves."), ("reset_valve", "Resets one valve."), ("write_note", "Writes a note.")]
SCHEMA = {"type": "object", "properties": {}}
if __name__ == "__main__":
    save("chat.json", pretty({"model": "gpt-4o", "messages": chat(), "tools": [{"type": "function", "function": {"name": n, "description": d, "parameters": SCHEMA}} for n, d in TOOLS]}))
    save("chat.jsonl", lines(chat()))
    save("responses.json", pretty({"model": "gpt-5", "instructions": SYSTEM, "input": responses(), "tools": [{"type": "function", "name": n, "description": d, "parameters": SCHEMA} for n, d in TOOLS], "store": False}))
    save("anthropic.json", pretty({"model": "claude-sonnet-4-5", "max_tokens": 4096, "system": SYSTEM, "messages": anthropic(), "tools": [{"name": n, "description": d, "input_schema": SCHEMA} for n, d in TOOLS]}))
    save("ai-sdk.json", pretty(ai_sdk()))
    save("../sessions/pi-events.jsonl", lines(pi_events()))
    save("../sessions/pi-tree.jsonl", lines(pi_tree()))
    save("../sessions/codex.jsonl", lines(codex()))
