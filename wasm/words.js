let loading;

/** The module of tokenizers and chat templates beside `moebius.js`: loaded once, with the first text model. */
export function loadWords() {
  loading ??= import('../../moebius_words.js').then(async ({ default: init, Words }) => {
    await init();
    return Words;
  });
  // A module that didn't come is asked for again.
  loading.catch(() => (loading = undefined));
  return loading;
}
