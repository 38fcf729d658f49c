#!/usr/bin/env bash
# Runs a command and, after its output, says how long it took, which test binaries took longest, and, in the last line, whether there
# were fewer worlds than usual.
#
#   hack/timed.sh cargo test …
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

# cargo prints "Running PATH (target/…)" before a test binary and "test result: … finished in 1.23s" after it.
slow=$(awk '
  $1 == "Running" { name = ($2 == "unittests") ? $3 " (" $2 ")" : $2 }
  $1 == "Doc-tests" { name = "doc-tests of " $2 }
  /^test result:/ && match($0, /finished in [0-9.]+s/) {
    seconds = substr($0, RSTART + 12, RLENGTH - 13)
    if (seconds >= 1) printf "%9.1f s  %s\n", seconds, name
  }' "$log" | sort -rn | head -n 10)
printf '\n%s: exit %d after %d s\n' "$1 ${2:-}" "$status" "$SECONDS"
[ -z "$slow" ] || printf 'what took longest:\n%s\n' "$slow"
# tests/simulation/runner.rs says it.
grep '^WORLDS: ' "$log"
exit "$status"
