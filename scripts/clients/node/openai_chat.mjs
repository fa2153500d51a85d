// The OpenAI SDK for node through the gateway: Chat Completions.
import OpenAI from 'openai';
import {
  BASH,
  Checks,
  FAULT_HEADER,
  GATEWAY,
  NARROW,
  PROMPT,
  WIDE,
  Work,
  expect,
  outputOf,
  thrown,
  upstreamLeft,
} from './check.mjs';

const check = new Checks('openai-node chat');
const tools = [{ type: 'function', function: BASH }];
const question = [{ role: 'user', content: 'Say something.' }];
const client = (apiKey, defaultHeaders) =>
  new OpenAI({ apiKey, baseURL: `${GATEWAY}/v1`, maxRetries: 0, timeout: 60_000, defaultHeaders });
const asked = (model, messages) => ({ model, messages, tools, max_completion_tokens: 1000 });

/** One turn without a stream. */
async function whole(api, model, messages) {
  const { data, response } = await api.chat.completions.create(asked(model, messages)).withResponse();
  return { answer: data, headers: response.headers };
}

/** The same with a stream, put together by the SDK's own accumulator. */
async function streamed(api, model, messages) {
  const { data, response } = await api.chat.completions
    .create({ ...asked(model, messages), stream: true, stream_options: { include_usage: true } })
    .withResponse();
  const { ChatCompletionStream } = await import('openai/lib/ChatCompletionStream');
  const runner = ChatCompletionStream.fromReadableStream(data.toReadableStream());
  return { answer: await runner.finalChatCompletion(), headers: response.headers };
}

async function work(key, model, turn) {
  const [api, done] = [client(key), new Work()];
  const messages = [
    { role: 'system', content: 'You run commands.' },
    { role: 'user', content: PROMPT },
  ];
  for (;;) {
    const { answer, headers } = await turn(api, model, messages);
    done.saw(headers, answer.usage.prompt_tokens);
    const { role, content, tool_calls: calls = [] } = answer.choices[0].message;
    messages.push({
      role,
      content,
      ...(calls.length && {
        tool_calls: calls.map(({ id, type, function: { name, arguments: args } }) => ({
          id,
          type,
          function: { name, arguments: args },
        })),
      }),
    });
    if (!calls.length) return done.done(content);
    done.next(calls.length);
    for (const call of calls)
      messages.push({ role: 'tool', tool_call_id: call.id, content: outputOf(call.function.arguments, done.turn) });
  }
}

check.add('an answer without a stream', async (key) => {
  const answer = await client(key).chat.completions.create({ model: WIDE, messages: question });
  expect(answer.choices[0].message.content, 'there is no text');
  expect(answer.usage.prompt_tokens > 0, `usage is ${JSON.stringify(answer.usage)}`);
});
check.add('an answer as a stream, with usage where it was asked for', async (key) => {
  const stream = await client(key).chat.completions.create({
    model: WIDE,
    messages: question,
    stream: true,
    stream_options: { include_usage: true },
  });
  let [told, usage] = ['', null];
  for await (const chunk of stream) {
    told += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  expect(told && usage?.prompt_tokens > 0, `told ${told}, usage is ${JSON.stringify(usage)}`);
});
check.add('x-epitome headers are there, with a stream and without', async (key) => {
  const plain = await client(key).chat.completions.create({ model: WIDE, messages: question }).asResponse();
  expect(plain.headers.get('x-epitome-thread'), JSON.stringify([...plain.headers]));
  const stream = await client(key)
    .chat.completions.create({ model: WIDE, messages: question, stream: true })
    .asResponse();
  expect(stream.headers.get('x-epitome-thread'), JSON.stringify([...stream.headers]));
  await stream.body.cancel();
});
check.add('tools, in parallel too', async (key) => (await work(key, WIDE, whole)).inParallel());
check.add('tools in streams, in parallel too', async (key) => (await work(key, WIDE, streamed)).inParallel());
check.add('a conversation that outgrows its window', async (key) => (await work(key, NARROW, whole)).fitted());
check.add('a conversation in streams that outgrows its window', async (key) =>
  (await work(key, NARROW, streamed)).fitted(),
);
check.add('leaving in the middle of a stream', async (key) => {
  const stream = await client(key, { [FAULT_HEADER]: 'slow=300' }).chat.completions.create({
    model: WIDE,
    messages: question,
    stream: true,
  });
  for await (const _ of stream) break;
  await upstreamLeft(key);
});
check.add("a missing key is the provider's 401", async () => {
  const error = await thrown(() => client('wrong').chat.completions.create({ model: WIDE, messages: question }));
  expect(error instanceof OpenAI.AuthenticationError, `${error}`);
});
check.add("a throttled request is the provider's 429", async (key) => {
  const error = await thrown(() =>
    client(key, { [FAULT_HEADER]: '429' }).chat.completions.create({ model: WIDE, messages: question }),
  );
  expect(error instanceof OpenAI.RateLimitError, `${error}`);
});
check.add("an unknown model is the provider's 404", async (key) => {
  const error = await thrown(() => client(key).chat.completions.create({ model: 'no-such-model', messages: question }));
  expect(error instanceof OpenAI.NotFoundError && error.code === 'model_not_found', `${error}`);
});
await check.run();
