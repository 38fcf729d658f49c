// The queue over the steps of a run: how many pods are placed, refused for now, and not tried yet.

const COLUMNS = 480;

class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.at = stepCount;
    this.samples = this.count();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** For some steps, evenly spread: the step, and how many pods are placed and refused after it. */
  count() {
    const state = new Uint8Array(podCount);
    const PLACED = 1, REFUSED = 2;
    let placed = 0, refused = 0;
    const samples = [[0, 0, 0]];
    const every = Math.max(1, Math.floor(stepCount / COLUMNS));
    for (let e = 0; e < stepCount; e++) {
      const pod = events.pod[e];
      // A pod that ran before is no part of the queue.
      if (pods.from[pod] < 0) {
        const before = state[pod];
        state[pod] = events.what[e] === EVENT.placed ? PLACED : REFUSED;
        placed += (state[pod] === PLACED) - (before === PLACED);
        refused += (state[pod] === REFUSED) - (before === REFUSED);
      }
      if ((e + 1) % every === 0 || e + 1 === stepCount) samples.push([e + 1, placed, refused]);
    }
    return samples;
  }

  /** The steps after which the clock went on, and its time then. */
  jumps() {
    const jumps = [];
    for (let e = 1; e < stepCount; e++) if (events.at[e] !== events.at[e - 1]) jumps.push([e, events.at[e]]);
    return jumps;
  }

  show(step) {
    this.at = step;
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height || !stepCount) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const { context } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colour("card");
    context.fillRect(0, 0, width, height);
    const bottom = height - 18, most = Math.max(1, queueLength());
    const x = (step) => (step / stepCount) * width, y = (count) => bottom - (count / most) * (bottom - 4);
    context.fillStyle = colour("plot-waiting");
    context.fillRect(0, y(most), width, bottom - y(most));
    this.area(x, y, ([, placed, refused]) => placed + refused, "plot-refused", bottom);
    this.area(x, y, ([, placed]) => placed, "plot-placed", bottom);
    this.scale(x, width, bottom);
    context.fillStyle = colour("ink");
    context.fillRect(Math.min(width - 2, Math.max(0, x(this.at) - 1)), 0, 2, bottom);
  }

  area(x, y, value, name, bottom) {
    const { context, samples } = this;
    context.beginPath();
    context.moveTo(0, bottom);
    samples.forEach((sample, i) => {
      if (i > 0) context.lineTo(x(sample[0]), y(value(samples[i - 1])));
      context.lineTo(x(sample[0]), y(value(sample)));
    });
    context.lineTo(x(stepCount), bottom);
    context.fillStyle = colour(name);
    context.fill();
  }

  /** Where the virtual clock went on, as far as there is room to say so. */
  scale(x, width, bottom) {
    const { context } = this;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillStyle = colour("muted");
    context.fillText("0 s", 0, bottom + 14);
    let free = 30;
    for (const [step, millis] of this.jumps()) {
      const at = x(step), text = span(millis);
      if (at < free) continue;
      context.fillRect(at, 4, 1, bottom);
      const wide = context.measureText(text).width;
      if (at + wide + 4 < width) context.fillText(text, at + 4, bottom + 14);
      free = at + wide + 16;
    }
  }
}

let queued = -1;
/** How many pods wait when the run begins. */
function queueLength() {
  if (queued < 0) {
    queued = 0;
    for (let pod = 0; pod < podCount; pod++) if (pods.from[pod] < 0 && isWaiting(pods.fate[pod])) queued++;
  }
  return queued;
}
