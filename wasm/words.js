let loading;

/** Loads the module of tokenizers and chat templates beside `moebius.js`, once, with the first text model. */
export function loadWords() {
  loading ??= import('../../moebius_words.js').then(async ({ default: init, Words }) => {
    await init();
    return Words;
  });
  // After a failure, the next call loads the module again.
  loading.catch(() => (loading = undefined));
  return loading;
}
