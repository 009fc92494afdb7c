// How far a model's parts are from the reference, as `moebius_model::computation` has it, for certificates. The page's
// model has no groups of experts.

const ARRAYS = { F32: Float32Array, U32: Uint32Array };

/** Metadata of a safetensors file, and its tensors of f32 and u32. @param {ArrayBuffer} file */
export function read(file) {
  const length = Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
  const { __metadata__: metadata = {}, ...entries } = header;
  const tensors = {};
  for (const [name, entry] of Object.entries(entries)) {
    const [from, to] = entry.data_offsets.map((at) => 8 + length + at);
    const Numbers = ARRAYS[entry.dtype];
    if (Numbers) tensors[name] = new Numbers(file.slice(from, to));
  }
  return { metadata, tensors };
}

const finite = (value) => (Number.isFinite(value) ? value : null);

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** The distance from the f32 nearest to |value| to the next larger one. */
function unit(value) {
  float[0] = Math.abs(value);
  const near = float[0];
  bits[0] += 1;
  return float[0] - near;
}

/** ‖got − want‖ / ‖want‖ of the first `count` values, and the largest difference in units of the last place. */
function apart(got, want, count) {
  let [error, norm, ulps] = [0, 0, 0];
  for (let at = 0; at < count; at += 1) {
    const difference = got[at] - want[at];
    error += difference ** 2;
    norm += want[at] ** 2;
    ulps = Math.max(ulps, Math.abs(difference) / unit(want[at]));
  }
  const relative = finite(error === 0 ? 0 : Math.sqrt(error / norm));
  return { relative_l2: relative, ulps: relative === null ? null : finite(ulps) };
}

/** The flip of a token whose experts differ from the reference's, or null. */
function flip(token, want, got, keys, tie) {
  const lost = want.filter((expert) => !got.includes(expert));
  const gained = got.filter((expert) => !want.includes(expert));
  if (lost.length === 0 && gained.length === 0) return null;
  const key = (expert) => keys[expert] ?? NaN;
  const margin = finite(Math.min(...lost.map(key)) - Math.max(...gained.map(key)));
  const largest = Math.max(...keys.map(Math.abs));
  return { token, lost, gained, margin, tie: margin !== null && margin <= tie * largest };
}

/** Row `token` of a matrix of so many rows, as a plain array. */
function row(matrix, token, tokens) {
  const width = matrix.length / tokens;
  return Array.from(matrix.subarray(token * width, (token + 1) * width));
}

/** Index of the largest number, the first of equal ones; a NaN is larger than all, as for the command. */
function likeliest(logits) {
  const broken = logits.findIndex(Number.isNaN);
  return broken >= 0 ? broken : logits.indexOf(Math.max(...logits));
}

/** The first place of the text after which another token is the likeliest, or null. */
function firstOther(want, got, tokens) {
  for (let token = 0; token < tokens; token += 1) {
    const logits = row(want, token, tokens);
    const [expected, other] = [likeliest(logits), likeliest(row(got, token, tokens))];
    if (expected === other) continue;
    return { position: token + 1, expected, got: other, margin: finite(logits[expected] - logits[other]) };
  }
  return null;
}

/** Values and experts of each part, in the order of the reference's. */
function ordered(parts, { states, routers, head }) {
  const [left, choosing] = [[...states], [...routers]];
  const of = ({ part }) => {
    if (part === 'head') return { values: head, experts: null };
    if (part !== 'router') return { values: left.shift(), experts: null };
    const { logits, experts } = choosing.shift();
    return { values: logits, experts };
  };
  return parts.map(of);
}

/**
 * Compares what a device computed (`ComputedText` of the package) with the reference: distances of all parts, their
 * values, the first part that isn't within the limits, and the first other token.
 */
export function judge({ parts, tensors, tokens, limits }, computed) {
  const got = ordered(parts, computed);
  let judged = tokens;
  const distances = parts.map(({ layer, part }, at) => {
    const want = tensors[`${at}.values`];
    const { values, experts } = got[at];
    if (values?.length !== want.length) {
      throw new Error(`part ${at} of the model: expected ${want.length} values, got ${values?.length}`);
    }
    const found = apart(values, want, judged * (want.length / tokens));
    const flips = [];
    for (let token = 0; experts && token < tokens; token += 1) {
      const [wanted, keys] = ['experts', 'keys'].map((name) => row(tensors[`${at}.${name}`], token, tokens));
      flips.push(flip(token, wanted, row(experts, token, tokens), keys, limits.tie));
    }
    const distance = { layer, part, judged, ...found, flips: flips.filter(Boolean) };
    const tie = distance.flips.find((one) => one.tie);
    judged = Math.min(judged, tie?.token ?? judged);
    return distance;
  });
  const near = ({ judged: most, relative_l2: far, flips }) =>
    far !== null && far <= limits.distance && flips.every(({ token, tie }) => token >= most || tie);
  const first = distances.find((distance) => !near(distance));
  const parting = first ? { layer: first.layer, part: first.part } : null;
  const greedy = firstOther(tensors[`${parts.length - 1}.values`], computed.head, tokens);
  return { distances, values: got.map(({ values }) => values), parting, greedy };
}
