#!/usr/bin/env bash
# Draws the tables of docs/benchmarks.md as SVG into FOLDER (docs/pictures). A test fails where they do not follow the tables.
#
#   hack/pictures.sh [FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${1:-docs/pictures}
mkdir -p "$folder"
for picture in engine curves race backlog cold-start; do
  # One locale: a comma for a point would be another picture.
  LC_ALL=C awk -v picture="$picture" -f hack/pictures.awk docs/benchmarks.md > "$folder/$picture.svg" || {
    echo "hack/pictures.sh: docs/benchmarks.md has no table for $picture, or one that cannot be drawn: was its heading renamed?" >&2
    exit 1
  }
done
