// The map of the nodes. It draws what is given: shares or changes of the fill, and which nodes are marked.

class NodeMap {
  constructor(canvas, { tell, tip, choose }) {
    Object.assign(this, { canvas, tell, tip, choose, view: { scale: 1, x: 0, y: 0 }, cursor: -1, chosen: -1, marks: new Map() });
    this.steps = new Uint8Array(nodeCount);
    this.labels = new Array(nodeCount).fill("");
    this.names = ["fill-0", "fill-1", "fill-2", "fill-3", "fill-4", "fill-5"];
    this.left = new Float64Array(nodeCount);
    this.top = new Float64Array(nodeCount);
    this.groups = zones((a, b) => collator.compare(nodeName(a), nodeName(b)));
    this.context = canvas.getContext("2d", { alpha: false });
    this.recolour();
    new ResizeObserver(() => this.resize()).observe(canvas);
    window.addEventListener("resize", () => this.resize());
    this.listen();
  }

  /** Shows `steps` (an index into the colours called `names`) and `labels` of the nodes. */
  paint(steps, names, labels) {
    Object.assign(this, { steps, names, labels });
    this.recolour();
  }

  order(groups) {
    Object.assign(this, { groups, laidOut: false });
    this.resize();
  }

  recolour() {
    const colours = this.names.map(colour);
    this.colours = { cells: colours, onCells: colours.map(readableOn), page: colour("page"), ink: colour("ink"), muted: colour("muted"), line: colour("cell-line"), accent: colour("accent") };
    this.redraw();
  }

  /** Lays the cells out anew where the space has changed. A few nodes get a small map. */
  resize() {
    const width = this.canvas.clientWidth, most = Math.max(300, Math.min(620, window.innerHeight * 0.52));
    const ratio = window.devicePixelRatio || 1;
    if (!width || (this.laidOut && width === this.width && most === this.most && ratio === this.ratio)) return;
    const layout = arrange(this.groups, width, most);
    const bottom = Math.max(0, ...layout.blocks.map(({ top, down }) => top + HEADING + down * layout.size));
    const height = Math.min(most, Math.max(120, Math.ceil(bottom + GAP)));
    this.canvas.parentElement.style.height = `${height + 2}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    Object.assign(this, { width, height, most, ratio, layout, laidOut: true });
    for (const block of layout.blocks) {
      block.members.forEach((node, i) => {
        this.left[node] = block.left + (i % block.across) * layout.size;
        this.top[node] = block.top + HEADING + Math.floor(i / block.across) * layout.size;
      });
    }
    this.fit();
    // At once: a canvas whose size was set is empty.
    this.draw();
  }

  fit() {
    this.move({ scale: 1, x: 0, y: 0 });
  }

  move({ scale, x, y }) {
    scale = Math.min(Math.max(scale, 1), Math.max(1, 160 / this.layout.size));
    // What is outside of the map stays out of view.
    const within = (value, size) => Math.min(0, Math.max(size - size * scale, value));
    this.view = { scale, x: within(x, this.width), y: within(y, this.height) };
    this.canvas.style.touchAction = scale > 1 ? "none" : "pan-y";
    this.redraw();
  }

  zoom(by, x = this.width / 2, y = this.height / 2) {
    const { view } = this;
    const scale = Math.min(Math.max(view.scale * by, 1), Math.max(1, 160 / this.layout.size));
    const k = scale / view.scale;
    this.move({ scale, x: x - (x - view.x) * k, y: y - (y - view.y) * k });
  }

  redraw() {
    if (this.asked || !this.layout) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
  }

  draw() {
    const { context, colours, view, layout } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, this.width, this.height);
    const size = layout.size * view.scale;
    const inner = size - (size >= 6 ? Math.min(3, size / 10) : size >= 3 ? 0.6 : 0);
    const seen = this.inView(size);
    this.cells(seen, inner);
    if (size >= 5) this.cordons(seen, inner);
    if (inner >= 46) this.captions(seen, inner);
    this.headings();
    this.rings(inner);
  }

  /** The nodes of which the cell is in view, and where it is. */
  inView(size) {
    const { view } = this;
    const seen = [];
    for (let node = 0; node < nodeCount; node++) {
      const x = this.left[node] * view.scale + view.x, y = this.top[node] * view.scale + view.y;
      if (x + size > 0 && y + size > 0 && x < this.width && y < this.height) seen.push([node, x, y]);
    }
    return seen;
  }

  cells(seen, inner) {
    const { context, colours, steps } = this;
    for (let step = 0; step < colours.cells.length; step++) {
      context.fillStyle = colours.cells[step];
      for (const [node, x, y] of seen) if (steps[node] === step) context.fillRect(x, y, inner, inner);
    }
    if (inner < 8) return;
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    for (const [, x, y] of seen) context.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
  }

  /** A diagonal through each cordoned node. */
  cordons(seen, inner) {
    const { context } = this;
    context.beginPath();
    for (const [node, x, y] of seen) {
      if (!nodes.cordoned[node]) continue;
      for (let at = inner > 30 ? inner / 4 : inner; at < 2 * inner; at += Math.max(6, inner / 4)) {
        const [from, to] = [Math.max(0, at - inner), Math.min(at, inner)];
        context.moveTo(x + from, y + at - from);
        context.lineTo(x + to, y + at - to);
      }
    }
    context.strokeStyle = this.colours.muted;
    context.lineWidth = inner > 30 ? 1 : 0.8;
    context.stroke();
  }

  captions(seen, inner) {
    const { context, colours } = this;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    for (const [node, x, y] of seen) {
      const step = this.steps[node];
      if (nodes.cordoned[node]) {
        // No line through the words.
        context.fillStyle = colours.cells[step];
        context.fillRect(x + 3, y + 4, inner - 6, 18);
        context.fillRect(x + 3, y + inner - 25, inner - 6, 20);
      }
      context.fillStyle = colours.onCells[step];
      context.font = "600 13px system-ui, sans-serif";
      context.fillText(this.labels[node], x + 7, y + inner - 10, inner - 10);
      context.font = "11px system-ui, sans-serif";
      context.fillText(shortened(caption(node), Math.floor((inner - 12) / 6.2)), x + 7, y + 17, inner - 12);
    }
  }

  headings() {
    const { context, colours, view, layout } = this;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    for (const { members, left, top, width } of layout.blocks) {
      const x = left * view.scale + view.x, y = top * view.scale + view.y + (HEADING - 7) * Math.min(view.scale, 1.6);
      const space = width * view.scale;
      if (y < 0 || y > this.height + 16 || x > this.width || x + space < 0 || space < 34) continue;
      context.font = "600 12px system-ui, sans-serif";
      context.fillStyle = colours.ink;
      const name = shortened(zoneName(members[0]), Math.floor(space / 6.5));
      const at = Math.max(x, Math.min(8, x + space - 120));
      context.fillText(name, at, y);
      const used = context.measureText(name).width;
      context.font = "12px system-ui, sans-serif";
      context.fillStyle = colours.muted;
      const count = plural(members.length, "node");
      if (used + 10 + context.measureText(count).width < space) context.fillText(count, at + used + 10, y);
    }
  }

  rings(inner) {
    const ring = (node, style, width) => {
      const [x, y] = this.place(node);
      this.context.strokeStyle = style;
      this.context.lineWidth = width;
      const side = Math.max(inner, 5);
      this.context.strokeRect(x - 1, y - 1, side + 2, side + 2);
    };
    for (const [node, first] of this.marks) ring(node, this.colours.accent, first ? 3 : 1.5);
    if (this.chosen >= 0) ring(this.chosen, this.colours.ink, 2.5);
    if (this.cursor >= 0 && this.cursor !== this.chosen && document.activeElement === this.canvas) ring(this.cursor, this.colours.accent, 2.5);
  }

  place(node) {
    return [this.left[node] * this.view.scale + this.view.x, this.top[node] * this.view.scale + this.view.y];
  }

  /** The node at a point of the canvas; below 0 for none. */
  hit(x, y) {
    const { layout, view } = this;
    const [wx, wy] = [(x - view.x) / view.scale, (y - view.y) / view.scale];
    for (const { members, left, top, across, down } of layout.blocks) {
      const column = Math.floor((wx - left) / layout.size), row = Math.floor((wy - top - HEADING) / layout.size);
      if (column < 0 || column >= across || row < 0 || row >= down) continue;
      const at = row * across + column;
      if (at < members.length) return members[at];
    }
    return -1;
  }

  /** Moves the view so that the node is in it. */
  reveal(node) {
    const [x, y] = this.place(node);
    const size = this.layout.size * this.view.scale;
    const into = (at, space) => (at < 8 ? 8 - at : at + size > space - 8 ? space - 8 - at - size : 0);
    this.move({ ...this.view, x: this.view.x + into(x, this.width), y: this.view.y + into(y, this.height) });
  }

  /** The nearest node in a direction, nodes straight ahead first. */
  next(dx, dy) {
    let best = -1, least = Infinity;
    for (let node = 0; node < nodeCount; node++) {
      const x = this.left[node] - this.left[this.cursor], y = this.top[node] - this.top[this.cursor];
      const along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
      if (along > 0.01 && along + 3 * aside < least) { least = along + 3 * aside; best = node; }
    }
    return best;
  }

  listen() {
    const { canvas } = this;
    let held = null;
    const point = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => {
      const [x, y] = point(event);
      held = { x, y, view: this.view, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = point(event);
      if (!held) return this.tip(this.hit(x, y), x, y);
      held.moved ||= Math.hypot(x - held.x, y - held.y) > 3;
      if (held.moved) { this.tip(-1); this.move({ ...held.view, x: held.view.x + x - held.x, y: held.view.y + y - held.y }); }
    });
    canvas.addEventListener("pointerup", (event) => {
      const clicked = held && !held.moved ? this.hit(...point(event)) : -1;
      held = null;
      if (clicked >= 0) { this.cursor = clicked; this.choose(clicked); }
    });
    canvas.addEventListener("pointercancel", () => { held = null; });
    canvas.addEventListener("pointerleave", () => this.tip(-1));
    // Without focus or Ctrl the wheel belongs to the page.
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), ...point(event));
    }, { passive: false });
    canvas.addEventListener("focus", () => this.redraw());
    canvas.addEventListener("blur", () => this.redraw());
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.ctrlKey || event.metaKey || event.altKey || !nodeCount) return;
    if (event.key in arrows) {
      const [dx, dy] = arrows[event.key];
      if (event.shiftKey) this.move({ ...this.view, x: this.view.x - dx * 60, y: this.view.y - dy * 60 });
      else this.step(dx, dy);
    } else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-") this.zoom(1 / 1.5);
    else if (event.key === "0") this.fit();
    else if ((event.key === "Enter" || event.key === " ") && this.cursor >= 0) this.choose(this.cursor);
    else return;
    event.preventDefault();
  }

  step(dx, dy) {
    const to = this.cursor < 0 ? this.layout.blocks[0].members[0] : this.next(dx, dy);
    if (to < 0) return;
    this.cursor = to;
    this.reveal(to);
    this.tell(to);
  }
}

/** What all node names end with, from a dot on, as those of a cloud do: it tells no node from another. */
const domain = (() => {
  if (nodeCount < 2) return "";
  let common = nodeName(0);
  for (let node = 1; node < nodeCount && common; node++) {
    const name = nodeName(node);
    let same = 0;
    while (same < common.length && same < name.length && common.at(-1 - same) === name.at(-1 - same)) same++;
    common = same ? common.slice(-same) : "";
  }
  const dot = common.indexOf(".");
  return dot < 0 ? "" : common.slice(dot);
})();
const caption = (node) => nodeName(node).slice(0, nodeName(node).length - domain.length);
const shortened = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);

/** Black or white, whichever is easier to read on a colour. */
function readableOn(rgb) {
  const [r, g, b] = rgb.match(/[\d.]+/g).slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return (1.05 / (light + 0.05)) > ((light + 0.05) / 0.055) ? "#ffffff" : "#11161d";
}
