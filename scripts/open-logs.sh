#!/usr/bin/env bash
# What many open logs cost: memory, descriptors, disk, and the time to open them again after a kill.
#
#   scripts/open-logs.sh [--json]
#
# PLIMSOLL_BENCH_DIR    where the files go, 3 GB of them; on the disk in question
# PLIMSOLL_BENCH_SMALL  1 for a tenth of the logs
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo bench --quiet --bench plimsoll -- reopen footprint "$@"
