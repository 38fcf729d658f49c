#!/usr/bin/env bash
# Prints the Chromium that `make test-ui` drives, or says how to get one.
#
#   hack/chromium.sh             BERTH_CHROMIUM, or the first that is installed
#   hack/chromium.sh --install   the same, once one is installed where apt-get and its rights are there
set -euo pipefail

find_one() {
  local name
  for name in ${BERTH_CHROMIUM:+"$BERTH_CHROMIUM"} chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" && return
  done
  return 1
}
find_one && exit
if [ "${1:-}" = --install ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  {
    apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium fonts-noto-core
  } >&2
  find_one && exit
fi
cat >&2 <<'TEXT'
no Chromium: install it with the system's packages (apt-get install chromium, dnf install chromium, apk add chromium, brew
install --cask chromium), or name one: BERTH_CHROMIUM=/path/to/chrome make test-ui
TEXT
exit 1
