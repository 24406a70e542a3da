// A force layout: nodes push each other away, links pull them together, and it comes to rest.
// Far nodes are taken together, by the cell of a quadtree they stand in, so that a step takes
// n log n and not n². All numbers are in typed arrays: nothing is left for the collector.

const THETA2 = 0.9 * 0.9; // how wide a far cell may be seen and still count as one body
const PUSH = 70;
const PULL = 0.085; // to the middle, so that parts without a link stay in sight
const LENGTH = 34;
const FRICTION = 0.62;
const REST = 0.004; // the heat at which nothing visible moves any more
const COOLING = 1 - REST ** (1 / 260);
const CLOSEST = 1e-3;
const MOST_FRESH = 0.25; // of a graph that may find a place around the rest of it

/** Bodies in cells of four quarters; made anew for every step, in the same memory. */
class Tree {
  constructor(count) {
    this.next = new Int32Array(count); // bodies in one spot, one behind the other
    this.stack = new Int32Array(4096);
    this.enlarge(Math.max(64, count * 3));
  }

  enlarge(cells) {
    const grown = (Kind, old, length) => {
      const made = new Kind(length);
      if (old) made.set(old);
      return made;
    };
    this.child = grown(Int32Array, this.child, cells * 4); // 0: none, n: a cell, -n: a body
    for (const name of ["mass", "x", "y", "size"]) this[name] = grown(Float64Array, this[name], cells);
    this.room = cells;
  }

  build(x, y, weight, count) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < count; i += 1) {
      left = Math.min(left, x[i]);
      right = Math.max(right, x[i]);
      top = Math.min(top, y[i]);
      bottom = Math.max(bottom, y[i]);
    }
    const size = Math.max(right - left, bottom - top, 1) * 1.0001;
    this.cells = 0;
    this.cell(size);
    for (let i = 0; i < count; i += 1) this.insert(i, x, y, left + size / 2, top + size / 2, size / 2);
    this.weigh(x, y, weight);
  }

  cell(size) {
    if (this.cells === this.room) this.enlarge(this.room * 2);
    const made = this.cells;
    this.cells += 1;
    this.child.fill(0, made * 4, made * 4 + 4);
    this.size[made] = size;
    return made;
  }

  insert(body, x, y, middleX, middleY, half) {
    let cell = 0;
    this.next[body] = -1;
    for (;;) {
      const isRight = x[body] >= middleX;
      const isLow = y[body] >= middleY;
      const place = cell * 4 + (isRight ? 1 : 0) + (isLow ? 2 : 0);
      const there = this.child[place];
      if (there === 0) { this.child[place] = -body - 1; return; }
      half /= 2;
      middleX += isRight ? half : -half;
      middleY += isLow ? half : -half;
      if (there > 0) { cell = there; continue; }
      const other = -there - 1;
      if (half < CLOSEST) { this.next[body] = other; this.child[place] = -body - 1; return; }
      const made = this.cell(half * 2);
      this.child[place] = made;
      this.child[made * 4 + (x[other] >= middleX ? 1 : 0) + (y[other] >= middleY ? 2 : 0)] = there;
      cell = made;
    }
  }

  /** What each cell weighs, and where: a cell is made after the one around it, so from the last. */
  weigh(x, y, weight) {
    const { child, mass } = this;
    for (let cell = this.cells - 1; cell >= 0; cell -= 1) {
      let [sum, sumX, sumY] = [0, 0, 0];
      for (let q = cell * 4; q < cell * 4 + 4; q += 1) {
        const one = child[q];
        if (one > 0) {
          sum += mass[one];
          sumX += mass[one] * this.x[one];
          sumY += mass[one] * this.y[one];
        }
        for (let body = -one - 1; one < 0 && body >= 0; body = this.next[body]) {
          sum += weight[body];
          sumX += weight[body] * x[body];
          sumY += weight[body] * y[body];
        }
      }
      mass[cell] = sum;
      this.x[cell] = sumX / sum;
      this.y[cell] = sumY / sum;
    }
  }
}

export class Layout {
  /** `links` has two numbers for each link; `placed` two for each node, NaN where it is new.
   *  With `stays`, what has a place keeps it, as long as that is most of the graph. */
  constructor(count, links, placed, stays = false) {
    this.count = count;
    this.links = links;
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    this.speedX = new Float64Array(count);
    this.speedY = new Float64Array(count);
    this.degree = new Float64Array(count);
    this.weight = new Float64Array(count);
    for (const end of links) this.degree[end] += 1;
    // A node with many links needs room around it.
    for (let i = 0; i < count; i += 1) this.weight[i] = 1 + Math.sqrt(this.degree[i]) * 0.35;
    this.tree = new Tree(count);
    this.pinned = -1;
    this.place(placed, stays);
  }

  place(placed, stays) {
    let fresh = 0;
    for (let i = 0; i < this.count; i += 1) {
      // The spiral of a sunflower: evenly spread, and the same every time.
      const [far, angle] = [9 * Math.sqrt(i + 0.5), i * 2.399963];
      const isNew = !placed || Number.isNaN(placed[i * 2]);
      if (isNew) fresh += 1;
      this.x[i] = isNew ? far * Math.cos(angle) : placed[i * 2];
      this.y[i] = isNew ? far * Math.sin(angle) : placed[i * 2 + 1];
    }
    if (placed && fresh < this.count) this.placeBeside(placed);
    const isStaying = stays && fresh < this.count * MOST_FRESH;
    this.stay = isStaying ? Uint8Array.from(this.x, (_, i) => !Number.isNaN(placed[i * 2])) : null;
    this.heat = this.count === 0 || (isStaying && !fresh) ? 0 : fresh === this.count ? 1 : 0.3;
  }

  /** What is new begins beside something it is linked with. */
  placeBeside(placed) {
    const { links } = this;
    for (let at = 0; at < links.length; at += 2) {
      for (const [one, other] of [[links[at], links[at + 1]], [links[at + 1], links[at]]]) {
        if (Number.isNaN(placed[one * 2]) && !Number.isNaN(placed[other * 2])) {
          this.x[one] = this.x[other] + 12 * Math.cos(one);
          this.y[one] = this.y[other] + 12 * Math.sin(one);
        }
      }
    }
  }

  get isAtRest() { return this.heat < REST; }

  warm(heat) { this.heat = Math.max(this.heat, heat); }

  pin(node, x, y) {
    this.pinned = node;
    if (node >= 0) { this.x[node] = x; this.y[node] = y; this.stay = null; this.warm(0.25); }
  }

  step() {
    this.heat *= 1 - COOLING;
    this.pull();
    this.tree.build(this.x, this.y, this.weight, this.count);
    for (let i = 0; i < this.count; i += 1) this.push(i);
    this.move();
  }

  pull() {
    const { links, x, y, speedX, speedY, degree, heat } = this;
    for (let at = 0; at < links.length; at += 2) {
      const [a, b] = [links[at], links[at + 1]];
      const dx = x[b] + speedX[b] - x[a] - speedX[a] || CLOSEST;
      const dy = y[b] + speedY[b] - y[a] - speedY[a] || CLOSEST;
      const far = Math.sqrt(dx * dx + dy * dy);
      const fewer = Math.min(degree[a], degree[b]);
      const want = LENGTH + 3 * Math.sqrt(fewer);
      const force = ((far - want) / far) * heat / fewer;
      const share = degree[a] / (degree[a] + degree[b]); // the busier of two moves less
      speedX[b] -= dx * force * share;
      speedY[b] -= dy * force * share;
      speedX[a] += dx * force * (1 - share);
      speedY[a] += dy * force * (1 - share);
    }
  }

  push(node) {
    const { tree, x, y, weight } = this;
    const { child, mass, size, stack, next } = tree;
    const [hereX, hereY, strength] = [x[node], y[node], PUSH * this.heat];
    let [forceX, forceY, top] = [0, 0, 1];
    stack[0] = 0;
    while (top > 0) {
      top -= 1;
      const cell = stack[top];
      const dx = tree.x[cell] - hereX;
      const dy = tree.y[cell] - hereY;
      const far = dx * dx + dy * dy;
      if (size[cell] * size[cell] < THETA2 * far) {
        forceX -= (dx * mass[cell]) / far;
        forceY -= (dy * mass[cell]) / far;
        continue;
      }
      for (let q = cell * 4; q < cell * 4 + 4; q += 1) {
        const one = child[q];
        if (one > 0) { stack[top] = one; top += 1; }
        for (let other = -one - 1; one < 0 && other >= 0; other = next[other]) {
          if (other === node) continue;
          // Two in one spot part in a direction of their own.
          const bx = x[other] - hereX || CLOSEST * ((node % 7) - 3.5);
          const by = y[other] - hereY || CLOSEST * ((node % 5) - 2.5);
          const near = Math.max(bx * bx + by * by, 4);
          forceX -= (bx * weight[other]) / near;
          forceY -= (by * weight[other]) / near;
        }
      }
    }
    this.speedX[node] += forceX * strength - hereX * PULL * this.heat;
    this.speedY[node] += forceY * strength - hereY * PULL * this.heat;
  }

  move() {
    const { x, y, speedX, speedY, pinned, stay } = this;
    for (let i = 0; i < this.count; i += 1) {
      speedX[i] *= FRICTION;
      speedY[i] *= FRICTION;
      if (i === pinned || stay?.[i]) { speedX[i] = 0; speedY[i] = 0; continue; }
      x[i] += speedX[i];
      y[i] += speedY[i];
    }
  }

  /** Where everything is, two numbers for each node. */
  positions() {
    const found = new Float32Array(this.count * 2);
    for (let i = 0; i < this.count; i += 1) {
      found[i * 2] = this.x[i];
      found[i * 2 + 1] = this.y[i];
    }
    return found;
  }
}
