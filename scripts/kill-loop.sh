#!/usr/bin/env bash
# Appends a file of lines to a log while the process that appends is killed again and again, each time continuing from
# the count of records that are there; then compares the log with the file, byte for byte.
#
#   scripts/kill-loop.sh [LINES] [KILLS] [DIRECTORY]      10,000,000 lines and 200 kills if not given
#
# Takes PLIMSOLL for the command, else builds it. Works in a new directory within DIRECTORY, and needs 1.5 GB there by
# default. The lines are made up, or those of the file TEXT, repeated. Set RANDOM_SEED to have the same moments again, as
# far as a machine can.
set -euo pipefail

lines=${1:-10000000}
kills=${2:-200}
dir=$(mktemp -d -p "${3:-${TMPDIR:-/tmp}}" plimsoll-kill.XXXXXX)
seed=${RANDOM_SEED:-$$}
RANDOM=$seed

cd "$(dirname "$0")/.."
if [[ -z ${PLIMSOLL:-} ]]; then
    cargo build --quiet --release -p plimsoll-command
    PLIMSOLL=${CARGO_TARGET_DIR:-target}/release/plimsoll
fi
data=$dir/data input=$dir/input
# What a failed run leaves is kept to be looked at.
trap 'status=$?; [[ $status == 0 ]] && rm -rf "$dir" || echo "kept in $dir, RANDOM_SEED=$seed" >&2' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }
# The lines of a file that have their newline: a last one without was not printed.
complete_lines() { if [[ -z $(tail -c 1 "$1") ]]; then cat "$1"; else sed '$d' "$1"; fi; }
# A field of the only log: durable, tail.
field() { "$PLIMSOLL" logs "$data" --json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

echo "$lines lines, $kills kills, seed $seed, in $dir"
if [[ -n ${TEXT:-} ]]; then
    # The text again and again, until there are enough lines.
    (while cat "$TEXT"; do :; done || true) | head -n "$lines" > "$input"
else
    awk -v n="$lines" 'BEGIN { pad = sprintf("%120s", ""); gsub(/ /, "x", pad)
    for (i = 0; i < n; i++) print i ":" substr(pad, 1, (i * 7919) % 61) }' > "$input"
fi
"$PLIMSOLL" append "$data" lines < /dev/null > /dev/null

next=0 killed=0
for ((kill = 0; kill < kills; kill++)); do
    # Twice the share of the kills that are left; then the pipe stays open, so that only a kill ends the process.
    share=$((2 * (lines - next) / (kills - kill) + 1))
    # A pipe for each process: what still writes into an old one must not reach the next.
    fifo=$dir/fifo.$kill
    mkfifo "$fifo"
    ({ tail -n +$((next + 1)) "$input" | head -n "$share"; } || true; exec sleep 600) > "$fifo" 2> /dev/null &
    feeder=$!
    "$PLIMSOLL" append "$data" lines --confirm < "$fifo" > "$dir/confirmed" 2> "$dir/errors" &
    appender=$!
    sleep "$(awk -v r=$RANDOM 'BEGIN { printf "%.4f", r / 32768 * 0.4 }')"
    kill -KILL "$appender" 2> /dev/null || fail "append ended by itself: $(cat "$dir/errors")"
    wait "$appender" 2> /dev/null || true
    kill "$feeder" 2> /dev/null || true
    wait "$feeder" 2> /dev/null || true
    rm "$fifo"
    killed=$((killed + 1))
    told=$(sed -n 's/^confirmed offsets [0-9]* to \([0-9]*\)$/\1/p' <(complete_lines "$dir/confirmed") | tail -n 1)
    told=$((${told:--1} + 1))
    # Now and then the recovery is killed as well.
    if ((RANDOM % 3 == 0)); then
        "$PLIMSOLL" logs "$data" > /dev/null 2>&1 &
        recovering=$!
        sleep "$(awk -v r=$RANDOM 'BEGIN { printf "%.4f", r / 32768 * 0.02 }')"
        kill -KILL "$recovering" 2> /dev/null || true
        wait "$recovering" 2> /dev/null || true
    fi
    durable=$(field durable)
    ((durable >= told)) || fail "kill $kill: offset $((told - 1)) was confirmed, the log ends before $durable"
    ((durable >= next && durable <= lines)) || fail "kill $kill: the log went from $next to $durable"
    next=$durable
    ((kill % 20 == 19)) && echo "$((kill + 1)) kills, $next records"
done

tail -n +$((next + 1)) "$input" | "$PLIMSOLL" append "$data" lines
"$PLIMSOLL" verify "$data"
"$PLIMSOLL" read "$data" lines | cmp - "$input" || fail "the log is not the input"
echo "$killed kills: nothing lost, nothing twice"
