#!/bin/sh
# Install AskOnce for the image: deploy/install.sh PYTHON "EXTRA EXTRA ..."
# What it needs is chosen among the pins of requirements/image.txt, and checked by their hashes.
set -eu
python=$1
wanted=$(mktemp)
trap 'rm -f "$wanted"' EXIT
pins=requirements/image.txt
flags=""
for extra in $2; do flags="$flags --extra $extra"; done
# shellcheck disable=SC2086 # one word a flag
uv --quiet pip compile --python "$python" --group build $flags --constraints "$pins" \
    --no-annotate --no-header --output-file "$wanted" pyproject.toml >/dev/null
uv --quiet pip install --python "$python" --require-hashes --no-deps \
    --requirements "$wanted" --constraints "$pins"
uv --quiet pip install --python "$python" --no-deps --no-build-isolation --compile-bytecode .
