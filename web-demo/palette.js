// Colours and shapes of experts: eight hues that stay distinct in the common kinds of colour blindness (after Okabe and
// Ito), used twice. Experts 0 to 7 are circles and plain bars, 8 to 15 squares and hatched bars; the number is always
// shown as well.

const HUES = ['#e69f00', '#56b4e9', '#009e73', '#f0e442', '#0072b2', '#d55e00', '#cc79a7', '#a6a6a6'];
const DARK_HUES = new Set(['#0072b2']);

/** Look of an expert: the fill, the colour of text on it, and whether the expert is in the second set. */
export function expertLook(expert) {
  const fill = HUES[expert % HUES.length];
  return { fill, text: DARK_HUES.has(fill) ? '#ffffff' : '#111111', second: expert >= HUES.length };
}

/** Look of the training's classes: the colour as [r, g, b], and the name of the points' shape. */
export const CLASSES = [
  { name: 'circle', rgb: [0, 114, 178] },
  { name: 'square', rgb: [230, 120, 0] },
  { name: 'triangle', rgb: [0, 140, 100] },
  { name: 'diamond', rgb: [190, 90, 150] },
];
