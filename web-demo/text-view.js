// The experts that tokens took, and their picture: a row for each layer, a column for each expert.

const LARGEST = 26; // pixels of a cell
const SMALLEST = 5;
const WIDEST = 900;

/** Experts that the tokens of a text took: counts for each layer with experts, and the experts of each token. */
export class Taken {
  /** @param {{layer: number, experts: number, topK: number}[]} layers */
  constructor(layers) {
    this.layers = layers;
    this.counts = layers.map(({ experts }) => new Array(experts).fill(0));
    /** Each token's experts in each layer, best first; `null` for a token without experts. */
    this.tokens = [];
  }

  /** Adds the experts of the next token, layer after layer in one array. */
  add(experts) {
    if (experts === null || this.layers.length === 0) {
      this.tokens.push(null);
      return;
    }
    let at = 0;
    const chosen = this.layers.map(({ topK, experts: all }, row) => {
      const of = [...experts.slice(at, at + topK)].filter((expert) => expert < all);
      at += topK;
      for (const expert of of) this.counts[row][expert] += 1;
      return of;
    });
    this.tokens.push(chosen);
  }

  /** The experts of a token as text. */
  words(token) {
    const chosen = this.tokens[token];
    if (!chosen) return 'no experts';
    return chosen.map((experts, row) => `layer ${this.layers[row].layer}: ${experts.join(', ')}`).join('; ');
  }
}

/** A colour of the page's style. */
const colour = (canvas, name) => getComputedStyle(canvas).getPropertyValue(name).trim();

/**
 * Draws a row for each layer and a column for each expert: how many tokens it took as a shade, and chosen ones, such as
 * those of one token, as rimmed cells, the best darkest.
 * @param {HTMLCanvasElement} canvas
 * @param {number[][]} counts tokens of each layer's experts
 * @param {number[][]} chosen experts of each layer, best first; none by default
 */
export function drawExperts(canvas, counts, chosen = []) {
  const columns = Math.max(1, ...counts.map((row) => row.length));
  const rows = Math.max(1, counts.length);
  const cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(WIDEST / columns)));
  canvas.width = columns * cell + 1;
  canvas.height = rows * cell + 1;
  const context = canvas.getContext('2d');
  const [field, line, shade, mark, ink] = ['--field', '--line', '--first', '--second', '--ink'].map((name) =>
    colour(canvas, name),
  );
  context.fillStyle = field;
  context.fillRect(0, 0, canvas.width, canvas.height);
  counts.forEach((of, row) => {
    const most = Math.max(1, ...of);
    of.forEach((count, expert) => {
      context.globalAlpha = count === 0 ? 0 : 0.15 + (0.6 * count) / most;
      context.fillStyle = shade;
      context.fillRect(expert * cell + 1, row * cell + 1, cell - 1, cell - 1);
      context.globalAlpha = 1;
      context.strokeStyle = line;
      context.strokeRect(expert * cell + 0.5, row * cell + 0.5, cell, cell);
    });
  });
  chosen.forEach((experts, row) => {
    experts.forEach((expert, rank) => {
      context.globalAlpha = 1 - 0.5 * (rank / Math.max(1, experts.length));
      context.fillStyle = mark;
      context.fillRect(expert * cell + 1, row * cell + 1, cell - 1, cell - 1);
      context.globalAlpha = 1;
      context.strokeStyle = ink;
      context.strokeRect(expert * cell + 1, row * cell + 1, cell - 1, cell - 1);
    });
  });
}
