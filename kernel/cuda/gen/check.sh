#!/usr/bin/env bash
# Regenerates the PTX and compares, compiles every kernel for every architecture, and fails on spills.
# Installs NVRTC 11.8 from Debian's section non-free where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! ldconfig -p | grep -q 'libnvrtc\.so\.11\.2'; then
  for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -f "$list" ] || continue
    # "Components: main" of the newer form, "deb URI suite main" of the older one.
    grep -qw 'non-free' "$list" || sed -Ei '/^Components:/s/$/ non-free/; /^deb /s/$/ non-free/' "$list"
  done
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends libnvrtc11.2 libnvrtc-builtins11.8 >/dev/null
fi

rm -f ptx/*.ptx
touch ptx/none.ptx # go:embed wants a file
go generate .
rm ptx/none.ptx
git diff --exit-code -- ptx
test -z "$(git status --porcelain -- ptx)"
go run ./gen -check
