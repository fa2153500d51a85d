"""The OpenAI Agents SDK for Python through the gateway: its runner, with both of its OpenAI models."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import APIStatusError, AsyncOpenAI

from check import (
    FAULT_HEADER,
    GATEWAY,
    NARROW,
    PROMPT,
    TURNS,
    TURNS_MAX,
    WIDE,
    Checks,
    expect,
    output_of,
    upstream_left,
)

check = Checks("openai-agents-python")
set_tracing_disabled(True)
MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


class Bench:
    """An agent with one tool, and how often the tool ran."""

    def __init__(self, kind, key, model, headers=None):
        self.ran = 0

        @function_tool
        def bash(command: str) -> str:
            """Runs a command and returns what it prints."""
            self.ran += 1
            return output_of(command, self.ran)

        self.api = AsyncOpenAI(
            api_key=key, base_url=f"{GATEWAY}/v1", max_retries=0, timeout=60, default_headers=headers or {}
        )
        settings = ModelSettings(max_tokens=1000, include_usage=True, store=False if kind == "responses" else None)
        self.agent = Agent(
            name="worker",
            instructions="You run commands.",
            model=MODELS[kind](model=model, openai_client=self.api),
            tools=[bash],
            model_settings=settings,
        )

    async def run(self):
        async with self.api:
            return (await Runner.run(self.agent, PROMPT, max_turns=TURNS_MAX)).final_output

    async def run_streamed(self):
        async with self.api:
            result = Runner.run_streamed(self.agent, PROMPT, max_turns=TURNS_MAX)
            async for _ in result.stream_events():
                pass
            return result.final_output

    async def leave(self):
        """Begins a streamed run, and leaves it at the model's first event."""
        result = Runner.run_streamed(self.agent, PROMPT, max_turns=TURNS_MAX)
        async for event in result.stream_events():
            if event.type == "raw_response_event":
                result.cancel()
                break
        await asyncio.sleep(0.5)
        await self.api.close()

    def finished(self, text):
        expect("WORK DONE" in (text or ""), f"the last answer is {text!r}")
        expect(self.ran >= TURNS, f"the tool ran {self.ran} times")


def check_model(kind):
    @check(f"{kind}: a run with tools")
    def _(key):
        bench = Bench(kind, key, WIDE)
        bench.finished(asyncio.run(bench.run()))
        expect(bench.ran > TURNS, "no turn had two calls")

    @check(f"{kind}: a streamed run with tools")
    def _(key):
        bench = Bench(kind, key, WIDE)
        bench.finished(asyncio.run(bench.run_streamed()))

    @check(f"{kind}: a run that outgrows its window")
    def _(key):
        bench = Bench(kind, key, NARROW)
        bench.finished(asyncio.run(bench.run()))

    @check(f"{kind}: a streamed run that outgrows its window")
    def _(key):
        bench = Bench(kind, key, NARROW)
        bench.finished(asyncio.run(bench.run_streamed()))

    @check(f"{kind}: leaving in the middle of a streamed run")
    def _(key):
        asyncio.run(Bench(kind, key, WIDE, {FAULT_HEADER: "slow=300"}).leave())
        upstream_left(key)

    @check(f"{kind}: a throttled request is the provider's 429")
    def _(key):
        try:
            asyncio.run(Bench(kind, key, WIDE, {FAULT_HEADER: "429"}).run())
        except APIStatusError as error:
            expect(error.status_code == 429, f"error is {error!r}")
            return
        expect(False, "no error")


for kind in MODELS:
    check_model(kind)
check.run()
