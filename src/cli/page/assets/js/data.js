// The data of the page: columns of numbers, and one table of texts. Everything that somebody else named is a text.

// As the commands do on a terminal: what would be obeyed instead of shown (control characters, marks that turn the direction of
// writing, invisible ones) is written as an escape.
const OBEYED = /[\0-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]/g;
const shown = (text) => text.replace(OBEYED, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

const holder = document.getElementById("data");
const data = JSON.parse(holder.textContent);
holder.remove();

const texts = data.strings.map(shown);
const nodes = data.nodes;
const pods = data.pods;
const events = data.events;
const resources = data.resources.map(([name, unit]) => ({ name: texts[name], unit }));
const nodeCount = nodes.name.length;
const podCount = pods.name.length;
const stepCount = events ? events.pod.length : 0;

const FATES = [
  { name: "Running", tone: "" }, { name: "Placed", tone: "good" }, { name: "Unschedulable", tone: "bad" },
  { name: "Preempted", tone: "bad" }, { name: "Gated", tone: "wait" }, { name: "Held", tone: "wait" },
  { name: "Evicted", tone: "bad" }, { name: "Fits", tone: "good" }, { name: "Pending", tone: "wait" },
];
const FATE = { running: 0, placed: 1, unschedulable: 2, preempted: 3, gated: 4, held: 5, evicted: 6, fits: 7, pending: 8 };
const EVENT = { placed: 0, refused: 1, removed: 2 };

const podName = (pod) => `${texts[pods.namespace[pod]]}/${texts[pods.name[pod]]}`;
const nodeName = (node) => texts[nodes.name[node]];
const zoneName = (node) => texts[nodes.zone[node]] || "no zone";
const profileName = (profile) => (profile < 0 ? "no profile" : texts[data.profiles[profile]]);
const isWaiting = (fate) => fate !== FATE.running && fate !== FATE.evicted;

/** What every node's pods take at one moment: a column for each resource, and the number of pods. */
class Moment {
  constructor() {
    this.used = resources.map(() => new Float64Array(nodeCount));
    this.pods = new Int32Array(nodeCount);
  }

  add(pod, node, sign) {
    if (node < 0) return;
    const amounts = data.requests[pods.requests[pod]];
    for (let r = 0; r < amounts.length; r++) this.used[r][node] += sign * amounts[r];
    this.pods[node] += sign;
  }

  static of(column) {
    const moment = new Moment();
    for (let pod = 0; pod < podCount; pod++) moment.add(pod, column[pod], 1);
    return moment;
  }

  /** After the first `step` events of the run. */
  static at(step) {
    const moment = Moment.of(pods.from);
    for (let e = 0; e < step; e++) {
      const what = events.what[e];
      if (what !== EVENT.refused) moment.add(events.pod[e], events.node[e], what === EVENT.placed ? 1 : -1);
    }
    return moment;
  }

  /** The share of `resource` that is taken; 0 where the node has none of it. */
  share(node, resource) {
    const of = nodes.allocatable[resource][node];
    const used = this.used[resource][node];
    return of > 0 ? used / of : used > 0 ? 1 : 0;
  }

  /** The resource of which the largest share is taken. */
  scarcest(node) {
    let most = 0;
    for (let r = 1; r < resources.length; r++) if (this.share(node, r) > this.share(node, most)) most = r;
    return most;
  }

  /** `resource` below 0 means the scarcest. */
  fill(node, resource) {
    return this.share(node, resource < 0 ? this.scarcest(node) : resource);
  }

  total(resource) {
    const sum = (column) => column.reduce((a, b) => a + b, 0);
    return [sum(this.used[resource]), sum(nodes.allocatable[resource])];
  }
}
