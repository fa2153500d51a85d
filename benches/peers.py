"""What the peers cost on the same thread: one line of JSON for each question asked.

    peers.py tiktoken THREAD RUNS      encode_ordinary of every text, as the engine counts them
    peers.py langchain THREAD          trim_messages (approximate and exact), ContextEditingMiddleware
    peers.py agent-framework-cold THREAD    ContextWindowCompactionStrategy: the call that compacts
    peers.py agent-framework-warm THREAD    the same with room to spare, after one appended message

Every call gets fresh messages where it changes them; making them is not timed. Minima over the runs are left to the
caller: both wall and CPU milliseconds of each run are printed.
"""

import asyncio
import json
import sys
import time

from thread import texts

WINDOW = 200_000
OUTPUT = 16_384


def main():
    what, path, *rest = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        messages = json.load(file)
    match what:
        case "tiktoken":
            answer = encode(messages, int(rest[0]))
        case "langchain":
            answer = langchain(messages)
        case "agent-framework-warm":
            answer = asyncio.run(af_warm(messages))
        case "agent-framework-cold":
            answer = asyncio.run(af_cold(messages))
    print(json.dumps(answer))


def timed(call, runs):
    """Wall and CPU milliseconds of each run; `call` is a function that makes a function, and only the latter is timed."""
    walls, cpus = [], []
    for _ in range(runs):
        ready = call()
        wall, cpu = time.perf_counter(), time.process_time()
        ready()
        walls.append(1e3 * (time.perf_counter() - wall))
        cpus.append(1e3 * (time.process_time() - cpu))
    return {"wall_ms": walls, "cpu_ms": cpus}


def o200k():
    import tiktoken

    encoding = tiktoken.get_encoding("o200k_base")
    encoding.encode_ordinary("hello world")
    return encoding


def encode(messages, runs):
    start = time.perf_counter()
    encoding = o200k()
    load = 1e3 * (time.perf_counter() - start)
    all_texts = list(texts(messages))

    def run():
        for text in all_texts:
            encoding.encode_ordinary(text)

    tokens = sum(len(encoding.encode_ordinary(text)) for text in all_texts)
    return {"tokens": tokens, "load_ms": load, **timed(lambda: run, runs)}


def langchain(messages):
    from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
    from langchain.agents.middleware.types import ModelRequest
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import convert_to_messages, trim_messages

    encoding = o200k()

    def exact(batch):
        return sum(len(encoding.encode_ordinary(text)) for message in batch for text in lc_texts(message))

    def trim(counter):
        fresh = convert_to_messages(messages)
        return lambda: trim_messages(fresh, max_tokens=WINDOW // 2, token_counter=counter, strategy="last",
                                     include_system=True, start_on="human")

    def clear():
        request = ModelRequest(model=FakeListChatModel(responses=["ok"]), messages=convert_to_messages(messages), system_message=None,
                               tools=[], tool_choice=None, response_format=None, state={"messages": []}, runtime=None)
        middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=WINDOW // 2, keep=3)])
        return lambda: middleware.wrap_model_call(request, lambda edited: None)

    return {
        "LangChain trim_messages, approximate counter": timed(lambda: trim("approximate"), 3),
        "LangChain trim_messages, tiktoken as counter": timed(lambda: trim(exact), 2),
        "LangChain ContextEditingMiddleware, keep 3": timed(clear, 3),
    }


def lc_texts(message):
    if message.content:
        yield message.content
    for call in getattr(message, "tool_calls", ()):
        yield call["name"]
        yield json.dumps(call["args"])


async def af_warm(messages):
    """A call that has room, after one appended message; all earlier messages are annotated and counted."""
    strategy = af_strategy(100_000_000)
    batch = [af_message(message) for message in messages]
    await strategy(batch)
    times = {"wall_ms": [], "cpu_ms": []}
    for at in range(8):
        batch.append(af_message({"role": "user", "content": f"And then? ({at})"}))
        assert not await af_call(strategy, batch, times), "a call with room changes nothing"
    return times


async def af_cold(messages):
    """The first call on a thread that must be compacted."""
    times = {"wall_ms": [], "cpu_ms": []}
    batch = [af_message(message) for message in messages]
    assert await af_call(af_strategy(WINDOW), batch, times), "a call without room compacts"
    return times


def af_strategy(window):
    from agent_framework import ContextWindowCompactionStrategy

    return ContextWindowCompactionStrategy(max_context_window_tokens=window, max_output_tokens=OUTPUT)


async def af_call(strategy, batch, times):
    wall, cpu = time.perf_counter(), time.process_time()
    changed = await strategy(batch)
    times["wall_ms"].append(1e3 * (time.perf_counter() - wall))
    times["cpu_ms"].append(1e3 * (time.process_time() - cpu))
    return changed


def af_message(message):
    from agent_framework import Content, Message

    if message["role"] == "tool":
        return Message("tool", [Content.from_function_result(message["tool_call_id"], result=message["content"])])
    contents = [Content.from_text(message["content"])]
    for call in message.get("tool_calls", ()):
        function = call["function"]
        contents.append(Content.from_function_call(call["id"], function["name"], arguments=function["arguments"]))
    return Message(message["role"], contents)


if __name__ == "__main__":
    main()
