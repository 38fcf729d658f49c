# Draws the tables of docs/benchmarks.md: bars by contestant or workload, and curves, as SVG. Called by hack/pictures.sh with -v picture=NAME.
#
# A table is found by the heading above it and the words in its first row, so that a new measurement is a new picture.

function escaped(text) {
  gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
  return text
}
function trimmed(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }
# The first number of a cell: "150,100/s" is 150100, "514 (508–589)" is 514; nothing for "–".
function number(cell) {
  gsub(/,/, "", cell); gsub(/\*/, "", cell)
  if (!match(cell, /[0-9]+(\.[0-9]+)?/)) return ""
  return substr(cell, RSTART, RLENGTH) + 0
}
function grouped(n,  text, out) {
  text = sprintf("%d", n); out = ""
  while (length(text) > 3) { out = "," substr(text, length(text) - 2) out; text = substr(text, 1, length(text) - 3) }
  return text out
}
function shown(n) { return n >= 1000 ? grouped(n) : n >= 100 || n == int(n) ? sprintf("%d", n) : sprintf("%.2g", n) }

function begin(width, height, label) {
  printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"%s\">\n", width, height, width, height, escaped(label)
  print "<style>"
  print "text{font:13px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",sans-serif;fill:#1c1e22}"
  print ".t{font-weight:600}.m{fill:#5a606a}.e{text-anchor:end}.bg{fill:#fff}"
  print ".a{fill:#2268a9}.b{fill:#d98a1f}.c{fill:#9aa1ab}.g{stroke:#1c1e22;stroke-width:2}"
  print "@media(prefers-color-scheme:dark){text{fill:#e9ebee}.m{fill:#a4acb7}.bg{fill:#1a1d22}.a{fill:#4a8fc7}.b{fill:#f2a33c}.c{fill:#79818d}.g{stroke:#e9ebee}}"
  print "</style>"
  printf "<rect class=\"bg\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", width, height
}
function say(x, y, class, text) { printf "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">%s</text>\n", x, y, class, escaped(text) }
function bar(x, y, width, class) { printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"13\" rx=\"2\" class=\"%s\"/>\n", x, y, width < 1 ? 1 : width, class }
function mark(x, y) { printf "<path d=\"M%.1f %.1fv19\" class=\"g\"/>\n", x, y - 3 }

# Rows of workloads with a rate, what is to be reached, and what upstream's own test requires.
function engine(  i, y, most, left, room) {
  left = 400; room = 380
  for (i = 1; i <= rows; i++) if (value[i] > most) most = value[i]
  begin(880, 76 + rows * 24, "Decisions per second of the engine alone, by workload")
  say(20, 30, "t", "The engine alone: pods decided and committed per second, one core")
  mark(left, 43); say(left + 8, 56, "m", "the goal")
  for (i = 1; i <= rows; i++) {
    y = 68 + (i - 1) * 24
    say(20, y + 12, "", short(name[i]))
    bar(left, y, value[i] / most * room, "a")
    if (goal[i] != "") mark(left + goal[i] / most * room, y)
    say(left + value[i] / most * room + 8, y + 12, "m", grouped(value[i]))
  }
  print "</svg>"
}
# What stands before the sizes.
function short(text) { sub(/;.*/, "", text); sub(/, filter and prioritize by names.*/, " that answers at once", text); return text }

# Panels side by side, each with a bar for each contestant.
function panels(label,  p, i, x, y, most, width, rows_of) {
  width = 250
  rows_of = panel_rows[1]
  begin(40 + panel_count * (width + 20), 84 + rows_of * 40, label)
  say(20, 30, "t", label)
  for (p = 1; p <= panel_count; p++) {
    x = 20 + (p - 1) * (width + 20); most = 0
    say(x, 58, "m", panel[p])
    for (i = 1; i <= panel_rows[p]; i++) if (cell[p, i] > most) most = cell[p, i]
    for (i = 1; i <= panel_rows[p]; i++) {
      y = 72 + (i - 1) * 40
      say(x, y + 10, "", who[p, i])
      say(x + width, y + 10, "e m", shown(cell[p, i]))
      bar(x, y + 16, cell[p, i] / most * width, who[p, i] == "Berth" ? "a" : who[p, i] == "kube-scheduler" ? "b" : "c")
    }
  }
  print "</svg>"
}
function add_panel(title, column,  i) {
  panel[++panel_count] = title
  panel_rows[panel_count] = 0
  for (i = 1; i <= found; i++) {
    if (number(table[i, column]) == "") continue
    panel_rows[panel_count]++
    who[panel_count, panel_rows[panel_count]] = table[i, 1]
    cell[panel_count, panel_rows[panel_count]] = number(table[i, column])
  }
}
# A panel for each table of the section Curves: the first row has the sizes, each other row is a line. Both axes are logarithmic, so that all
# numbers of a table must be above 0, and of one unit.
function curves(  p, i, j, x, y, low, high, path, class) {
  width = 250; height = 150
  begin(40 + 3 * (width + 60), 60 + int((curve_count + 2) / 3) * (height + 110), "How costs grow")
  print "<style>polyline.a,polyline.b{fill:none;stroke:#2268a9;stroke-width:2}polyline.b{stroke:#d98a1f}.x{stroke:#9aa1ab;stroke-width:.5}@media(prefers-color-scheme:dark){polyline.a{stroke:#4a8fc7}polyline.b{stroke:#f2a33c}}</style>"
  say(20, 30, "t", "How costs grow; both axes are logarithmic")
  for (p = 1; p <= curve_count; p++) {
    left = 60 + ((p - 1) % 3) * (width + 60); top = 100 + int((p - 1) / 3) * (height + 110)
    low = high = value_at[p, 1, 1]
    for (i = 1; i <= lines_of[p]; i++) for (j = 1; j <= points_of[p]; j++) {
      if (value_at[p, i, j] <= 0) exit 1
      if (value_at[p, i, j] < low) low = value_at[p, i, j]
      if (value_at[p, i, j] > high) high = value_at[p, i, j]
    }
    low = floor(log10(low)); high = -floor(-log10(high)); if (high == low) high++
    for (y = low; y <= high; y++) {
      at = top + height - (y - low) / (high - low) * height
      printf "<path d=\"M%.1f %.1fh%d\" class=\"x\"/>\n", left, at, width
      say(left - 6, at + 4, "e m", shown(10 ^ y))
    }
    for (i = 1; i <= lines_of[p]; i++) {
      class = i == 1 ? "a" : "b"; path = ""
      bar(left, top - 40 + (i - 1) * 17, 8, class)
      say(left + 14, top - 29 + (i - 1) * 17, "", line_name[p, i])
      for (j = 1; j <= points_of[p]; j++) path = path sprintf("%.1f,%.1f ", across(p, j), top + height - (log10(value_at[p, i, j]) - low) / (high - low) * height)
      printf "<polyline points=\"%s\" class=\"%s\"/>\n", path, class
    }
    say(across(p, 1) - 4, top + height + 18, "m", shown(size_at[p, 1]))
    say(across(p, points_of[p]), top + height + 18, "e m", shown(size_at[p, points_of[p]]) " " curve_of[p])
  }
  print "</svg>"
}
function across(p, j) { return left + log10(size_at[p, j] / size_at[p, 1]) / log10(size_at[p, points_of[p]] / size_at[p, 1]) * width }
function log10(n) { return log(n) / log(10) }
# A power of ten counts as itself.
function floor(n,  cut) { n += 1e-9; cut = int(n); return cut > n ? cut - 1 : cut }

# The column of the table with this heading.
function column(heading,  i) { for (i = 1; i <= columns; i++) if (heads[i] == heading) return i; return 0 }

/^#+ / { section = trimmed(substr($0, index($0, " "))); wanted = 0 }
/^\|/ {
  n = split($0, parts, "|")
  if (!in_table) {
    in_table = 1; columns = n - 2
    for (i = 1; i <= columns; i++) heads[i] = trimmed(parts[i + 1])
    is_engine = picture == "engine" && section == "The engine alone" && heads[1] == "workload" && heads[2] == "peer"
    is_curve = picture == "curves" && section == "Curves"
    if (is_curve) { p = ++curve_count; curve_of[p] = heads[1]; points_of[p] = columns - 1; for (i = 2; i <= columns; i++) size_at[p, i - 1] = number(heads[i]) }
    is_found = (picture == "race" && section ~ /^Race, [0-9]+ pods$/) || (picture == "backlog" && section ~ /^Backlog, /) || (picture == "cold-start" && section ~ /^Cold start with /)
    is_found = is_found && heads[1] == "contestant"
    if (is_found) { found = 0; title = section; for (i = 1; i <= columns; i++) kept[i] = heads[i]; kept_columns = columns }
    next
  }
  if (parts[2] ~ /^-+:?$|^ *-+:? *$/) next
  if (is_curve) { i = ++lines_of[curve_count]; line_name[curve_count, i] = trimmed(parts[2]); for (j = 1; j < columns; j++) value_at[curve_count, i, j] = number(parts[j + 2]) }
  if (is_engine && number(parts[5]) != "" && parts[5] ~ /\/s/) { rows++; name[rows] = trimmed(parts[2]); goal[rows] = number(parts[4]); value[rows] = number(parts[5]) }
  if (is_found) { found++; for (i = 1; i <= columns; i++) table[found, i] = trimmed(parts[i + 1]) }
  next
}
{ in_table = 0; is_engine = 0; is_found = 0; is_curve = 0 }
END {
  if (picture == "curves") { if (!curve_count) exit 1; curves(); exit }
  if (picture == "engine") { if (!rows) exit 1; engine(); exit }
  if (!found) exit 1
  columns = kept_columns
  for (i = 1; i <= columns; i++) heads[i] = kept[i]
  if (picture == "cold-start") {
    add_panel("start to first bind, s", column("start to first bind, s")); add_panel("peak RSS, MiB", column("peak RSS, MiB")); add_panel("CPU, s", column("CPU, s"))
  } else {
    add_panel("pods/s", column("pods/s")); add_panel("CPU per pod, ms", column("CPU per pod, ms")); add_panel("peak RSS, MiB", column("peak RSS, MiB"))
  }
  panels(title)
}
