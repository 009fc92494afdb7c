// Calls of the server that the page came from, with the tab's key if it has one.

const KEY = 'moebius-key';

/** The tab's storage; null where the browser forbids it. */
function storage() {
  try {
    return sessionStorage;
  } catch {
    return null;
  }
}

/** The key, or an empty text. Without a storage it lasts as long as the page. */
let key = storage()?.getItem(KEY) ?? '';

/** Whether calls bring a key. */
export const hasKey = () => key !== '';

/** Takes a key for all calls from now on; an empty text removes it. */
export function useKey(text) {
  key = text;
  if (text === '') storage()?.removeItem(KEY);
  else storage()?.setItem(KEY, text);
}

/** An error that the server told. */
export class ServerError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.name = 'ServerError';
    this.status = status;
  }
}

/** The message in the body of a response; its status, where something between page and server made the response. */
async function messageOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `status ${response.status}`;
  }
}

/**
 * Asks the server; with a body, posts it as JSON. Rejects with a `ServerError` for a status that isn't good.
 * @param {string} path relative to the page
 * @param {{body?: object, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>}
 */
export async function call(path, { body, signal } = {}) {
  const response = await fetch(path, {
    method: body ? 'POST' : 'GET',
    headers: {
      ...(key && { authorization: `Bearer ${key}` }),
      ...(body && { 'content-type': 'application/json' }),
    },
    body: body && JSON.stringify(body),
    cache: 'no-store',
    signal,
  });
  if (!response.ok) throw new ServerError(response.status, await messageOf(response));
  return response;
}

/** The data of the events in a response, as they come. The server ends lines with a line feed, and events with two. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      const lines = part.split('\n').filter((line) => line.startsWith('data:'));
      // A comment, by which the server shows that it is still there, has no data.
      if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join('\n');
    }
  }
}

/** The parts of a text in a choice of a chunk: of a conversation or of a text that goes on. */
function partsOf({ delta, text }) {
  const parts = [
    { text: delta?.reasoning_content ?? '', reasoning: true },
    { text: delta?.content ?? text ?? '', reasoning: false },
  ];
  return parts.filter((part) => part.text !== '');
}

/**
 * Lets the model write, as `writing.js` asks for it; an abort of `signal` closes the connection, which the server
 * takes for the end of the request.
 * @param {string} model
 * @returns {Promise<import('./writing.js').Result>}
 */
export async function generate(model, asked, { signal, onProgress }) {
  const { messages, prompt, maxTokens: max_tokens, temperature, topP: top_p, seed } = asked;
  const how = { stream: true, stream_options: { include_usage: true } };
  const body = { model, messages, prompt, max_tokens, temperature, top_p, seed, ...how };
  const begun = performance.now();
  const response = await call(messages ? 'v1/chat/completions' : 'v1/completions', { body, signal });
  let usage = null;
  let finish = 'stop';
  const times = [];
  for await (const data of events(response)) {
    if (data === '[DONE]') return resultOf(finish, usage, times, begun);
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(response.status, chunk.error.message);
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      finish = choice.finish_reason ?? finish;
      for (const part of partsOf(choice)) {
        times[times.length > 0 ? 1 : 0] = performance.now();
        onProgress(part);
      }
    }
  }
  throw new Error('the connection broke off');
}

/** What is told at the end; `times` are those of the first part of the text and the last. */
function resultOf(finish, usage, [first, last], begun) {
  const { prompt_tokens: promptTokens, completion_tokens: tokens } = usage;
  const tokensPerSecond = tokens > 1 && last > first ? (1000 * (tokens - 1)) / (last - first) : null;
  return { finish, tokens, promptTokens, tokensPerSecond, firstTokenMs: first === undefined ? null : first - begun };
}
