#!/usr/bin/env bash
# Names every prerequisite that is missing and how to get it; silent when all are there.
set -euo pipefail

missing=0
need() {
  command -v "$1" >/dev/null && return
  printf 'missing: %-8s %s\n' "$1" "$2" >&2
  missing=1
}
need cargo "install Rust with rustup: https://rustup.rs (the toolchain in rust-toolchain.toml follows by itself)"
need go "install Go 1.26 or newer: https://go.dev/dl (builds the real control plane)"
need make "install make with the system's packages, e.g. apt-get install make"
need openssl "install openssl with the system's packages, e.g. apt-get install openssl"
need flock "install util-linux with the system's packages, e.g. apt-get install util-linux"
need taskset "install util-linux with the system's packages, e.g. apt-get install util-linux"
exit "$missing"
