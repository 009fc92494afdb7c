// The routing of a layer's output, token by token.

/** Slots that their expert dropped: it keeps its heaviest slots up to capacity; among equals, earlier slots. */
function droppedSlots({ experts, weights, load, capacity }) {
  const dropped = new Set();
  if (capacity === null) return dropped;
  for (let expert = 0; expert < load.length; expert++) {
    const slots = [...experts.keys()].filter((slot) => experts[slot] === expert);
    slots.sort((a, b) => weights[b] - weights[a] || a - b);
    for (const slot of slots.slice(capacity)) dropped.add(slot);
  }
  return dropped;
}

/**
 * Slots of every token, the heaviest first.
 * @param {{experts: Int32Array, weights: Float32Array, load: Uint32Array, topK: number, capacity: number | null,
 *   dropped: number}} output
 * @returns {{expert: number, weight: number, dropped: boolean}[][]}
 */
export function slotsByToken(output) {
  const { experts, weights, topK } = output;
  const dropped = droppedSlots(output);
  if (dropped.size !== output.dropped) {
    throw new Error(`expected ${dropped.size} dropped slots by the rule, got ${output.dropped} from the device`);
  }
  return Array.from({ length: experts.length / topK }, (_, token) => {
    const slots = [];
    for (let slot = token * topK; slot < (token + 1) * topK; slot++) {
      if (experts[slot] < 0) continue;
      slots.push({ expert: experts[slot], weight: weights[slot], dropped: dropped.has(slot) });
    }
    return slots.sort((a, b) => b.weight - a.weight);
  });
}
