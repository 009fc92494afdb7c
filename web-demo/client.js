// Calls, as promises, to the worker that owns the device. The page never computes with the package itself.

/** An error from the worker; `code` is one of the package's codes, or `worker-died`. */
export class CallError extends Error {
  /** @param {{name: string, code: string, message: string}} fields */
  constructor({ name, code, message }) {
    super(message);
    this.name = name;
    this.code = code;
  }
}

/** Whether `error` means that the device or its worker is gone. */
export const isLoss = (error) => ['device-lost', 'disposed', 'worker-died'].includes(error?.code);

/** Whether `error` means that the call was aborted. */
export const isCancelled = (error) => error?.code === 'cancelled';

/**
 * The worker, and the calls that wait for it. Fires `lost` (detail `{reason, message}`) when the device is lost and
 * when the worker dies; `restart` starts another worker.
 */
export class Client extends EventTarget {
  #worker = null;
  #waiting = new Map();
  #next = 1;

  constructor() {
    super();
    this.restart();
  }

  /** Whether there is a worker to call. */
  get alive() {
    return this.#worker !== null;
  }

  /** Ends the worker if there is one, rejects the calls that wait for it, and starts another worker. */
  restart() {
    this.#end('the worker was replaced');
    const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
    worker.addEventListener('message', ({ data }) => this.#receive(data));
    worker.addEventListener('error', (event) => this.#died(worker, event));
    worker.addEventListener('messageerror', (event) => this.#died(worker, event));
    this.#worker = worker;
  }

  /**
   * Calls an operation of the worker.
   * @param {string} operation
   * @param {object} [values] structured-cloned, except for `transfer`
   * @param {{signal?: AbortSignal, onProgress?: (value: any) => void, transfer?: Transferable[]}} [options]
   */
  call(operation, values = {}, { signal, onProgress, transfer = [] } = {}) {
    if (!this.#worker) {
      return Promise.reject(new CallError({ name: 'CallError', code: 'worker-died', message: 'no worker is running' }));
    }
    if (signal?.aborted) {
      return Promise.reject(
        new CallError({ name: 'CallError', code: 'cancelled', message: 'cancelled before it began' }),
      );
    }
    const id = this.#next++;
    const worker = this.#worker;
    return new Promise((resolve, reject) => {
      const abort = () => worker.postMessage({ cancel: id });
      this.#waiting.set(id, {
        resolve,
        reject,
        onProgress,
        settle: () => signal?.removeEventListener('abort', abort),
      });
      worker.postMessage({ id, operation, values }, transfer);
      signal?.addEventListener('abort', abort, { once: true });
    });
  }

  #receive(data) {
    if (data.event) {
      // A trap leaves the module in an unknown state, so nothing in it can be used any more.
      if (data.event === 'trap') this.#died(this.#worker, { message: data.message });
      else this.dispatchEvent(new CustomEvent(data.event, { detail: data.detail }));
      return;
    }
    const call = this.#waiting.get(data.id);
    if (!call) return;
    if ('progress' in data) {
      call.onProgress?.(data.progress);
      return;
    }
    this.#waiting.delete(data.id);
    call.settle();
    if (data.error) call.reject(new CallError(data.error));
    else call.resolve(data.result);
  }

  #died(worker, event) {
    event.preventDefault?.();
    if (worker !== this.#worker) return;
    const message =
      event.message || (event.type === 'error' ? 'it could not be loaded' : 'a message of it was unreadable');
    this.#end(message);
    this.dispatchEvent(new CustomEvent('lost', { detail: { reason: 'worker', message } }));
  }

  #end(message) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const call of this.#waiting.values()) {
      call.settle();
      call.reject(new CallError({ name: 'CallError', code: 'worker-died', message }));
    }
    this.#waiting.clear();
  }
}
