// A picture made pixel by pixel, for as long as everything moves: five thousand lines this way take
// a few milliseconds on any machine, where a canvas without a graphics card takes many times that.
// A line of one colour never needs to be mixed: where two cross, the stronger one stays.

/** A colour of a page as the number that a pixel has, without its opacity. */
export function pixel(context, colour) {
  context.fillStyle = colour;
  const number = Number.parseInt(context.fillStyle.slice(1, 7), 16);
  return ((number & 255) << 16) | (number & 0xff00) | (number >> 16);
}

export class Sketch {
  constructor(context, width, height) {
    this.context = context;
    [this.width, this.height] = [width, height];
    this.image = context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  wipe() { this.pixels.fill(0); }

  show() { this.context.putImageData(this.image, 0, 0); }

  /** A line, smoothed: each step is shared by the two pixels it passes between. */
  line(fromX, fromY, toX, toY, colour, alpha) {
    const { width, height, pixels } = this;
    const ends = clipped(fromX, fromY, toX, toY, width - 2, height - 2);
    if (!ends) return;
    let [x, y, endX, endY] = ends;
    const isSteep = Math.abs(endY - y) > Math.abs(endX - x);
    if (isSteep) [x, y, endX, endY] = [y, x, endY, endX];
    if (x > endX) [x, y, endX, endY] = [endX, endY, x, y];
    const slope = (endY - y) / (endX - x || 1);
    const [along, across] = isSteep ? [width, 1] : [1, width];
    for (let step = Math.ceil(x), aside = y + (step - x) * slope; step <= endX; step += 1, aside += slope) {
      const whole = aside | 0;
      const share = aside - whole;
      const at = step * along + whole * across;
      const first = (alpha * (1 - share)) | 0;
      const second = (alpha * share) | 0;
      if (first > pixels[at] >>> 24) pixels[at] = (first << 24) | colour;
      if (second > pixels[at + across] >>> 24) pixels[at + across] = (second << 24) | colour;
    }
  }

  /** A shape whose half width is known for each of its rows. */
  fill(x, y, reach, half, colour, alpha) {
    const { width, height, pixels } = this;
    const value = (alpha << 24) | colour;
    for (let row = Math.max(0, Math.ceil(y - reach)); row <= y + reach && row < height; row += 1) {
      const wide = half(row - y);
      const left = Math.max(0, Math.round(x - wide));
      const right = Math.min(width, Math.round(x + wide));
      if (left < right) pixels.fill(value, row * width + left, row * width + right);
    }
  }

  disc(x, y, r, colour, alpha) { this.fill(x, y, r, (dy) => Math.sqrt(Math.max(0, r * r - dy * dy)), colour, alpha); }

  square(x, y, r, colour, alpha) { this.fill(x, y, r * 0.85, () => r * 0.85, colour, alpha); }

  diamond(x, y, r, colour, alpha) { this.fill(x, y, r, (dy) => r - Math.abs(dy), colour, alpha); }
}

/** The part of a line that is on the sheet, null for none of it. */
function clipped(x, y, endX, endY, right, bottom) {
  const [dx, dy] = [endX - x, endY - y];
  let [first, last] = [0, 1];
  for (const [by, room] of [[-dx, x], [dx, right - x], [-dy, y], [dy, bottom - y]]) {
    if (by === 0 && room < 0) return null;
    const at = room / by;
    if (by < 0) first = Math.max(first, at);
    else if (by > 0) last = Math.min(last, at);
  }
  return first > last ? null : [x + first * dx, y + first * dy, x + last * dx, y + last * dy];
}
