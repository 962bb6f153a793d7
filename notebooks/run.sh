#!/usr/bin/env bash
# Run the notebooks headless; fail on any error in them, and where what comes out is not
# what is stored in them.
#
# usage: notebooks/run.sh [-w] [-o DIRECTORY] [NAME...]
#
#   -w  store what comes out in the notebooks instead of comparing
#   -o  folder in which the executed notebooks stay
#   NAME of a notebook without .ipynb; all of them when none is given
#
# Needs Go with a C compiler and Jupyter's nbconvert; on Debian and its kin the
# latter is installed when it is missing and the user may. Where it cannot be
# had, the run fails, or with NOTEBOOKS_OPTIONAL=1 says why it skips and
# succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
write='' out=''
while getopts wo: flag; do
  case $flag in
    w) write=1 ;;
    o) mkdir -p "$OPTARG" && out=$(cd "$OPTARG" && pwd) ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# = 0 ]; then
  for nb in "$here"/*.ipynb; do set -- "$@" "$(basename "$nb" .ipynb)"; done
fi

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

python3 -B "$here/check_test.py" 2>/dev/null || { python3 -B "$here/check_test.py"; exit 1; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
out=${out:-$tmp/out}
mkdir -p "$out" "$tmp/bin" "$tmp/kernels/kernels/gonb"

# gonb and goimports at the versions of go.mod, seen by this run only, and the tests of
# what cells call. They are built from a copy, as the cells are, so that the repository
# stays as it is.
mkdir "$tmp/module"
(cd "$tmp/module" && "$here/cells.sh" && GOBIN="$tmp/bin" go install -mod=mod tool && go test -mod=mod ./nb >&2)
export PATH="$tmp/bin:$PATH" JUPYTER_PATH="$tmp/kernels" IPYTHONDIR="$tmp/ipython"
cat >"$tmp/kernels/kernels/gonb/kernel.json" <<JSON
{"argv": ["$tmp/bin/gonb", "--kernel", "{connection_file}"], "display_name": "Go (gonb)", "language": "go"}
JSON

for name in "$@"; do
  start=$SECONDS
  (cd "$here" && jupyter-nbconvert --to notebook --execute --log-level=ERROR \
    --ExecutePreprocessor.kernel_name=gonb --ExecutePreprocessor.timeout=600 --ExecutePreprocessor.record_timing=False \
    --output-dir "$out" --output "$name.ipynb" "$name.ipynb") 2>"$tmp/log" ||
    { cat "$tmp/log" >&2; echo "notebooks: $name did not run" >&2; exit 1; }
  python3 "$here/check.py" ${write:+-w} "$out/$name.ipynb" "$here/$name.ipynb"
  echo "notebooks: $name ($((SECONDS - start)) s)" >&2
done
echo "notebooks: all ran without errors" >&2
