#!/usr/bin/env bash
# Proves that the worlds of tests/simulation catch known bugs: each patch under tests/mutants is applied to a copy of the sources, and
# worlds are run until one breaks a rule. Says after how many. A patch that breaks no rule of worlds names the test beside the code that
# fails with it (`Held by: PACKAGE TEST`), and that is run instead. Before that the worlds run without a patch: none may break a rule.
#
#   hack/mutants.sh [NAME …]
#
# N: worlds at most for each (300). Only the members of the workspace are built for it, without optimisation: a mutant takes a minute or two, and an hour at most.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
copy=${CARGO_TARGET_DIR:-$root/target}/mutants
mkdir -p "$copy/src"

names=("$@")
if [ ${#names[@]} = 0 ]; then
  for patch in tests/mutants/*.patch; do
    names+=("$(basename "$patch" .patch)")
  done
fi

# Files that did not change keep their times, so that little is built anew.
renew() {
  git ls-files --cached --others --exclude-standard | while read -r file; do
    if [ -f "$file" ] && ! cmp -s "$file" "$copy/src/$file"; then
      mkdir -p "$copy/src/$(dirname "$file")"
      cp "$file" "$copy/src/$file"
    fi
  done
}

# Runs tests of the copy.
of_copy() {
  (cd "$copy/src" && CARGO_TARGET_DIR=$copy/target BERTH_WORLD_BRIEF=1 BERTH_WORLDS=${N:-300} timeout 1h cargo test \
    --config profile.dev.opt-level=0 --config 'profile.dev.package."*".opt-level=1' "$@")
}

# What breaks without a patch would seem to be caught with each.
renew
if ! said=$(of_copy --workspace --quiet --test simulation no_world 2>&1); then
  printf 'the sources as they are break a rule, or do not build:\n%s\n' "$(tail -n 20 <<<"$said")"
  exit 1
fi

missed=0
for name in "${names[@]}"; do
  renew
  (cd "$copy/src" && patch --quiet --strip=1 --forward <"$root/tests/mutants/$name.patch")
  # What a patch changes must look newer than what was built of it, and what it changed back as well.
  sed -n 's|^+++ b/||p' "tests/mutants/$name.patch" | (cd "$copy/src" && xargs touch)
  status=0
  held=$(sed -n 's/^Held by: //p' "tests/mutants/$name.patch")
  if [ -n "$held" ]; then
    read -r package test <<<"$held"
    said=$(of_copy --package "$package" --lib -- "$test" 2>&1) || status=$?
    found=$(grep -o '^test .*\.\.\. FAILED' <<<"$said" | sed 's/^test \(.*\) \.\.\. FAILED/by \1/' | head -n 1 || true)
  else
    said=$(of_copy --workspace --quiet --test simulation no_world 2>&1) || status=$?
    found=$(grep -o 'after [0-9]* worlds: .*' <<<"$said" | head -n 1 || true)
  fi
  if [ "$status" = 0 ]; then
    missed=$((missed + 1))
    found='not caught'
  elif [ -z "$found" ]; then
    missed=$((missed + 1))
    found="does not build, or does not run: $(grep -m 1 -E '^error' <<<"$said" || tail -n 1 <<<"$said")"
  fi
  printf '%-36s %s\n' "$name" "${found:0:160}"
done
[ "$missed" = 0 ] || { printf '%d of %d not caught\n' "$missed" "${#names[@]}"; exit 1; }
