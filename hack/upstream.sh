#!/usr/bin/env bash
# Builds the real control plane (etcd, Kubernetes, kwok, helm) from its Go modules, once, into a cache outside the tree.
#
#   hack/upstream.sh                   build what is missing, our own Go tools, promtool and Prometheus included; one line on stderr per part
#   hack/upstream.sh --demo            build what the demo needs: neither kube-scheduler nor what tests alone run
#   hack/upstream.sh --print-bin       print the directory of the binaries (built or not) and do nothing else
#   hack/upstream.sh --null-scheduler  build the parts and the benchmarks' null scheduler; print the latter's path
#   hack/upstream.sh --oracle          build the parts and the conformance oracle; print the latter's path
#   hack/upstream.sh --extender        build the demo's parts and the scheduler extender; print the latter's path
#   hack/upstream.sh --promtool        build the parts and Prometheus' promtool; print the latter's path
#   hack/upstream.sh --prometheus      build the parts and Prometheus itself; print the latter's path
#   hack/upstream.sh --health          build the demo's parts and the tool that judges health; print the latter's path
#   hack/upstream.sh --crane           build the tool that makes and checks image layouts, and none of the parts; print its path
#   hack/upstream.sh --krew            build kubectl's plugin manager, and none of the parts; print its path
#   hack/upstream.sh --fields          build the tool that tells how published types are encoded, and none of the parts; print its path
#   hack/upstream.sh --devices         build the tool that answers for upstream's selectors and allocator, and none of the parts; print its path
#   hack/upstream.sh --plugin          build the tool that answers for upstream's DynamicResources, and none of the parts; print its path
#
# BERTH_KUBERNETES=1.35 takes Kubernetes from the pins of that minor (tests/upstream/kubernetes-1.35); all other parts are the same.
#
# The cache is ${BERTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/berth}/upstream/<hash of the pins and flags>/. Calls may run side by side.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
fail() { say "upstream: $*"; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pins=$here/tests/upstream
cache=${BERTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/berth}/upstream

# The version that a family's go.mod pins for a module.
pinned() { awk -v module="$2" '{sub(/^require /, "")} $1 == module {print $2; exit}' "$pins/$1/go.mod"; }

# The folder of the pins of Kubernetes: that of the minor which was asked for, or the one that everything is measured against.
other=${BERTH_KUBERNETES:-}
kubernetes_pins=kubernetes${other:+-$other}
if [ ! -f "$pins/$kubernetes_pins/go.mod" ]; then
  known=$(cd "$pins" && printf '%s\n' kubernetes-* | cut -d- -f2 | paste -sd ' ')
  fail "BERTH_KUBERNETES=$other: tests/upstream has no pins of that minor; leave it unset, or choose one of: $known"
fi
kubernetes=$(pinned "$kubernetes_pins" k8s.io/kubernetes)
etcd=$(pinned etcd go.etcd.io/etcd/server/v3)
kwok=$(pinned kwok sigs.k8s.io/kwok)
helm=$(pinned helm helm.sh/helm/v4)

# Without these a server calls itself v0.0.0, and charts with a kubeVersion refuse it.
stamp=k8s.io/component-base/version
minor=${kubernetes#v*.}
kube_ldflags="-s -w -X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"

# family|package|binary|version|ldflags, in the order in which a first user needs them; the demo goes without the last.
parts=(
  "etcd|go.etcd.io/etcd/server/v3|etcd|$etcd|-s -w"
  "$kubernetes_pins|k8s.io/kubernetes/cmd/kube-apiserver|kube-apiserver|$kubernetes|$kube_ldflags"
  "$kubernetes_pins|k8s.io/kubernetes/cmd/kubectl|kubectl|$kubernetes|$kube_ldflags"
  "$kubernetes_pins|k8s.io/kubernetes/cmd/kube-controller-manager|kube-controller-manager|$kubernetes|$kube_ldflags"
  "kwok|sigs.k8s.io/kwok/cmd/kwok|kwok|$kwok|-s -w"
  "helm|helm.sh/helm/v4/cmd/helm|helm|$helm|-s -w -X helm.sh/helm/v4/internal/version.version=$helm"
  "$kubernetes_pins|k8s.io/kubernetes/cmd/kube-scheduler|kube-scheduler|$kubernetes|$kube_ldflags"
)
# kwok does nothing without stages; these ship in its module.
stages=(
  kustomize/stage/node/fast/node-initialize.yaml
  kustomize/stage/pod/fast/pod-ready.yaml
  kustomize/stage/pod/fast/pod-complete.yaml
  kustomize/stage/pod/fast/pod-delete.yaml
)

hash=$({
  uname -sm
  printf '%s\n' "${parts[@]}" "${stages[@]}"
  for family in etcd helm "$kubernetes_pins" kwok; do cat "$pins/$family/go.mod" "$pins/$family/go.sum"; done
} | sha256sum | cut -c1-16)
home=$cache/$hash
bin=$home/bin

# These are our own source, or run by tests alone: each has a hash of its own, so that a change to it rebuilds nothing else.
own_hash() { (cd "$pins/$1" && shopt -s nullglob && cat go.mod go.sum ./*.go) | sha256sum | cut -c1-16; }
null_scheduler=$bin/null-scheduler-$(own_hash nullscheduler)
oracle=$bin/oracle-$(own_hash oracle)
extender=$bin/extender-$(own_hash extender)
promtool=$bin/promtool-$(own_hash prometheus)
prometheus=$bin/prometheus-$(own_hash prometheus)
health=$bin/health-$(own_hash health)
crane=$bin/crane-$(own_hash crane)
krew=$bin/krew-$(own_hash krew)
fields=$bin/fields-$(own_hash fields)
devices=$bin/devices-$(own_hash devices)
plugin=$bin/plugin-$(own_hash plugin)

# Our own tools are the same for every minor, and so is what is not Kubernetes.
ordinary() { env -u BERTH_KUBERNETES "$here/hack/upstream.sh" "$@"; }
case $other/${1:-} in
  /* | */ | */--print-bin | */--demo) ;;
  *)
    ordinary "$@"
    exit
    ;;
esac

# What a caller asks for is printed; what it does not ask for is built only if that is part of an ordinary call.
want=
needed=${#parts[@]}
case ${1:-} in
  --print-bin) printf '%s\n' "$bin"; exit 0 ;;
  --demo) needed=$((needed - 1)) ;;
  --null-scheduler) want=$null_scheduler ;;
  --oracle) want=$oracle ;;
  --extender) want=$extender needed=$((needed - 1)) ;;
  --promtool) want=$promtool ;;
  --prometheus) want=$prometheus ;;
  --health) want=$health needed=$((needed - 1)) ;;
  --crane) want=$crane needed=0 ;;
  --krew) want=$krew needed=0 ;;
  --fields) want=$fields needed=0 ;;
  --devices) want=$devices needed=0 ;;
  --plugin) want=$plugin needed=0 ;;
  '') ;;
  *) fail "unknown argument '$1'; usage: hack/upstream.sh [--demo | --print-bin | --null-scheduler | --oracle | --extender | --promtool | --prometheus | --health | --crane | --krew | --fields | --devices | --plugin]" ;;
esac

# What of our own is to be built.
demo=
if [ "$needed" -lt "${#parts[@]}" ]; then demo=1; fi
if [ -n "$other" ]; then own=(); elif [ -n "$want" ]; then own=("$want"); elif [ -n "$demo" ]; then own=("$extender"); else own=("$oracle" "$extender" "$health" "$promtool" "$prometheus" "$crane" "$krew" "$fields" "$devices" "$plugin"); fi
parts=("${parts[@]:0:needed}")
complete=$home/complete${demo:+-demo}

parts_are_ready() { [ "$needed" = 0 ] || [ -e "$complete" ] || [ -e "$home/complete" ]; }

# Ends the script if nothing is left to build.
exit_if_ready() {
  local one
  parts_are_ready || return 0
  for one in "${own[@]}"; do [ -x "$one" ] || return 0; done
  if [ -z "$want" ]; then
    say "upstream: Kubernetes $kubernetes, etcd $etcd, kwok $kwok, helm $helm are in $bin"
    exit 0
  fi
  printf '%s\n' "$want"
  exit 0
}
exit_if_ready

command -v go >/dev/null || fail "go is missing; install Go 1.26 or newer from https://go.dev/dl"
command -v flock >/dev/null || fail "flock is missing; install util-linux"
[ -z "$other" ] || ordinary
mkdir -p "$bin"
exec 9>"$home/lock"
if ! flock --nonblock 9; then
  say "upstream: another build is under way, waiting for it"
  flock 9
fi
exit_if_ready

scratch=$(mktemp -d "$home/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# Go in a family's module, with nothing of the caller's workspace or flags; fd 9 (the lock) must not outlive this script.
go_in() {
  local family=$1
  shift
  (cd "$pins/$family" && GOWORK=off GOFLAGS='-mod=readonly -buildvcs=false' CGO_ENABLED=0 go "$@" 9>&-)
}

build() {
  local number=$1 family package name version ldflags tags began=$SECONDS
  IFS='|' read -r family package name version ldflags tags <<<"$2"
  [ -x "$bin/$name" ] && return
  printf '[%s] %s %s … ' "$number" "$name" "$version" >&2
  if ! go_in "$family" build -trimpath -tags "$tags" -ldflags "$ldflags" -o "$scratch/$name" "$package" >"$scratch/log" 2>&1; then
    say "failed after $((SECONDS - began)) s:"
    tail -n 30 "$scratch/log" >&2
    exit 1
  fi
  mv "$scratch/$name" "$bin/$name"
  say "built in $((SECONDS - began)) s"
}

build_parts() {
  local i source stage
  if [ -n "$other" ]; then
    source=$(ordinary --print-bin)
    ln -f "$source/etcd" "$source/kwok" "$source/helm" "$bin"
  fi
  say "upstream: building ${#parts[@]} parts into $bin (about eight minutes on two cores, once)"
  for i in "${!parts[@]}"; do build "$((i + 1))/${#parts[@]}" "${parts[i]}"; done
  source=$(go_in kwok list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
  for stage in "${stages[@]}"; do
    printf -- '---\n'
    cat "$source/$stage"
  done >"$scratch/stages"
  mv "$scratch/stages" "$home/kwok-stages.yaml"
  touch "$complete"
  say "upstream: all parts built in $SECONDS s"
}

parts_are_ready || build_parts
for i in "${!own[@]}"; do
  case ${own[i]} in
    "$null_scheduler") part="nullscheduler|.|${null_scheduler##*/}|$(pinned nullscheduler k8s.io/client-go)|-s -w" ;;
    "$oracle") part="oracle|.|${oracle##*/}|$(pinned oracle k8s.io/kubernetes)|$kube_ldflags" ;;
    "$extender") part="extender|.|${extender##*/}|$(pinned extender k8s.io/kube-scheduler)|-s -w" ;;
    # Without the discovery of targets in some twenty clouds, and without pages: the module has none, unless builtinassets is asked for.
    "$promtool" | "$prometheus")
      module=github.com/prometheus/prometheus name=${own[i]##*/}
      part="prometheus|$module/cmd/${name%-*}|$name|$(pinned prometheus $module)|-s -w|remove_all_sd"
      ;;
    "$crane") part="crane|.|${crane##*/}|$(pinned crane github.com/google/go-containerregistry)|-s -w" ;;
    "$krew") part="krew|sigs.k8s.io/krew/cmd/krew|${krew##*/}|$(pinned krew sigs.k8s.io/krew)|-s -w" ;;
    "$devices") part="devices|.|${devices##*/}|$(pinned devices k8s.io/dynamic-resource-allocation)|-s -w" ;;
    "$plugin") part="plugin|.|${plugin##*/}|$(pinned plugin k8s.io/kubernetes)|$kube_ldflags" ;;
    "$fields") part="fields|.|${fields##*/}|$(pinned fields k8s.io/api)|-s -w" ;;
    "$health") part="health|.|${health##*/}|$(pinned health github.com/fluxcd/cli-utils)|-s -w" ;;
  esac
  build "$((i + 1))/${#own[@]}" "$part"
done
[ -z "$want" ] || printf '%s\n' "$want"
