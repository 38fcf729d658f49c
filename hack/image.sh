#!/usr/bin/env bash
# Makes the image without a daemon: the binary of a release on the C library and the certificate authorities of Debian.
#
#   hack/image.sh                          into dist/image: oci (an OCI image layout), berth.debug (symbols), berth.cdx.json (bill of materials)
#   hack/image.sh BINARY                   of a binary with its symbols that is there already
#   BERTH_IMAGE_DIR=PATH hack/image.sh     into PATH
#   BERTH_IMAGE_QUICK=1 hack/image.sh      packages as they were downloaded last, compressed a little: for a test of this script
#   BERTH_DIST_HOMEPAGE=https://… …        the project's page, for the labels
#
# The same binary and packages give the same digest: times are those of the last commit, or SOURCE_DATE_EPOCH.
set -euo pipefail
# The order of names in layers.
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { printf 'image: %s\n' "$*" >&2; exit 1; }
out=${BERTH_IMAGE_DIR:-dist/image}
homepage=${BERTH_DIST_HOMEPAGE:-https://github.com/OWNER/berth}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
level=9
if [ -n "${BERTH_IMAGE_QUICK:-}" ]; then level=1; fi
case $(uname -sm) in
  "Linux x86_64") arch=amd64 ;;
  "Linux aarch64") arch=arm64 ;;
  *) fail "no image is made for $(uname -sm)" ;;
esac

built=${1:-}
if [ -z "$built" ]; then
  cargo build --profile dist --locked --bin berth
  built=${CARGO_TARGET_DIR:-target}/dist/berth
fi
crane=$(hack/upstream.sh --crane)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
hack/symbols.sh "$built" "$work/binary"
version=$("$work/binary/berth" version | cut -d ' ' -f 2)
hack/image-root.sh "$work/root" "$work/binary/berth" > "$work/packages"

# Two layers, so that a new version on the same packages is all that a node has to pull.
layer() {
  local name=$1 mtime=$2
  shift 2
  tar -C "$work/root" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$mtime" -cf "$work/$name.tar" -- "$@"
}
(cd "$work/root" && ls -A) | grep -vx -e berth -e LICENSE > "$work/base"
mapfile -t base < "$work/base"
layer base 0 "${base[@]}"
layer berth "$epoch" LICENSE berth

rm -rf "$out/oci"
mkdir -p "$out"
created=$(date -u -d "@$epoch" +%FT%TZ)
label=org.opencontainers.image
digest=$("$crane" pack -level "$level" "$out/oci" "$work/base.tar" "$work/berth.tar" << JSON
{
  "created": "$created", "os": "linux", "architecture": "$arch",
  "config": {
    "User": "65532:65532", "Entrypoint": ["/berth"], "Cmd": ["operator"], "WorkingDir": "/",
    "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
    "Labels": {
      "$label.title": "berth", "$label.description": "A Kubernetes operator that runs one scheduler worker per SchedulerProfile",
      "$label.version": "$version", "$label.revision": "$(git rev-parse HEAD 2>/dev/null || true)", "$label.created": "$created",
      "$label.url": "$homepage", "$label.source": "$homepage", "$label.licenses": "Apache-2.0"
    }
  }
}
JSON
)
find "$out/oci" -type f -exec chmod 644 {} +
mv "$work/binary/berth.debug" "$out/berth.debug"
distro=$(. "$work/root/etc/os-release" && printf %s "$ID-$VERSION_ID")
hack/sbom.sh "$epoch" "$digest" "$distro" "$work/packages" > "$out/berth.cdx.json"
printf '%s\n' "$digest"
