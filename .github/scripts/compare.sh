#!/usr/bin/env bash
# compare.sh VLLM_CLONE: run the targets whose code differs between two revisions.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
diffuzz="${DIFFUZZ:-$root/.venv/bin/diffuzz}"
python="${DIFFUZZ_PYTHON:-$root/.venv/bin/python}"
summary="${GITHUB_STEP_SUMMARY:-summary.md}"
read -ra targets <<<"${DIFFUZZ_TARGETS:-}"
if [ "${DIFFUZZ_CHANGED_ONLY:-true}" = true ]; then
    names="$("$python" "$root/.github/scripts/changed_targets.py" \
        "$1" "$DIFFUZZ_BASELINE" "$DIFFUZZ_CANDIDATE" ${targets[@]+"${targets[@]}"})"
    read -ra targets <<<"$names"
    if [ "${#targets[@]}" -eq 0 ]; then
        echo "No kernel that diffuzz knows is different: nothing to run." | tee -a "$summary"
        exit 0
    fi
fi
status=0
"$diffuzz" run ${targets[@]+"${targets[@]}"} --repo "$1" \
    --baseline "$DIFFUZZ_BASELINE" --candidate "$DIFFUZZ_CANDIDATE" \
    --executor "${DIFFUZZ_EXECUTOR:-auto}" --budget "${DIFFUZZ_BUDGET:-6m}" \
    --fail-on "${DIFFUZZ_FAIL_ON:-regression}" ${DIFFUZZ_MORE:-} \
    --out run --sarif run.sarif --markdown run.md || status=$?
if [ -f run.md ]; then
    cat run.md >>"$summary"
fi
if [ -f run.sarif ] && [ -n "${GITHUB_OUTPUT:-}" ]; then
    echo "sarif=$PWD/run.sarif" >>"$GITHUB_OUTPUT"
fi
exit "$status"
