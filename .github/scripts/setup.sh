#!/usr/bin/env bash
# Install diffuzz beside itself into .venv, unless the machine has it (a container does).
#   setup.sh [--doctor]     --doctor: say what this machine can run, and fail if that is nothing
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
if [ -z "${DIFFUZZ:-}" ] && [ ! -x "$root/.venv/bin/diffuzz" ]; then
    # On a ROCm machine torch is AMD's own build and must not be replaced by an index's.
    if python3 -c 'import torch, sys; sys.exit(torch.version.hip is None)' 2>/dev/null; then
        python3 -m venv --system-site-packages "$root/.venv"
        "$root/.venv/bin/pip" install -q -e "$root"
    else
        python3 -m venv "$root/.venv"
        "$root/.venv/bin/pip" install -q -c "$root/constraints.txt" -e "$root"
    fi
fi
diffuzz="${DIFFUZZ:-$root/.venv/bin/diffuzz}"
"$diffuzz" --version
if [ "${1:-}" = --doctor ]; then
    "$diffuzz" doctor
fi
