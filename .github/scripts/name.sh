#!/usr/bin/env bash
# The night's name, the same for all its shards however late they start: a date that sorts, and the
# number of the run, so that two nights of one date are two.
set -euo pipefail
printf 'night=%s.%06d\n' "$(date -u +%F)" "${GITHUB_RUN_NUMBER:-0}" >>"${GITHUB_OUTPUT:-/dev/stdout}"
