#!/usr/bin/env bash
# Runs docs/broker.md: starts a broker in an empty directory and on a port of its own, runs every command of the page, and
# compares what it says with the page. What differs from run to run (receipts, times, sizes, rates) is left out of the
# comparison. Ends the broker with SIGTERM, and fails if that is not clean.
#
#   scripts/broker-transcript.sh            checks the page
#   scripts/broker-transcript.sh --write    writes it anew, with what the commands say now
#
# Takes PLIMSOLL for the command, else builds it. Needs curl with HTTP/2, wrk, python3, and once PyPI for httpx.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PAGE=$PWD/docs/broker.md
readonly HTTPX='httpx[http2]==0.28.1'
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-target}")
readonly TARGET
readonly CLIENTS=$TARGET/clients
mode='check'
case "${1:-}" in
'') ;;
--write) mode='write' ;;
*)
    echo "usage: $0 [--write]" >&2
    exit 2
    ;;
esac

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

for tool in curl wrk python3; do
    command -v "$tool" >/dev/null || fail "$tool is missing: scripts/install-packages.sh installs it"
done
[[ $(curl --version) == *HTTP2* ]] || fail "this curl has no HTTP/2"

# A virtual environment that is whole has this file.
if [[ $(cat "$CLIENTS/installed" 2>/dev/null) != "$HTTPX" ]]; then
    rm -rf "$CLIENTS"
    python3 -m venv "$CLIENTS" || fail "no virtual environment: scripts/install-packages.sh installs python3-venv"
    "$CLIENTS/bin/pip" install --quiet --disable-pip-version-check --no-input "$HTTPX" ||
        fail "$HTTPX cannot be installed: is PyPI (or the index that pip is set to) reachable?"
    echo "$HTTPX" >"$CLIENTS/installed"
fi

if [[ -z ${PLIMSOLL:-} ]]; then
    cargo build --quiet --release -p plimsoll-command
    PLIMSOLL=$TARGET/release/plimsoll
fi
PLIMSOLL=$(realpath "$PLIMSOLL")

SCRATCH=$(mktemp -d)
readonly SCRATCH
broker=
end() {
    [[ -z $broker ]] || kill -KILL "$broker" 2>/dev/null || true
    rm -rf "$SCRATCH"
}
trap end EXIT

cat >"$SCRATCH/page.py" <<'PYTHON'
"""commands PAGE URL: a shell script with all commands, and the files that they use. answers PAGE OUTPUT URL MODE: the rest."""

import difflib
import re
import sys

SHOWN = "http://127.0.0.1:7272"
# Stands alone on a line before what a command says.
MARK = "\x1e"


def blocks(text):
    """The page's parts: (how the block is called, its lines), or (None, lines) for what stands between blocks."""
    name, lines = None, []
    for line in text.splitlines():
        if name is None and line.startswith("```"):
            yield None, lines
            name, lines = line[3:], []
        elif name is not None and line == "```":
            yield name, lines
            name, lines = None, []
        else:
            lines.append(line)
    assert name is None, "a block does not end"
    yield None, lines


def entries(lines):
    """The commands of a console, each as (its lines, what it says)."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append(([line], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0].append(line)
        else:
            assert found, f"says something before its first command: {line}"
            found[-1][1].append(line)
    return found


# What differs from run to run. Everything else must be the same, byte for byte.
VARIES = [
    (r'("receipt":")[^"]+', r"\1…"),
    (r'("request_id":"|x-request-id: )[0-9a-f]+-[0-9a-f]+', r"\1…"),
    (r"(date: ).*", r"\1…"),
    (r"((?:content-length|retry-after): )\d+", r"\1…"),
    (r'("(?:(?:published|first_delivered|since|idle|ends_in|retry_after)_ms|free|threshold|bytes_on_disk)":)\d+', r"\1…"),
    (r"\d+(\.\d+)? ([KMGT]i)?B\b", "… B"),
    (r"\d+ of \d+ inodes", "… of … inodes"),
    (r"(try again in )\d+ ms", r"\1… ms"),
    # wrk
    (r"^( +(?:Latency|Req/Sec)) .*", r"\1 …"),
    (r"^  \d+ requests in .*", "  … requests in …"),
    (r"^((?:Requests|Transfer)/sec:).*", r"\1 …"),
]


def masked(lines):
    for pattern, replacement in VARIES:
        lines = [re.sub(pattern, replacement, line) for line in lines]
    return lines


def commands(page, url):
    for name, lines in blocks(open(page, encoding="utf-8").read()):
        if name is None:
            continue
        language, _, file = name.partition(" ")
        if file:
            assert re.fullmatch(r"[a-z_]+\.[a-z]+", file), file
            with open(file, "w", encoding="utf-8") as out:
                out.write("\n".join(lines).replace(SHOWN, url) + "\n")
        elif language == "console":
            for command, _ in entries(lines):
                text = "\n".join(line[2:] for line in command).replace(SHOWN, url)
                print(f"printf '\\036\\n'\n{text}\nsaid=$?; [ $said = 0 ] || echo \"exit code $said\"")


def answers(page, output, url, mode):
    old = open(page, encoding="utf-8").read()
    said = open(output, encoding="utf-8").read().replace(url, SHOWN)
    said = [part.splitlines() for part in said.replace("\r", "").split(MARK + "\n")[1:]]
    wrong = count = 0
    new = []
    for name, lines in blocks(old):
        if name is not None:
            new.append("```" + name)
        if name == "console":
            for command, expected in entries(lines):
                assert count < len(said), f"was not run: {command[0]}"
                # An empty line at the end is a client's, and is not shown.
                now = "\n".join(said[count]).rstrip("\n").split("\n")
                now = [] if now == [""] else [line.rstrip() for line in now]
                count += 1
                if masked(now) != masked(expected):
                    wrong += 1
                    if mode == "check":
                        print(*command, sep="\n")
                        diff = difflib.unified_diff(masked(expected), masked(now), "the page", "now", lineterm="", n=1)
                        print(*diff, sep="\n")
                new += command + now
        else:
            new += lines
        if name is not None:
            new.append("```")
    assert count == len(said) and count > 0, f"{count} commands, {len(said)} answers"
    if mode == "write":
        with open(page, "w", encoding="utf-8") as out:
            out.write("\n".join(new) + "\n")
        print(f"{count} commands, {wrong} with other answers than before")
    else:
        print(f"{count} commands: {wrong} differ" if wrong else f"{count} commands: all as on the page")
        sys.exit(wrong > 0)


globals()[sys.argv[1]](*sys.argv[2:])
PYTHON

# Where the page has it: in ./plimsoll-data of whoever runs it.
cd "$SCRATCH"
"$PLIMSOLL" serve --listen 127.0.0.1:0 --json >greeting 2>log &
broker=$!
for ((tries = 0; tries < 300; tries++)); do
    [[ ! -s greeting ]] || break
    kill -0 "$broker" 2>/dev/null || fail "the broker does not start: $(cat log)"
    sleep 0.1
done
url=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' greeting)
[[ -n $url ]] || fail "the broker does not say where it listens: $(cat greeting log)"
level=$(curl -fsS "$url/api/v1/node" | sed -n 's/.*"stopping":[a-z]*,"level":"\([a-z]*\)".*/\1/p')
[[ $level == ok ]] || fail "level ${level:-?} for $SCRATCH: the page begins at level ok; set TMPDIR to a disk with space"

python3 -B page.py commands "$PAGE" "$url" >commands.sh
PATH=$CLIENTS/bin:$PATH timeout --kill-after=5 120 bash commands.sh </dev/null >output 2>&1 ||
    fail "the commands did not end: $(tail -n 20 output)"

kill -TERM "$broker"
code=0
wait "$broker" || code=$?
broker=
[[ $code == 0 ]] || fail "the broker ended with exit code $code: $(cat log)"
# That a level changes is part of the page.
if grep -E ' (WARN|ERROR) ' log | grep -vF ' plimsoll::node::pressure: '; then
    fail "the broker complained"
fi
python3 -B page.py answers "$PAGE" output "$url" "$mode"
