// What is shown of one pod or node.

const SCORE_COLOURS = 8;

/** What a pod asks for, in words. */
function asked(pod) {
  const amounts = data.requests[pods.requests[pod]];
  const parts = resources.flatMap(({ name }, r) => (amounts[r] > 0 && name !== "pods" ? [`${name} ${amount(r, amounts[r])}`] : []));
  return parts.join(", ") || "nothing";
}

function facts(pairs) {
  return make("dl", { class: "facts" }, pairs.filter(([, value]) => value != null && value !== "").flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)]));
}

/** What the columns of a table are, for those who do not see it. */
const columns = (...names) => make("thead", { class: "hidden" }, make("tr", {}, names.map((name) => make("th", { scope: "col" }, name))));

const nodeLink = (node, open) => make("button", { type: "button", class: "link name", click: () => open.node(node) }, nodeName(node));
const podLink = (pod, open) => make("button", { type: "button", class: "link name", click: () => open.pod(pod) }, podName(pod));

function podDetail(pod, open) {
  const [from, to] = [pods.from[pod], pods.to[pod]];
  const answer = pods.answer[pod] >= 0 ? data.answers[pods.answer[pod]] : null;
  const fate = pods.fate[pod];
  const where = (node, none) => (node >= 0 ? nodeLink(node, open) : none);
  const moved = isComparison ? [[stateNames[0], where(from, "no node")], [stateNames[1], where(to, "no node")]]
    : [["Node", fate === FATE.evicted ? make("span", {}, "was on ", where(from, "")) : where(to, "none")]];
  return [
    make("div", { class: "headline" }, make("h2", { class: "name" }, podName(pod)), pill(fate)),
    facts([
      ["Profile", named(profileName(pods.profile[pod]))],
      ...moved,
      ["Asks for", asked(pod)],
      ["Priority", pods.priority[pod] ? whole(pods.priority[pod]) : ""],
      ["Attempts", pods.attempts[pod] ? whole(pods.attempts[pod]) : ""],
      ["Evicts", pods.victims[pod] ? make("span", {}, ...joined(pods.victims[pod].map((victim) => podLink(victim, open)))) : ""],
    ]),
    answer ? answerDetail(answer, to, open) : null,
    pods.message[pod] ? make("p", { class: "said" }, texts[pods.message[pod]]) : null,
    make("p", { class: "muted small said" }, answer ? texts[answer.judged] : notJudged(fate)),
  ].flat();
}

function notJudged(fate) {
  if (fate === FATE.running || fate === FATE.evicted) return "It ran before: only pending pods are judged.";
  if (fate === FATE.gated || fate === FATE.held) return "It was not judged.";
  return "Not judged for this page, which judges a bounded number of different pods: berth explain says it of any pod.";
}

const joined = (elements) => elements.flatMap((element, i) => (i ? [", ", element] : [element]));

function answerDetail(answer, to, open) {
  return [
    bestNodes(answer, to, open),
    refusals(answer),
    changes(answer),
  ].flat();
}

/** The best nodes with what each score adds to their totals. */
function bestNodes(answer, to, open) {
  const heading = make("h3", {}, answer.feasible ? `Best nodes: ${whole(answer.feasible)} of ${plural(answer.of, "node")} fit` : `None of ${plural(answer.of, "node")} fits`);
  if (!answer.best.length) return [heading];
  const most = Math.max(1, answer.best[0][1]);
  const scores = answer.scores.map((name) => texts[name]);
  const scored = (parts) => parts.map((part, i) => `${scores[i]} ${part}`).join(", ");
  const row = ([node, total, ...parts]) => make("tr", { class: node === to ? "chosen" : "" },
    make("td", {}, nodeLink(node, open), node === to ? " ← here" : ""),
    make("td", { class: "wide", title: scored(parts) }, make("div", { class: "stack", "aria-hidden": "true" },
      parts.map((part, i) => make("i", { width: `${(Math.max(0, part) / most) * 100}%`, background: `var(--score-${i % SCORE_COLOURS})` })))),
    make("td", { class: "number" }, whole(total)));
  const legend = make("div", { class: "legend", "aria-hidden": "true" }, scores.map((name, i) => {
    const swatch = make("i", { class: "swatch", background: `var(--score-${i % SCORE_COLOURS})` });
    return answer.best.some((best) => best[i + 2] > 0) ? make("span", {}, swatch, name) : null;
  }));
  const numbers = make("details", {}, make("summary", {}, "Every score"), make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ["Node", "Total", ...scores].map((name, i) => make("th", { scope: "col", class: i ? "number" : "" }, name)))),
    make("tbody", {}, answer.best.map(([node, ...parts]) => make("tr", {}, make("th", { scope: "row", class: "name" }, nodeName(node)), parts.map((part) => make("td", { class: "number" }, whole(part)))))))));
  const table = make("table", { class: "bars", id: "best" },
    columns("Node", "Scores", "Total"),
    make("tbody", {}, answer.best.map(row)));
  return [heading, table, legend, numbers];
}

/** Why the other nodes refuse the pod, most frequent first. */
function refusals(answer) {
  if (!answer.refused.length) return [];
  const most = Math.max(...answer.refused.map(([count]) => count));
  return [make("h3", {}, "Refused because"), make("table", { class: "bars", id: "refused" },
    columns("Nodes", "Share", "Reason"),
    make("tbody", {}, answer.refused.map(([count, plugin, reason, fact]) => make("tr", {},
      make("td", { class: "number" }, whole(count)),
      make("td", { width: "64px" }, make("div", { class: "meter", width: "64px", "aria-hidden": "true" }, make("i", { width: `${(count / most) * 100}%` }))),
      make("td", {}, texts[reason], " ", make("span", { class: "muted small" }, [texts[plugin], texts[fact]].filter(Boolean).join(" · ")))))))];
}

/** What would place the pod. */
function changes(answer) {
  if (answer.feasible) return [];
  const parts = [];
  if (answer.changes) {
    parts.push(make("h3", {}, "What would place it"));
    parts.push(answer.changes.length
      ? make("ol", { class: "changes", id: "changes" }, answer.changes.map((change) => make("li", {}, texts[change])))
      : make("p", {}, "No single change that was tried would place it."));
  }
  if (answer.preemption) parts.push(make("h3", {}, "Preemption"), make("p", {}, texts[answer.preemption]));
  return parts;
}

const PODS_SHOWN = 200;

function nodeDetail(node, moment, open) {
  const flags = [nodes.cordoned[node] ? "cordoned" : "", texts[nodes.taints[node]] ? `taints ${texts[nodes.taints[node]]}` : ""].filter(Boolean);
  const here = [];
  for (let pod = 0; pod < podCount; pod++) if (moment.where[pod] === node) here.push(pod);
  const known = resources.map((_, r) => r).filter((r) => nodes.allocatable[r][node] > 0 || moment.now.used[r][node] > 0);
  const usage = known.map((r) => {
    const { name } = resources[r];
    const share = moment.now.share(node, r);
    const before = moment.before.share(node, r);
    return make("tr", {}, make("th", { scope: "row", class: "name" }, name),
      make("td", {}, make("div", { class: "meter", width: "140px", "aria-hidden": "true" }, meterFill(share), before !== share ? tick(before) : null)),
      make("td", { class: "number" }, percent(share)),
      make("td", { class: "number muted" }, `${amount(r, moment.now.used[r][node])} of ${amount(r, nodes.allocatable[r][node])}`));
  });
  return [
    make("div", { class: "headline" }, make("h2", { class: "name" }, nodeName(node)), make("span", { class: "muted" }, moment.name)),
    facts([["Zone", named(zoneName(node))], ["Marked", flags.join("; ")]]),
    make("h3", {}, "Taken"), make("table", { class: "bars" }, columns("Resource", "Bar", "Share", "Amount"), make("tbody", {}, usage)),
    make("h3", {}, plural(here.length, "pod")),
    make("table", {}, columns("Pod", "Asks for", "State"), make("tbody", {}, here.slice(0, PODS_SHOWN).map((pod) => make("tr", {}, make("td", {}, podLink(pod, open)), make("td", { class: "muted" }, asked(pod)), make("td", {}, pill(pods.fate[pod])))))),
    here.length > PODS_SHOWN ? make("p", { class: "muted small" }, `and ${whole(here.length - PODS_SHOWN)} more`) : null,
  ];
}

const meterFill = (share) => make("i", { width: `${Math.min(1, share) * 100}%`, background: `var(--fill-${share >= STEPS[STEPS.length - 1] ? 5 : 4})` });
function tick(share) {
  const mark = make("b", { title: `before: ${percent(share)}` });
  mark.style.left = `calc(${Math.min(1, share) * 100}% - 1px)`;
  return mark;
}
