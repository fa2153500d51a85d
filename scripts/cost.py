"""What policies cost on recorded sessions with the provider's cache priced in, ours beside the peers': one table.

    cost.py COST FOLDER WORK      COST is the built example `cost`, FOLDER the recordings, WORK a folder to work in

The peers' own code makes the prompts here; the example prices everybody's in the same way and counts with the same
tokenizer. Exits with 1 when the policy of the gateway misses its target.
"""

import asyncio
import json
import logging
import pathlib
import subprocess
import sys
import threading

BUDGET = 20_000
TARGET = 0.30
GATEWAY = "ladder:20000:target.low_water=0.2"
#: What is run, what it is called, whose code it is.
OURS = [
    (GATEWAY, "epitome, as the gateway runs it: ladder down to 0.2", "epitome"),
    ("ladder:20000", "epitome ladder", "epitome"),
    ("layer:20000-10000", "epitome layer", "epitome"),
    ("timeline:20000-10000", "epitome timeline", "epitome"),
    ("workstream:20000-10000", "epitome workstream", "epitome"),
    ("claude-code:20000-5000", "as Claude Code does, down to a quarter", "re-made: epitome preset"),
    ("opencode:20000-10000", "as OpenCode does, down to half", "re-made: epitome preset"),
    ("codex:20000-10000", "as Codex does, down to half", "re-made: epitome preset"),
    ("pi:20000-10000", "as pi does, down to half", "re-made: epitome preset"),
]
#: The stub that stands for a model's summary.
SUMMARY = "Summary. " + "The agent read files, ran commands and changed code as asked. " * 64


def main():
    cost, folder, work = sys.argv[1:]
    logging.disable(logging.WARNING)
    work = pathlib.Path(work)
    threads = [json.loads(line) for line in run([cost, "threads", folder]).splitlines()]
    rows = {row["policy"]: row for row in map(json.loads, run([cost, "ours", folder, "nothing", *(row[0] for row in OURS)]).splitlines())}
    apart = [json.loads(line) for line in run([cost, "apart", folder, "nothing", GATEWAY]).splitlines()]
    rows |= peers(cost, folder, threads)
    (work / "cost.json").write_text(json.dumps(rows))
    return report(threads, rows, apart)


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# --- the table ------------------------------------------------------------------------------------------------------


def report(threads, rows, apart):
    base = rows["nothing"]["cost"]
    total = sum(sum(thread["tokens"]) for thread in threads)
    print(f"{len(threads)} recorded sessions, {total:,} tokens, {rows['nothing']['calls']:,} calls; budget {BUDGET:,} tokens; "
          "cache read 0.1, write 1.25, always warm.\n")
    print("| policy | whose code | tokens sent | peak | prefix hit | prefix breaks | cost (Mtok) | vs nothing | calls that miss something | read back (Mtok) | **vs nothing, all in** |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    ours = [line(rows[key], name, whose, base, True) for key, name, whose in OURS]
    theirs = [line(rows[name], name, whose, base, False) for name, whose, _ in PEERS]
    nothing = line(rows["nothing"], "no compaction", "", base, True)
    for _, text in sorted([*ours, *theirs, nothing]):
        print(text)
    by_length(threads, rows)
    alone = (apart[1]["cost"] + apart[1]["recall_cost"]) / apart[0]["cost"]
    print(f"\nWith the {len(apart[0]['sessions'])} recorded files each on its own, as cut by the agents' own compactions: {alone:.2f}x.")
    reached = (rows[GATEWAY]["cost"] + rows[GATEWAY]["recall_cost"]) / base
    verdict = "reached" if reached <= TARGET else "MISSED"
    print(f"\ntarget: at most {TARGET:.2f}x, everything recoverable and read-backs priced: {reached:.3f}x, {verdict}")
    return 0 if reached <= TARGET else 1


def line(row, name, whose, base, recoverable):
    hit, share = row["read"] / row["sent"], row["cost"] / base
    full = share + row["recall_cost"] / base if recoverable else share
    back = f"{row['recall_cost'] / 1e6:.2f}" if recoverable else "lost"
    told = f"**{full:.2f}x**" if recoverable else f"{full:.2f}x, losing them"
    return full, (f"| {name} | {whose} | {row['sent'] / 1e6:.1f}M | {row['peak']:,} | {hit:.1%} | {row['breaks']:,} | "
                  f"{row['cost'] / 1e6:.2f} | {share:.2f}x | {row['missed']:,} | {back} | {told} |")


def by_length(threads, rows):
    """The gateway's policy by the length of the sessions, beside what no policy can go below: everything written once."""
    print("\n| sessions of | how many | no compaction (Mtok) | the gateway's policy, all in | every message written once |")
    print("|---|--:|--:|--:|--:|")
    for low, high in [(0, 20), (20, 50), (50, 100), (100, 1000)]:
        at = [i for i, thread in enumerate(threads) if low * 1000 <= sum(thread["tokens"]) < high * 1000]
        if not at:
            continue
        nothing = sum(rows["nothing"]["sessions"][i][1] for i in at)
        ours = sum(sum(rows[GATEWAY]["sessions"][i][1:]) for i in at)
        once = sum(1.25 * sum(threads[i]["tokens"]) for i in at)
        name = f"{low},000 tokens or more" if high == 1000 else f"{low},000 to {high},000 tokens" if low else "fewer"
        print(f"| {name} | {len(at)} | {nothing / 1e6:.2f} | {ours / nothing:.2f}x | {once / nothing:.2f}x |")


# --- the peers ------------------------------------------------------------------------------------------------------


def peers(cost, folder, threads):
    """Prompts of every peer on every session, priced by the example as they come."""
    process = subprocess.Popen([cost, "theirs", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answer = []
    reader = threading.Thread(target=lambda: answer.append(process.stdout.read()))
    reader.start()
    for name, _, make in PEERS:
        for at, thread in enumerate(threads):
            lines = [json.dumps({"policy": name, "session": at})]
            prompt_of = make(thread)
            for end, message in enumerate(thread["messages"]):
                if end and message["role"] == "assistant":
                    lines.append(json.dumps(prompt_of(end)))
            process.stdin.write("\n".join(lines) + "\n")
        print(f"{name}: done", file=sys.stderr)
    process.stdin.close()
    reader.join()
    if process.wait():
        raise SystemExit("the peers' prompts could not be priced")
    return {row["policy"]: row for row in map(json.loads, answer[0].splitlines())}


def lc_messages(thread):
    from langchain_core.messages import convert_to_messages

    messages = convert_to_messages([{**message, "content": message.get("content") or ""} for message in thread["messages"]])
    for at, message in enumerate(messages):
        message.id = str(at)
    return messages


def lc_counter(thread):
    def count(messages):
        known = (thread["tokens"][int(m.id)] if (m.id or "").isdigit() and not m.response_metadata.get("context_editing")
                 else len(str(m.content)) // 4 + 4 for m in messages)
        return sum(known)

    return count


def lc_prompt(messages):
    """Recorded messages by their places, others as they are sent."""
    def entry(m):
        if m.response_metadata.get("context_editing"):
            return {"role": "tool", "tool_call_id": m.tool_call_id, "content": m.content}
        return int(m.id) if (m.id or "").isdigit() else {"role": "user", "content": m.content}

    return [entry(m) for m in messages]


def trim(thread):
    from langchain_core.messages import trim_messages

    messages, count = lc_messages(thread), lc_counter(thread)
    return lambda end: lc_prompt(trim_messages(messages[:end], max_tokens=BUDGET, token_counter=count, strategy="last",
                                               include_system=True, start_on=["human", "ai"]))


def clear(thread):
    from langchain.agents.middleware import ClearToolUsesEdit

    messages, count = lc_messages(thread), lc_counter(thread)
    edit = ClearToolUsesEdit(trigger=BUDGET, keep=3)

    def prompt(end):
        batch = list(messages[:end])
        edit.apply(batch, count_tokens=count)
        return lc_prompt(batch)

    return prompt


def summarize(thread):
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    messages, count = lc_messages(thread), lc_counter(thread)
    middleware = SummarizationMiddleware(FakeListChatModel(responses=[SUMMARY]), trigger=("tokens", BUDGET),
                                         keep=("tokens", BUDGET // 2), token_counter=count)
    state = {"messages": [], "seen": 0}

    def prompt(end):
        batch = state["messages"] + messages[state["seen"]:end]
        changed = middleware.before_model({"messages": batch}, None)
        state["messages"] = changed["messages"][1:] if changed else batch
        state["seen"] = end
        return lc_prompt(state["messages"])

    return prompt


def af_strategy(make):
    """A strategy of agent-framework; it marks messages in a list that grows."""
    def peer(thread):
        from agent_framework import apply_compaction

        batch, places, strategy = [], {}, make()
        loop = asyncio.new_event_loop()

        def prompt(end):
            for at in range(len(places), end):
                message = af_message(thread["messages"][at])
                places[id(message)] = at
                batch.append(message)
            kept = loop.run_until_complete(apply_compaction(batch, strategy=strategy, tokenizer=estimator()))
            return [places[id(m)] if id(m) in places else {"role": "assistant", "content": m.text} for m in kept]

        return prompt

    return peer


def estimator():
    from agent_framework import CharacterEstimatorTokenizer

    return CharacterEstimatorTokenizer()


def af_message(message):
    from agent_framework import Content, Message

    words = message.get("content") or ""
    if message["role"] == "tool":
        return Message("tool", [Content.from_function_result(message["tool_call_id"], result=words)])
    contents = [Content.from_text(words)]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        contents.append(Content.from_function_call(call["id"], function["name"], arguments=function["arguments"]))
    return Message(message["role"], contents)


def af(name, **options):
    def make():
        import agent_framework

        if name == "TruncationStrategy":
            options["tokenizer"] = estimator()
        return getattr(agent_framework, name)(**options)

    return af_strategy(make)


PEERS = [
    ("agent-framework TruncationStrategy, 20 000 to 10 000", "its own",
     af("TruncationStrategy", max_n=BUDGET, compact_to=BUDGET // 2)),
    ("agent-framework ContextWindowCompactionStrategy", "its own",
     af("ContextWindowCompactionStrategy", max_context_window_tokens=BUDGET + 4096, max_output_tokens=4096)),
    ("agent-framework SlidingWindowStrategy, 20 groups", "its own", af("SlidingWindowStrategy", keep_last_groups=20)),
    ("LangChain SummarizationMiddleware, stub of 1 000 tokens, its calls not priced", "its own", summarize),
    ("LangChain ClearToolUsesEdit, keep 3 (as Anthropic clear_tool_uses)", "its own", clear),
    ("LangChain trim_messages", "its own", trim),
]


if __name__ == "__main__":
    sys.exit(main())
