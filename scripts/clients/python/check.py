"""Checks of one SDK: each is a claim with a function, prints one line, and the last line counts them.

Refuses to know any SDK. The programs beside it are started by `scripts/clients/run`, which tells them where the gateway and
the witness behind it listen; every check has a key of its own, so the mock counts its turns apart.
"""

import json
import os
import sys
import time
import traceback
import urllib.parse
import urllib.request

GATEWAY = os.environ["EPITOME_GATEWAY"]
WITNESS = os.environ["EPITOME_WITNESS"]
TURNS = int(os.environ["EPITOME_TURNS"])
WIDE = "mock-128k"
NARROW = "mock-16k"
NARROW_TOKENS = 16_000
FAULT_HEADER = "x-mock-fault"
BASH = {
    "name": "bash",
    "description": "Runs a command and returns what it prints.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
PROMPT = "Work through the commands you are given, one after the other, and say when the work is done."
TURNS_MAX = 4 * TURNS + 20


class Failed(Exception):
    """A claim that does not hold."""


def expect(holds, otherwise):
    """Fails the check with a sentence where something does not hold."""
    if not holds:
        raise Failed(otherwise)


def output_of(command, turn):
    """What a command printed: a few kilobytes of lines that are all different."""
    return "\n".join(
        f"{command} turn {turn} line {line} value {turn * 7919 + line * 104729 % 65537}" for line in range(120)
    )


class Work:
    """A conversation with tools until the mock says that the work is done."""

    def __init__(self):
        self.turn = 0
        self.calls_together = 0
        self.plans = set()
        self.prompt_tokens_max = 0

    def next(self, calls):
        """Counts a turn with so many calls."""
        self.turn += 1
        self.calls_together = max(self.calls_together, calls)
        expect(self.turn <= TURNS_MAX, f"no end after {TURNS_MAX} turns")

    def saw(self, headers, prompt_tokens):
        """Remembers what an answer said about itself."""
        plan = headers.get("x-epitome-plan", "0") if headers is not None else "0"
        if plan != "0":
            self.plans.add(plan)
        self.prompt_tokens_max = max(self.prompt_tokens_max, prompt_tokens)

    def done(self, text):
        """Checks the end of it."""
        expect("WORK DONE" in (text or ""), f"the last answer is {text!r}")
        expect(self.turn >= TURNS, f"only {self.turn} turns of {TURNS}")

    def fitted(self):
        """Checks that it was compacted and never more than the window."""
        expect(self.plans, "no answer is under a plan (x-epitome-plan)")
        expect(self.prompt_tokens_max <= NARROW_TOKENS, f"a prompt had {self.prompt_tokens_max} tokens")


def in_parallel(work):
    """Checks that calls came together."""
    expect(work.calls_together >= 2, "no turn had two calls")


def records(key):
    """What the upstream has seen under a key."""
    with urllib.request.urlopen(f"{WITNESS}/witness?key={urllib.parse.quote(key)}", timeout=10) as answer:
        return json.load(answer)


def upstream_left(key, within_seconds=5.0):
    """Checks that the upstream saw its reader leave."""
    until = time.monotonic() + within_seconds
    while time.monotonic() < until:
        if any(record.get("left") for record in records(key)):
            return
        time.sleep(0.1)
    raise Failed(f"the upstream did not notice within {within_seconds} s")


class Checks:
    """The checks of one SDK."""

    def __init__(self, sdk):
        self.sdk = sdk
        self.all = []

    def __call__(self, claim):
        """Makes a function of a key a check."""

        def keep(function):
            self.all.append((claim, function))
            return function

        return keep

    def run(self):
        """Runs them all and ends the process."""
        wanted = sys.argv[1:]
        failed = 0
        for number, (claim, function) in enumerate(self.all):
            if wanted and not any(word in claim for word in wanted):
                continue
            failed += not self.holds(claim, function, f"sk-{self.sdk}-{number}-{os.getpid()}")
        print(f"{len(self.all) - failed} passed, {failed} failed", flush=True)
        os._exit(1 if failed else 0)

    def holds(self, claim, function, key):
        started = time.monotonic()
        try:
            function(key)
        except Failed as failed:
            print(f"FAIL {self.sdk}: {claim}: {failed}", flush=True)
            return False
        except Exception as error:  # an SDK's own error is a finding, not the end of the run
            print(f"FAIL {self.sdk}: {claim}: {type(error).__name__}: {str(error)[:600]}", flush=True)
            traceback.print_exc(limit=-4)
            return False
        print(f"ok   {self.sdk}: {claim} ({time.monotonic() - started:.1f} s)", flush=True)
        return True
