// A text that a model writes: its form, the conversation so far, the answer as it comes, and its numbers. The elements
// are those whose ids begin with `text-`; what the model is, and where it computes, is up to the page.
import { byId, facts, h, milliseconds } from './dom.js';

/**
 * A part of a text: `id` is null for a rest of text after the last token, and `reasoning` tells what is no part of the
 * answer itself.
 * @typedef {{text: string, id?: number | null, reasoning?: boolean}} Token
 *
 * What is told at the end of a text; `tokens` is there if the parts were no tokens.
 * @typedef {{finish: string, tokensPerSecond: number | null, firstTokenMs: number | null, promptTokens: number,
 *   tokens?: number}} Result
 *
 * What writes, and what the page does beside it.
 * @typedef {object} Source
 * @property {string} begins what the status says until a text is complete
 * @property {(signal: AbortSignal) => Promise<void>} [prepare] makes the model ready
 * @property {() => boolean} chats whether the next text is an answer in a conversation
 * @property {(options: object, {signal: AbortSignal, onProgress: (token: Token) => void}) => Promise<Result>} generate
 * @property {() => void} [cleared] called when another text begins, and when all are gone
 * @property {(span: HTMLElement, token: Token, at: number) => void} [took] called with each part in the page
 * @property {(busy: boolean) => void} [changed] called after each change of the state
 * @property {(error: Error) => boolean} [isLoss] whether the page tells an error by itself
 */

const SECTION = byId('text');

/** The section's element with this name. */
export const control = (name) => byId(`text-${name}`);

/** The whole number in a control, at least `least`; undefined for an empty control. */
function whole(name, least) {
  const { value } = control(name);
  return value === '' ? undefined : Math.max(least, Math.floor(Number(value)) || 0);
}

/** What the controls ask for, after the messages or the prompt in `asked`. */
const optionsOf = (asked) => ({
  ...asked,
  maxTokens: whole('length', 1),
  temperature: Number(control('temperature').value),
  topP: 0.95,
  seed: whole('seed', 0),
});

export class Writing {
  /** Messages of the conversation so far, in turns, if the model takes messages. */
  messages = [];
  /** Number of tokens of the shown text. */
  tokens = 0;
  /** @type {Result | null} what was told at the end of the shown text */
  result = null;
  /** @type {Source} */
  #source;
  /** Controller of the text in progress, or null. */
  #running = null;
  /** The shown text without reasoning. */
  #said = '';
  /** Time of the shown text's first token. */
  #first = 0;

  /** @param {Source} source */
  constructor(source) {
    this.#source = source;
    control('form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#write();
    });
    control('prompt').addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) control('form').requestSubmit();
    });
    control('stop').addEventListener('click', () => {
      control('status').textContent = 'Stopping.';
      this.stop();
    });
    control('new').addEventListener('click', () => {
      if (this.busy) return;
      this.messages = [];
      this.clear();
      this.setState('idle', 'Begun anew.');
    });
  }

  /** Whether a text is in progress. */
  get busy() {
    return this.#running !== null;
  }

  /** Stops the text in progress, which then ends with what it has. */
  stop() {
    this.#running?.abort();
  }

  /** Leaves the text in progress: the page tells what became of it. */
  leave() {
    this.stop();
    this.#running = null;
  }

  setState(state, text) {
    SECTION.dataset.textState = state;
    const busy = state === 'loading' || state === 'writing';
    SECTION.setAttribute('aria-busy', String(busy));
    control('write').disabled = busy;
    control('stop').disabled = !busy;
    if (text !== undefined) control('status').textContent = text;
    this.#source.changed?.(busy);
  }

  /** Removes the shown texts. */
  clear() {
    control('output').replaceChildren();
    this.#reset();
    this.#showNumbers();
  }

  #reset() {
    this.tokens = 0;
    this.result = null;
    this.#said = '';
    SECTION.dataset.tokens = 0;
    this.#source.cleared?.();
  }

  /** Adds a question or prompt and the element for its answer, in place of earlier ones unless it is a further turn. */
  #begin(prompt, inTurns) {
    const parts = [h('p', { class: inTurns ? 'asked' : 'prompt' }, prompt), h('p', { class: 'answer' })];
    if (!inTurns || this.messages.length === 0) control('output').replaceChildren();
    control('output').append(...parts);
    control('output').scrollTop = control('output').scrollHeight;
    this.#reset();
    return parts;
  }

  #take(answer, token) {
    if (token.id !== null) this.tokens += 1;
    SECTION.dataset.tokens = this.tokens;
    if (!token.reasoning) this.#said += token.text;
    if (token.text !== '' || token.id !== null) {
      const output = control('output');
      const follows = output.scrollHeight - output.scrollTop - output.clientHeight < 8;
      const span = h('span', { class: token.reasoning ? 'reasoning' : null }, token.text);
      answer.append(span);
      if (follows) output.scrollTop = output.scrollHeight;
      this.#source.took?.(span, token, Math.max(0, this.tokens - 1));
    }
    const now = performance.now();
    if (this.tokens <= 1) this.#first = now;
    this.#showNumbers({ speed: this.tokens > 1 ? (1000 * (this.tokens - 1)) / (now - this.#first) : null });
  }

  #showNumbers({ speed = null, firstMs = null, promptTokens = null } = {}) {
    facts(control('numbers'), [
      ['Tokens', this.tokens, 'tokens'],
      ['Tokens a second', speed === null ? '–' : speed.toFixed(1), 'speed'],
      ['First token after', firstMs === null ? '–' : milliseconds(firstMs), 'first'],
      ['Tokens of the prompt', promptTokens ?? '–', 'prompt'],
    ]);
  }

  async #write() {
    const prompt = control('prompt').value;
    if (this.busy || prompt === '') {
      if (prompt === '') control('status').textContent = 'Nothing to go on with: the prompt is empty.';
      return;
    }
    const mine = new AbortController();
    this.#running = mine;
    let parts = null;
    try {
      await this.#source.prepare?.(mine.signal);
      mine.signal.throwIfAborted();
      const inTurns = this.#source.chats();
      const asked = inTurns ? { messages: [...this.messages, { role: 'user', content: prompt }] } : { prompt };
      parts = this.#begin(prompt, inTurns);
      this.setState('writing', this.#source.begins);
      await this.#generate(asked, parts[1], mine);
      if (this.#running === mine) this.#ended(inTurns);
    } catch (error) {
      if (this.#running !== mine) return;
      // The prompt is still in its control.
      if (this.tokens === 0) parts?.forEach((part) => part.remove());
      this.#failed(error, mine.signal.aborted, parts !== null);
    }
  }

  async #generate(asked, answer, mine) {
    const onProgress = (token) => this.#running === mine && this.#take(answer, token);
    try {
      this.result = await this.#source.generate(optionsOf(asked), { signal: mine.signal, onProgress });
    } finally {
      // A stopped answer is part of the conversation.
      if (asked.messages && this.tokens > 0) {
        this.messages = [...asked.messages, { role: 'assistant', content: this.#said }];
      }
    }
  }

  #ended(inTurns) {
    this.#running = null;
    const { finish, tokensPerSecond, firstTokenMs, promptTokens, tokens = this.tokens } = this.result;
    this.tokens = tokens;
    this.#showNumbers({ speed: tokensPerSecond, firstMs: firstTokenMs, promptTokens });
    const why = finish === 'stop' ? 'the model ended it' : 'it is as long as was asked for';
    this.setState('ready', `${tokens} tokens: ${why}.`);
    if (inTurns) control('prompt').value = '';
  }

  #failed(error, stopped, begun) {
    this.#running = null;
    if (this.#source.isLoss?.(error)) return;
    if (!stopped) this.setState('failed', `It could not go on: ${error.message}`);
    else if (begun) this.setState('ready', `Stopped after ${this.tokens} tokens.`);
    else this.setState('idle', 'Stopped while it was loaded.');
  }
}
