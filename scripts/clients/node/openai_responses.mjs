// The OpenAI SDK for node through the gateway: Responses.
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

const check = new Checks('openai-node responses');
const tools = [{ type: 'function', strict: false, ...BASH }];
const client = (apiKey, defaultHeaders) =>
  new OpenAI({ apiKey, baseURL: `${GATEWAY}/v1`, maxRetries: 0, timeout: 60_000, defaultHeaders });
const asked = (model, input) => ({
  model,
  input,
  tools,
  store: false,
  include: ['reasoning.encrypted_content'],
  max_output_tokens: 1000,
});

async function whole(api, model, items) {
  const { data, response } = await api.responses.create(asked(model, items)).withResponse();
  return { answer: data, headers: response.headers };
}

/** The answer of the last event; the SDK's own stream type checks the events' order. */
async function streamed(api, model, items) {
  const { data, response } = await api.responses.create({ ...asked(model, items), stream: true }).withResponse();
  let answer;
  for await (const event of data) if (event.type === 'response.completed') answer = event.response;
  expect(answer, 'no response.completed');
  answer.output_text ??= answer.output
    .flatMap((item) => item.content ?? [])
    .map((part) => part.text ?? '')
    .join('');
  return { answer, headers: response.headers };
}

async function work(key, model, turn) {
  const [api, done] = [client(key), new Work()];
  const items = [
    { role: 'developer', content: 'You run commands.' },
    { role: 'user', content: PROMPT },
  ];
  for (;;) {
    const { answer, headers } = await turn(api, model, items);
    done.saw(headers, answer.usage.input_tokens);
    items.push(...answer.output);
    const calls = answer.output.filter((item) => item.type === 'function_call');
    if (!calls.length) return done.done(answer.output_text);
    done.next(calls.length);
    for (const call of calls)
      items.push({ type: 'function_call_output', call_id: call.call_id, output: outputOf(call.arguments, done.turn) });
  }
}

check.add('an answer without a stream', async (key) => {
  const answer = await client(key).responses.create({ model: WIDE, input: 'Say something.' });
  expect(answer.output_text && answer.usage.input_tokens > 0, JSON.stringify(answer));
});
check.add('an answer as a stream, put together by the SDK', async (key) => {
  const stream = client(key).responses.stream({ model: WIDE, input: 'Say something.' });
  let told = '';
  stream.on('response.output_text.delta', (event) => (told += event.delta));
  const answer = await stream.finalResponse();
  expect(told && told === answer.output_text, `deltas say ${told}`);
});
check.add('x-epitome headers are there, with a stream and without', async (key) => {
  const plain = await client(key).responses.create({ model: WIDE, input: 'Say something.' }).asResponse();
  expect(plain.headers.get('x-epitome-thread'), JSON.stringify([...plain.headers]));
  const stream = await client(key)
    .responses.create({ model: WIDE, input: 'Say something.', stream: true })
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
  const stream = await client(key, { [FAULT_HEADER]: 'slow=300' }).responses.create({
    model: WIDE,
    input: 'Say something.',
    stream: true,
  });
  for await (const _ of stream) break;
  await upstreamLeft(key);
});
check.add("a missing key is the provider's 401", async () => {
  const error = await thrown(() => client('wrong').responses.create({ model: WIDE, input: 'Say something.' }));
  expect(error instanceof OpenAI.AuthenticationError, `${error}`);
});
check.add("a throttled request is the provider's 429", async (key) => {
  const error = await thrown(() =>
    client(key, { [FAULT_HEADER]: '429' }).responses.create({ model: WIDE, input: 'Say something.' }),
  );
  expect(error instanceof OpenAI.RateLimitError, `${error}`);
});
await check.run();
