// Puts the parts together: what is shown, of which moment, and what follows a choice.

const isComparison = data.kind === "diff" || data.kind === "shadow";
const stateNames = data.states.map((name) => texts[name]);
const hasAfter = stateNames.length > 1;
const CHANGE = -2;

const before = Moment.of(pods.from);
const after = hasAfter ? Moment.of(pods.to) : before;
// The moment shown: a step of the run below the last, or one of the states.
const shownMoment = { state: hasAfter ? 1 : 0, step: -1, now: after, before, where: hasAfter ? pods.to : pods.from, name: "" };
let resource = -1;

function momentAt(step) {
  const where = pods.from.slice();
  for (let e = 0; e < step; e++) if (events.what[e] !== EVENT.refused) where[events.pod[e]] = events.what[e] === EVENT.placed ? events.node[e] : -1;
  return { now: Moment.at(step), where };
}

function showState(state) {
  const last = state !== 0;
  Object.assign(shownMoment, { state, step: -1, now: last ? after : before, where: last ? pods.to : pods.from });
  if (timeline) { byId("step").value = last ? stepCount : 0; timeline.show(last ? stepCount : 0); tellStep(last ? stepCount : 0); }
  refresh();
}

function showStep(step) {
  if (step === 0 || step === stepCount) return showState(step === 0 ? 0 : 1);
  Object.assign(shownMoment, { state: -1, step }, momentAt(step));
  timeline.show(step);
  tellStep(step);
  refresh();
}

function tellStep(step) {
  let told = step === 0 ? `Before the run: ${plural(queueLength(), "pod")} wait.` : `All ${plural(stepCount, "step")} done, at ${span(stepCount ? events.at[stepCount - 1] : 0)} of the virtual clock.`;
  if (step > 0 && step < stepCount) {
    const e = step - 1, pod = events.pod[e];
    const did = [`placed on ${nodeName(events.node[e])}`, "refused for now", `removed from ${nodeName(events.node[e])}`][events.what[e]];
    told = `Step ${whole(step)} of ${whole(stepCount)}, at ${span(events.at[e])}: ${podName(pod)} ${did}.`;
  }
  byId("timeline-told").textContent = told;
  byId("step").setAttribute("aria-valuetext", told);
}

/** Colours and labels of the map, and whatever else depends on the moment. */
function refresh() {
  const steps = new Uint8Array(nodeCount), labels = new Array(nodeCount);
  const changed = shownMoment.state === CHANGE;
  for (let node = 0; node < nodeCount; node++) {
    const share = shownMoment.now.fill(node, resource);
    const by = changed ? share - before.fill(node, resource) : 0;
    steps[node] = changed ? changeStep(by) : fillStep(share);
    labels[node] = !changed ? percent(share) : Math.abs(by) < 0.005 ? "±0" : `${by > 0 ? "+" : "−"}${Math.round(Math.abs(by) * 100)} %`;
  }
  map.paint(steps, changed ? CHANGES : FILLS, labels);
  legend(changed);
  shownMoment.name = shownMoment.state >= 0 ? stateNames[shownMoment.state] : changed ? stateNames[1] : `At step ${whole(shownMoment.step)}`;
  for (const button of byId("states").children) {
    const on = Number(button.dataset.state) === shownMoment.state;
    button.setAttribute("aria-checked", String(on));
    button.tabIndex = on || (shownMoment.state === -1 && button === byId("states").firstChild) ? 0 : -1;
  }
  if (byId("order").value === "fill") map.order(zones(byFill));
  nodesList.redraw();
  if (chosen && chosen.node !== undefined) show(chosen);
}

const FILLS = ["fill-0", "fill-1", "fill-2", "fill-3", "fill-4", "fill-5"];
const byFill = (a, b) => shownMoment.now.fill(b, resource) - shownMoment.now.fill(a, resource) || a - b;
const byName = (a, b) => collator.compare(nodeName(a), nodeName(b));

function legend(changed) {
  const [names, words] = changed ? [CHANGES, CHANGE_NAMES] : [FILLS, STEP_NAMES];
  const entries = names.map((name, i) => make("span", {}, make("i", { class: "swatch", background: `var(--${name})` }), words[i]));
  if (nodes.cordoned.some(Boolean)) entries.push(make("span", {}, make("i", { class: "swatch hatched" }), "cordoned"));
  byId("legend").replaceChildren(...entries);
}

let chosen = null;
const open = { pod: (pod) => choose({ pod }, true), node: (node) => choose({ node }, true) };

/** Shows a pod or node beside the lists; `go` says that the reader follows a link, so that focus goes along. */
function choose(what, go) {
  chosen = what;
  show(what);
  const fragment = what.pod !== undefined ? `pod=${encodeURIComponent(podName(what.pod))}` : `node=${encodeURIComponent(nodeName(what.node))}`;
  history.replaceState(null, "", `#${fragment}`);
  if (go) { byId("detail").focus({ preventScroll: true }); byId("detail").scrollIntoView({ block: "nearest" }); }
}

function show({ pod, node }) {
  const isPod = pod !== undefined;
  byId("detail").replaceChildren(...(isPod ? podDetail(pod, open) : nodeDetail(node, shownMoment, open)).filter(Boolean));
  byId("detail").setAttribute("aria-label", isPod ? `Pod ${podName(pod)}` : `Node ${nodeName(node)}`);
  map.marks = new Map();
  if (isPod) {
    podsList.mark(pod);
    const answer = pods.answer[pod] >= 0 ? data.answers[pods.answer[pod]] : null;
    for (const [best] of answer ? answer.best : []) map.marks.set(best, best === pods.to[pod]);
    map.chosen = pods.to[pod] >= 0 ? pods.to[pod] : pods.from[pod];
  } else {
    nodesList.mark(node);
    map.chosen = node;
  }
  if (map.layout && map.chosen >= 0) map.reveal(map.chosen);
  map.redraw();
}

const map = new NodeMap(byId("map-canvas"), {
  tell: (node) => { byId("map-told").textContent = `${nodeName(node)}, ${zoneName(node)}, ${told(node)}`; },
  tip: showTip,
  choose: (node) => choose({ node }, false),
});

/** The resources that some node has. */
const offered = resources.map((_, r) => r).filter((r) => nodes.allocatable[r].some((of) => of > 0));
const told = (node) => offered.map((r) => `${resources[r].name} ${percent(shownMoment.now.share(node, r))}`).join(", ");

let tipped = -1;
function showTip(node, x, y) {
  const tip = byId("tip");
  tip.hidden = node < 0;
  if (node < 0) { tipped = -1; return; }
  if (node !== tipped) {
    const rows = offered.map((r) => make("div", {}, `${resources[r].name} ${percent(shownMoment.now.share(node, r))}`, make("span", { class: "muted" }, ` · ${amount(r, shownMoment.now.used[r][node])} of ${amount(r, nodes.allocatable[r][node])}`)));
    tip.replaceChildren(make("strong", { class: "name" }, nodeName(node)), make("div", { class: "muted" }, zoneName(node), nodes.cordoned[node] ? " · cordoned" : ""), ...rows);
    tipped = node;
  }
  const right = x + 16 + tip.offsetWidth > map.width;
  tip.style.left = `${right ? Math.max(0, x - 12 - tip.offsetWidth) : x + 16}px`;
  tip.style.top = `${Math.max(0, Math.min(map.height - tip.offsetHeight - 4, y + 12))}px`;
}

const podsList = new List(byId("pods-list"), "Pods", {
  name: (pod) => `${podName(pod)}, ${FATES[pods.fate[pod]].name}, ${pods.to[pod] >= 0 ? `on ${nodeName(pods.to[pod])}` : "no node"}`,
  row: (pod) => [named(podName(pod)), make("span", { class: "aside name" }, pods.to[pod] >= 0 ? nodeName(pods.to[pod]) : ""), pill(pods.fate[pod])],
  choose: (pod) => choose({ pod }, false),
});

const nodesList = new List(byId("nodes-list"), "Nodes", {
  name: (node) => `${nodeName(node)}, ${zoneName(node)}, ${told(node)}`,
  row: (node) => {
    const share = shownMoment.now.fill(node, resource);
    return [named(nodeName(node)), make("span", { class: "aside name" }, zoneName(node)), make("span", { class: "meter" }, meterFill(share)), make("span", { class: "number small" }, percent(share))];
  },
  choose: (node) => choose({ node }, false),
});

let timeline = null;

// Pods by profile, a search, and one fate.
let profile = null;
let keys = null;
function filterPods() {
  const words = byId("pods-search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const fate = byId("fate").value;
  keys ||= words.length ? Array.from({ length: podCount }, (_, pod) => podName(pod).toLowerCase()) : null;
  const wanted = (pod) => (profile === null || pods.profile[pod] === profile)
    && (fate === "" || (fate === "waiting" ? isWaiting(pods.fate[pod]) : fate === "moved" ? pods.from[pod] !== pods.to[pod] : pods.fate[pod] === Number(fate)))
    && words.every((word) => keys[pod].includes(word));
  const entries = [];
  for (let pod = 0; pod < podCount; pod++) if (wanted(pod)) entries.push(pod);
  podsList.show(entries);
  byId("pods-count").textContent = `${whole(entries.length)} of ${plural(podCount, "pod")}`;
}

function filterNodes() {
  const words = byId("nodes-search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const entries = [];
  for (let node = 0; node < nodeCount; node++) {
    const key = `${nodeName(node)} ${zoneName(node)}`.toLowerCase();
    if (words.every((word) => key.includes(word))) entries.push(node);
  }
  nodesList.show(entries.sort(byId("order").value === "fill" ? byFill : byName));
  byId("nodes-count").textContent = `${whole(entries.length)} of ${plural(nodeCount, "node")}`;
}

/** A line for each profile: how its waiting pods fared. */
function profiles() {
  const counts = new Map();
  for (let pod = 0; pod < podCount; pod++) {
    if (!isWaiting(pods.fate[pod])) continue;
    const of = counts.get(pods.profile[pod]) || { all: 0, good: 0, bad: 0, wait: 0 };
    of.all++;
    of[FATES[pods.fate[pod]].tone]++;
    counts.set(pods.profile[pod], of);
  }
  const entries = [...counts].sort((a, b) => collator.compare(profileName(a[0]), profileName(b[0])));
  const good = data.kind === "explain" ? "fit" : "placed";
  byId("profiles").replaceChildren(...entries.map(([id, { all, good: fine, bad, wait }]) => {
    const part = (count, name) => make("i", { width: `${(count / all) * 100}%`, background: `var(--${name})` });
    const words = [`${whole(fine)} of ${whole(all)} ${good}`, wait ? `${whole(wait)} not tried` : ""].filter(Boolean).join(", ");
    return make("button", { type: "button", class: "profile", "aria-pressed": "false", "data-profile": id, click: () => pickProfile(profile === id ? null : id) },
      named(profileName(id)), make("span", { class: "split", "aria-hidden": "true" }, part(fine, "plot-placed"), part(bad, "plot-refused")), make("span", { class: "muted" }, words));
  }));
}

function pickProfile(id) {
  profile = id;
  for (const button of byId("profiles").children) button.setAttribute("aria-pressed", String(Number(button.dataset.profile) === id));
  filterPods();
}

const RESOURCES_IN_FIGURES = 5;

function figures() {
  const figure = (name, value, aside) => make("div", { class: "figure" }, make("dt", {}, name), make("dd", {}, value, aside ? make("small", {}, ` ${aside}`) : null));
  const shares = resources.map(({ name }, r) => {
    const [[was, of], [is]] = [before.total(r), after.total(r)];
    return of > 0 ? figure(name, percent(is / of), hasAfter ? `was ${percent(was / of)}` : `of ${amount(r, of)}`) : null;
  });
  const own = data.figures.map(([name, value, aside]) => figure(texts[name], whole(value), texts[aside]));
  byId("figures").replaceChildren(...own, ...shares.filter(Boolean).slice(0, RESOURCES_IN_FIGURES));
}

/** Buttons of which one is on; arrow keys go from one to the next. */
function arrowKeys(container, pick) {
  container.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const buttons = [...container.children];
    const to = buttons[(buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length];
    pick(to);
    to.focus();
    event.preventDefault();
  });
}

function tab(button) {
  for (const other of byId("pods-tab").parentElement.children) {
    other.setAttribute("aria-selected", String(other === button));
    other.tabIndex = other === button ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = other !== button;
  }
}

function controls() {
  const states = stateNames.map((name, state) => [name, state]);
  if (hasAfter) states.push(["Change", CHANGE]);
  byId("states").hidden = !hasAfter;
  byId("states").replaceChildren(...states.map(([name, state]) => make("button", { type: "button", role: "radio", "data-state": state, title: name, click: () => showState(state) }, name)));
  arrowKeys(byId("states"), (button) => showState(Number(button.dataset.state)));
  byId("fill").replaceChildren(make("option", { value: -1 }, "scarcest resource"), ...offered.map((r) => make("option", { value: r }, resources[r].name)));
  byId("fill").addEventListener("change", (event) => { resource = Number(event.target.value); refresh(); });
  byId("order").addEventListener("change", () => { map.order(zones(byId("order").value === "fill" ? byFill : byName)); filterNodes(); });
  byId("zoom-in").addEventListener("click", () => map.zoom(1.5));
  byId("zoom-out").addEventListener("click", () => map.zoom(1 / 1.5));
  byId("zoom-fit").addEventListener("click", () => map.fit());
  const tabs = byId("pods-tab").parentElement;
  for (const button of tabs.children) button.addEventListener("click", () => tab(button));
  arrowKeys(tabs, tab);
  fates();
  for (const [id, filter] of [["pods-search", filterPods], ["fate", filterPods], ["nodes-search", filterNodes]]) byId(id).addEventListener("input", filter);
  byId("theme").addEventListener("change", (event) => {
    if (event.target.value) document.documentElement.dataset.theme = event.target.value;
    else delete document.documentElement.dataset.theme;
    themed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
}

function themed() {
  map.recolour();
  if (timeline) timeline.draw();
}

function fates() {
  const there = new Set(pods.fate);
  const waiting = [...there].some(isWaiting);
  byId("fate").replaceChildren(make("option", { value: "" }, "all pods"), ...(waiting ? [make("option", { value: "waiting", selected: true }, "pending pods")] : []),
    ...(isComparison ? [make("option", { value: "moved" }, "placed otherwise")] : []),
    ...FATES.flatMap(({ name }, fate) => (there.has(fate) ? [make("option", { value: fate }, name)] : [])));
}

function queue() {
  if (!stepCount) return;
  byId("timeline").hidden = false;
  timeline = new Timeline(byId("timeline-canvas"));
  byId("timeline-legend").replaceChildren(...[["plot-placed", "placed"], ["plot-refused", "refused for now"], ["plot-waiting", "not tried yet"]].map(([name, word]) => make("span", {}, make("i", { class: "swatch", background: `var(--${name})` }), word)));
  byId("step").max = stepCount;
  byId("step").value = stepCount;
  byId("step").addEventListener("input", (event) => showStep(Number(event.target.value)));
  tellStep(stepCount);
}

/** What the address names after #, or the first pod without a node. */
function fromAddress() {
  const [, kind, name] = /^#(pod|node)=(.*)$/.exec(location.hash) || [];
  let wanted = "";
  try { wanted = decodeURIComponent(name || ""); } catch { /* not one of ours */ }
  for (let pod = 0; kind === "pod" && pod < podCount; pod++) if (podName(pod) === wanted) return { pod };
  for (let node = 0; kind === "node" && node < nodeCount; node++) if (nodeName(node) === wanted) return { node };
  let first = pods.fate.indexOf(FATE.unschedulable);
  if (first < 0) first = pods.answer.findIndex((answer) => answer >= 0);
  return first >= 0 ? { pod: first } : null;
}

function start() {
  document.title = `${texts[data.title]} · Berth`;
  byId("title").textContent = texts[data.title];
  byId("subtitle").textContent = texts[data.subtitle];
  byId("footer").textContent = `Made by berth ${texts[data.version]}. This file loads nothing and sends nothing.`;
  byId("notes").hidden = !data.notes.length;
  byId("notes").replaceChildren(...data.notes.map((note) => make("p", { class: "name" }, texts[note])));
  figures();
  controls();
  profiles();
  queue();
  filterPods();
  filterNodes();
  refresh();
  const first = fromAddress();
  if (first) { chosen = first; show(first); }
  else byId("detail").replaceChildren(make("p", { class: "muted" }, "Choose a pod or a node."));
  window.addEventListener("hashchange", () => { const what = fromAddress(); if (what) { chosen = what; show(what); } });
  document.documentElement.dataset.ready = "true";
}

start();
