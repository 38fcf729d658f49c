# Rows of the table in the chart's README, from values.yaml: a value with its default and the comment above it. A comment belongs to
# the line below it; a blank line parts it from one that belongs to a whole group. Levels are indented by two spaces.
/^ *#/ { sub(/^ *# */, ""); note = note (note == "" ? "" : " ") $0; next }
/^ *$/ { note = ""; next }
{
  level = (match($0, /[^ ]/) - 1) / 2
  key = substr($0, 2 * level + 1)
  value = key
  sub(/:.*/, "", key)
  sub(/^[^:]*: */, "", value)
  sub(/^[^:]*:$/, "", value)
  path[level] = level ? path[level - 1] "." key : key
  if (value != "") printf "| `%s` | `%s` | %s |\n", path[level], value, note
  note = ""
}
