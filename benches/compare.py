"""Runs the engine and its peers in turn, several times, and prints their ratios against the targets.

All numbers are minima over rounds in which everyone had a turn, so that a busy machine is busy for all. CPU time of the
engine is that of its process, threads included, less that of a process that only loads the vocabulary.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROUNDS = 4
RUNS = 4


def main():
    speed, work = sys.argv[1], pathlib.Path(sys.argv[2])
    bench = Bench(speed, work / "thread.json", work / "thread-10x.json", work / "exchange.json")
    for _ in range(ROUNDS):
        bench.round()
    bench.once()
    lines = bench.targets()
    bench.print(lines)
    sys.exit(0 if all(line.passes for line in lines) else 1)


class Bench:
    def __init__(self, speed, short, long, exchange):
        self.speed, self.short, self.long, self.exchange = speed, short, long, exchange
        self.load_ms, self.tiktoken_load_ms = [], []
        self.tiktoken, self.cold, self.cold_10x = Times(), Times(), Times()
        self.warm, self.warm_10x = Times(), Times()
        self.af_warm = Times()
        self.laps = None

    def round(self):
        """Everyone's turn."""
        answer = peers("tiktoken", self.short, RUNS)
        self.tokens = answer["tokens"]
        self.tiktoken_load_ms.append(answer["load_ms"])
        self.tiktoken.add(answer)
        self.run_cold(self.cold, self.short, RUNS)
        self.run_cold(self.cold_10x, self.long, 1)
        for times, thread in ((self.warm, self.short), (self.warm_10x, self.long)):
            answer, _ = engine(self.speed, "warm", thread, self.exchange)
            times.wall_ms += [us / 1e3 for us in answer["steps_us"]]
        self.af_warm.add(peers("agent-framework-warm", self.short))

    def run_cold(self, times, thread, runs):
        load, load_cpu_ms = engine(self.speed, "load")
        self.load_ms.append(load["load_ms"])
        answer, cpu_ms = engine(self.speed, "cold", thread, runs)
        times.wall_ms += [run["total"] for run in answer["runs"]]
        times.cpu_ms.append((cpu_ms - load_cpu_ms) / runs)
        if times is self.cold:
            best = min(answer["runs"], key=lambda run: run["total"])
            if self.laps is None or best["total"] < self.laps["total"]:
                self.laps = best

    def once(self):
        """What does not need repeating: memory, and peers that are only shown."""
        self.memory, _ = engine(self.speed, "memory", self.short)
        self.memory_10x, _ = engine(self.speed, "memory", self.long)
        self.others = peers("langchain", self.short)
        self.others["agent-framework ContextWindowCompactionStrategy"] = peers("agent-framework-cold", self.short)

    def targets(self):
        wall = self.cold.wall / self.tiktoken.wall
        cpu = self.cold.cpu / self.tiktoken.cpu
        faster = self.af_warm.wall / self.warm.wall
        slower = self.warm_10x.wall / self.warm.wall
        return [
            Line("cold, wall: of tiktoken's encode alone", wall, "x", 0.5, "at most", ms(self.cold.wall, self.tiktoken.wall)),
            Line("cold, CPU: of tiktoken's encode alone", cpu, "x", None, "", ms(self.cold.cpu, self.tiktoken.cpu)),
            Line("warm step: faster than agent-framework's no-op", faster, "x", 100, "at least", ms(self.warm.wall, self.af_warm.wall)),
            Line("warm step at 10x the thread", slower, "x", 1.5, "at most", ms(self.warm_10x.wall, self.warm.wall)),
            Line("cold at 10x the thread", self.cold_10x.wall / self.cold.wall, "x", 12, "at most", ms(self.cold_10x.wall, self.cold.wall)),
            memory_line("memory of its input, 1M tokens", self.memory),
            memory_line("memory of its input, 10M tokens", self.memory_10x),
        ]

    def print(self, lines):
        print(f"{self.tokens:,} o200k tokens in 2,000 messages, {self.memory['input_bytes']:,} bytes; "
              f"prompt out: {self.memory['prompt_bytes']:,} bytes, into a window of 200,000")
        print(f"vocabulary loaded before: epitome {min(self.load_ms):.0f} ms, tiktoken {min(self.tiktoken_load_ms):.0f} ms")
        steps = ", ".join(f"{name} {took:.0f}" for name, took in self.laps.items() if name not in ("total", "prompt_bytes"))
        print(f"cold, ms: {steps}\n")
        width = max(len(line.name) for line in lines)
        for line in lines:
            print(line.text(width))
        print("\nfor context: a peer's own call on the same thread, as a multiple of epitome's whole cold run")
        for name, answer in self.others.items():
            times = Times()
            times.add(answer)
            print(f"  {name:<52} {times.wall / self.cold.wall:8.2f}x wall {times.cpu / self.cold.cpu:8.2f}x CPU  ({times.wall:,.0f} ms)")


class Times:
    """Milliseconds of many runs; the least of them counts."""

    def __init__(self):
        self.wall_ms, self.cpu_ms = [], []

    def add(self, answer):
        self.wall_ms += answer["wall_ms"]
        self.cpu_ms += answer["cpu_ms"]

    @property
    def wall(self):
        return min(self.wall_ms)

    @property
    def cpu(self):
        return min(self.cpu_ms)


class Line:
    """One ratio and its target; without a target it is only shown."""

    def __init__(self, name, ratio, unit, target, bound, detail):
        self.name, self.ratio, self.unit, self.target, self.bound, self.detail = name, ratio, unit, target, bound, detail

    @property
    def passes(self):
        match self.bound:
            case "at most":
                return self.ratio <= self.target
            case "at least":
                return self.ratio >= self.target
            case _:
                return True

    def text(self, width):
        target = f"{self.bound} {self.target}{self.unit}" if self.bound else "no target"
        verdict = ("PASS" if self.passes else "FAIL") if self.bound else ""
        return f"{verdict:4}  {self.name:<{width}}  {self.ratio:9.2f}{self.unit}  {target:<14}  {self.detail}"


def memory_line(name, answer):
    added = 1024 * (answer["peak_kb"] - answer["before_kb"])
    detail = f"VmHWM less VmRSS before the input is read: {added / 1e6:.1f} MB of {answer['input_bytes'] / 1e6:.1f}"
    return Line(name, added / answer["input_bytes"], "x", 3, "at most", detail)


def ms(ours, theirs):
    return f"{ours:,.3g} ms to {theirs:,.4g} ms"


def engine(speed, *words):
    """The engine's answer and the CPU milliseconds of its process."""
    process = subprocess.Popen([speed, *map(str, words)], stdout=subprocess.PIPE)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} failed with {process.returncode}")
    return json.loads(out), 1e3 * (usage.ru_utime + usage.ru_stime)


def peers(*words):
    command = [sys.executable, HERE / "peers.py", *map(str, words)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


if __name__ == "__main__":
    main()
