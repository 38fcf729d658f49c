#!/usr/bin/env bash
# Writes what follows from the chart: the table of values in its README, and config/, its default render for kustomize.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

helm=$(hack/upstream.sh --print-bin)/helm
readme=charts/berth/README.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -f hack/values.awk charts/berth/values.yaml > "$work/rows"
awk -v rows="$work/rows" '
  /^\| `/ { next }
  { print }
  /^\|---/ { while ((getline row < rows) > 0) print row }
' "$readme" > "$work/readme"
cat "$work/readme" > "$readme"

"$helm" template berth charts/berth --namespace berth-system --skip-tests --output-dir "$work" > /dev/null
rm -f config/*.yaml
mkdir -p config
for file in "$work"/berth/templates/*.yaml; do
  # kustomize puts these objects into the cluster, not Helm: no label says otherwise.
  grep -vE '^# Source: |^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): ' "$file" | sed '1{/^---$/d}' > "config/${file##*/}"
done
{
  printf '# Written by `make chart` from charts/berth: change the chart, or patch this in a kustomization of your own.\n'
  printf 'apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n'
  for file in config/*.yaml; do printf '  - %s\n' "${file##*/}"; done
} > "$work/kustomization"
cat "$work/kustomization" > config/kustomization.yaml
