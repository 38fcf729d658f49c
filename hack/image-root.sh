#!/usr/bin/env bash
# Makes the root file system of the image: the binary, the libraries that it loads, certificate authorities, a user. No shell.
#
#   hack/image-root.sh ROOT BINARY                       prints a line for each Debian package: name version architecture sha256
#   BERTH_IMAGE_PACKAGES=kept hack/image-root.sh …       packages as they were downloaded last, for tests
#
# The packages are those of the Debian (or Ubuntu) that this runs on, as its own lists of sources say, so that the C library is never
# older than the one which the binary was linked with. apt-get checks them and keeps them in ${BERTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/berth}/debian;
# nothing is installed, no script of a package runs, and root is not needed.
set -euo pipefail
# The order of names.
export LC_ALL=C
umask 022

fail() { printf 'image: %s\n' "$*" >&2; exit 1; }
for tool in apt-get dpkg-deb flock readelf; do
  command -v "$tool" > /dev/null || fail "$tool is missing: use Debian or Ubuntu with binutils and util-linux, or build the Dockerfile"
done
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
binary=$(realpath "$2")
mkdir -p "$1"
root=$(cd "$1" && pwd)
[ -z "$(ls -A "$root")" ] || fail "$root is not empty"

cache=$(. /etc/os-release && printf %s "${BERTH_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/berth}/debian/$ID-$VERSION_ID")
mkdir -p "$cache"/{state,apt,packages}
cache=$(cd "$cache" && pwd)
exec 9> "$cache/lock"
flock 9

# Only the system's own archive: others have nothing to do with the image, and may be out of reach.
for sources in /etc/apt/sources.list.d/{debian,ubuntu}.sources /etc/apt/sources.list; do
  if [ -e "$sources" ]; then break; fi
done
# Lists, cache and state of our own. As root, apt-get would download as a user that may not write there.
apt=(-qq -o Dir::Etc::sourcelist="$sources" -o Dir::Etc::sourceparts=- -o Dir::State="$cache/state" -o Dir::State::status=/dev/null
  -o Dir::Cache="$cache/apt" -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Update::Error-Mode=any)
update() { apt-get "${apt[@]}" update >&2 9>&- && touch "$cache/updated"; }

packages=(base-files ca-certificates libc6 libgcc-s1)
# Into the folder of packages; what is there with the right checksum is not downloaded again. The one with the terms of libgcc has
# its version in its name.
download() {
  local terms
  terms=$(apt-cache "${apt[@]}" --no-all-versions show libgcc-s1 | awk 'match($0, /^Depends:.*gcc-[0-9]+-base/) {sub(/.*gcc-/, "gcc-"); sub(/-base.*/, "-base"); print}') || return
  (cd "$cache/packages" && apt-get "${apt[@]}" download "${packages[@]}" "$terms" >&2 9>&-) || return
  files=$(apt-get "${apt[@]}" download --print-uris "${packages[@]}" "$terms" | cut -d ' ' -f 2 | sort)
}
if [ "${BERTH_IMAGE_PACKAGES:-}" = kept ] && [ -e "$cache/updated" ] && download; then
  :
else
  update || fail "apt-get update failed, with the sources of $sources"
  download || fail "apt-get download failed, with the sources of $sources"
fi
for file in "$cache"/packages/*.deb; do
  grep -qxF "${file##*/}" <<< "$files" || rm "$file"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# As in every newer Debian; older packages name folders that are links here.
mkdir -p "$work"/usr/{bin,lib,lib64,sbin} "$root"/usr/{lib,lib64} "$root"/etc/ssl/certs "$root"/var/lib/dpkg/status.d
ln -s usr/{bin,lib,lib64,sbin} "$work"
ln -s usr/{lib,lib64} "$root"
for file in $files; do
  file=$cache/packages/$file
  dpkg-deb --fsys-tarfile "$file" | tar -x --keep-directory-symlink --no-same-owner -C "$work"
  name=$(dpkg-deb --field "$file" Package)
  # Where scanners of images without dpkg look.
  dpkg-deb --field "$file" > "$root/var/lib/dpkg/status.d/$name"
  printf '%s %s %s\n' "$name" "$(dpkg-deb --show --showformat '${Version} ${Architecture}' "$file")" "$(sha256sum "$file" | cut -d ' ' -f 1)"
done

keep() { (cd "$work" && cp -a --parents -- "$@" "$root"); }
# A library, and what it loads itself.
keep_library() {
  local found
  found=$(cd "$work" && find usr/lib usr/lib64 -name "$1" -not -type d | sort)
  [ -n "$found" ] || fail "$2 needs $1, which is in none of the packages"
  for found in $found; do
    [ ! -e "$root/$found" ] || continue
    keep "$found"
    keep_libraries "$work/$found"
  done
}
keep_libraries() {
  local name
  for name in $(readelf --dynamic --wide "$1" | awk -F '[][]' '/\(NEEDED\)/ {print $2}'); do keep_library "$name" "$1"; done
}
keep_libraries "$binary"
keep etc/os-release etc/debian_version usr/lib/os-release usr/share/common-licenses
for terms in "$work"/usr/share/doc/*; do
  # A package may have another one's.
  if [ -h "$terms" ]; then keep "usr/share/doc/${terms##*/}"; else keep "usr/share/doc/${terms##*/}/copyright"; fi
done
# What the package's own script makes of its certificates.
awk 1 "$work"/usr/share/ca-certificates/mozilla/*.crt > "$root/etc/ssl/certs/ca-certificates.crt"

printf '%s\n' root:x:0:0:root:/:/nonexistent nonroot:x:65532:65532:nonroot:/nonexistent:/nonexistent > "$root/etc/passwd"
printf '%s\n' root:x:0: nonroot:x:65532: > "$root/etc/group"
# A pod's own /etc/hosts counts before its name servers.
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
cp "$here/LICENSE" "$root/LICENSE"
cp "$binary" "$root/berth"
chmod -R u=rwX,go=rX "$root"
