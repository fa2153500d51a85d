// Checks of one SDK: each is a claim with a function, prints one line, and the last line counts them.
//
// Refuses to know any SDK. The programs beside it are started by `scripts/clients/run`, which tells them where the gateway
// and the witness behind it listen; every check has a key of its own, so the mock counts its turns apart.

export const GATEWAY = process.env.EPITOME_GATEWAY;
const WITNESS = process.env.EPITOME_WITNESS;
export const TURNS = Number(process.env.EPITOME_TURNS);
export const TURNS_MAX = 4 * TURNS + 20;
export const WIDE = 'mock-128k';
export const NARROW = 'mock-16k';
const NARROW_TOKENS = 16_000;
export const FAULT_HEADER = 'x-mock-fault';
export const BASH = {
  name: 'bash',
  description: 'Runs a command and returns what it prints.',
  parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
};
export const PROMPT = 'Work through the commands you are given, one after the other, and say when the work is done.';

/** A claim that does not hold. */
class Failed extends Error {}

/** Fails the check with a sentence where something does not hold. */
export function expect(holds, otherwise) {
  if (!holds) throw new Failed(otherwise);
}

/** What a command printed: a few kilobytes of lines that are all different. */
export function outputOf(command, turn) {
  const line = (number) => `${command} turn ${turn} line ${number} value ${turn * 7919 + ((number * 104729) % 65537)}`;
  return Array.from({ length: 120 }, (_, number) => line(number)).join('\n');
}

/** A conversation with tools until the mock says that the work is done. */
export class Work {
  turn = 0;
  callsTogether = 0;
  plans = new Set();
  promptTokensMax = 0;

  /** Counts a turn with so many calls. */
  next(calls) {
    this.turn += 1;
    this.callsTogether = Math.max(this.callsTogether, calls);
    expect(this.turn <= TURNS_MAX, `no end after ${TURNS_MAX} turns`);
  }

  /** Remembers what an answer said about itself; headers are a `Headers` or an object. */
  saw(headers, promptTokens) {
    const plan = headers?.get ? headers.get('x-epitome-plan') : headers?.['x-epitome-plan'];
    if (plan && plan !== '0') this.plans.add(plan);
    this.promptTokensMax = Math.max(this.promptTokensMax, promptTokens);
  }

  /** Checks the end of it. */
  done(text) {
    expect(text?.includes('WORK DONE'), `the last answer is ${JSON.stringify(text)}`);
    expect(this.turn >= TURNS, `only ${this.turn} turns of ${TURNS}`);
    return this;
  }

  /** Checks that it was compacted and never more than the window. */
  fitted() {
    expect(this.plans.size > 0, 'no answer is under a plan (x-epitome-plan)');
    expect(this.promptTokensMax <= NARROW_TOKENS, `a prompt had ${this.promptTokensMax} tokens`);
  }

  /** Checks that calls came together. */
  inParallel() {
    expect(this.callsTogether >= 2, 'no turn had two calls');
  }
}

/** Checks that the upstream saw its reader leave. */
export async function upstreamLeft(key, withinMs = 5000) {
  const until = Date.now() + withinMs;
  while (Date.now() < until) {
    const records = await (await fetch(`${WITNESS}/witness?key=${encodeURIComponent(key)}`)).json();
    if (records.some((record) => record.left)) return;
    await new Promise((wake) => setTimeout(wake, 100));
  }
  throw new Failed(`the upstream did not notice within ${withinMs} ms`);
}

/** Checks that a function throws an error, and returns it. */
export async function thrown(run) {
  try {
    await run();
  } catch (error) {
    return error;
  }
  throw new Failed('no error');
}

/** The checks of one SDK. */
export class Checks {
  all = [];

  constructor(sdk) {
    this.sdk = sdk;
  }

  /** Adds one. */
  add(claim, run) {
    this.all.push([claim, run]);
  }

  /** Runs them all and ends the process. */
  async run() {
    const wanted = process.argv.slice(2);
    let failed = 0;
    for (const [number, [claim, run]] of this.all.entries()) {
      if (wanted.length && !wanted.some((word) => claim.includes(word))) continue;
      const key = `sk-${this.sdk.replaceAll(' ', '-')}-${number}-${process.pid}`;
      failed += (await this.holds(claim, run, key)) ? 0 : 1;
    }
    console.log(`${this.all.length - failed} passed, ${failed} failed`);
    process.exit(failed ? 1 : 0);
  }

  async holds(claim, run, key) {
    const started = Date.now();
    try {
      await run(key);
    } catch (error) {
      const told = error instanceof Failed ? error.message : `${error?.name}: ${String(error?.message).slice(0, 600)}`;
      console.log(`FAIL ${this.sdk}: ${claim}: ${told}`);
      if (!(error instanceof Failed)) console.error(error?.stack);
      return false;
    }
    console.log(`ok   ${this.sdk}: ${claim} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
    return true;
  }
}
