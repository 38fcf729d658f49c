#!/usr/bin/env bash
# Prints the bill of materials of the binary, or of an image with it (hack/sbom.awk).
#
#   hack/sbom.sh SECONDS                              with the time that it says, since 1970
#   hack/sbom.sh SECONDS DIGEST DISTRO PACKAGES       of the image with this manifest, and with what hack/image-root.sh printed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tree=$(mktemp)
trap 'rm -f "$tree"' EXIT
# What ran in the compiler alone is not linked: derive macros, build scripts.
target=$(rustc -vV | awk '$1 == "host:" {print $2}')
cargo tree --locked --package berth --edges normal,no-proc-macro --target "$target" --prefix depth --format '|{p}|{l}|' > "$tree"
awk -v when="$(date -u -d "@$1" +%FT%TZ)" -v image="${2:-}" -v distro="${3:-}" -f hack/sbom.awk Cargo.lock "$tree" ${4:+"$4"}
