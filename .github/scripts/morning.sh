#!/usr/bin/env bash
# Merge the shards' states (those that arrived) and write summary and SARIF. With
# DIFFUZZ_FAIL_ON=regression the morning is red when there is news; trouble of a machine never is.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
diffuzz="${DIFFUZZ:-$root/.venv/bin/diffuzz}"
summary="${GITHUB_STEP_SUMMARY:-summary.md}"
shopt -s nullglob
shards=(shards/*/)
status=0
"$diffuzz" nightly --merge --state state --night "$DIFFUZZ_NIGHT" --markdown night.md \
    --sarif night.sarif --fail-on "${DIFFUZZ_FAIL_ON:-never}" "${shards[@]}" || status=$?
if [ -f night.md ]; then
    cat night.md >>"$summary"
fi
exit "$status"
