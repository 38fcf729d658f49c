#!/usr/bin/env bash
# Prints the tmux in which tests run `berth top`, or says how to get one.
#
#   hack/tmux.sh             BERTH_TMUX, or the one that is installed
#   hack/tmux.sh --install   the same, once it is installed where apt-get and its rights are there
set -euo pipefail

find_one() { command -v "${BERTH_TMUX:-tmux}"; }
find_one && exit
if [ "${1:-}" = --install ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends tmux; } >&2
  find_one && exit
fi
echo >&2 'no tmux: install it with the system'"'"'s packages (apt-get install tmux), or name one: BERTH_TMUX=/path/to/tmux'
exit 1
