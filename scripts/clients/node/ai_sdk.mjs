// The Vercel AI SDK through the gateway: its OpenAI provider on both endpoints, its Anthropic and its compatible provider.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import {
  BASH,
  Checks,
  FAULT_HEADER,
  GATEWAY,
  NARROW,
  PROMPT,
  TURNS_MAX,
  WIDE,
  Work,
  expect,
  outputOf,
  thrown,
  upstreamLeft,
} from './check.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
const check = new Checks('ai-sdk');
const baseURL = `${GATEWAY}/v1`;
const providers = {
  chat: (apiKey, headers) => createOpenAI({ apiKey, baseURL, headers }).chat,
  responses: (apiKey, headers) => createOpenAI({ apiKey, baseURL, headers }).responses,
  messages: (apiKey, headers) => createAnthropic({ apiKey, baseURL, headers }),
  compatible: (apiKey, headers) =>
    createOpenAICompatible({ name: 'mock', apiKey, baseURL, headers, includeUsage: true }),
};

/** What a run with tools asks for; every step is told to the work. */
function asked(model, done) {
  const bash = tool({
    description: BASH.description,
    inputSchema: z.object({ command: z.string() }),
    execute: async ({ command }) => outputOf(command, done.turn + 1),
  });
  const onStepEnd = (step) => {
    done.saw(step.response.headers, step.usage.inputTokens ?? 0);
    if (step.toolCalls.length) done.next(step.toolCalls.length);
  };
  return {
    model,
    system: 'You run commands.',
    prompt: PROMPT,
    tools: { bash },
    stopWhen: stepCountIs(TURNS_MAX),
    maxRetries: 0,
    maxOutputTokens: 1000,
    onStepEnd,
    providerOptions: { openai: { store: false, include: ['reasoning.encrypted_content'] } },
  };
}

async function whole(model) {
  const done = new Work();
  const { text } = await generateText(asked(model, done));
  return done.done(text);
}

async function streamed(model) {
  const done = new Work();
  let failure;
  const result = streamText({ ...asked(model, done), onError: ({ error }) => (failure = error) });
  await result.consumeStream();
  if (failure) throw failure;
  return done.done(await result.text);
}

for (const [name, provider] of Object.entries(providers)) {
  check.add(`${name}: an answer without a stream`, async (key) => {
    const { text, usage } = await generateText({ model: provider(key)(WIDE), prompt: 'Say something.', maxRetries: 0 });
    expect(text && usage.inputTokens > 0, `told ${text}, usage is ${JSON.stringify(usage)}`);
  });
  check.add(`${name}: an answer as a stream`, async (key) => {
    const result = streamText({ model: provider(key)(WIDE), prompt: 'Say something.', maxRetries: 0 });
    let told = '';
    for await (const piece of result.textStream) told += piece;
    expect(told && (await result.usage).inputTokens > 0, `told ${told}`);
  });
  check.add(`${name}: x-epitome headers are there`, async (key) => {
    const { response } = await generateText({ model: provider(key)(WIDE), prompt: 'Say something.', maxRetries: 0 });
    expect(response.headers?.['x-epitome-thread'], JSON.stringify(response.headers));
  });
  check.add(`${name}: tools, in parallel too`, async (key) => (await whole(provider(key)(WIDE))).inParallel());
  check.add(`${name}: tools in streams, in parallel too`, async (key) =>
    (await streamed(provider(key)(WIDE))).inParallel(),
  );
  check.add(`${name}: a conversation that outgrows its window`, async (key) =>
    (await whole(provider(key)(NARROW))).fitted(),
  );
  check.add(`${name}: a conversation in streams that outgrows its window`, async (key) =>
    (await streamed(provider(key)(NARROW))).fitted(),
  );
  check.add(`${name}: leaving in the middle of a stream`, async (key) => {
    const leave = new AbortController();
    const model = provider(key, { [FAULT_HEADER]: 'slow=300' })(WIDE);
    const result = streamText({
      model,
      prompt: 'Say something.',
      abortSignal: leave.signal,
      maxRetries: 0,
      onError: () => {},
    });
    for await (const _ of result.textStream) break;
    leave.abort();
    await upstreamLeft(key);
  });
  check.add(`${name}: a throttled request is the provider's 429`, async (key) => {
    const model = provider(key, { [FAULT_HEADER]: '429' })(WIDE);
    const error = await thrown(() => generateText({ model, prompt: 'Say something.', maxRetries: 0 }));
    expect(APICallError.isInstance(error) && error.statusCode === 429, `${error}`);
  });
}
await check.run();
