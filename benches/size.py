"""Time and memory of `epitome plan` and `epitome compact` on large files and on a tiny one: size.py EPITOME FOLDER [MB].

Makes a list and a Claude Code session of so many megabytes (200) from the thread and the sample of this repository, and a
list of one message. Prints for each command the time, the CPU time, the peak memory, and the memory's ratio to the input.
Exits with 1 when the memory is above its bound; times are printed beside their targets and not judged.
"""

import json
import os
import statistics
import sys
import time

from thread import thread

MB = 1_000_000
TINY_RUNS = 20
HERE = os.path.dirname(os.path.abspath(__file__))


def write_list(path, size):
    """One long thread: cycles of the benchmark's thread, each with ids of its own."""
    cycle = [json.dumps(message) for message in thread(2000)]
    first, rest = cycle[0], ",\n".join(cycle[1:])
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"[{first}")
        at = 0
        while out.tell() < size:
            out.write(",\n" + rest.replace('"call_', f'"call_{at}_'))
            at += 1
        out.write("]\n")


def write_session(path, size):
    """The sample session again and again, each time continued from the last line of the time before."""
    with open(os.path.join(HERE, "../testdata/sample/session.jsonl"), encoding="utf-8") as sample:
        lines = [json.loads(line) for line in sample]
    last = None
    with open(path, "w", encoding="utf-8") as out:
        at = 0
        while out.tell() < size:
            for line in lines:
                line = dict(line)
                for key in ("uuid", "parentUuid"):
                    if line.get(key):
                        line[key] = f"{at:08x}{line[key][8:]}"
                if "parentUuid" in line and not line["parentUuid"]:
                    line["parentUuid"] = last
                last = line.get("uuid", last)
                out.write(json.dumps(line) + "\n")
            at += 1


def measure(command):
    """The seconds, the CPU seconds and the peak bytes of one run."""
    start = time.monotonic()
    process = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(process, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    epitome, folder = sys.argv[1:3]
    size = int(sys.argv[3] if len(sys.argv) > 3 else 200) * MB
    os.makedirs(folder, exist_ok=True)
    paths = {name: os.path.join(folder, name) for name in ("list.json", "session.jsonl", "one.json")}
    for name, write in (("list.json", write_list), ("session.jsonl", write_session)):
        if not os.path.exists(paths[name]) or not size <= os.path.getsize(paths[name]) < size + 20 * MB:
            write(paths[name], size)
    with open(paths["one.json"], "w", encoding="utf-8") as out:
        json.dump([{"role": "user", "content": "Say hello."}], out)

    out = os.path.join(folder, "out")
    compact = ["-o", out, "--overwrite", "--artifacts", os.path.join(folder, "artifacts")]
    jobs = [(verb, name, aim) for name in ("list.json", "session.jsonl") for verb in ("plan", "compact") for aim in (("--window", "200000"), ("--budget", "50000"))]
    missed = False
    print(f"{'':44}{'time':>9}{'CPU':>9}{'memory':>10}   input")
    for verb, name, aim in jobs:
        path = paths[name]
        seconds, cpu, peak = measure([epitome, verb, path, *aim, *(compact if verb == "compact" else [])])
        given = os.path.getsize(path)
        missed |= peak > 4 * given + 60 * MB
        label = f"{verb} {name} {' '.join(aim)}"
        print(f"{label:44}{seconds:7.1f} s{cpu:7.1f} s{peak / MB:7.0f} MB{peak / given:6.1f} x   (at most 10 s, 4 x + 60 MB)", flush=True)
    for verb in ("plan", "compact"):
        runs = [measure([epitome, verb, paths["one.json"], "--window", "200000", *(compact if verb == "compact" else [])]) for _ in range(TINY_RUNS)]
        seconds, cpu, peak = (statistics.median(column) for column in zip(*runs))
        missed |= peak > 40 * MB
        print(f"{verb + ' one.json':44}{seconds * 1000:6.0f} ms{cpu * 1000:6.0f} ms{peak / MB:7.0f} MB   (at most 40 ms, 40 MB)")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
