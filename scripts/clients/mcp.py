#!/usr/bin/env python3
"""The real Python MCP client against `epitome mcp`, and against a gateway's /mcp where one is named.

    scripts/clients/mcp.py target/debug/epitome
    scripts/clients/mcp.py target/debug/epitome --store sqlite:threads.db --url http://127.0.0.1:4141/mcp --key KEY

It makes a thread with long results in the store, has it compacted, and reads everything back, in every mode that the
client has: the handshake of the older protocol, the newer one without, and the one that finds out. The client is
installed under target/clients.
"""
import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CLIENT = "mcp==2.3.0"
ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / "target" / "clients"
LINES = 120
MODES = ["legacy", "2026-07-28", "auto"]


def within_venv():
    """Goes on inside the environment that holds the client. This file has its name, hence `-P`."""
    python = VENV / "bin" / "python"
    if Path(sys.prefix).resolve() == VENV.resolve():
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", CLIENT], check=True)
    os.execv(python, [str(python), "-P", *sys.argv])


def messages(thread):
    for turn in range(9):
        lines = LINES if turn < 3 else 4
        result = "".join(f"{n}: reading_{turn}_{n} of {thread} is {n * 7 % 41} percent\n" for n in range(1, lines))
        call = {"name": "read_log", "arguments": json.dumps({"path": f"logs/bed-{turn}.txt"})}
        yield {"role": "user", "content": f"Look at bed {turn}. Never water at noon."}
        yield {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{turn}", "type": "function", "function": call}]}
        yield {"role": "tool", "tool_call_id": f"c{turn}", "content": result + f"the zephyr{turn} turns\n"}
        yield {"role": "assistant", "content": f"Bed {turn} is fine."}


def text(result):
    return "\n".join(block.text for block in result.content)


async def check(client, thread, mode):
    """Everything that the server offers, once."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == ["read_artifact", "recall", "compact", "handoff", "notes", "annotate"], tools
    assert tools["recall"].annotations.read_only_hint and not tools["compact"].annotations.read_only_hint
    # A client that was told the version asks for nothing else at first.
    assert mode.endswith("2026-07-28") or "recall" in client.instructions

    done = await client.call_tool("compact", {"thread": thread, "pins": ["Never water at noon."]})
    assert not done.is_error, text(done)
    assert done.structured_content["plan_version"] >= 1, done.structured_content

    found = await client.call_tool("recall", {"thread": thread, "query": "zephyr0"})
    assert not found.is_error and "zephyr0 turns" in text(found), text(found)

    handed = await client.call_tool("handoff", {"thread": thread, "goal": "Find out why zephyr3 turns."})
    assert not handed.is_error and "Find out why zephyr3 turns." in text(handed), text(handed)

    resources = (await client.list_resources()).resources
    named = [one for one in resources if f"/thread/{thread}/" in str(one.uri) and one.title.startswith("logs/bed-")]
    assert named, resources
    named = named[0]
    whole = (await client.read_resource(str(named.uri))).contents[0].text
    assert len(whole.splitlines()) == LINES, whole
    templates = (await client.list_resource_templates()).resource_templates
    assert templates[0].uri_template == "epitome://thread/{thread}/artifact/{id}"

    part = await client.call_tool("read_artifact", {"thread": thread, "id": named.name, "from": 2, "to": 3})
    assert text(part).splitlines()[1:] == whole.splitlines()[1:3], text(part)
    part = await client.call_tool("read_artifact", {"thread": thread, "id": "m3", "grep": "ZEPHYR", "context": 1})
    assert f"{LINES}: the zephyr0 turns" in text(part) and f"{LINES - 1}- " in text(part), text(part)

    wrong = await client.call_tool("read_artifact", {"thread": thread, "id": "0" * 16})
    assert wrong.is_error and "There is no artifact" in text(wrong), text(wrong)
    wrong = await client.call_tool("recall", {"thread": "nowhere", "query": "x"})
    assert wrong.is_error and "There is no thread `nowhere`" in text(wrong), text(wrong)
    print(f"mcp client, {mode}: protocol {client.protocol_version}, {len(resources)} resources, all read back")


async def stdio(epitome, store, environment):
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    for number, mode in enumerate(MODES):
        # A thread for each, so that each compacts something.
        thread = f"beds{number}"
        imported(epitome, store, environment, thread)
        server = StdioServerParameters(command=epitome, args=["mcp", "--store", store], env=environment)
        async with Client(stdio_client(server), mode=mode) as client:
            await check(client, thread, f"stdio {mode}")
    session = ROOT / "testdata" / "sessions" / "codex.jsonl"
    run([epitome, "import", str(session), "--thread", "rollout", "--store", store], environment)
    fixed = StdioServerParameters(command=epitome, args=["mcp", "--thread", "rollout", "--store", store], env=environment)
    async with Client(stdio_client(fixed), mode="legacy") as client:
        await check_imported(client)


async def check_imported(client):
    """A session that an agent recorded can be searched and read, and says why it cannot be compacted."""
    tools = (await client.list_tools()).tools
    assert all("thread" not in tool.input_schema["properties"] for tool in tools), tools
    found = await client.call_tool("recall", {"query": "valve V-17"})
    assert not found.is_error and "V-17" in text(found), text(found)
    first = await client.call_tool("read_artifact", {"id": text(found).split()[0].strip("[")})
    assert not first.is_error and "V-17" in text(first), text(first)
    refused = await client.call_tool("compact", {})
    assert refused.is_error and "not continued" in text(refused), text(refused)
    print("mcp client, stdio: a recorded session is searched and read")


async def http(url, key, thread):
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    for mode in MODES:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as asking:
            async with Client(streamable_http_client(url, http_client=asking), mode=mode) as client:
                await check(client, thread, f"http {mode}")


def run(command, environment):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def imported(epitome, store, environment, thread):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(list(messages(thread)), file)
        file.flush()
        run([epitome, "import", file.name, "--thread", thread, "--store", store], environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("epitome")
    parser.add_argument("--store", help="the store that the gateway of --url has as well")
    parser.add_argument("--url", help="a gateway's /mcp")
    parser.add_argument("--key", help="a key of that gateway")
    options = parser.parse_args()
    within_venv()
    epitome = str(Path(options.epitome).resolve())
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.environ["PATH"], "EPITOME_MODEL_WINDOW": "10000"}
        store = options.store or f"sqlite:{home}/threads.db"
        if options.url:
            imported(epitome, store, environment, "beds")
            asyncio.run(http(options.url, options.key, "beds"))
        else:
            asyncio.run(stdio(epitome, store, environment))


if __name__ == "__main__":
    main()
