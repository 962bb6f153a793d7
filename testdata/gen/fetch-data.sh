#!/bin/sh
# Gets the full flights data, 3,000,000 rows, as data/flights-3m.parquet: packs
# vega-datasets with the npm client, takes the one file out and checks it.
# Running it again does nothing while the file is there and right.
#
#   testdata/gen/fetch-data.sh
set -eu

package=vega-datasets@3.2.1
member=package/data/flights-3m.parquet
want=dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0

root=$(cd "$(dirname "$0")/../.." && pwd)
target=$root/data/flights-3m.parquet

fail() {
	echo "fetch-data: $*" >&2
	exit 1
}

if command -v sha256sum >/dev/null 2>&1; then
	digest() { sha256sum "$1" | cut -d ' ' -f 1; }
elif command -v shasum >/dev/null 2>&1; then
	digest() { shasum -a 256 "$1" | cut -d ' ' -f 1; }
else
	fail "neither sha256sum nor shasum is installed"
fi

if [ -f "$target" ] && [ "$(digest "$target")" = "$want" ]; then
	echo "fetch-data: data/flights-3m.parquet is there, 3000000 rows"
	exit 0
fi
command -v npm >/dev/null 2>&1 || fail "npm is not installed; it is needed to get $package"
command -v tar >/dev/null 2>&1 || fail "tar is not installed"

mkdir -p "$root/data"
# Beside the target, so that the last step is a rename within one file system.
work=$(mktemp -d "$root/data/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

(cd "$work" && npm pack --silent "$package" >/dev/null) || fail "npm pack $package failed"
set -- "$work"/*.tgz
[ -f "$1" ] || fail "npm pack $package left no archive"
tar -xzf "$1" -C "$work" "$member" || fail "$package has no $member"
found=$(digest "$work/$member")
[ "$found" = "$want" ] || fail "$member has sha256 $found, expected $want"
mv "$work/$member" "$target"
echo "fetch-data: wrote data/flights-3m.parquet, 3000000 rows"
