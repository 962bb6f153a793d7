#!/usr/bin/env bash
# Install what the peers need, on Debian and its kin: scikit-learn and OpenBLAS.
set -euo pipefail
python=${PEERS_PYTHON:-/usr/bin/python3}
"$python" -c 'import sklearn' 2>/dev/null && ldconfig -p | grep -q 'openblas-pthread\|libopenblas' && exit 0
command -v apt-get >/dev/null || { echo "bench-peers: scikit-learn or OpenBLAS is missing and there is no apt-get to install them with" >&2; exit 1; }
sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo -n)
{ "${sudo[@]}" apt-get update -qq &&
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-sklearn libopenblas0-pthread; } >/dev/null
"$python" -c 'import sklearn'
