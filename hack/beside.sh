#!/usr/bin/env bash
# Builds upstream's parts and runs a command side by side: one waits for the network and links while the other compiles.
#
#   hack/beside.sh [--demo] -- COMMAND …
#
# Fails if either does.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
options=()
while [ "${1:---}" != -- ]; do
  options+=("$1")
  shift
done
shift
"$here/upstream.sh" "${options[@]}" &
upstream=$!
trap 'kill "$upstream" 2>/dev/null || true' EXIT
"$@"
wait "$upstream"
trap - EXIT
