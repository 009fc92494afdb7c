// Data sets of points from a seed, the same on every device and in every browser.

/** Generator of uniform numbers in [0, 1) from a 32-bit seed: a Weyl sequence with a multiply-and-shift finish. */
export function uniform(seed) {
  let state = Math.imul(seed + 1, 0x9e3779b1) >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  };
}

/** A normally distributed number by the Box–Muller transform, from uniform numbers. */
function normal(random) {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** `count` points in six clusters in [-1, 1]², as [count, 2]. */
export function clusters(count, seed) {
  const random = uniform(seed);
  const turn = 2 * Math.PI * random();
  const centres = Array.from({ length: 6 }, (_, at) => {
    const angle = turn + (2 * Math.PI * at) / 6;
    const radius = 0.4 + 0.4 * random();
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  });
  const points = new Float32Array(count * 2);
  for (let at = 0; at < count; at++) {
    const centre = centres[at % centres.length];
    for (const axis of [0, 1]) {
      points[2 * at + axis] = Math.max(-1, Math.min(1, centre[axis] + 0.14 * normal(random)));
    }
  }
  return points;
}

/**
 * Lifts points [n, 2] to [n, hidden] by cosines along random directions, which are the same for every seed of the
 * points. Close points stay close, and a linear router cuts the plane into regions.
 */
export function lift(points, hidden) {
  const random = uniform(7919);
  const waves = Array.from({ length: hidden }, () => [
    2.2 * normal(random),
    2.2 * normal(random),
    2 * Math.PI * random(),
  ]);
  const lifted = new Float32Array((points.length / 2) * hidden);
  for (let at = 0; at < points.length / 2; at++) {
    for (let wave = 0; wave < hidden; wave++) {
      const [a, b, phase] = waves[wave];
      lifted[at * hidden + wave] = Math.SQRT2 * Math.cos(a * points[2 * at] + b * points[2 * at + 1] + phase);
    }
  }
  return lifted;
}

/**
 * Data sets by name: the number of classes, and a function that draws one point, `(random, at)` to `[x, y, class]`, in
 * about [-1, 1]².
 */
const DATASETS = {
  spirals: {
    classes: 2,
    draw(random, at) {
      const along = Math.sqrt(random());
      const angle = 3.2 * Math.PI * along + Math.PI * (at % 2);
      const radius = 0.92 * along;
      const spread = 0.02;
      return [
        radius * Math.cos(angle) + spread * normal(random),
        radius * Math.sin(angle) + spread * normal(random),
        at % 2,
      ];
    },
  },
  checkerboard: {
    classes: 2,
    draw(random) {
      const [x, y] = [1.9 * random() - 0.95, 1.9 * random() - 0.95];
      return [x, y, (Math.floor((x + 0.95) / 0.475) + Math.floor((y + 0.95) / 0.475)) % 2];
    },
  },
  rings: {
    classes: 3,
    draw(random, at) {
      const angle = 2 * Math.PI * random();
      const radius = [0.18, 0.5, 0.84][at % 3] + 0.05 * normal(random);
      return [radius * Math.cos(angle), radius * Math.sin(angle), at % 3];
    },
  },
  pinwheel: {
    classes: 4,
    draw(random, at) {
      const along = 0.2 + 0.7 * Math.sqrt(random());
      const angle = ((at % 4) * Math.PI) / 2 + 1.6 * along + 0.16 * normal(random);
      return [along * Math.cos(angle), along * Math.sin(angle), at % 4];
    },
  },
};

/** Draws a data set by name: points [count, 2], labels [count], and the number of classes. */
export function dataset(name, count, seed) {
  const { classes, draw } = DATASETS[name];
  const random = uniform(seed);
  const points = new Float32Array(count * 2);
  const labels = new Uint32Array(count);
  for (let at = 0; at < count; at++) {
    const [x, y, label] = draw(random, at);
    points.set([x, y], 2 * at);
    labels[at] = label;
  }
  return { points, labels, classes };
}

/** Centres of `side` × `side` cells that cover [-1, 1]², row by row from the top, as [side², 2]. */
export function grid(side) {
  const points = new Float32Array(side * side * 2);
  for (let at = 0; at < side * side; at++) {
    points[2 * at] = (2 * ((at % side) + 0.5)) / side - 1;
    points[2 * at + 1] = 1 - (2 * (Math.floor(at / side) + 0.5)) / side;
  }
  return points;
}
