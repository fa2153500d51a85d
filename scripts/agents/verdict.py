"""A verdict: what a run of an agent has to have been like, checked on what passed at both sides of the gateway.

Refuses to look into the agent: its status and its last words are all that counts of it.
"""

import dataclasses
import json
import re

GENERATES = ("/chat/completions", "/responses", "/messages", "GenerateContent", "generateContent")


@dataclasses.dataclass
class Verdict:
    """One row of the table, and what was wrong."""

    name: str
    version: str
    requests: int
    threads: int
    compactions: int
    tokens_asked_max: int
    tokens_max: int
    window: int
    cached_share: float
    seconds: float
    failures: list

    @classmethod
    def of(cls, run, outcomes, stage, args, seconds):
        """Judges a run that has ended."""
        asked = [exchange for exchange in stage.tap.seen() if generates(exchange)]
        sent = [exchange for exchange in stage.witness.seen() if generates(exchange)]
        usages = [usage for usage in (exchange.usage() for exchange in sent) if usage]
        facts = {
            "requests": len(asked),
            "threads": len({thread_of(exchange) for exchange in asked} - {None}),
            "compactions": len({plan_of(exchange) for exchange in asked} - {None}),
            "tokens_asked_max": max((tokens_before(exchange) for exchange in asked), default=0),
            "tokens_max": max((prompt for prompt, _, _ in usages), default=0),
            "cached_share": sum(cached for _, cached, _ in usages) / max(1, sum(prompt for prompt, _, _ in usages)),
        }
        failures = [*ended(outcomes), *bounded(asked, args)]
        if run.passed_through:
            failures += passed(asked, sent)
        else:
            failures += [
                *answered(asked, sent, stage, args),
                *compacted(run, facts, asked),
                *one_thread(run, asked),
                *listed(asked, stage),
            ]
            failures += hidden(asked, sent) if args.tools == "on" else untouched(asked, sent)
        return cls(
            run.name, run.version() or "?", window=run.window, seconds=seconds, failures=counted(failures), **facts
        )

    def line(self):
        """One line, and one for each thing that was wrong."""
        return "\n".join(
            [f"{'FAIL' if self.failures else 'ok  '} {self.name}", *(f"     {failure}" for failure in self.failures)]
        )


def counted(failures):
    """Each failure once, with how often it was; numbers do not make a difference."""
    kinds = {}
    for failure in failures:
        kinds.setdefault(re.sub(r"[0-9]+|req_[0-9a-f]+", "", failure), []).append(failure)
    return [same[0] if len(same) == 1 else f"{same[0]} ({len(same)} times)" for same in kinds.values()]


def generates(exchange):
    """Whether a model was asked."""
    path = exchange.path.split("?")[0]
    return exchange.method == "POST" and path.endswith(GENERATES) and not path.endswith("count_tokens")


def thread_of(exchange):
    return exchange.answer_headers.get("x-epitome-thread")


def plan_of(exchange):
    """The thread and the version of the plan that a prompt was under; nothing where there was none."""
    version = exchange.answer_headers.get("x-epitome-plan", "0")
    return None if version == "0" else (thread_of(exchange), version)


def tokens_before(exchange):
    """The tokens of what the agent sent: as the gateway counted them, or as the provider did where nothing was changed."""
    told = exchange.answer_headers.get("x-epitome-tokens-before")
    return int(told) if told else (exchange.usage() or (0,))[0]


def ended(outcomes):
    """The agent ended well, and said so."""
    for number, (status, printed, errors) in enumerate(outcomes):
        if status != 0:
            yield f"command {number} ended with {status}: {(errors or printed)[-400:]!r}"
    if outcomes and "WORK DONE" not in outcomes[0][1]:
        yield f"the last words are {outcomes[0][1][-200:]!r}"


def answered(asked, sent, stage, args):
    """Nobody was refused anything, except where the gateway has to learn the window."""
    for exchange in asked:
        if exchange.status >= 400:
            yield f"the client got {exchange.status} for {exchange.path}: {exchange.answer[:300]!r}"
    for exchange in sent:
        if exchange.status >= 400 and not (args.learn and overflowed(exchange)):
            yield f"the upstream said {exchange.status} to {exchange.path}: {exchange.answer[:300]!r}"
    for exchange in asked:
        if "x-epitome-failed-open" in exchange.answer_headers:
            yield f"the gateway failed open: {exchange.answer_headers['x-epitome-failed-open']}"
    for violation in stage.violations():
        yield f"a rule was broken: {json.dumps(violation)[:300]}"


def overflowed(exchange):
    """Whether an error says that a prompt is too long."""
    words = (
        b"context_length_exceeded",
        b"prompt is too long",
        b"maximum context length",
        b"exceed context limit",
        b"context window",
    )
    return any(word in exchange.answer for word in words)


def bounded(asked, args):
    """It did not loop."""
    most = 3 * args.turns + 30
    if len(asked) > most:
        yield f"{len(asked)} requests are more than {most}"


def passed(asked, sent):
    """Everything went through byte for byte, both ways; what the provider says to it is the agent's own affair."""
    requests, answers = {exchange.body for exchange in sent}, {exchange.answer for exchange in sent}
    for exchange in asked:
        if exchange.body not in requests:
            yield f"a request to {exchange.path} was changed"
        if exchange.answer not in answers:
            yield f"an answer of {exchange.path} was changed"
    if not asked:
        yield "no request came"


def compacted(run, facts, asked):
    """It was compacted, and always within the window."""
    if facts["compactions"] < run.plans_min:
        yield f"only {facts['compactions']} plans"
    if facts["tokens_max"] > run.window:
        yield f"a prompt of {facts['tokens_max']} tokens is over the window of {run.window}"


def untouched(asked, sent):
    """A request without a plan went upstream as it came, and no answer was changed."""
    requests, answers = {exchange.body for exchange in sent}, {exchange.answer for exchange in sent}
    changed = sum(plan_of(exchange) is None and exchange.body not in requests for exchange in asked)
    if changed:
        yield f"{changed} requests without a plan were changed"
    changed = sum(exchange.answer not in answers for exchange in asked)
    if changed:
        yield f"{changed} answers were changed"


def hidden(asked, sent):
    """The gateway's own tools were used upstream, and the agent never saw them."""
    named = re.compile(rb'"name": ?"(read_artifact|recall)"')
    if any(named.search(exchange.answer) for exchange in asked):
        yield "an answer to the client shows a tool of the gateway's own"
    if any(named.search(exchange.body) for exchange in asked):
        yield "the client sent a tool of the gateway's own back"
    if not any(named.search(exchange.answer) for exchange in sent):
        yield "no tool of the gateway's own was called"


def listed(asked, stage):
    """The gateway's own API knows the plans that the answers named."""
    versions = {}
    for thread, version in {plan_of(exchange) for exchange in asked} - {None}:
        versions[thread] = max(versions.get(thread, 0), int(version))
    for thread, version in versions.items():
        plans = stage.api(f"/threads/{thread}/plans")["plans"]
        if not any(plan["version"] == version for plan in plans):
            yield f"the API lists {len(plans)} plans of a thread whose last one is {version}"


def one_thread(run, asked):
    """The main conversation is one thread: all requests with its tools, unless the agent itself began again."""
    if any(thread_of(exchange) is None for exchange in asked):
        yield "an answer names no thread"
    counts = {}
    for exchange in asked:
        if exchange.json().get("tools"):
            counts[thread_of(exchange)] = counts.get(thread_of(exchange), 0) + 1
    allowed = 1 if not run.compacts_itself else len(asked)
    main = [count for count in counts.values() if count > 5]
    if len(main) > allowed:
        yield f"the main conversation is {len(main)} threads: {counts}"


def table(verdicts):
    """All of them, for people."""
    head = (
        "agent",
        "version",
        "requests",
        "threads",
        "compactions",
        "asked, tokens",
        "peak, tokens",
        "window",
        "cached",
        "seconds",
        "verdict",
    )
    rows = [head, tuple("-" * len(name) for name in head)]
    for verdict in verdicts:
        rows.append(
            (
                verdict.name,
                verdict.version,
                str(verdict.requests),
                str(verdict.threads),
                str(verdict.compactions),
                f"{verdict.tokens_asked_max:,}",
                f"{verdict.tokens_max:,}",
                f"{verdict.window:,}",
                f"{verdict.cached_share:.0%}",
                f"{verdict.seconds:.0f}",
                "failed" if verdict.failures else "passed",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows)
