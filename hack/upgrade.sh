#!/usr/bin/env bash
# Rolls from the release that another commit makes to that of this tree and back, on a real control plane under load: the old
# release has the binary and the chart of that commit.
#
#   hack/upgrade.sh [COMMIT]
#
# COMMIT: the last commit of the default branch by default. Its binary is built once, in a directory of its own under target/upgrade.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
commit=$(git rev-parse --short=12 --verify "${1:-HEAD}^{commit}")
home=${CARGO_TARGET_DIR:-$PWD/target}/upgrade
tree=$home/$commit

if [ ! -d "$tree" ]; then
  mkdir -p "$tree.new"
  git archive "$commit" | tar --extract --directory "$tree.new"
  mv "$tree.new" "$tree"
fi
(cd "$tree" && CARGO_TARGET_DIR=$home/target cargo build --locked --bin berth)

echo "from $commit to this tree and back"
BERTH_OLD_BINARY=$home/target/debug/berth BERTH_OLD_CHART=$tree/charts/berth \
  cargo test --workspace --locked --test e2e -- --nocapture --test-threads=1 an_upgrade
