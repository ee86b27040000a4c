#!/usr/bin/env bash
# A pull request against what it branched off: pr.sh VLLM_CLONE, with PR_BASE and PR_HEAD set.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
DIFFUZZ_BASELINE="$(git -C "$1" merge-base "$PR_BASE" "$PR_HEAD")"
export DIFFUZZ_BASELINE DIFFUZZ_CANDIDATE="$PR_HEAD"
exec "$here/compare.sh" "$1"
