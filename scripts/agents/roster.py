"""The roster: how each real agent is pointed at the gateway and run without a person.

Refuses to start anything. An agent is a value: files for its home, its environment, and its commands.
"""

import dataclasses
import json
import os
import pathlib

from stage import ROOT

INSTALLED = ROOT / "target" / "agents"
BIN = INSTALLED / "npm" / "node_modules" / ".bin"
NODE = INSTALLED / "node" / "node_modules" / "node" / "bin"
PROMPT = "Run the commands that you are given, one after the other, and say when the work is done."
AGAIN = "Thank you. Is there anything left to do?"
# What an agent that shall not compact by itself believes its window to be.
ENDLESS = 4_000_000
# What an agent believes where nothing but its base URL is set: what it knows, or the real window where it must be told.
PLAIN = "plain"


@dataclasses.dataclass(frozen=True)
class Run:
    """One agent in one setting."""

    name: str
    package: str
    protocol: str
    model: str
    window: int
    commands: list
    env: dict = dataclasses.field(default_factory=dict)
    files: dict = dataclasses.field(default_factory=dict)
    # Whether the agent compacts by itself, so that the gateway has nothing to do.
    compacts_itself: bool = False
    # The fewest compactions of the gateway's that the run must see.
    plans_min: int = 2
    # Whether the gateway only passes it through.
    passed_through: bool = False

    def version(self):
        """The installed version."""
        found = INSTALLED / "npm" / "node_modules" / self.package / "package.json"
        return json.loads(found.read_text())["version"] if found.exists() else None


def environment(home, more):
    """The whole environment of an agent: nothing of the caller's but the path."""
    home = pathlib.Path(home)
    return {
        "PATH": f"{NODE}:{BIN}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "CI": "1",
        **more,
    }


def titled(name, believed):
    """A run's name in the table."""
    return {None: name, PLAIN: f"{name}, as it comes"}.get(believed, f"{name}, own compaction")


def compacting(believed):
    """Whether an agent compacts by itself, and the fewest compactions that are then the gateway's."""
    return {None: (False, 2), PLAIN: (False, 1)}.get(believed, (True, 0))


def known(believed, window):
    """The window that an agent is told which has to be told one."""
    return window if believed == PLAIN else believed or ENDLESS


def codex(url, key, home, *, window=32_000, own=None):
    """Codex, on Responses. `own` is the window it believes in where it shall compact by itself."""
    believed = own or ENDLESS
    limits = (
        ""
        if own == PLAIN
        else f"model_context_window = {believed}\nmodel_auto_compact_token_limit = {believed * 7 // 10}"
    )
    config = f"""
model = "mock-{window // 1000}k"
model_provider = "epitome"
{limits}
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.epitome]
name = "epitome"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "EPITOME_UPSTREAM_KEY"
"""
    start = ["codex", "exec", "--skip-git-repo-check"]
    return Run(
        titled("codex", own),
        "@openai/codex",
        "responses",
        f"mock-{window // 1000}k",
        window,
        [[*start, PROMPT], [*start, "resume", "--last", AGAIN]],
        {"CODEX_HOME": f"{home}/.codex", "EPITOME_UPSTREAM_KEY": key},
        {".codex/config.toml": config},
        *compacting(own),
    )


def claude(url, key, home, *, window=64_000, own=None):
    """Claude Code, on Messages, with thinking."""
    model = f"claude-sonnet-4-5-{window // 1000}k"
    common = ["--model", model, "--output-format", "text", "--dangerously-skip-permissions"]
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    small = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "6000", "MAX_THINKING_TOKENS": "2000"}
    if own != PLAIN:
        env |= small | ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(own)} if own else {"DISABLE_AUTO_COMPACT": "1"})
    return Run(
        titled("claude-code", own),
        "@anthropic-ai/claude-code",
        "messages",
        model,
        window,
        [["claude", "-p", PROMPT, *common], ["claude", "-c", "-p", AGAIN, *common]],
        env,
        {},
        *compacting(own),
    )


OPENCODE = {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic"}


def opencode(url, key, home, *, protocol="chat", window=32_000, own=None):
    """OpenCode, on any of the three protocols by its provider package."""
    model = f"mock-{window // 1000}k"
    config = {
        "model": f"epitome/{model}",
        "small_model": f"epitome/{model}",
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "provider": {
            "epitome": {
                "npm": OPENCODE[protocol],
                "options": {"baseURL": f"{url}/v1", "apiKey": key},
                "models": {model: {"limit": {"context": known(own, window), "output": 4_000}}},
            }
        },
    }
    return Run(
        titled("opencode" if own else f"opencode, {protocol}", own),
        "opencode-ai",
        protocol,
        model,
        window,
        [["opencode", "run", PROMPT], ["opencode", "run", "-c", AGAIN]],
        {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        {".config/opencode/opencode.json": json.dumps(config)},
        *compacting(own),
    )


PI = {
    "chat": ("openai-completions", "/v1"),
    "responses": ("openai-responses", "/v1"),
    "messages": ("anthropic-messages", ""),
}


def pi(url, key, home, *, protocol="chat", window=32_000, own=None):
    """pi, on any of the three protocols."""
    model, (api, path) = f"mock-{window // 1000}k", PI[protocol]
    models = {
        "providers": {
            "epitome": {
                "baseUrl": f"{url}{path}",
                "api": api,
                "apiKey": key,
                "models": [
                    {
                        "id": model,
                        "name": model,
                        "reasoning": False,
                        "input": ["text"],
                        "contextWindow": known(own, window),
                        "maxTokens": 4_000,
                        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                    }
                ],
            }
        }
    }
    common = ["--provider", "epitome", "--model", model]
    return Run(
        titled("pi" if own else f"pi, {protocol}", own),
        "@earendil-works/pi-coding-agent",
        protocol,
        model,
        window,
        [["pi", "-p", PROMPT, *common], ["pi", "-c", "-p", AGAIN, *common]],
        {"PI_OFFLINE": "1"},
        {".pi/agent/models.json": json.dumps(models)},
        *compacting(own),
    )


def qwen(url, key, home, *, window=48_000, own=None):
    """qwen-code, on Chat Completions."""
    model = f"mock-{window // 1000}k"
    model_settings = (
        {}
        if own == PLAIN
        else {"generationConfig": {"contextWindowSize": own or ENDLESS, "samplingParams": {"max_tokens": 4_000}}}
    )
    settings = {
        "model": model_settings,
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True},
    }
    start = ["qwen", "--auth-type", "openai", "--yolo"]
    return Run(
        titled("qwen-code", own),
        "@qwen-code/qwen-code",
        "chat",
        model,
        window,
        [[*start, "-p", PROMPT], [*start, "-c", "-p", AGAIN]],
        {
            "OPENAI_API_KEY": key,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_MODEL": model,
            "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        },
        {".qwen/settings.json": json.dumps(settings)},
        *compacting(own),
    )


def gemini(url, key, home):
    """Gemini CLI, passed through."""
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True},
    }
    return Run(
        "gemini-cli",
        "@google/gemini-cli",
        "gemini",
        "gemini-2.5-flash",
        1_048_576,
        [["gemini", "-p", PROMPT, "-m", "gemini-2.5-flash", "--skip-trust", "--yolo"]],
        {"GEMINI_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": url},
        {".gemini/settings.json": json.dumps(settings)},
        passed_through=True,
    )


# Every run by its short name, in the order of the table.
ROSTER = {
    "codex": codex,
    "claude": claude,
    "opencode": opencode,
    "opencode-responses": lambda *at: opencode(*at, protocol="responses"),
    "opencode-messages": lambda *at: opencode(*at, protocol="messages"),
    "pi": pi,
    "pi-responses": lambda *at: pi(*at, protocol="responses"),
    "pi-messages": lambda *at: pi(*at, protocol="messages"),
    "qwen": qwen,
    "gemini": gemini,
    "codex-own": lambda *at: codex(*at, window=64_000, own=48_000),
    "claude-own": lambda *at: claude(*at, window=160_000, own=100_000),
    "opencode-own": lambda *at: opencode(*at, window=64_000, own=40_000),
    "pi-own": lambda *at: pi(*at, window=128_000, own=80_000),
    "qwen-own": lambda *at: qwen(*at, window=96_000, own=64_000),
    "codex-plain": lambda *at: codex(*at, window=128_000, own=PLAIN),
    "claude-plain": lambda *at: claude(*at, window=128_000, own=PLAIN),
    "opencode-plain": lambda *at: opencode(*at, window=128_000, own=PLAIN),
    "pi-plain": lambda *at: pi(*at, window=128_000, own=PLAIN),
    "qwen-plain": lambda *at: qwen(*at, window=128_000, own=PLAIN),
}
