#!/usr/bin/env bash
# Parts a binary from its debug symbols.
#
#   hack/symbols.sh BUILT FOLDER      makes FOLDER/berth and FOLDER/berth.debug
#
# The binary names the file of its symbols: beside it, debuggers and its own backtraces find them. The same input gives the same bytes.
set -euo pipefail

fail() { printf 'symbols: %s\n' "$*" >&2; exit 1; }
command -v objcopy > /dev/null || fail "objcopy is missing: install binutils"
built=$(realpath "$1")
readelf --sections --wide "$built" | grep '[.]symtab' > /dev/null || fail "$1 has no symbols: give the binary as it was built"
mkdir -p "$2"
cd "$2"
objcopy --only-keep-debug "$built" berth.debug
chmod 644 berth.debug
objcopy --strip-all --add-gnu-debuglink=berth.debug "$built" berth
