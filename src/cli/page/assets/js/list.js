// A list of which only the rows in view are elements: 50,000 pods cost what thirty do.

const ROW = 32;

class List {
  /** `row` makes the children of an entry's row, `name` its name for people who do not see it, `choose` opens it. */
  constructor(root, label, { row, name, choose }) {
    Object.assign(this, { root, row, name, choose, entries: [], current: -1, made: new Map() });
    this.rows = make("div", { class: "rows", role: "presentation" });
    root.setAttribute("role", "listbox");
    root.setAttribute("aria-label", label);
    root.tabIndex = 0;
    root.append(this.rows);
    root.addEventListener("scroll", () => this.draw(), { passive: true });
    root.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("focus", () => { if (this.current < 0 && this.entries.length) this.go(0); });
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) { this.go(Number(row.dataset.at)); this.choose(this.entries[this.current]); }
    });
    new ResizeObserver(() => this.draw()).observe(root);
  }

  show(entries) {
    const kept = this.entries[this.current];
    this.entries = entries;
    this.current = kept === undefined ? -1 : entries.indexOf(kept);
    this.rows.style.height = `${entries.length * ROW}px`;
    this.root.scrollTop = Math.max(0, this.current * ROW - this.root.clientHeight / 2);
    this.redraw();
  }

  /** Marks an entry that was chosen elsewhere, if it is in the list. */
  mark(entry) {
    const at = this.entries.indexOf(entry);
    if (at >= 0) this.go(at);
  }

  redraw() {
    this.rows.replaceChildren();
    this.made.clear();
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.root.scrollTop / ROW) - 4);
    const last = Math.min(this.entries.length, first + Math.ceil(this.root.clientHeight / ROW) + 8);
    for (const [at, row] of this.made) {
      if ((at < first || at >= last) && at !== this.current) { row.remove(); this.made.delete(at); }
    }
    for (let at = first; at < last; at++) this.put(at);
    if (this.current >= 0) this.put(this.current);
  }

  put(at) {
    if (this.made.has(at)) return;
    const entry = this.entries[at];
    const row = make("div", {
      class: at === this.current ? "row current" : "row", role: "option", id: `${this.root.id}-${at}`, "data-at": at,
      "aria-selected": String(at === this.current), "aria-setsize": this.entries.length, "aria-posinset": at + 1, "aria-label": this.name(entry),
    }, this.row(entry));
    row.style.top = `${at * ROW}px`;
    this.made.set(at, row);
    this.rows.append(row);
  }

  go(at) {
    const before = this.made.get(this.current);
    if (before) { before.classList.remove("current"); before.setAttribute("aria-selected", "false"); }
    this.current = at;
    const top = at * ROW, bottom = top + ROW;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (bottom > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = bottom - this.root.clientHeight;
    this.draw();
    const row = this.made.get(at);
    row.classList.add("current");
    row.setAttribute("aria-selected", "true");
    this.root.setAttribute("aria-activedescendant", row.id);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.root.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (!this.entries.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) {
      this.go(Math.min(this.entries.length - 1, Math.max(0, this.current + moves[event.key])));
    } else if ((event.key === "Enter" || event.key === " ") && this.current >= 0) {
      this.choose(this.entries[this.current]);
    } else return;
    event.preventDefault();
  }
}
