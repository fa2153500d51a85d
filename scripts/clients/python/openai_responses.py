"""The OpenAI SDK for Python through the gateway: Responses."""

import openai

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

check = Checks("openai-python responses")
TOOLS = [{"type": "function", "strict": False, **BASH}]


def client(key, **more):
    return openai.OpenAI(api_key=key, base_url=f"{GATEWAY}/v1", max_retries=0, timeout=60, **more)


def asked(model, items):
    """What every turn asks for: nothing is stored, so reasoning comes back sealed."""
    return {
        "model": model,
        "input": items,
        "tools": TOOLS,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 1000,
    }


def whole(api, model, items):
    raw = api.responses.with_raw_response.create(**asked(model, items))
    return raw.parse(), raw.headers


def streamed(api, model, items):
    with api.responses.stream(**asked(model, items)) as stream:
        for _ in stream:
            pass
        return stream.get_final_response(), stream._response.headers


def work(key, model, turn):
    api, done = client(key), Work()
    items = [{"role": "developer", "content": "You run commands."}, {"role": "user", "content": PROMPT}]
    while True:
        answer, headers = turn(api, model, items)
        done.saw(headers, answer.usage.input_tokens)
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments", "parsed"}) for item in answer.output]
        for item in items:
            for part in item.get("content") or [] if isinstance(item.get("content"), list) else []:
                part.pop("parsed", None)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            done.done(answer.output_text)
            return done
        done.next(len(calls))
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": output_of(call.arguments, done.turn)}
            for call in calls
        ]


@check("an answer without a stream")
def _(key):
    answer = client(key).responses.create(model=WIDE, input="Say something.")
    expect(answer.output_text, "there is no text")
    expect(answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0, f"usage is {answer.usage}")


@check("an answer as a stream")
def _(key):
    events = list(client(key).responses.create(model=WIDE, input="Say something.", stream=True))
    expect(
        events[0].type == "response.created" and events[-1].type == "response.completed",
        f"{events[0].type} … {events[-1].type}",
    )
    told = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    expect(told and told == events[-1].response.output_text, f"deltas say {told!r}")
    numbers = [event.sequence_number for event in events]
    expect(numbers == sorted(set(numbers)), f"sequence numbers are {numbers}")


@check("x-epitome headers are there, with a stream and without")
def _(key):
    api = client(key)
    raw = api.responses.with_raw_response.create(model=WIDE, input="Say something.")
    expect(raw.headers.get("x-epitome-thread"), f"headers are {dict(raw.headers)}")
    with api.responses.with_streaming_response.create(model=WIDE, input="Say something.", stream=True) as raw:
        expect(raw.headers.get("x-epitome-thread"), f"headers are {dict(raw.headers)}")


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


@check("the tokens of an input")
def _(key):
    counted = client(key).responses.input_tokens.count(model=WIDE, input="Say something.")
    expect(counted.input_tokens > 0, f"counted {counted}")


@check("leaving in the middle of a stream")
def _(key):
    stream = client(key, default_headers={FAULT_HEADER: "slow=300"}).responses.create(
        model=WIDE, input="Say something.", stream=True
    )
    next(iter(stream))
    stream.close()
    upstream_left(key)


@check("a missing key is the provider's 401")
def _(key):
    try:
        client("wrong").responses.create(model=WIDE, input="Say something.")
    except openai.AuthenticationError as error:
        expect(error.body and error.body.get("message"), f"body is {error.body}")
        return
    expect(False, "no error")


@check("a throttled request is the provider's 429")
def _(key):
    try:
        client(key, default_headers={FAULT_HEADER: "429"}).responses.create(model=WIDE, input="Say something.")
    except openai.RateLimitError as error:
        expect(error.body and error.body.get("message"), f"body is {error.body}")
        return
    expect(False, "no error")


@check("an unknown model is the provider's error")
def _(key):
    try:
        client(key).responses.create(model="no-such-model", input="Say something.")
    except openai.APIStatusError as error:
        expect(error.status_code in (400, 404) and error.code == "model_not_found", f"{error.status_code} {error.body}")
        return
    expect(False, "no error")


check.run()
