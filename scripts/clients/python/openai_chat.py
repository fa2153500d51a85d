"""The OpenAI SDK for Python through the gateway: Chat Completions."""

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

check = Checks("openai-python chat")
TOOLS = [{"type": "function", "function": BASH}]
QUESTION = [{"role": "user", "content": "Say something."}]


def client(key, **more):
    return openai.OpenAI(api_key=key, base_url=f"{GATEWAY}/v1", max_retries=0, timeout=60, **more)


def whole(api, model, messages):
    """One turn without a stream: the message, the calls, the headers, the tokens of the prompt."""
    raw = api.chat.completions.with_raw_response.create(
        model=model, messages=messages, tools=TOOLS, max_completion_tokens=1000
    )
    answer = raw.parse()
    message = answer.choices[0].message
    return message.model_dump(exclude_none=True), message.tool_calls or [], raw.headers, answer.usage.prompt_tokens


def streamed(api, model, messages):
    """The same with a stream, put together by the SDK's own accumulator."""
    with api.chat.completions.stream(
        model=model, messages=messages, tools=TOOLS, max_completion_tokens=1000, stream_options={"include_usage": True}
    ) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_completion()
    message = answer.choices[0].message
    dumped = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        dumped["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    return dumped, message.tool_calls or [], stream._response.headers, answer.usage.prompt_tokens


def work(key, model, turn):
    """Works until the mock says that it is done."""
    api, done = client(key), Work()
    messages = [{"role": "system", "content": "You run commands."}, {"role": "user", "content": PROMPT}]
    while True:
        message, calls, headers, tokens = turn(api, model, messages)
        done.saw(headers, tokens)
        messages.append(message)
        if not calls:
            done.done(message.get("content"))
            return done
        done.next(len(calls))
        for call in calls:
            messages.append(
                {"role": "tool", "tool_call_id": call.id, "content": output_of(call.function.arguments, done.turn)}
            )


@check("an answer without a stream")
def _(key):
    answer = client(key).chat.completions.create(model=WIDE, messages=QUESTION)
    expect(answer.choices[0].message.content, "there is no text")
    expect(answer.usage.prompt_tokens > 0 and answer.usage.completion_tokens > 0, f"usage is {answer.usage}")


@check("an answer as a stream, with usage where it was asked for")
def _(key):
    chunks = list(
        client(key).chat.completions.create(
            model=WIDE, messages=QUESTION, stream=True, stream_options={"include_usage": True}
        )
    )
    expect("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices), "there is no text")
    expect(chunks[-1].usage and chunks[-1].usage.prompt_tokens > 0, "the last chunk has no usage")


@check("a stream without usage where none was asked for")
def _(key):
    chunks = list(client(key).chat.completions.create(model=WIDE, messages=QUESTION, stream=True))
    expect(not any(chunk.usage for chunk in chunks), "a chunk has usage")
    expect(all(chunk.choices for chunk in chunks), "a chunk has no choices")


@check("x-epitome headers are there, with a stream and without")
def _(key):
    api = client(key)
    raw = api.chat.completions.with_raw_response.create(model=WIDE, messages=QUESTION)
    expect(raw.headers.get("x-epitome-thread"), f"headers are {dict(raw.headers)}")
    with api.chat.completions.with_streaming_response.create(model=WIDE, messages=QUESTION, stream=True) as raw:
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


@check("leaving in the middle of a stream")
def _(key):
    stream = client(key, default_headers={FAULT_HEADER: "slow=300"}).chat.completions.create(
        model=WIDE, messages=QUESTION, stream=True
    )
    next(iter(stream))
    stream.close()
    upstream_left(key)


@check("a missing key is the provider's 401")
def _(key):
    try:
        client("wrong").chat.completions.create(model=WIDE, messages=QUESTION)
    except openai.AuthenticationError as error:
        expect(error.status_code == 401 and error.body and error.body.get("message"), f"body is {error.body}")
        return
    expect(False, "no error")


@check("a throttled request is the provider's 429")
def _(key):
    try:
        client(key, default_headers={FAULT_HEADER: "429"}).chat.completions.create(model=WIDE, messages=QUESTION)
    except openai.RateLimitError as error:
        expect(error.body and error.body.get("message"), f"body is {error.body}")
        return
    expect(False, "no error")


@check("an unknown model is the provider's 404")
def _(key):
    try:
        client(key).chat.completions.create(model="no-such-model", messages=QUESTION)
    except openai.NotFoundError as error:
        expect(error.code == "model_not_found", f"body is {error.body}")
        return
    expect(False, "no error")


@check("the list of models")
def _(key):
    expect(list(client(key).models.list()), "the list is empty")


check.run()
