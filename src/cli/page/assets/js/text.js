// Words and elements. Text reaches the page as text nodes only; the policy of the page forbids anything else.

const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
const whole = (n) => n.toLocaleString("en-US");
const percent = (share) => (share > 0 && share < 0.01 ? "<1 %" : `${Math.floor(share * 100 + 1e-9)} %`);

const UNIT = { count: 0, milli: 1, bytes: 2 };
function amount(resource, value) {
  const { unit } = resources[resource];
  if (unit === UNIT.milli) return value % 1000 === 0 ? whole(value / 1000) : value >= 10000 ? whole(Math.round(value / 100) / 10) : `${value}m`;
  if (unit !== UNIT.bytes) return whole(value);
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at++; }
  return `${Math.floor(value * 10) / 10}${units[at]}`;
}

const span = (millis) => (millis === 0 ? "0 s" : millis < 1000 ? `${millis} ms` : millis < 120000 ? `${Math.round(millis / 100) / 10} s` : `${Math.round(millis / 6000) / 10} min`);

/** An element; attributes of which the value is a function are listeners. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "class") element.className = value;
    else if (name === "width" || name === "background") element.style[name] = value;
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}
const byId = (id) => document.getElementById(id);
const named = (text) => make("span", { class: "name" }, text);
const pill = (fate) => make("span", { class: `pill ${FATES[fate].tone}` }, FATES[fate].name);

const probe = make("span", { hidden: true });
document.body.append(probe);
/** The colour of a custom property in the theme in force, as a canvas takes it. */
function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** Upper bounds of the steps of the fill. */
const STEPS = [0.2, 0.4, 0.6, 0.8, 0.95];
const STEP_NAMES = ["below 20 %", "20–40 %", "40–60 %", "60–80 %", "80–95 %", "95 % and more"];
function fillStep(share) {
  let step = 0;
  while (step < STEPS.length && share >= STEPS[step] - 1e-12) step++;
  return step;
}
/** Names of the colours by change of the fill, from much less to much more. */
const CHANGES = ["less-2", "less-1", "same", "more-1", "more-2"];
const CHANGE_NAMES = ["at least 25 % less", "less", "the same", "more", "at least 25 % more"];
function changeStep(by) {
  if (Math.abs(by) < 1e-9) return 2;
  return by <= -0.25 ? 0 : by < 0 ? 1 : by < 0.25 ? 3 : 4;
}
