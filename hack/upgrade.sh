#!/usr/bin/env bash
# Rolls from the release that another commit makes to that of this tree and back, on a real control plane under load: the old
# release has the binary and the chart of that commit.
#
#   hack/upgrade.sh COMMIT
#
# The sources of each commit get a directory under target/upgrade; they share what is built, so that the last one has the binary.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# = 0 ]; then
  echo "say which commit the old release is: make upgrade FROM=<commit>" >&2
  exit 2
fi
commit=$(git rev-parse --short=12 --verify "$1^{commit}")
home=$(realpath -m "${CARGO_TARGET_DIR:-target}")/upgrade
tree=$home/$commit

if git diff --quiet "$commit" -- src crates charts Cargo.lock; then
  echo "$commit has the sources and the chart of this tree: there is nothing to upgrade" >&2
  exit 2
fi
if [ ! -d "$tree" ]; then
  mkdir -p "$tree.new"
  git archive "$commit" | tar --extract --directory "$tree.new"
  mv "$tree.new" "$tree"
fi
(cd "$tree" && CARGO_TARGET_DIR=$home/target cargo build --locked --bin berth)

echo "from $commit to this tree and back"
BERTH_OLD_BINARY=$home/target/debug/berth BERTH_OLD_CHART=$tree/charts/berth \
  cargo test --workspace --locked --test e2e -- --nocapture --test-threads=1 an_upgrade
