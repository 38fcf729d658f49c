#!/usr/bin/env bash
# Packages a release: binary, debug symbols, completions, man pages, chart, bill of materials, krew manifest, checksums.
#
#   hack/dist.sh                                 into dist/
#   BERTH_DIST_HOMEPAGE=https://… hack/dist.sh   the project's page, for the krew manifest
#   BERTH_DIST_URL=https://… hack/dist.sh        the folder of the release's files, if it is not where GitHub has it
#   BERTH_DIST_PROFILE=dev hack/dist.sh          the debug binary as it was built last, for a test of this script
#   BERTH_DIST_DIR=PATH hack/dist.sh             into PATH
#
# Times in archives are those of the last commit, or SOURCE_DATE_EPOCH.
set -euo pipefail
# The order of names in archives.
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=${BERTH_DIST_PROFILE:-dist}
out=${BERTH_DIST_DIR:-dist}
homepage=${BERTH_DIST_HOMEPAGE:-https://github.com/OWNER/berth}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

fail() { printf 'dist: %s\n' "$*" >&2; exit 1; }
for tool in tar gzip sha256sum; do
  command -v "$tool" >/dev/null || fail "$tool is missing: install tar, gzip and coreutils"
done
helm=$(hack/upstream.sh --print-bin)/helm
[ -x "$helm" ] || fail "helm is missing: run make upstream"

if [ "$profile" = dev ]; then
  built=${CARGO_TARGET_DIR:-target}/debug/berth effort=-1
  [ -x "$built" ] || fail "$built is missing: run cargo build"
else
  cargo build --profile "$profile" --locked --bin berth
  built=${CARGO_TARGET_DIR:-target}/$profile/berth effort=-9
fi
built=$(realpath "$built")

version=$("$built" version | cut -d ' ' -f 2)
chart=$(awk '/^version: / {print $2}' charts/berth/Chart.yaml)
grep -qxF "appVersion: \"$version\"" charts/berth/Chart.yaml || fail "charts/berth/Chart.yaml: appVersion is not $version"
case $(uname -sm) in
  "Linux x86_64") arch=amd64 ;;
  "Linux aarch64") arch=arm64 ;;
  *) fail "no release is made for $(uname -sm)" ;;
esac
name=berth_${version}_linux_$arch

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/package/completion" "$work/package/man" "$work/debug" "$out"
files=()

# An archive of what a folder has, the same bytes for the same contents.
pack() {
  (cd "$1" && tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$epoch" -cf - -- *) |
    gzip -n "$effort" > "$out/$2"
  files+=("$2")
}

hack/symbols.sh "$built" "$work/debug"
mv "$work/debug/berth" "$work/package/berth"
cp LICENSE "$work/package"
# Where each shell looks for a name such as this one.
for script in bash:berth.bash zsh:_berth fish:berth.fish; do
  "$work/package/berth" completion "${script%%:*}" > "$work/package/completion/${script#*:}"
done
"$work/package/berth" man "$work/package/man"
pack "$work/package" "$name.tar.gz"
pack "$work/debug" "${name}_debug.tar.gz"

"$helm" package charts/berth --destination "$out" > /dev/null
files+=("berth-$chart.tgz")

hack/sbom.sh "$epoch" > "$out/$name.cdx.json"
files+=("$name.cdx.json")

sum=$(sha256sum "$out/$name.tar.gz" | cut -d ' ' -f 1)
url=${BERTH_DIST_URL:-$homepage/releases/download/v$version}
sed -e '/^#/d' -e "s|@VERSION@|$version|; s|@HOMEPAGE@|$homepage|; s|@ARCH@|$arch|; s|@URI@|$url/$name.tar.gz|; s|@SHA256@|$sum|" \
  contrib/krew/berth.yaml > "$out/berth.yaml"
files+=(berth.yaml)

(cd "$out" && sha256sum -- "${files[@]}" > SHA256SUMS && ls -l -- "${files[@]}" SHA256SUMS)
