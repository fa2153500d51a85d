"""LangChain for Python through the gateway: its OpenAI model on both endpoints, and its Anthropic model."""

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from check import (
    FAULT_HEADER,
    GATEWAY,
    NARROW,
    PROMPT,
    WIDE,
    Checks,
    Work,
    expect,
    in_parallel,
    output_of,
    upstream_left,
)

check = Checks("langchain-python")


@tool
def bash(command: str) -> str:
    """Runs a command and returns what it prints."""
    return command


def chat(key, model, **more):
    return ChatOpenAI(
        model=model,
        api_key=key,
        base_url=f"{GATEWAY}/v1",
        max_retries=0,
        timeout=60,
        max_tokens=1000,
        stream_usage=True,
        use_responses_api=False,
        **more,
    )


def responses(key, model, **more):
    return ChatOpenAI(
        model=model,
        api_key=key,
        base_url=f"{GATEWAY}/v1",
        max_retries=0,
        timeout=60,
        max_tokens=1000,
        use_responses_api=True,
        store=False,
        include=["reasoning.encrypted_content"],
        **more,
    )


def claude(key, model, **more):
    return ChatAnthropic(model=model, api_key=key, base_url=GATEWAY, max_retries=0, timeout=60, max_tokens=1000, **more)


MODELS = {"chat": chat, "responses": responses, "messages": claude}


def whole(model, messages):
    return model.invoke(messages)


def streamed(model, messages):
    pieces = list(model.stream(messages))
    answer = pieces[0]
    for piece in pieces[1:]:
        answer += piece
    return answer


def work(model, turn):
    bound, done = model.bind_tools([bash]), Work()
    messages = [SystemMessage("You run commands."), HumanMessage(PROMPT)]
    while True:
        answer = turn(bound, messages)
        done.saw((answer.response_metadata or {}).get("headers"), answer.usage_metadata["input_tokens"])
        messages.append(answer)
        if not answer.tool_calls:
            done.done(answer.text if isinstance(answer.text, str) else answer.text())
            return done
        done.next(len(answer.tool_calls))
        messages += [
            ToolMessage(output_of(str(call["args"]), done.turn), tool_call_id=call["id"]) for call in answer.tool_calls
        ]


def check_model(name, made):
    @check(f"{name}: an answer without a stream")
    def _(key):
        answer = made(key, WIDE).invoke("Say something.")
        expect(answer.content and answer.usage_metadata["input_tokens"] > 0, f"answer is {answer}")

    @check(f"{name}: an answer as a stream")
    def _(key):
        pieces = list(made(key, WIDE).stream("Say something."))
        expect(any(piece.content for piece in pieces), "there is no text")

    @check(f"{name}: tools, in parallel too")
    def _(key):
        in_parallel(work(made(key, WIDE), whole))

    @check(f"{name}: tools in streams, in parallel too")
    def _(key):
        in_parallel(work(made(key, WIDE), streamed))

    @check(f"{name}: a conversation that outgrows its window")
    def _(key):
        headers = {} if name == "messages" else {"include_response_headers": True}
        done = work(made(key, NARROW, **headers), whole)
        if headers:
            done.fitted()

    @check(f"{name}: a conversation in streams that outgrows its window")
    def _(key):
        work(made(key, NARROW), streamed)

    @check(f"{name}: leaving in the middle of a stream")
    def _(key):
        stream = made(key, WIDE, default_headers={FAULT_HEADER: "slow=300"}).stream("Say something.")
        next(stream)
        stream.close()
        upstream_left(key)

    @check(f"{name}: a throttled request is the provider's 429")
    def _(key):
        try:
            made(key, WIDE, default_headers={FAULT_HEADER: "429"}).invoke("Say something.")
        except Exception as error:
            expect(getattr(error, "status_code", None) == 429, f"error is {error!r}")
            return
        expect(False, "no error")


for name, made in MODELS.items():
    check_model(name, made)
check.run()
