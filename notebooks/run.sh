#!/usr/bin/env bash
# Run the notebooks headless and fail on any error in them.
#
# usage: notebooks/run.sh [OUTPUT_DIRECTORY]
#
# Needs Go with a C compiler and Jupyter's nbconvert; on Debian and its kin the
# latter is installed when it is missing and the user may. Where it cannot be
# had, the run fails, or with NOTEBOOKS_OPTIONAL=1 says why it skips and
# succeeds. The executed notebooks and their pictures stay in OUTPUT_DIRECTORY
# if one is given.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "notebooks: $1" >&2
  if [ "${NOTEBOOKS_OPTIONAL:-}" = 1 ]; then
    echo "notebooks: skipped (NOTEBOOKS_OPTIONAL=1)" >&2
    exit 0
  fi
  exit 1
}

if ! command -v jupyter-nbconvert >/dev/null; then
  command -v apt-get >/dev/null || skip "jupyter-nbconvert is missing and there is no apt-get to install it with"
  root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
      skip "jupyter-nbconvert is missing; install the package jupyter-nbconvert"
    root=(sudo -n)
  fi
  { "${root[@]}" apt-get update -qq &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends jupyter-nbconvert; } >/dev/null ||
    skip "apt-get could not install jupyter-nbconvert"
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
out=${1:-$tmp/out}
mkdir -p "$out" "$tmp/bin" "$tmp/kernels/kernels/gonb"

# gonb and goimports at the versions of go.mod, seen by this run only. They are
# built from a copy, as the cells are, so that the repository stays as it is.
mkdir "$tmp/module"
cp "$here/go.mod" "$here/go.sum" "$tmp/module"
sed -i.orig "s|=> ../\$|=> $(dirname "$here")|" "$tmp/module/go.mod"
(cd "$tmp/module" && GOBIN="$tmp/bin" go install -mod=mod tool)
export PATH="$tmp/bin:$PATH" JUPYTER_PATH="$tmp/kernels" IPYTHONDIR="$tmp/ipython"
cat >"$tmp/kernels/kernels/gonb/kernel.json" <<JSON
{"argv": ["$tmp/bin/gonb", "--kernel", "{connection_file}"], "display_name": "Go (gonb)", "language": "go"}
JSON

for nb in "$here"/*.ipynb; do
  name=$(basename "$nb" .ipynb)
  echo "notebooks: $name" >&2
  (cd "$here" && jupyter-nbconvert --to notebook --execute --log-level=ERROR \
    --ExecutePreprocessor.kernel_name=gonb --ExecutePreprocessor.timeout=600 --ExecutePreprocessor.record_timing=False \
    --output-dir "$out" --output "$name.ipynb" "$nb") 2>"$tmp/log" ||
    { cat "$tmp/log" >&2; echo "notebooks: $name did not run" >&2; exit 1; }
  python3 "$here/check.py" "$out/$name.ipynb"
done
echo "notebooks: all ran without errors" >&2
