#!/usr/bin/env python3
"""Writes session.jsonl: an invented coding session in Claude Code's format, the same bytes every time.

An agent works for a day on `ferrytimes`, a timetable service that exists nowhere else. The session has what real ones
have: parallel calls, files read again, failures that get fixed, constraints, corrections, and a todo list.
"""
import json
import os
import random
import uuid

RNG = random.Random(20260214)
HERE = os.path.dirname(os.path.abspath(__file__))
CWD = "/home/mara/src/ferrytimes"
SESSION = "5b1d6a52-0c3e-4f0e-9d4a-7a1f2c9be001"
LINES, CLOCK, PARENT, TOKENS = [], [0], [None], [9000]


def new_uuid():
    return str(uuid.UUID(int=RNG.getrandbits(128), version=4))


def stamp():
    CLOCK[0] += RNG.randint(2, 40)
    minutes, seconds = divmod(CLOCK[0], 60)
    return f"2026-02-14T{9 + minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{RNG.randint(0, 999):03d}Z"


def entry(kind, message, **extra):
    own = new_uuid()
    line = {"parentUuid": PARENT[0], "isSidechain": False, "userType": "external", "cwd": CWD, "sessionId": SESSION,
            "version": "2.0.14", "gitBranch": "tariffs", "type": kind, "message": message, "uuid": own,
            "timestamp": stamp(), **extra}
    LINES.append(json.dumps(line, ensure_ascii=False))
    PARENT[0] = own
    TOKENS[0] += len(json.dumps(message)) // 4


def user(text):
    entry("user", {"role": "user", "content": text})


def blocks(*content):
    """One answer of the model: a line for each block, all of one response."""
    response = f"msg_01{RNG.getrandbits(80):020x}"
    for block in content:
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 300, "cache_read_input_tokens": TOKENS[0],
                 "output_tokens": len(json.dumps(block)) // 4}
        entry("assistant", {"id": response, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                            "content": [block], "stop_reason": None, "stop_sequence": None, "usage": usage},
              requestId=f"req_{response[4:]}")


def say(text):
    blocks({"type": "text", "text": text})


def call(name, **arguments):
    return {"type": "tool_use", "id": f"toolu_01{RNG.getrandbits(80):020x}", "name": name, "input": arguments}


def result(use, text, error=False):
    block = {"type": "tool_result", "tool_use_id": use["id"], "content": text}
    if error:
        block["is_error"] = True
    entry("user", {"role": "user", "content": [block]})


def do(words, *pairs):
    """Calls made together, and their results: pairs of a call and what it printed (with `True` for a failure)."""
    uses = [pair[0] for pair in pairs]
    blocks(*([{"type": "text", "text": words}] if words else []), *uses)
    for pair in pairs:
        result(pair[0], pair[1], *pair[2:])


FILES = {}


def numbered(path, first=1, count=None):
    lines = FILES[path].split("\n")[first - 1:][:count]
    return "\n".join(f"{first + at:6d}\u2192{line}" for at, line in enumerate(lines))


def read(path, **options):
    arguments = {"file_path": f"{CWD}/{path}"}
    if "first" in options:
        arguments.update(offset=options["first"], limit=options.get("count", 60))
    return call("Read", **arguments), numbered(path, options.get("first", 1), options.get("count"))


def edit(path, old, new):
    assert old in FILES[path], (path, old)
    FILES[path] = FILES[path].replace(old, new, 1)
    at = FILES[path][:FILES[path].index(new)].count("\n") + 1
    shown = numbered(path, max(1, at - 3), new.count("\n") + 7)
    text = f"The file {CWD}/{path} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n{shown}"
    return call("Edit", file_path=f"{CWD}/{path}", old_string=old, new_string=new), text


def write(path, content):
    FILES[path] = content
    return call("Write", file_path=f"{CWD}/{path}", content=content), f"File created successfully at: {CWD}/{path}"


def bash(command, output, failed=False):
    return call("Bash", command=command, description=command.split("\n")[0][:50]), output, failed


def grep(pattern, hits):
    return call("Grep", pattern=pattern, path=CWD, output_mode="content"), "\n".join(hits)


def todos(*items):
    listed = [{"content": text, "status": state, "activeForm": text} for text, state in items]
    return call("TodoWrite", todos=listed), "Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress."


PORTS = ["Skarvik", "Lomre", "Anholm", "Tveit", "Brekkesund", "Osterhavn", "Vika", "Sandoy", "Hestnes", "Kvalbukt",
         "Mjolnes", "Ravnsund", "Stokkvag", "Indrefjord", "Gullholmen", "Nordhella"]
RULES = ["child", "senior", "cyclist", "resident", "group", "car", "caravan", "motorcycle", "pet", "student", "crew",
         "freight", "night", "holiday", "return", "weekpass"]


def tariff_module():
    out = ['"""Tariffs: what a crossing costs, rule by rule."""', "", "from dataclasses import dataclass, field",
           "from datetime import date", "", "from ferrytimes.ports import Port, distance_nm",
           "from ferrytimes.errors import TariffError", "", "", "BASE_FARE = 42.50", "PER_MILE = 3.15",
           "CURRENCY = \"NOK\"", "", "", "@dataclass", "class Fare:",
           '    """A price with the rules that made it."""', "    amount: float",
           "    rules: list[str] = field(default_factory=list)", "",
           "    def __add__(self, other: \"Fare\") -> \"Fare\":",
           "        return Fare(self.amount + other.amount, self.rules + other.rules)", "", "",
           "def base_fare(start: Port, end: Port) -> Fare:", '    """The fare before any rule."""',
           "    if start == end:", "        raise TariffError(f\"no crossing from {start.name} to itself\")",
           "    return Fare(BASE_FARE + PER_MILE * distance_nm(start, end), [\"base\"])", "", ""]
    for number, rule in enumerate(RULES):
        factor = 0.35 + 0.05 * number
        out += [f"def {rule}_rule(fare: Fare, on: date, count: int = 1) -> Fare:",
                f'    """Applies the {rule} tariff: {factor:.2f} of the fare, from {1 + number % 12}/2024 on."""',
                f"    if on < date(2024, {1 + number % 12}, 1):", "        return fare",
                f"    if count > {4 + number}:",
                f"        raise TariffError(\"at most {4 + number} {rule} tickets in one booking, got %d\" % count)",
                f"    amount = fare.amount * {factor:.2f} * count",
                f"    return Fare(round(amount, 2), fare.rules + [\"{rule}\"])", "", ""]
    out += ["RULES = {"] + [f"    \"{rule}\": {rule}_rule," for rule in RULES] + ["}", "", "",
            "def price(start: Port, end: Port, on: date, passengers: dict[str, int]) -> Fare:",
            '    """The price of a booking: every passenger\'s rule on the base fare."""',
            "    total = Fare(0.0)", "    for kind, count in sorted(passengers.items()):",
            "        if kind not in RULES:", "            raise TariffError(f\"unknown passenger kind: {kind}\")",
            "        total = total + RULES[kind](base_fare(start, end), on, count)", "    return total", ""]
    return "\n".join(out)


def ports_module():
    out = ['"""Ports, and how far they are from each other."""', "", "from dataclasses import dataclass",
           "from math import asin, cos, radians, sin, sqrt", "", "EARTH_RADIUS_NM = 3440.065", "", "",
           "@dataclass(frozen=True)", "class Port:", "    code: str", "    name: str", "    lat: float",
           "    lon: float", "    berths: int", "    timezone: str = \"Europe/Oslo\"", "", "", "PORTS = {"]
    for number, name in enumerate(PORTS):
        lat, lon = 58.1 + number * 0.37, 5.2 + (number * 7 % 11) * 0.21
        code = (name[:3] + name[-1]).upper()
        out.append(f"    \"{code}\": Port(\"{code}\", \"{name}\", {lat:.4f}, {lon:.4f}, {1 + number % 4}),")
    out += ["}", "", "", "def distance_nm(a: Port, b: Port) -> float:",
            '    """The great-circle distance in nautical miles."""',
            "    phi, psi = radians(a.lat), radians(b.lat)", "    dphi, dlam = psi - phi, radians(b.lon - a.lon)",
            "    h = sin(dphi / 2) ** 2 + cos(phi) * cos(psi) * sin(dlam / 2) ** 2",
            "    return 2 * EARTH_RADIUS_NM * asin(sqrt(h))", "", "", "def by_name(name: str) -> Port:",
            "    for port in PORTS.values():", "        if port.name.lower() == name.lower():",
            "            return port", "    raise KeyError(name)", ""]
    return "\n".join(out)


def timetable_module():
    out = ['"""Timetables: sailings, connections, and the public `Timetable` class."""', "", "import csv",
           "from dataclasses import dataclass", "from datetime import datetime, timedelta",
           "from zoneinfo import ZoneInfo", "", "from ferrytimes.ports import PORTS, Port",
           "from ferrytimes.errors import TimetableError", "", "MIN_CONNECTION = timedelta(minutes=12)",
           "MAX_WAIT = timedelta(hours=6)", "", "", "@dataclass(frozen=True, order=True)", "class Sailing:",
           "    departs: datetime", "    arrives: datetime", "    start: str", "    end: str", "    vessel: str",
           "    cancelled: bool = False", "", "    @property", "    def duration(self) -> timedelta:",
           "        return self.arrives - self.departs", "", "", "class Timetable:",
           '    """All sailings of a season. This class is what other services import."""', "",
           "    def __init__(self, sailings: list[Sailing]):", "        self._sailings = sorted(sailings)",
           "        self._by_start: dict[str, list[Sailing]] = {}", "        for sailing in self._sailings:",
           "            self._by_start.setdefault(sailing.start, []).append(sailing)", ""]
    verbs = [("departures", "every sailing from a port on a day", "self._by_start.get(port, [])"),
             ("arrivals", "every sailing to a port on a day", "self._sailings"),
             ("cancelled", "every cancelled sailing on a day", "self._sailings"),
             ("by_vessel", "every sailing of one vessel on a day", "self._sailings"),
             ("overnight", "sailings that arrive on the day after", "self._sailings"),
             ("first_boats", "the first sailing of each port on a day", "self._sailings"),
             ("last_boats", "the last sailing of each port on a day", "self._sailings")]
    for name, doc, source in verbs:
        out += [f"    def {name}(self, port: str, day: datetime) -> list[Sailing]:", f'        """Answers {doc}."""',
                "        zone = ZoneInfo(PORTS[port].timezone)", "        start = day.astimezone(zone).replace(hour=0, minute=0)",
                "        end = start + timedelta(days=1)", f"        found = [s for s in {source} if start <= s.departs < end]",
                "        if not found and port not in PORTS:", "            raise TimetableError(f\"unknown port {port}\")",
                "        return found", ""]
    out += ["    def connections(self, start: str, end: str, after: datetime, changes_max: int = 2) -> list[list[Sailing]]:",
            '        """Routes with at most `changes_max` changes, earliest arrival first."""',
            "        routes, queue = [], [[s] for s in self._by_start.get(start, []) if s.departs >= after]",
            "        while queue:", "            route = queue.pop(0)", "            last = route[-1]",
            "            if last.end == end:", "                routes.append(route)", "                continue",
            "            if len(route) > changes_max:", "                continue",
            "            for s in self._by_start.get(last.end, []):",
            "                wait = s.departs - last.arrives",
            "                if MIN_CONNECTION <= wait <= MAX_WAIT and not s.cancelled:",
            "                    queue.append(route + [s])",
            "        return sorted(routes, key=lambda route: route[-1].arrives)", "", "",
            "def load_csv(path: str) -> Timetable:", '    """Reads a season from the operator\'s CSV."""',
            "    sailings = []", "    with open(path, newline=\"\") as f:", "        for row in csv.DictReader(f):",
            "            departs = datetime.fromisoformat(row[\"departs\"])",
            "            arrives = datetime.fromisoformat(row[\"arrives\"])",
            "            sailings.append(Sailing(departs, arrives, row[\"start\"], row[\"end\"], row[\"vessel\"]))",
            "    return Timetable(sailings)", ""]
    return "\n".join(out)


def tests_module():
    out = ['"""Tests of the tariffs."""', "", "from datetime import date", "", "import pytest", "",
           "from ferrytimes.errors import TariffError", "from ferrytimes.ports import PORTS", "from ferrytimes import tariffs",
           "", "A, B = PORTS[\"SKAK\"], PORTS[\"LOME\"]", "", ""]
    for number, rule in enumerate(RULES):
        out += [f"def test_{rule}_tariff_applies_from_its_first_day():",
                f"    before = tariffs.{rule}_rule(tariffs.base_fare(A, B), date(2023, 12, 31))",
                f"    after = tariffs.{rule}_rule(tariffs.base_fare(A, B), date(2025, 1, 2))",
                "    assert before.rules == [\"base\"]", f"    assert after.rules == [\"base\", \"{rule}\"]", "", "",
                f"def test_{rule}_tariff_is_bounded():", "    with pytest.raises(TariffError):",
                f"        tariffs.{rule}_rule(tariffs.base_fare(A, B), date(2025, 1, 2), count={5 + number})", "", ""]
    return "\n".join(out)


def api_module():
    out = ['"""The HTTP API: routes that booking and display screens call."""', "", "from datetime import date, datetime",
           "", "from fastapi import APIRouter, HTTPException, Query", "", "from ferrytimes import tariffs",
           "from ferrytimes.ports import PORTS, by_name", "from ferrytimes.timetable import Timetable, load_csv", "",
           "router = APIRouter(prefix=\"/v2\")", "TIMETABLE: Timetable | None = None", "", "",
           "def timetable() -> Timetable:", "    global TIMETABLE", "    if TIMETABLE is None:",
           "        TIMETABLE = load_csv(\"data/season.csv\")", "    return TIMETABLE", "", ""]
    for name in ["departures", "arrivals", "cancelled", "overnight", "first_boats", "last_boats"]:
        out += [f"@router.get(\"/{name.replace('_', '-')}/{{port}}\")",
                f"def {name}(port: str, day: str = Query(...)) -> list[dict]:",
                f'    """Answers {name.replace("_", " ")} of a port on a day."""', "    if port not in PORTS:",
                "        raise HTTPException(404, f\"unknown port {port}\")",
                f"    found = timetable().{name}(port, datetime.fromisoformat(day))",
                "    return [{\"departs\": s.departs.isoformat(), \"arrives\": s.arrives.isoformat(), \"start\": s.start,",
                "             \"end\": s.end, \"vessel\": s.vessel} for s in found]", "", ""]
    out += ["@router.get(\"/price\")", "def price(start: str, end: str, on: str, passengers: str) -> dict:",
            '    """Prices a booking: `passengers` is written `adult:2,child:1`."""',
            "    counts = {k: int(n) for k, n in (p.split(\":\") for p in passengers.split(\",\"))}",
            "    fare = tariffs.price(by_name(start), by_name(end), date.fromisoformat(on), counts)",
            "    return {\"amount\": fare.amount, \"currency\": tariffs.CURRENCY, \"rules\": fare.rules}", ""]
    return "\n".join(out)


FILES["ferrytimes/tariffs.py"] = tariff_module()
FILES["ferrytimes/ports.py"] = ports_module()
FILES["ferrytimes/timetable.py"] = timetable_module()
FILES["ferrytimes/api.py"] = api_module()
FILES["tests/test_tariffs.py"] = tests_module()
FILES["ferrytimes/errors.py"] = '"""What can go wrong."""\n\n\nclass FerryError(Exception):\n    """Any of ours."""\n\n\nclass TariffError(FerryError):\n    """A price that cannot be made."""\n\n\nclass TimetableError(FerryError):\n    """A sailing that cannot be found."""\n'
FILES["pyproject.toml"] = '[project]\nname = "ferrytimes"\nversion = "3.4.0"\nrequires-python = ">=3.11"\ndependencies = ["fastapi>=0.110", "pydantic>=2.6"]\n\n[tool.pytest.ini_options]\naddopts = "-q --strict-markers"\n'


def pytest_run(failed=(), passed=38, seconds=1.9):
    out = ["============================= test session starts =============================",
           "platform linux -- Python 3.12.3, pytest-8.2.0, pluggy-1.5.0", f"rootdir: {CWD}",
           f"collected {passed + len(failed)} items", ""]
    out += ["tests/test_tariffs.py " + "." * 20 + "F" * len(failed), "tests/test_timetable.py " + "." * (passed - 20), ""]
    if failed:
        out += ["=================================== FAILURES ==================================="]
    for name, lines in failed:
        out += [f"___________________________ {name} ___________________________", ""] + lines + [""]
    if failed:
        out += ["=========================== short test summary info ============================"]
        out += [f"FAILED tests/test_tariffs.py::{name} - {lines[-1].removeprefix('E   ')}" for name, lines in failed]
    out += [f"{'=' * 20} {f'{len(failed)} failed, ' if failed else ''}{passed} passed in {seconds}s {'=' * 20}"]
    return "\n".join(out)


def season(rows):
    lines = ["departs,arrives,start,end,vessel"]
    for number in range(rows):
        hour, minute = 5 + number // 4 % 18, number * 13 % 60
        a, b = PORTS[number % 16], PORTS[(number * 5 + 3) % 16]
        vessel = ["Havlys", "Brottsjo", "Tindra", "Lomvi"][number % 4]
        lines.append(f"2026-03-{1 + number % 28:02d}T{hour:02d}:{minute:02d}:00+01:00,2026-03-{1 + number % 28:02d}T{hour + 1:02d}:{(minute + 25) % 60:02d}:00+01:00,{(a[:3] + a[-1]).upper()},{(b[:3] + b[-1]).upper()},M/F {vessel}")
    return "\n".join(lines)


def git_log():
    subjects = ["timetable: connections skip cancelled sailings", "api: v2 prefix", "ports: Gullholmen has two berths",
                "tariffs: weekpass", "ci: pytest on 3.12", "timetable: overnight sailings", "tariffs: resident rule from 2024",
                "docs: how the season CSV is made", "api: 404 for unknown ports", "tariffs: rounding per passenger"]
    return "\n".join(f"{RNG.getrandbits(28):07x} {subject}" for subject in subjects)


# ---------------------------------------------------------------------------------------------------------------------

user("We sell tickets at wrong prices: sums are off by an øre now and then. Fares are floats. I want ferrytimes/tariffs.py to use "
     "decimal.Decimal everywhere, rounded half up once per booking and not per passenger. Important: never touch anything under "
     "migrations/, and the public methods of Timetable must keep their signatures, because two other services import them. "
     "Start by looking around and tell me your plan before you change anything.")
do("I'll look at the layout and the tariff code first.",
   bash("git status --short && ls -R --ignore=.venv | head -40", " M README.md\n.:\nCHANGELOG.md\nREADME.md\ndata\nferrytimes\nmigrations\npyproject.toml\ntests\n\n./data:\nseason.csv\n\n./ferrytimes:\n__init__.py\napi.py\nerrors.py\nports.py\ntariffs.py\ntimetable.py\n\n./migrations:\n0001_bookings.sql\n0002_add_weekpass.sql\n0003_fares.sql\n\n./tests:\ntest_tariffs.py\ntest_timetable.py"),
   read("ferrytimes/tariffs.py"), read("pyproject.toml"))
do("Now who uses fares, and what the tests expect.",
   grep("tariffs\\.|Fare\\(", ["ferrytimes/api.py:6:from ferrytimes import tariffs", "ferrytimes/api.py:85:    fare = tariffs.price(by_name(start), by_name(end), date.fromisoformat(on), counts)", "ferrytimes/api.py:86:    return {\"amount\": fare.amount, \"currency\": tariffs.CURRENCY, \"rules\": fare.rules}", "ferrytimes/tariffs.py:22:        return Fare(self.amount + other.amount, self.rules + other.rules)", "tests/test_tariffs.py:15:    before = tariffs.child_rule(tariffs.base_fare(A, B), date(2023, 12, 31))"]),
   read("tests/test_tariffs.py"), read("ferrytimes/api.py"))
do("", read("ferrytimes/ports.py"), bash("python -m pytest 2>&1 | tail -20", pytest_run()))
do("", todos(("Make Fare.amount a Decimal", "pending"), ("Round once per booking, half up", "pending"),
             ("Price API answers strings, not floats", "pending"), ("Tests for rounding", "pending"), ("Changelog entry", "pending")))
say("Here is my plan.\n\n1. `Fare.amount` becomes `Decimal`; `BASE_FARE` and `PER_MILE` become `Decimal(\"42.50\")` and `Decimal(\"3.15\")`.\n"
    "2. The sixteen rules stop rounding. `price()` rounds once, with `ROUND_HALF_UP`, to 0.01.\n"
    "3. `distance_nm` stays a float; I convert it through `Decimal(str(...))` in `base_fare`, because distances are measured, not money.\n"
    "4. `/v2/price` answers the amount as a JSON string, so that no client reads it as a float again.\n\n"
    "I will not touch `migrations/` and leave the signatures of `Timetable` alone. Shall I go on?")

user("Yes, except 4: the display screens read the amount as a number and we cannot roll them out before April. Keep it a JSON number "
     "in /v2 and add a new field amount_str beside it. Also, always run the whole test suite, not only one file.")
say("Understood: `amount` stays a number in `/v2`, `amount_str` is added beside it, and I run the whole suite each time.")
do("First the type and the base fare.",
   edit("ferrytimes/tariffs.py", "from dataclasses import dataclass, field\nfrom datetime import date", "from dataclasses import dataclass, field\nfrom datetime import date\nfrom decimal import ROUND_HALF_UP, Decimal"))
do("", edit("ferrytimes/tariffs.py", "BASE_FARE = 42.50\nPER_MILE = 3.15", "BASE_FARE = Decimal(\"42.50\")\nPER_MILE = Decimal(\"3.15\")\nCENT = Decimal(\"0.01\")"))
do("", edit("ferrytimes/tariffs.py", "    amount: float\n", "    amount: Decimal\n"))
do("", edit("ferrytimes/tariffs.py", "    return Fare(BASE_FARE + PER_MILE * distance_nm(start, end), [\"base\"])",
            "    miles = Decimal(str(distance_nm(start, end)))\n    return Fare(BASE_FARE + PER_MILE * miles, [\"base\"])"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(failed=[(f"test_{rule}_tariff_applies_from_its_first_day", [
    f"    def test_{rule}_tariff_applies_from_its_first_day():", f">       after = tariffs.{rule}_rule(tariffs.base_fare(A, B), date(2025, 1, 2))", "",
    "tests/test_tariffs.py:16:", "_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _",
    f">       amount = fare.amount * {0.35 + 0.05 * number:.2f} * count", "E   TypeError: unsupported operand type(s) for *: 'decimal.Decimal' and 'float'"])
    for number, rule in enumerate(RULES)], passed=22), True))
say("As expected: every rule multiplies a Decimal by a float. I'll rewrite the factors as Decimals and take the rounding out.")
for number, rule in enumerate(RULES):
    factor = 0.35 + 0.05 * number
    do("", edit("ferrytimes/tariffs.py", f"    amount = fare.amount * {factor:.2f} * count\n    return Fare(round(amount, 2), fare.rules + [\"{rule}\"])",
                f"    amount = fare.amount * Decimal(\"{factor:.2f}\") * count\n    return Fare(amount, fare.rules + [\"{rule}\"])"))
do("And one rounding, at the end of `price`.",
   edit("ferrytimes/tariffs.py", "    total = Fare(0.0)\n", "    total = Fare(Decimal(0))\n"),
   edit("ferrytimes/tariffs.py", "count)\n    return total\n", "count)\n    return Fare(total.amount.quantize(CENT, ROUND_HALF_UP), total.rules)\n"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run()))
do("", todos(("Make Fare.amount a Decimal", "completed"), ("Round once per booking, half up", "completed"),
             ("Add amount_str to /v2/price, keep amount a number", "in_progress"), ("Tests for rounding", "pending"), ("Changelog entry", "pending")))
do("", edit("ferrytimes/api.py", "    return {\"amount\": fare.amount, \"currency\": tariffs.CURRENCY, \"rules\": fare.rules}",
            "    return {\"amount\": float(fare.amount), \"amount_str\": str(fare.amount), \"currency\": tariffs.CURRENCY, \"rules\": fare.rules}"))
say("The price is a Decimal until the very last moment. `/v2/price` answers `amount` as a number as before and `amount_str` beside it. All 38 tests pass.")

user("Good. Now write the rounding tests. Take the case from the complaint: Skarvik to Lomre, 2 children and 1 senior on 2025-06-01; "
     "booking 88213 was charged 61.37 and should have been 61.38.")
do("Let me see the numbers with the new code.",
   bash("python - <<'PY'\nfrom datetime import date\nfrom ferrytimes import tariffs\nfrom ferrytimes.ports import by_name\nprint(tariffs.price(by_name('Skarvik'), by_name('Lomre'), date(2025,6,1), {'child': 2, 'senior': 1}))\nPY", "Fare(amount=Decimal('140.41'), rules=['base', 'child', 'base', 'senior'])"))
say("That is 140.41, not 61.38, so the complaint's booking was not priced by `price()` alone. I look for another place that prices.")
do("", grep("61\\.3|88213|per_passenger|half_price", ["data/complaints.md:14:Booking 88213: Skarvik-Lomre, 2 children + 1 senior, 1 June, charged 61.37, resident return"]),
   bash("sed -n 1,40p data/complaints.md", "# Complaints\n\nOne line each, newest last. Ask Jorunn for the tickets.\n\n- 87990: wrong vessel on the ticket (printing, not us)\n- 88102: night tariff on a day boat\n- 88213: Skarvik-Lomre, 2 children + 1 senior, 1 June, charged 61.37, resident return\n"))
say("The booking was a *resident return*: the resident and the return rules were applied on top of each other. `price()` takes one rule for each passenger and cannot say that. "
    "Before I invent something: how do two tariffs combine?")

user("They multiply: the passenger's rule first, then resident, then return, each on the result. But resident and return apply to the whole booking, not per passenger. "
     "Please call the parameter `booking_rules`, a list of names, default empty. Don't add a class for it.")
do("I read `price` once more before I change it.", read("ferrytimes/tariffs.py", first=225, count=40))
do("", edit("ferrytimes/tariffs.py", "def price(start: Port, end: Port, on: date, passengers: dict[str, int]) -> Fare:\n    \"\"\"The price of a booking: every passenger's rule on the base fare.\"\"\"",
            "def price(\n    start: Port, end: Port, on: date, passengers: dict[str, int], booking_rules: list[str] | None = None\n) -> Fare:\n    \"\"\"The price of a booking: every passenger's rule on the base fare, then the booking's rules on the sum.\"\"\""))
do("", edit("ferrytimes/tariffs.py", "    return Fare(total.amount.quantize(CENT, ROUND_HALF_UP), total.rules)\n",
            "    for kind in booking_rules or []:\n        total = RULES[kind](total, on)\n    return Fare(total.amount.quantize(CENT, ROUND_HALF_UP), total.rules)\n"))
NEW_TESTS = '''

def test_a_booking_is_rounded_once_and_half_up():
    fare = tariffs.price(A, B, date(2025, 6, 1), {"child": 2, "senior": 1}, ["resident", "return"])
    assert str(fare.amount) == "61.38"


def test_booking_rules_apply_to_the_sum_in_their_order():
    fare = tariffs.price(A, B, date(2025, 6, 1), {"child": 1}, ["resident", "return"])
    assert fare.rules == ["base", "child", "resident", "return"]
'''
do("", edit("tests/test_tariffs.py", "def test_weekpass_tariff_is_bounded():", NEW_TESTS.strip() + "\n\n\ndef test_weekpass_tariff_is_bounded():"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(failed=[("test_a_booking_is_rounded_once_and_half_up", [
    "    def test_a_booking_is_rounded_once_and_half_up():", "        fare = tariffs.price(A, B, date(2025, 6, 1), {\"child\": 2, \"senior\": 1}, [\"resident\", \"return\"])",
    ">       assert str(fare.amount) == \"61.38\"", "E   AssertionError: assert '77.23' == '61.38'"])], passed=39), True))
say("77.23 and not 61.38. 0.50 × 1.10 is what our table says for resident and return; 61.38 / 140.41 = 0.437. Let me look at what the ticket office uses.")
do("", bash("cat migrations/0003_fares.sql", "-- Fares as printed, winter 2025\nCREATE TABLE fares (rule TEXT PRIMARY KEY, factor NUMERIC(4,3) NOT NULL);\nINSERT INTO fares VALUES\n  ('child', 0.350), ('senior', 0.400), ('cyclist', 0.450), ('resident', 0.500),\n  ('group', 0.550), ('car', 0.600), ('return', 0.874), ('weekpass', 1.100);\n"),
   grep("def return_rule", ["ferrytimes/tariffs.py:180:def return_rule(fare: Fare, on: date, count: int = 1) -> Fare:"]))
do("The printed factor of `return` is 0.874; our code has 1.05. I only read the migration, I did not change it.", read("ferrytimes/tariffs.py", first=176, count=20))
do("", edit("ferrytimes/tariffs.py", "Decimal(\"1.05\")", "Decimal(\"0.874\")"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(failed=[("test_a_booking_is_rounded_once_and_half_up", [
    ">       assert str(fare.amount) == \"61.38\"", "E   AssertionError: assert '61.36' == '61.38'"])], passed=39), True))
say("61.36, two øre less. The distance: the office rounds miles to one decimal before it multiplies, as the price list says \"per started tenth of a mile\".")
do("", grep("tenth|nautical", ["README.md:31:Prices are per started tenth of a nautical mile (see the price list, page 2)."]), read("ferrytimes/ports.py"))
do("Started tenths are rounded up, so `ROUND_CEILING`.",
   edit("ferrytimes/tariffs.py", "    miles = Decimal(str(distance_nm(start, end)))\n", "    miles = Decimal(str(distance_nm(start, end))).quantize(TENTH, ROUND_CEILING)\n"),
   edit("ferrytimes/tariffs.py", "CENT = Decimal(\"0.01\")", "CENT = Decimal(\"0.01\")\nTENTH = Decimal(\"0.1\")"),
   edit("ferrytimes/tariffs.py", "from decimal import ROUND_HALF_UP, Decimal", "from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(passed=40)))
say("61.38. All 40 tests pass. Three causes, all fixed: rounding per passenger, a wrong `return` factor (1.05 instead of 0.874), and miles that were not rounded up to started tenths.")

user("Impressive. Was the return factor ever right? Find out when it changed, I have to tell finance which bookings are affected.")
do("", bash("git log --oneline -- ferrytimes/tariffs.py | head -10", git_log()),
   bash("git log -S'1.05' --format='%h %ad %an %s' --date=short -- ferrytimes/tariffs.py", "9c41e7d 2025-11-03 Jorunn H. tariffs: rounding per passenger"))
do("", bash("git show 9c41e7d --stat && git show 9c41e7d -- ferrytimes/tariffs.py | head -60", "commit 9c41e7d\nAuthor: Jorunn H.\nDate:   Mon Nov 3 08:12:44 2025 +0100\n\n    tariffs: rounding per passenger\n\n ferrytimes/tariffs.py | 34 +++++++++++++++++-----------------\n\n-    amount = fare.amount * 0.874 * count\n+    amount = fare.amount * 1.05 * count\n+    return Fare(round(amount, 2), fare.rules + [\"return\"])\n"))
say("It was right until **2025-11-03**, commit `9c41e7d` (\"tariffs: rounding per passenger\"): that commit changed `return` from 0.874 to 1.05 along with the rounding. "
    "Bookings with a return tariff made from 3 November 2025 on are affected. The complaint's booking is of June, so it was hit by the miles alone and re-priced later.")

user("Thanks. Next: the connections search is slow. With the full season loaded, Skarvik to Nordhella takes 40 seconds. Profile it first, no guessing. Signatures stay, remember.")
do("", read("ferrytimes/timetable.py"), bash("head -200 data/season.csv", season(200)), bash("wc -l data/season.csv", "18250 data/season.csv"))
PROFILE = "\n".join(["         48211345 function calls in 41.377 seconds", "", "   Ordered by: internal time", "", "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)"]
                    + [f"  {9000000 - number * 731223:8d}   {12.8 / (number + 1):6.3f}    0.000   {41.3 / (number + 1):6.3f}    0.000 {name}" for number, name in enumerate(
                        ["timetable.py:109(connections)", "{built-in method datetime.__sub__}", "{method 'pop' of 'list' objects}", "{method 'append' of 'list' objects}", "timetable.py:24(duration)", "{method 'get' of 'dict' objects}", "zoneinfo:_find_trans", "{built-in method builtins.sorted}"])])
do("", bash("python -m cProfile -s tottime -m scripts.route SKAK NORA 2026-03-01T06:00 | head -30", "/usr/bin/python: No module named scripts", True))
do("There is no such script; I profile inline.", bash("python - <<'PY'\nimport cProfile, pstats\nfrom datetime import datetime\nfrom ferrytimes.timetable import load_csv\nt = load_csv('data/season.csv')\ncProfile.run(\"t.connections('SKAK', 'NORA', datetime.fromisoformat('2026-03-01T06:00+01:00'))\", '/tmp/p')\npstats.Stats('/tmp/p').sort_stats('tottime').print_stats(8)\nPY", PROFILE))
say("Measured: 9 million iterations of the inner loop. For every route it walks *all* sailings from the port for the whole season and throws away those outside the six-hour window; and `queue.pop(0)` moves the list each time. "
    "The sailings of a port are sorted by departure already, so `bisect` finds the window, and a `deque` makes the pop free. No signature changes.")
do("", todos(("Bisect the window of connections", "in_progress"), ("deque instead of pop(0)", "pending"), ("Benchmark before and after", "pending"), ("Changelog entry", "pending")))
do("", edit("ferrytimes/timetable.py", "import csv\n", "import csv\nfrom bisect import bisect_left, bisect_right\nfrom collections import deque\n"),
   edit("ferrytimes/timetable.py", "        routes, queue = [], [[s] for s in self._by_start.get(start, []) if s.departs >= after]\n",
        "        routes, queue = [], deque([s] for s in self._by_start.get(start, []) if after <= s.departs <= after + MAX_WAIT)\n"),
   edit("ferrytimes/timetable.py", "            route = queue.pop(0)\n", "            route = queue.popleft()\n"))
do("", edit("ferrytimes/timetable.py", "            for s in self._by_start.get(last.end, []):\n                wait = s.departs - last.arrives\n                if MIN_CONNECTION <= wait <= MAX_WAIT and not s.cancelled:\n                    queue.append(route + [s])\n",
            "            for s in self._window(last.end, last.arrives + MIN_CONNECTION, last.arrives + MAX_WAIT):\n                if not s.cancelled:\n                    queue.append(route + [s])\n"))
do("", edit("ferrytimes/timetable.py", "    def connections(self", "    def _window(self, port: str, first: datetime, last: datetime) -> list[Sailing]:\n        sailings = self._by_start.get(port, [])\n        times = self._departures.get(port, [])\n        return sailings[bisect_left(times, first):bisect_right(times, last)]\n\n    def connections(self"),
   edit("ferrytimes/timetable.py", "            self._by_start.setdefault(sailing.start, []).append(sailing)\n", "            self._by_start.setdefault(sailing.start, []).append(sailing)\n        self._departures = {port: [s.departs for s in found] for port, found in self._by_start.items()}\n"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(failed=[("test_connections_after_midnight", [
    ">       assert len(routes) == 2", "E   AssertionError: assert 1 == 2", "E    +  where 1 = len([[Sailing(departs=datetime.datetime(2026, 3, 2, 0, 10), ...)]])"])], passed=39), True))
say("My own mistake: I limited the *first* boat to six hours after `after`, which the old code did not. I take that limit out; only changes have a window.")
do("", edit("ferrytimes/timetable.py", "if after <= s.departs <= after + MAX_WAIT)", "if s.departs >= after)"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(passed=40)),
   bash("python - <<'PY'\nimport time\nfrom datetime import datetime\nfrom ferrytimes.timetable import load_csv\nt = load_csv('data/season.csv')\ns = time.perf_counter()\nr = t.connections('SKAK', 'NORA', datetime.fromisoformat('2026-03-01T06:00+01:00'))\nprint(len(r), round(time.perf_counter() - s, 2))\nPY", "1874 6.41"))
say("40 s became 6.4 s. The rest is the first boat: every departure of the whole season starts a search.")

user("6.4 is still too long for the screens; they need below 0.5. They only ever show the next 20 routes. Can the search stop early without changing the signature?")
do("It can: a heap ordered by arrival answers the earliest routes first, and the search ends after twenty.", read("ferrytimes/timetable.py"))
do("", grep("connections\\(", ["ferrytimes/api.py:70:    # connections() is not served over HTTP yet", "tests/test_timetable.py:41:    routes = table.connections(\"SKAK\", \"NORA\", NOON)", "tests/test_timetable.py:58:    routes = table.connections(\"SKAK\", \"LOME\", MIDNIGHT)"]))
do("", edit("ferrytimes/timetable.py", "MAX_WAIT = timedelta(hours=6)\n", "MAX_WAIT = timedelta(hours=6)\nROUTES_MAX = 20\n"),
   edit("ferrytimes/timetable.py", "from collections import deque\n", "from heapq import heapify, heappop, heappush\n"))
do("", edit("ferrytimes/timetable.py", "        routes, queue = [], deque([s] for s in self._by_start.get(start, []) if s.departs >= after)\n",
            "        routes, queue = [], [(s.arrives, [s]) for s in self._by_start.get(start, []) if s.departs >= after]\n        heapify(queue)\n"),
   edit("ferrytimes/timetable.py", "            route = queue.popleft()\n", "            _, route = heappop(queue)\n"),
   edit("ferrytimes/timetable.py", "                    queue.append(route + [s])\n", "                    heappush(queue, (s.arrives, route + [s]))\n"),
   edit("ferrytimes/timetable.py", "                routes.append(route)\n                continue\n", "                routes.append(route)\n                if len(routes) == ROUTES_MAX:\n                    break\n                continue\n"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(passed=40)),
   bash("python - <<'PY'\nimport time\nfrom datetime import datetime\nfrom ferrytimes.timetable import load_csv\nt = load_csv('data/season.csv')\ns = time.perf_counter()\nr = t.connections('SKAK', 'NORA', datetime.fromisoformat('2026-03-01T06:00+01:00'))\nprint(len(r), round(time.perf_counter() - s, 2))\nPY", "20 0.03"))
say("0.03 s for twenty routes, earliest arrival first. Callers that relied on *all* routes would notice; in this repository nobody does. Do the other two services?")

user("No, they show five. Fine. But one thing: you rewrote the docstring of nothing, the limit must be documented. And put ROUTES_MAX in the changelog.")
do("", edit("ferrytimes/timetable.py", "Routes with at most `changes_max` changes, earliest arrival first.", "The twenty (`ROUTES_MAX`) routes that arrive first, with at most `changes_max` changes."),
   bash("head -20 CHANGELOG.md", "# Changelog\n\n## 3.4.0\n\n- Overnight sailings.\n- The v2 prefix.\n"))
FILES["CHANGELOG.md"] = "# Changelog\n\n## 3.4.0\n\n- Overnight sailings.\n- The v2 prefix.\n"
do("", edit("CHANGELOG.md", "# Changelog\n", "# Changelog\n\n## 3.5.0\n\n- Fares are exact: Decimal, rounded half up once per booking. `price` takes `booking_rules`.\n- The return tariff is 0.874 again (wrong since 9c41e7d, 2025-11-03).\n- Miles count in started tenths.\n- `/v2/price` answers `amount_str` beside `amount`.\n- `connections` answers the twenty routes that arrive first (`ROUTES_MAX`) in 0.03 s.\n"))
do("", todos(("Bisect the window of connections", "completed"), ("Stop after ROUTES_MAX routes", "completed"), ("Benchmark before and after", "completed"), ("Changelog entry", "completed"), ("Deploy notes for finance", "pending")))
say("Documented, and in the changelog under 3.5.0.")

user("Now add a route /v2/connections/{start}/{end} to the API. Same shape as departures, a list of lists. Validate ports like the others do.")
do("", read("ferrytimes/api.py"))
do("", edit("ferrytimes/api.py", "@router.get(\"/price\")", "@router.get(\"/connections/{start}/{end}\")\ndef connections(start: str, end: str, after: str = Query(...)) -> list[list[dict]]:\n    \"\"\"Answers the routes that arrive first.\"\"\"\n    for port in (start, end):\n        if port not in PORTS:\n            raise HTTPException(404, f\"unknown port {port}\")\n    routes = timetable().connections(start, end, datetime.fromisoformat(after))\n    return [[sailing_json(s) for s in route] for route in routes]\n\n\n@router.get(\"/price\")"))
do("", bash("python -m pytest 2>&1 | tail -40 && curl -s 'localhost:8000/v2/connections/SKAK/NORA?after=2026-03-01T06:00%2B01:00' | head -c 300", "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect to server", True))
do("No server is running; I use the test client. And `sailing_json` does not exist yet: the six routes repeat that dictionary, so I give it a name.",
   edit("ferrytimes/api.py", "def timetable() -> Timetable:", "def sailing_json(s) -> dict:\n    return {\"departs\": s.departs.isoformat(), \"arrives\": s.arrives.isoformat(), \"start\": s.start, \"end\": s.end, \"vessel\": s.vessel}\n\n\ndef timetable() -> Timetable:"),
   bash("python - <<'PY'\nfrom fastapi import FastAPI\nfrom fastapi.testclient import TestClient\nfrom ferrytimes.api import router\napp = FastAPI(); app.include_router(router)\nc = TestClient(app)\nr = c.get('/v2/connections/SKAK/NORA', params={'after': '2026-03-01T06:00+01:00'})\nprint(r.status_code, len(r.json()))\nprint(c.get('/v2/connections/XXXX/NORA', params={'after': '2026-03-01T06:00'}).json())\nPY", "200 20\n{'detail': 'unknown port XXXX'}"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(passed=40)))
say("`/v2/connections/{start}/{end}` answers twenty routes, and 404 for unknown ports. Note: a time without a zone raises `TypeError: can't compare offset-naive and offset-aware datetimes` inside `connections`, a 500. Shall I answer 422 for it?")

user("Yes, 422, in every route that takes a time. Actually no: leave the old six alone for now, only the new one. I'll open a ticket for the others, FT-311.")
do("", edit("ferrytimes/api.py", "    routes = timetable().connections(start, end, datetime.fromisoformat(after))\n", "    moment = datetime.fromisoformat(after)\n    if moment.tzinfo is None:\n        raise HTTPException(422, \"`after` needs a zone, such as +01:00\")\n    routes = timetable().connections(start, end, moment)\n"))
do("", bash("python -m pytest 2>&1 | tail -40", pytest_run(passed=40)), bash("git status --short", " M CHANGELOG.md\n M README.md\n M ferrytimes/api.py\n M ferrytimes/tariffs.py\n M ferrytimes/timetable.py\n M tests/test_tariffs.py"))
say("Only the new route answers 422; the six others are as they were, for FT-311. `README.md` was modified before I started, so I left it out of everything.")

user("Last thing for today: a script scripts/affected.py that lists the bookings finance has to look at: return tariff, made from 2025-11-03 on, with the amount charged and the amount due. It must only read the database, never write.")
do("I look at the schema, read-only.", bash("cat migrations/0001_bookings.sql migrations/0002_add_weekpass.sql", "CREATE TABLE bookings (\n  id INTEGER PRIMARY KEY, made TIMESTAMPTZ NOT NULL, start TEXT NOT NULL, \"end\" TEXT NOT NULL, sails DATE NOT NULL,\n  passengers JSONB NOT NULL, booking_rules TEXT[] NOT NULL DEFAULT '{}', charged NUMERIC(8,2) NOT NULL);\nCREATE INDEX bookings_made ON bookings (made);\n-- 0002\nALTER TABLE bookings ADD COLUMN weekpass TEXT;\n"),
   read("ferrytimes/tariffs.py"))
do("", todos(("scripts/affected.py: read-only list for finance", "in_progress"), ("Deploy notes for finance", "pending"), ("FT-311: 422 in the other six routes (not now)", "pending")))
do("", write("scripts/affected.py", '"""Lists bookings with a return tariff made since 2025-11-03: charged and due. Reads only."""\n\nimport csv\nimport os\nimport sys\nfrom datetime import date\n\nimport psycopg\n\nfrom ferrytimes import tariffs\nfrom ferrytimes.ports import PORTS\n\nSINCE = date(2025, 11, 3)\nQUERY = """\n    SELECT id, start, "end", sails, passengers, booking_rules, charged FROM bookings\n    WHERE made >= %s AND \'return\' = ANY(booking_rules) ORDER BY id\n"""\n\n\ndef main() -> None:\n    out = csv.writer(sys.stdout)\n    out.writerow(["id", "charged", "due", "difference"])\n    with psycopg.connect(os.environ["DATABASE_URL"], options="-c default_transaction_read_only=on") as db:\n        for number, start, end, sails, passengers, rules, charged in db.execute(QUERY, [SINCE]):\n            due = tariffs.price(PORTS[start], PORTS[end], sails, passengers, rules).amount\n            if due != charged:\n                out.writerow([number, charged, due, due - charged])\n\n\nif __name__ == "__main__":\n    main()\n'))
do("", bash("python scripts/affected.py | head", "Traceback (most recent call last):\n  File \"/home/mara/src/ferrytimes/scripts/affected.py\", line 8, in <module>\n    import psycopg\nModuleNotFoundError: No module named 'psycopg'", True))
say("`psycopg` is not installed here and not in `pyproject.toml`. Before I add a dependency: is `psycopg` the driver you use elsewhere?")
user("Yes, psycopg 3.1. Put it in an optional group called scripts, not in the main dependencies. The database is on the staging host, DATABASE_URL is in .env.staging; don't print it.")
do("", edit("pyproject.toml", "dependencies = [\"fastapi>=0.110\", \"pydantic>=2.6\"]\n", "dependencies = [\"fastapi>=0.110\", \"pydantic>=2.6\"]\n\n[project.optional-dependencies]\nscripts = [\"psycopg>=3.1,<4\"]\n"))
do("", bash("pip install -q -e '.[scripts]' && set -a && . ./.env.staging && set +a && python scripts/affected.py | tee /tmp/affected.csv | head -8 && wc -l /tmp/affected.csv",
            "id,charged,due,difference\n91007,84.10,70.01,-14.09\n91012,120.44,100.25,-20.19\n91033,77.23,61.38,-15.85\n91034,77.23,61.38,-15.85\n91090,210.00,174.80,-35.20\n91101,42.63,35.49,-7.14\n91188,98.02,81.59,-16.43\n413 /tmp/affected.csv"))

if __name__ == "__main__":
    with open(os.path.join(HERE, "session.jsonl"), "w", encoding="utf-8", newline="\n") as f:
        f.write("\n".join(LINES) + "\n")
