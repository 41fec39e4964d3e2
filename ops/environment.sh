#!/usr/bin/env bash
# Makes or renews the environment in .venv; does nothing, quickly, when it is up to date.
#
# Up to date means: made in this folder from this pyproject.toml, this constraints.txt and this script. Set PYTHON to
# choose the interpreter; otherwise the first of python3, python3.13, python3.12, python3.11 that is new enough is used.
set -euo pipefail
cd "$(dirname "$0")/.."

oldest="3.11"
venv=".venv"
stamp="$venv/fireledger-environment"
pins="constraints.txt"

fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || printf 'nothing that runs'
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < tuple(map(int, sys.argv[1].split("."))))' "$oldest" 2>/dev/null
}

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || fail "\"$PYTHON\" is not a Python of at least $oldest (found: \"$(version_of "$PYTHON")\")" \
            "set PYTHON to one, such as make setup PYTHON=python3.13"
        printf '%s' "$PYTHON"
        return
    fi
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    fail "no Python of at least $oldest was found (python3 is \"$(version_of python3)\")" \
        "install one, or name it: make setup PYTHON=/path/to/python3.11"
}

# The environment that stands is usable: it runs, is new enough, and is the version asked for, if one is.
usable() {
    new_enough "$venv/bin/python" || return 1
    [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of "$venv/bin/python")" ]
}

# Two makes at once: the second waits and then finds nothing to do.
if command -v flock >/dev/null 2>&1; then
    exec 9<"$pins"
    flock 9
fi

made_from="$(cat pyproject.toml "$pins" ops/environment.sh | cksum) $PWD"
if usable; then
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$made_from" ]; then
        exit 0
    fi
    rm -f "$stamp"
else
    python="$(choose_python)"
    rm -rf "$venv"
    "$python" -m venv "$venv" || fail "\"$python\" could not make a virtual environment" \
        "install the venv module that belongs to it (often a package named python3-venv), or set PYTHON"
fi

echo "setup: installing into $venv ($("$venv/bin/python" --version))" >&2
pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --quiet "$@" ||
        fail "the packages could not be installed" "see pip's message above; then run make setup again"
}
# An older pip knows neither dependency groups nor constraints for the build.
pip --constraint "$pins" --upgrade pip
pip --constraint "$pins" --build-constraint "$pins" --editable . --group dev
printf '%s\n' "$made_from" >"$stamp"
echo "setup: done" >&2
