// The graph as a picture: what is drawn, where one looks, and what is under a finger.

import { Sketch, pixel } from "./graph-sketch.js";

const KINDS = ["memory", "ghost", "dangling", "tag"];
const NEAREST = 6;
const FARTHEST = 0.03;
const MARGIN = 24; // pixels around what is fitted: half of the largest node, and a little
const REACH = 8; // pixels beside a node that still mean it
const MOST_LABELS = 140;
const MANY = 600; // nodes and links that are sketched while they move
const PAUSE = 140; // milliseconds after the last move until the fine picture is drawn

const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

/** The colours of the page, for its present theme. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    ink: of("--ink"), soft: of("--soft"), line: of("--line"), paper: of("--paper"),
    memory: of("--accent"), ghost: of("--warn"), dangling: of("--bad"), tag: of("--soft"),
  };
}

export class View {
  /** `legend` lies over the foot of the picture. */
  constructor(canvas, legend) {
    this.canvas = canvas;
    this.legend = legend;
    this.context = canvas.getContext("2d");
    this.nodes = [];
    this.byKind = [[], [], [], []];
    this.beside = [];
    this.labelled = [];
    this.links = new Int32Array(0);
    this.positions = new Float32Array(0);
    this.scale = 1;
    this.left = 0;
    this.top = 0;
    this.isFitted = true; // until a person looks elsewhere
    this.isMoving = false;
    this.isPassing = false;
    this.chosen = -1;
    this.pointed = -1;
    this.onDrawn = () => {};
    this.frame = 0;
    this.recolour();
    this.resize();
  }

  recolour() {
    this.colours = colours();
    const entries = Object.entries(this.colours).map(([name, colour]) => [name, pixel(this.context, colour)]);
    this.pixels = Object.fromEntries(entries);
  }

  show(nodes, links, positions) {
    Object.assign(this, { nodes, links, positions, pointed: -1 });
    const least = (one) => (one.kind === "dangling" ? 6 : 3);
    this.radii = Float32Array.from(nodes, (one) => clamp(2.6 + Math.sqrt(one.degree) * 0.9, least(one), 13));
    this.byKind = KINDS.map((kind) => nodes.flatMap((one, at) => (one.kind === kind ? [at] : [])));
    this.beside = nodes.map(() => []);
    for (let at = 0; at < links.length; at += 2) {
      this.beside[links[at]].push(links[at + 1]);
      this.beside[links[at + 1]].push(links[at]);
    }
    // The best connected come first from the server, so theirs are the labels that are seen first;
    // what leads nowhere is named before them.
    this.labelled = [...this.byKind[2], ...nodes.keys()];
    this.faintness = Math.min(1, Math.sqrt(3200 / links.length || 1)); // of links, the more there are
    this.widths = new Map();
    this.draw();
  }

  resize() {
    const { width, height, bottom } = this.canvas.getBoundingClientRect();
    this.foot = MARGIN + Math.max(0, bottom - this.legend.getBoundingClientRect().top);
    this.ratio = Math.min(window.devicePixelRatio || 1, 3);
    [this.width, this.height] = [width, height];
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.sketch = null;
    if (this.isFitted) this.fit();
    this.draw();
  }

  // Where one looks

  screenX(node) { return this.positions[node * 2] * this.scale + this.left; }

  screenY(node) { return this.positions[node * 2 + 1] * this.scale + this.top; }

  /** The place in the graph that a place on the screen is. */
  place(x, y) { return [(x - this.left) / this.scale, (y - this.top) / this.scale]; }

  fit() {
    const { positions } = this;
    if (!positions.length || !this.width) return;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let at = 0; at < positions.length; at += 2) {
      left = Math.min(left, positions[at]);
      right = Math.max(right, positions[at]);
      top = Math.min(top, positions[at + 1]);
      bottom = Math.max(bottom, positions[at + 1]);
    }
    const [wide, high] = [this.width - 2 * MARGIN, this.height - MARGIN - this.foot];
    const room = Math.min(wide / (right - left || 1), high / (bottom - top || 1));
    this.scale = clamp(room, FARTHEST, 2.2);
    this.left = this.width / 2 - ((left + right) / 2) * this.scale;
    this.top = MARGIN + high / 2 - ((top + bottom) / 2) * this.scale;
  }

  zoom(by, x = this.width / 2, y = this.height / 2) {
    const scale = clamp(this.scale * by, FARTHEST, NEAREST);
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.moved();
  }

  pan(x, y) {
    this.left += x;
    this.top += y;
    this.moved();
  }

  /** A person looks elsewhere, and perhaps goes on doing so. */
  moved() {
    this.isFitted = false;
    this.isPassing = true;
    clearTimeout(this.pause);
    this.pause = setTimeout(() => { this.isPassing = false; this.draw(); }, PAUSE);
    this.draw();
  }

  centre(node) {
    this.isFitted = false;
    this.scale = Math.max(this.scale, 1.4);
    this.left = this.width / 2 - this.positions[node * 2] * this.scale;
    this.top = this.height / 2 - this.positions[node * 2 + 1] * this.scale;
    this.draw();
  }

  radius(node) { return this.radii[node] * clamp(Math.sqrt(this.scale), 0.36, 1.8); }

  /** The node at a place on the screen, -1 for none. */
  at(x, y) {
    let [found, nearest] = [-1, Infinity];
    for (let node = 0; node < this.nodes.length; node += 1) {
      const far = Math.hypot(this.screenX(node) - x, this.screenY(node) - y) - this.radius(node);
      if (far < REACH && far < nearest) [found, nearest] = [node, far];
    }
    return found;
  }

  // The picture

  /** Draw with the next frame, once, however often it is asked for. */
  draw() {
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  paint() {
    if (this.isFitted) this.fit();
    const { context, ratio } = this;
    const around = this.around();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.isRough()) this.paintSketch(around);
    else {
      context.clearRect(0, 0, this.width, this.height);
      this.paintLinks(around);
      for (let kind = 0; kind < KINDS.length; kind += 1) this.paintNodes(kind, around);
    }
    this.paintRing();
    this.paintLabels(around);
    this.onDrawn();
  }

  /** What is pointed at or chosen, with its neighbours; null when all are equal. */
  around() {
    const node = this.pointed >= 0 ? this.pointed : this.chosen;
    return node < 0 ? null : new Set([node, ...this.beside[node]]);
  }

  isRough() {
    const many = this.nodes.length + this.links.length / 2 > MANY;
    return many && (this.isMoving || this.isPassing) && this.canvas.width > 2 && this.canvas.height > 2;
  }

  paintSketch(around) {
    this.sketch ??= new Sketch(this.context, this.canvas.width, this.canvas.height);
    this.sketch.wipe();
    this.sketchLinks(around);
    for (let kind = 0; kind < KINDS.length; kind += 1) {
      for (const node of this.byKind[kind]) this.sketchNode(node, kind, around);
    }
    this.sketch.show();
  }

  sketchLinks(around) {
    const { sketch, links, ratio, pixels, nodes } = this;
    const middle = this.pointed >= 0 ? this.pointed : this.chosen;
    for (let at = 0; at < links.length; at += 2) {
      const [a, b] = [links[at], links[at + 1]];
      const isNear = around && (a === middle || b === middle);
      const isLost = nodes[b].kind === "dangling";
      const colour = isNear ? pixels.memory : isLost ? pixels.dangling : pixels.soft;
      const alpha = isNear ? 255 : (isLost ? 190 : 86 * this.faintness) * (around ? 0.4 : 1);
      sketch.line(this.screenX(a) * ratio, this.screenY(a) * ratio, this.screenX(b) * ratio, this.screenY(b) * ratio, colour, alpha);
    }
  }

  sketchNode(node, kind, around) {
    const { sketch, pixels, ratio } = this;
    const [x, y, r] = [this.screenX(node) * ratio, this.screenY(node) * ratio, this.radius(node) * ratio];
    if (x < -r || y < -r || x > this.canvas.width + r || y > this.canvas.height + r) return;
    const isFaint = around ? !around.has(node) : this.nodes[node].status === "retired";
    const [colour, alpha] = [pixels[KINDS[kind]], isFaint ? 72 : 255];
    if (kind === 1) sketch.square(x, y, r, colour, alpha);
    else if (kind === 3) sketch.diamond(x, y, r, colour, alpha);
    else sketch.disc(x, y, r, colour, alpha);
    if (kind === 2) sketch.disc(x, y, r - 1.6 * ratio, pixels.paper, alpha);
  }

  paintLinks(around) {
    const { context, links, nodes, colours: named } = this;
    const middle = this.pointed >= 0 ? this.pointed : this.chosen;
    const plain = new Path2D();
    const lost = new Path2D();
    const near = new Path2D();
    for (let at = 0; at < links.length; at += 2) {
      const [a, b] = [links[at], links[at + 1]];
      const [ax, ay, bx, by] = [this.screenX(a), this.screenY(a), this.screenX(b), this.screenY(b)];
      if (Math.max(ax, bx) < 0 || Math.min(ax, bx) > this.width) continue;
      if (Math.max(ay, by) < 0 || Math.min(ay, by) > this.height) continue;
      const path = around && (a === middle || b === middle) ? near : nodes[b].kind === "dangling" ? lost : plain;
      path.moveTo(ax, ay);
      path.lineTo(bx, by);
    }
    context.lineWidth = 1;
    context.globalAlpha = (around ? 0.14 : 0.34) * this.faintness;
    context.strokeStyle = named.soft;
    context.stroke(plain);
    context.globalAlpha = around ? 0.25 : 0.75;
    context.strokeStyle = named.dangling;
    context.stroke(lost);
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.strokeStyle = named.memory;
    context.stroke(near);
  }

  paintNodes(kind, around) {
    const { context, nodes, colours: named } = this;
    const [bright, faint] = [new Path2D(), new Path2D()];
    for (const node of this.byKind[kind]) {
      const [x, y, radius] = [this.screenX(node), this.screenY(node), this.radius(node)];
      if (x < -radius || y < -radius || x > this.width + radius || y > this.height + radius) continue;
      const isFaint = around ? !around.has(node) : nodes[node].status === "retired";
      SHAPES[kind](isFaint ? faint : bright, x, y, radius);
    }
    for (const [path, alpha] of [[faint, 0.28], [bright, 1]]) {
      context.globalAlpha = alpha;
      context.fillStyle = kind === 2 ? named.paper : named[KINDS[kind]];
      context.fill(path);
      if (kind === 2) { // what leads nowhere is a red ring with a cross
        context.lineWidth = 1.6;
        context.strokeStyle = named.dangling;
        context.stroke(path);
      }
    }
    context.globalAlpha = 1;
  }

  paintRing() {
    const { context } = this;
    if (this.chosen < 0) return;
    context.lineWidth = 2;
    context.strokeStyle = this.colours.ink;
    context.beginPath();
    context.arc(this.screenX(this.chosen), this.screenY(this.chosen), this.radius(this.chosen) + 4, 0, 7);
    context.stroke();
  }

  /** Names, where there is room for them; while everything moves, those of the largest alone. */
  paintLabels(around) {
    const { context } = this;
    const most = this.isMoving || this.isPassing ? 14 : clamp(Math.round(26 * this.scale), 14, MOST_LABELS);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = this.colours.paper;
    const taken = [];
    const wanted = around ? [...around, ...this.labelled] : this.labelled;
    const seen = new Set();
    for (const node of wanted) {
      if (taken.length >= most + (around ? Math.min(around.size, 30) : 0)) break;
      if (seen.has(node) || (around && !around.has(node))) continue;
      seen.add(node);
      this.paintLabel(node, taken, node === this.chosen || node === this.pointed);
    }
  }

  paintLabel(node, taken, isMain) {
    const { context, nodes } = this;
    const [right, y] = [this.screenX(node) + this.radius(node) + 4, this.screenY(node)];
    if (right < -200 || right > this.width + 20 || y < 0 || y > this.height) return;
    const text = this.label(nodes[node]);
    if (!this.widths.has(text)) this.widths.set(text, context.measureText(text).width);
    const wide = this.widths.get(text);
    // Beside the edge a name stands to the left of its node, so that all of it can be read.
    const left = this.screenX(node) - this.radius(node) - 4 - wide;
    const x = right + wide > this.width - 4 && left > 4 ? left : right;
    const box = [x - 2, y - 8, x + wide + 2, y + 8];
    const isOver = (other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1];
    if (!isMain && taken.some(isOver)) return;
    taken.push(box);
    context.strokeText(text, x, y);
    context.fillStyle = nodes[node].kind === "dangling" ? this.colours.dangling : this.colours.ink;
    context.fillText(text, x, y);
  }

  label(node) {
    const text = node.kind === "tag" ? `#${node.title}` : node.title;
    return text.length > 42 ? `${text.slice(0, 41)}…` : text;
  }
}

// Shapes tell kinds apart as well as colours do.
const SHAPES = [
  (path, x, y, r) => { path.moveTo(x + r, y); path.arc(x, y, r, 0, 7); },
  (path, x, y, r) => path.rect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7),
  (path, x, y, r) => {
    const reach = r * 1.15;
    path.moveTo(x + reach, y);
    path.arc(x, y, reach, 0, 7);
    path.moveTo(x - r * 0.5, y - r * 0.5);
    path.lineTo(x + r * 0.5, y + r * 0.5);
    path.moveTo(x + r * 0.5, y - r * 0.5);
    path.lineTo(x - r * 0.5, y + r * 0.5);
  },
  (path, x, y, r) => {
    path.moveTo(x, y - r);
    path.lineTo(x + r, y);
    path.lineTo(x, y + r);
    path.lineTo(x - r, y);
    path.closePath();
  },
];
