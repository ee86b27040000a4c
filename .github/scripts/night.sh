#!/usr/bin/env bash
# One shard of one target's night. Findings and trouble of the machine are for the morning's report:
# only a night that could not be begun (exit code 2) makes the job fail.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
diffuzz="${DIFFUZZ:-$root/.venv/bin/diffuzz}"
status=0
"$diffuzz" nightly --repo "$DIFFUZZ_REPO" --state state --budget "$DIFFUZZ_BUDGET" \
    --night "$DIFFUZZ_NIGHT" --target "$DIFFUZZ_TARGET" --shard "$DIFFUZZ_SHARD/$DIFFUZZ_SHARDS" \
    --executor "${DIFFUZZ_EXECUTOR:-auto}" --devices "${DIFFUZZ_DEVICES:-0}" \
    ${DIFFUZZ_MORE:-} || status=$?
case $status in
    0 | 1) ;;
    3) echo "::warning::nothing could be tested on this machine; the account above says why" ;;
    *) exit "$status" ;;
esac
