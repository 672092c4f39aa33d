#!/usr/bin/env bash
# Regenerates the PTX and fails if it differs. Compiles every kernel for every architecture and fails if
# one spills. Installs NVRTC 11.8 from Debian's non-free section if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! ldconfig -p | grep -q 'libnvrtc\.so\.11\.2'; then
  for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -f "$list" ] || continue
    # The newer form has "Components: main", the older one "deb URI suite main".
    grep -qw 'non-free' "$list" || sed -Ei '/^Components:/s/$/ non-free/; /^deb /s/$/ non-free/' "$list"
  done
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends libnvrtc11.2 libnvrtc-builtins11.8 >/dev/null
fi

go generate . # also removes PTX without a source
git diff --exit-code -- ptx
test -z "$(git status --porcelain -- ptx)"
go run ./gen -check
