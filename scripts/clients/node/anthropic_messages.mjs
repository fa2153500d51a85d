// The Anthropic SDK for node through the gateway: Messages.
import Anthropic from '@anthropic-ai/sdk';
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

const check = new Checks('anthropic-node');
const tools = [{ name: BASH.name, description: BASH.description, input_schema: BASH.parameters }];
const question = { model: WIDE, max_tokens: 100, messages: [{ role: 'user', content: 'Say something.' }] };
const client = (apiKey, defaultHeaders) =>
  new Anthropic({ apiKey, baseURL: GATEWAY, maxRetries: 0, timeout: 60_000, defaultHeaders });
const mark = { type: 'ephemeral' };

/** What every turn asks for: cache marks on the system prompt and, moved in every request, on the last block. */
function asked(model, messages, thinking) {
  const [last] = messages.slice(-1);
  const blocks = typeof last.content === 'string' ? [{ type: 'text', text: last.content }] : last.content;
  const marked = blocks.map((block, at) => (at === blocks.length - 1 ? { ...block, cache_control: mark } : block));
  return {
    model,
    max_tokens: 2000,
    system: [{ type: 'text', text: 'You run commands.', cache_control: mark }],
    messages: [...messages.slice(0, -1), { ...last, content: marked }],
    tools,
    ...(thinking && { thinking: { type: 'enabled', budget_tokens: 1024 } }),
  };
}

async function whole(api, ...what) {
  const { data, response } = await api.messages.create(asked(...what)).withResponse();
  return { answer: data, headers: response.headers };
}

async function streamed(api, ...what) {
  const stream = api.messages.stream(asked(...what));
  const answer = await stream.finalMessage();
  return { answer, headers: stream.response?.headers };
}

async function work(key, model, turn, thinking = false) {
  const [api, done, messages] = [client(key), new Work(), [{ role: 'user', content: PROMPT }]];
  for (;;) {
    const { answer, headers } = await turn(api, model, messages, thinking);
    const { input_tokens: fresh, cache_read_input_tokens: read, cache_creation_input_tokens: written } = answer.usage;
    done.saw(headers, fresh + (read ?? 0) + (written ?? 0));
    messages.push({ role: 'assistant', content: answer.content });
    const calls = answer.content.filter((block) => block.type === 'tool_use');
    if (!calls.length) return done.done(answer.content.map((block) => block.text ?? '').join(''));
    done.next(calls.length);
    messages.push({
      role: 'user',
      content: calls.map((call) => ({
        type: 'tool_result',
        tool_use_id: call.id,
        content: outputOf(JSON.stringify(call.input), done.turn),
      })),
    });
  }
}

check.add('an answer without a stream', async (key) => {
  const answer = await client(key).messages.create(question);
  expect(answer.content[0].text && answer.usage.input_tokens > 0, JSON.stringify(answer));
});
check.add('an answer as a stream', async (key) => {
  const stream = client(key).messages.stream(question);
  let told = '';
  stream.on('text', (text) => (told += text));
  expect((await stream.finalText()) === told && told, `deltas say ${told}`);
});
check.add('x-epitome headers are there, with a stream and without', async (key) => {
  const plain = await client(key).messages.create(question).asResponse();
  expect(plain.headers.get('x-epitome-thread'), JSON.stringify([...plain.headers]));
  const stream = await client(key)
    .messages.create({ ...question, stream: true })
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
check.add('a conversation with signed thinking that outgrows its window', async (key) =>
  (await work(key, NARROW, streamed, true)).fitted(),
);
check.add('the tokens of a prompt', async (key) => {
  const { max_tokens: _, ...body } = question;
  expect((await client(key).messages.countTokens(body)).input_tokens > 0, 'no tokens');
});
check.add('leaving in the middle of a stream', async (key) => {
  const stream = await client(key, { [FAULT_HEADER]: 'slow=300' }).messages.create({ ...question, stream: true });
  for await (const _ of stream) break;
  stream.controller.abort();
  await upstreamLeft(key);
});
check.add("a missing key is the provider's 401", async () => {
  const error = await thrown(() => client('wrong').messages.create(question));
  expect(error instanceof Anthropic.AuthenticationError, `${error}`);
});
check.add("a throttled request is the provider's 429", async (key) => {
  const error = await thrown(() => client(key, { [FAULT_HEADER]: '429' }).messages.create(question));
  expect(error instanceof Anthropic.RateLimitError, `${error}`);
});
check.add("an unknown model is the provider's 404", async (key) => {
  const error = await thrown(() => client(key).messages.create({ ...question, model: 'no-such-model' }));
  expect(error instanceof Anthropic.NotFoundError, `${error}`);
});
await check.run();
