// Checks of the AI SDK with its adapter for interfaces like OpenAI's. Usage: node ai.mjs URL MODEL CHECK...
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, jsonSchema, streamText, tool } from 'ai';

import { expect, fails, run, same } from './told.mjs';

function asked({ url, model }, more) {
  const provider = createOpenAICompatible({ name: 'moebius', baseURL: url, apiKey: 'none', includeUsage: true });
  const options = { temperature: 0, maxOutputTokens: 16, maxRetries: 0 };
  const providerOptions = { moebius: { ignore_eos: true } };
  const prompt = 'What is a whale?';
  return { model: provider(more?.model ?? model), prompt, providerOptions, ...options, ...more?.options };
}

const weather = tool({
  description: 'Tells the weather of a city',
  inputSchema: jsonSchema({ type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }),
});

const checks = {
  async text(given) {
    const { text, usage, finishReason } = await generateText(asked(given));
    expect(text, 'an answer without a text');
    expect(usage.inputTokens > 0 && usage.outputTokens > 0, `usage ${JSON.stringify(usage)}`);
    expect(['stop', 'length'].includes(finishReason), `finishReason ${finishReason}`);
    return `${usage.outputTokens} tokens: ${JSON.stringify(text)}`;
  },

  async stream(given) {
    const whole = await generateText(asked(given));
    const result = streamText(asked(given));
    const parts = [];
    for await (const part of result.textStream) parts.push(part);
    same('text of the stream', parts.join(''), whole.text);
    same('tokens', (await result.usage).outputTokens, whole.usage.outputTokens);
    return `${parts.length} parts`;
  },

  async tools(given) {
    const without = await generateText(asked(given));
    const told = await generateText(asked(given, { options: { tools: { weather } } }));
    const more = told.usage.inputTokens - without.usage.inputTokens;
    expect(more > 0, 'the template was not told of the tools');
    return `${more} tokens of the prompt tell of the tool`;
  },

  async errors(given) {
    const other = await fails(() => generateText(asked(given, { model: 'another' })));
    expect(APICallError.isInstance(other), `expected APICallError, got ${other}`);
    same('status', other.statusCode, 404);
    const wrong = await fails(() => generateText(asked(given, { options: { temperature: 9 } })));
    same('status', wrong.statusCode, 400);
    expect(wrong.message.includes('temperature'), `expected a word of temperature, got ${wrong.message}`);
    return '400 and 404 as APICallError';
  },
};

await run(checks, ['ai', '@ai-sdk/openai-compatible']);
