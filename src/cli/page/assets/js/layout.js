// Where the cells are: a block for each zone, blocks in rows, cells as large as the canvas allows.

const HEADING = 24, GAP = 14, LARGEST_CELL = 104, MOST_COLUMNS = 12;

/** The nodes of each zone, zones by name; `order` compares two nodes. */
function zones(order) {
  const byZone = new Map();
  for (let node = 0; node < nodeCount; node++) {
    const zone = nodes.zone[node];
    if (!byZone.has(zone)) byZone.set(zone, []);
    byZone.get(zone).push(node);
  }
  const list = [...byZone.values()].map((members) => members.sort(order));
  // Those without a zone come last.
  const key = (members) => (nodes.zone[members[0]] === 0 ? "\uffff" : texts[nodes.zone[members[0]]]);
  return list.sort((a, b) => collator.compare(key(a), key(b)));
}
const collator = new Intl.Collator("en", { numeric: true });

/** Blocks of `groups` in rows of `columns`, with cells of `size`, or nothing if they need more than the height. */
function attempt(groups, columns, size, width, height) {
  const blockWidth = (width - GAP * (columns + 1)) / columns;
  const across = Math.floor(blockWidth / size);
  if (across < 1) return null;
  const blocks = [];
  let top = GAP / 2, tallest = 0;
  groups.forEach((members, i) => {
    const column = i % columns;
    if (column === 0 && i > 0) { top += tallest + GAP; tallest = 0; }
    const down = Math.ceil(members.length / across);
    blocks.push({ members, left: GAP + column * (blockWidth + GAP), top, width: blockWidth, across, down });
    tallest = Math.max(tallest, HEADING + down * size);
  });
  return top + tallest + GAP / 2 <= height ? { size, blocks } : null;
}

function arrange(groups, width, height) {
  let best = null;
  for (let columns = 1; columns <= Math.min(MOST_COLUMNS, groups.length); columns++) {
    let [least, most] = [0.5, LARGEST_CELL];
    let found = attempt(groups, columns, most, width, height);
    for (let i = 0; i < 12 && !(found && found.size === most); i++) {
      const size = (least + most) / 2;
      const tried = attempt(groups, columns, size, width, height);
      if (tried) { found = tried; least = size; } else most = size;
    }
    if (found && (!best || found.size >= best.size - 0.01)) best = found;
  }
  return best || { size: 0.5, blocks: [] };
}
