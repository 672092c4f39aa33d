#!/usr/bin/env bash
# Regenerates the PTX and fails if it differs. Compiles every kernel for every architecture and fails if
# one spills. If NVRTC 11.8 is missing, root on Debian installs it from the section non-free, which the
# script adds to the sources of apt. Elsewhere, the check is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

# With grep -q, ldconfig could fail because grep ends first.
if ! ldconfig -p | grep 'libnvrtc\.so\.11\.2' >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "NVRTC 11.8 is missing: the check of the PTX is skipped"
    exit
  fi
  for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -f "$list" ] || continue
    # The newer form has "Components: main", the older one "deb URI suite main".
    grep -Eq '(^|[[:space:]])non-free([[:space:]]|$)' "$list" || sed -Ei '/^Components:/s/$/ non-free/; /^deb /s/$/ non-free/' "$list"
  done
  apt-get update -qq
  apt-get install -qq -y --no-install-recommends libnvrtc11.2 libnvrtc-builtins11.8 >/dev/null
fi

go generate . # also removes PTX without a source
git diff --exit-code -- ptx
test -z "$(git status --porcelain -- ptx)"
go run ./gen -check
