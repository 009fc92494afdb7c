// Checks of npm's openai package. Usage: node openai.mjs URL MODEL CHECK...
import OpenAI from 'openai';

import { expect, fails, run, same } from './told.mjs';

const TOKENS = 16;
const messages = [{ role: 'user', content: 'What is a whale?' }];

const client = ({ url }, more) => new OpenAI({ baseURL: url, apiKey: 'none', maxRetries: 0, ...more });

function ask(given, more) {
  const options = { temperature: 0, max_completion_tokens: TOKENS, ignore_eos: true };
  const asked = { model: given.model, messages, ...options, ...more };
  return client(given).chat.completions.create(asked);
}

const text = (answer) => answer.choices[0].message.content;

async function all(events) {
  const list = [];
  for await (const event of events) list.push(event);
  return list;
}

const checks = {
  async chat(given) {
    const answer = await ask(given);
    expect(text(answer), 'an answer without a text');
    const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
    same('total_tokens', total_tokens, prompt_tokens + completion_tokens);
    const together = await Promise.all([ask(given), ask(given), ask(given)]);
    same('three answers together', together.map(text), Array(3).fill(text(answer)));
    return `${completion_tokens} tokens: ${JSON.stringify(text(answer))}`;
  },

  async stream(given) {
    const whole = await ask(given);
    const events = await all(await ask(given, { stream: true, stream_options: { include_usage: true } }));
    const parts = events.flatMap((event) => event.choices.map((choice) => choice.delta.content ?? ''));
    same('text of the stream', parts.join(''), text(whole));
    same('usage', events.at(-1).usage, whole.usage);
    const left = await ask(given, { stream: true });
    for await (const event of left) {
      expect(event.choices.length === 1, 'an event without a choice');
      break; // the package closes the connection
    }
    return `${events.length} events`;
  },

  async completions(given) {
    const asked = { model: given.model, prompt: 'Call me', max_tokens: 8, temperature: 0 };
    const whole = await client(given).completions.create(asked);
    const events = await all(await client(given).completions.create({ ...asked, stream: true }));
    const parts = events.flatMap((event) => event.choices.map((choice) => choice.text));
    same('text of the stream', parts.join(''), whole.choices[0].text);
    return JSON.stringify(whole.choices[0].text);
  },

  async responses(given) {
    const asked = { model: given.model, input: 'What is a whale?', temperature: 0, max_output_tokens: TOKENS };
    const whole = await client(given).responses.create(asked);
    expect(whole.output_text, 'an answer without a text');
    const events = await all(await client(given).responses.create({ ...asked, stream: true }));
    const deltas = events.filter((event) => event.type === 'response.output_text.delta');
    same('text of the stream', deltas.map((event) => event.delta).join(''), whole.output_text);
    same('the last event', events.at(-1).type, `response.${whole.status}`);
    return `${events.length} events`;
  },

  async models(given) {
    const ids = (await all(client(given).models.list())).map((model) => model.id);
    same('models', ids, [given.model]);
    same('model', (await client(given).models.retrieve(given.model)).id, given.model);
    return ids.join(' ');
  },

  async errors(given) {
    const wrong = await fails(() => ask(given, { temperature: 9 }));
    expect(wrong instanceof OpenAI.BadRequestError, `expected BadRequestError, got ${wrong}`);
    same('code and param', [wrong.code, wrong.param], ['invalid_value', 'temperature']);
    const other = await fails(() => ask(given, { model: 'another' }));
    expect(other instanceof OpenAI.NotFoundError, `expected NotFoundError, got ${other}`);
    const nowhere = client(given, { baseURL: 'http://127.0.0.1:9/v1' });
    const gone = await fails(() => nowhere.models.list());
    expect(gone instanceof OpenAI.APIConnectionError, `expected APIConnectionError, got ${gone}`);
    return '400, 404 and no connection, each as its exception';
  },
};

await run(checks, ['openai']);
