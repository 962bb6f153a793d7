#!/bin/sh
# Make the folder in which gonb builds a notebook's cells the module of the notebooks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cp -r "$here/go.mod" "$here/go.sum" "$here/nb" .
sed -i.orig "s|=> ../\$|=> $(dirname "$here")|" go.mod
