"""The Anthropic SDK for Python through the gateway: Messages."""

import anthropic

from check import (
    BASH,
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

check = Checks("anthropic-python")
TOOLS = [{"name": BASH["name"], "description": BASH["description"], "input_schema": BASH["parameters"]}]
QUESTION = [{"role": "user", "content": "Say something."}]


def client(key, **more):
    return anthropic.Anthropic(api_key=key, base_url=GATEWAY, max_retries=0, timeout=60, **more)


def asked(model, messages, thinking):
    mark = {"type": "ephemeral"}
    system = [{"type": "text", "text": "You run commands.", "cache_control": mark}]
    more = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if thinking else {}
    return {
        "model": model,
        "max_tokens": 2000,
        "system": system,
        "messages": marked(messages, mark),
        "tools": TOOLS,
        **more,
    }


def marked(messages, mark):
    """The messages with a cache mark on the last block, as clients do it, moved in every request."""
    *earlier, last = messages
    if isinstance(last["content"], str):
        last = {**last, "content": [{"type": "text", "text": last["content"]}]}
    *blocks, end = last["content"]
    return [*earlier, {**last, "content": [*blocks, {**end, "cache_control": mark}]}]


def whole(api, model, messages, thinking):
    raw = api.messages.with_raw_response.create(**asked(model, messages, thinking))
    return raw.parse(), raw.headers


def streamed(api, model, messages, thinking):
    with api.messages.stream(**asked(model, messages, thinking)) as stream:
        for _ in stream:
            pass
        return stream.get_final_message(), stream.response.headers


def work(key, model, turn, thinking=False):
    api, done, messages = client(key), Work(), [{"role": "user", "content": PROMPT}]
    while True:
        answer, headers = turn(api, model, messages, thinking)
        usage = answer.usage
        done.saw(
            headers,
            usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0),
        )
        messages.append(
            {
                "role": "assistant",
                "content": [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in answer.content],
            }
        )
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            done.done("".join(block.text for block in answer.content if block.type == "text"))
            return done
        done.next(len(calls))
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": output_of(str(call.input), done.turn)}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})


@check("an answer without a stream")
def _(key):
    answer = client(key).messages.create(model=WIDE, max_tokens=100, messages=QUESTION)
    expect(answer.content[0].text, "there is no text")
    expect(answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0, f"usage is {answer.usage}")


@check("an answer as a stream")
def _(key):
    with client(key).messages.stream(model=WIDE, max_tokens=100, messages=QUESTION) as stream:
        told = "".join(stream.text_stream)
        expect(told and told == stream.get_final_message().content[0].text, f"deltas say {told!r}")


@check("x-epitome headers are there, with a stream and without")
def _(key):
    api = client(key)
    raw = api.messages.with_raw_response.create(model=WIDE, max_tokens=100, messages=QUESTION)
    expect(raw.headers.get("x-epitome-thread"), f"headers are {dict(raw.headers)}")
    with api.messages.stream(model=WIDE, max_tokens=100, messages=QUESTION) as stream:
        expect(stream.response.headers.get("x-epitome-thread"), f"headers are {dict(stream.response.headers)}")


@check("tools, in parallel too")
def _(key):
    in_parallel(work(key, WIDE, whole))


@check("tools in streams, in parallel too")
def _(key):
    in_parallel(work(key, WIDE, streamed))


@check("a conversation that outgrows its window")
def _(key):
    work(key, NARROW, whole).fitted()


@check("a conversation in streams that outgrows its window")
def _(key):
    work(key, NARROW, streamed).fitted()


@check("a conversation with signed thinking that outgrows its window")
def _(key):
    work(key, NARROW, streamed, thinking=True).fitted()


@check("the tokens of a prompt")
def _(key):
    counted = client(key).messages.count_tokens(model=WIDE, messages=QUESTION)
    expect(counted.input_tokens > 0, f"counted {counted}")


@check("leaving in the middle of a stream")
def _(key):
    api = client(key, default_headers={FAULT_HEADER: "slow=300"})
    with api.messages.stream(model=WIDE, max_tokens=100, messages=QUESTION) as stream:
        next(iter(stream))
    upstream_left(key)


@check("a missing key is the provider's 401")
def _(key):
    try:
        client("wrong").messages.create(model=WIDE, max_tokens=100, messages=QUESTION)
    except anthropic.AuthenticationError as error:
        expect(error.body["error"]["type"] == "authentication_error", f"body is {error.body}")
        return
    expect(False, "no error")


@check("a throttled request is the provider's 429")
def _(key):
    try:
        client(key, default_headers={FAULT_HEADER: "429"}).messages.create(
            model=WIDE, max_tokens=100, messages=QUESTION
        )
    except anthropic.RateLimitError as error:
        expect(error.body["error"]["type"] == "rate_limit_error", f"body is {error.body}")
        return
    expect(False, "no error")


@check("an unknown model is the provider's 404")
def _(key):
    try:
        client(key).messages.create(model="no-such-model", max_tokens=100, messages=QUESTION)
    except anthropic.NotFoundError as error:
        expect(error.body["error"]["type"] == "not_found_error", f"body is {error.body}")
        return
    expect(False, "no error")


check.run()
