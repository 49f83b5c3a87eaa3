#!/usr/bin/env bash
# Holds engine and format page together: tools/reader.py was written from storage-format.md alone, so what it reads of a
# log that the engine wrote is what the page says. Compares, byte for byte and field by field,
#
#   - the golden files with what the engine's own parser finds in them (the .txt beside them),
#   - logs that the command appended with what the command reads back,
#   - the verdicts of both on a data directory that is good, and on one with a flipped byte.
#
# Builds the command; CARGO_TARGET_DIR is honoured. Needs 60 MB in TMPDIR.
set -Eeuo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly GOLDEN=tests/golden
SCRATCH=$(mktemp -d)
readonly SCRATCH
trap 'rm -rf "$SCRATCH"' EXIT
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND" >&2' ERR

fail() { echo "FAILED: $*" >&2; exit 1; }
reader() { python3 -B tools/reader.py "$@"; }

cat >"$SCRATCH/tool.py" <<'PYTHON'
"""Makes input, and compares what two programs print."""
import base64, datetime, json, os, random, re, subprocess, sys, zlib

LINES, OBJECTS = 6000, 2000


def lines(path):
    """Lines of any bytes but the newline, empty ones among them."""
    dice = random.Random(1)
    with open(path, "wb") as out:
        for number in range(LINES):
            payload = dice.randbytes(dice.choice((0, 1, 7, 40, 300, 1500, 6000))).replace(b"\n", b"?")
            out.write(payload if number % 3 else b"%d: " % number + payload.hex().encode())
            out.write(b"\n")


def text_or_bytes(octets):
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(octets).decode()}


def objects(path):
    """Records with headers: none, repeated ones, no text, and bytes that are no pairs."""
    dice = random.Random(2)
    values = ["", "text", "zwölf\u0000\u2028", text_or_bytes(b"\xff\x00"), "long " * 100]
    with open(path, "w") as out:
        for number in range(OBJECTS):
            record = {}
            names = dice.sample(["type", "trace", "ключ", "n" * 255], dice.randrange(5))
            if names:
                record["headers"] = {name: dice.choice(values) for name in names}
                if number % 4 == 0:
                    record["headers"][names[0]] = [dice.choice(values) for _ in range(3)]
            elif number % 2:
                record["headers_base64"] = base64.b64encode(b"\x05no").decode()
            payload = dice.randbytes(dice.choice((0, 1, 200))) if number % 2 else b"order %d" % number
            payload = text_or_bytes(b"" if number % 5 == 0 else payload)
            if isinstance(payload, dict):
                record["payload_base64"] = payload["base64"]
            else:
                record["payload"] = payload
            out.write(json.dumps(record, ensure_ascii=number % 3 > 0) + "\n")


def rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def millis(stamp):
    if isinstance(stamp, int):
        return stamp
    moment = datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00"))
    return round(moment.timestamp() * 1000)


def same(command, read, appended):
    """Offset, stamp, headers and payload by both; and headers and payload as appended."""
    command, read, appended = rows(command), rows(read), rows(appended)
    assert len(command) == len(read) == len(appended) > 0, (len(command), len(read), len(appended))
    for offset, (one, two, source) in enumerate(zip(command, read, appended)):
        one["time"] = millis(one["time"])
        assert one == two, f"plimsoll {one}, reader {two}"
        assert two.pop("offset") == offset and two.pop("time") > 0
        if "headers_base64" not in source:
            source.setdefault("headers", {})
        assert two == source, f"appended {source}, read {two}"


def dumped(text):
    """Offset, and payload or its length and CRC32, of the records in a .txt."""
    found, offset = [], None
    for line in text.splitlines():
        if match := re.match(r"record at \d+: offset (\d+),", line):
            offset = int(match[1])
        elif match := re.fullmatch(r'  payload, (\d+) bytes: "(.*)"', line):
            payload = match[2].encode().decode("unicode_escape").encode("latin-1")
            assert len(payload) == int(match[1]), line
            found.append((offset, payload))
        elif match := re.fullmatch(r"  payload, (\d+) bytes, CRC32 ([0-9a-f]{8})", line):
            found.append((offset, (int(match[1]), int(match[2], 16))))
    return found


def golden(directory):
    """The reader's records of every golden file are those of the text beside it."""
    reader = [sys.executable, "-B", "tools/reader.py", "records", "--json"]
    jobs = [(name[:-4], [os.path.join(directory, name)]) for name in sorted(os.listdir(directory))
            if name.endswith(".seg")] + [("node", [os.path.join(directory, "node"), "--log", "orders"])]
    total = 0
    for name, path in jobs:
        with open(os.path.join(directory, name + ".txt"), encoding="utf-8") as file:
            text = file.read()
        expected = dumped(text)
        done = subprocess.run(reader + path, capture_output=True, text=True)
        read = []
        for row in map(json.loads, done.stdout.splitlines()):
            payload = row["payload"].encode() if "payload" in row else base64.b64decode(row["payload_base64"])
            known = expected[len(read)][1] if len(read) < len(expected) else b""
            short = (len(payload), zlib.crc32(payload)) if isinstance(known, tuple) else payload
            read.append((row["offset"], short))
        assert read == expected, f"{name}: the text has {expected}, the reader {read}"
        damaged = "verdict: damage" in text
        assert done.returncode == damaged, f"{name}: exit code {done.returncode}: {done.stderr}"
        for position in re.findall(r"verdict: damage at (\d+)", text):
            assert f" at {position}: " in done.stderr, f"{name}: {done.stderr}"
        total += len(read)
    assert len(jobs) > 10 and total > 20, (jobs, total)
    print(f"{len(jobs)} golden files, {total} records: as in the texts")


def damage(verify, check):
    """The one file and position that both call damaged."""
    report = rows(verify)[-1]
    findings = report["findings"] + [f for file in report["files_with_findings"] for f in file["findings"]]
    said = {(f["file"], f["position"]) for f in findings if f["outcome"] == "damaged"}
    with open(check, encoding="utf-8") as file:
        read = {(match[1], int(match[2])) for match in re.finditer(r"^damage: (.+?) at (\d+): ", file.read(), re.M)}
    assert said == read and len(read) == 1, f"plimsoll {said}, reader {read}"
    print("%s %d" % read.pop())


globals()[sys.argv[1]](*sys.argv[2:])
PYTHON
tool() { python3 -B "$SCRATCH/tool.py" "$@"; }

reader selftest "$GOLDEN"
tool golden "$GOLDEN"

# A recovery's mark is not a reader's business.
cp "$GOLDEN/worked.seg" "$SCRATCH/marked.seg"
printf PLIMSETL | dd of="$SCRATCH/marked.seg" bs=1 seek=512 conv=notrunc status=none
reader records "$GOLDEN/worked.seg" --json >"$SCRATCH/worked.json" 2>/dev/null
reader records "$SCRATCH/marked.seg" --json 2>/dev/null | cmp "$SCRATCH/worked.json" -

before=$SECONDS
cargo build --release
SECONDS=$before
readonly PLIMSOLL=${CARGO_TARGET_DIR:-target}/release/plimsoll
readonly DATA=$SCRATCH/data

# In two lives, so that a recovery stands between the batches.
tool lines "$SCRATCH/lines"
head -n 2000 "$SCRATCH/lines" | "$PLIMSOLL" append "$DATA" some/lines --small
tail -n +2001 "$SCRATCH/lines" | "$PLIMSOLL" append "$DATA" some/lines --small
tool objects "$SCRATCH/objects"
"$PLIMSOLL" append "$DATA" objects --ndjson <"$SCRATCH/objects"

segments=("$DATA"/logs/some/lines/*.seg)
all=("${segments[@]}" "$DATA"/logs/objects/*.seg)
((${#segments[@]} >= 3)) || fail "only ${#segments[@]} segments: nothing is in the middle"
reader records "$DATA" --log some/lines --payloads 2>/dev/null | cmp "$SCRATCH/lines" -
"$PLIMSOLL" read "$DATA" some/lines | cmp "$SCRATCH/lines" -
"$PLIMSOLL" read "$DATA" objects --json >"$SCRATCH/command.json"
reader records "$DATA" --log objects --json >"$SCRATCH/read.json" 2>/dev/null
tool same "$SCRATCH/command.json" "$SCRATCH/read.json" "$SCRATCH/objects"

reader check "$DATA" >"$SCRATCH/check" || fail "reader.py check: $(cat "$SCRATCH/check")"
"$PLIMSOLL" verify "$DATA" >/dev/null
clean=$(grep -c '^clean: ' "$SCRATCH/check")
sealed=$(grep -c '^sealed: ' "$SCRATCH/check")
((clean == 2 && sealed == ${#all[@]} - 2)) || fail "reader.py check: $(cat "$SCRATCH/check")"
echo "$(wc -l <"$SCRATCH/lines") lines in ${#segments[@]} segments, $(wc -l <"$SCRATCH/objects") objects: read back alike"

# expect CODE COMMAND…: ends where the exit code is another one.
expect() {
    local code=0
    "${@:2}" || code=$?
    ((code == $1)) || fail "${*:2}: exit code $code, expected $1"
}

# One flipped bit in the middle of a segment that is sealed.
readonly VICTIM=${segments[1]}
middle=$(($(stat -c %s "$VICTIM") / 2))
byte=$(od -An -tu1 -j "$middle" -N 1 "$VICTIM")
printf "$(printf '\\x%02x' $((byte ^ 1)))" | dd of="$VICTIM" bs=1 seek="$middle" conv=notrunc status=none
expect 1 "$PLIMSOLL" verify "$DATA" --json >"$SCRATCH/verify" 2>/dev/null
expect 1 reader check "$DATA" >"$SCRATCH/check"
read -r file position < <(tool damage "$SCRATCH/verify" "$SCRATCH/check")
[[ $file == "$VICTIM" ]] || fail "damage in $file, expected $VICTIM"
# It is told where the record begins, and that is at most a record before.
((8192 <= position && position <= middle && middle < position + 13000)) || fail "damage at $position, flipped $middle"
# What stands before the damage is still read, and by both the same.
expect 1 "$PLIMSOLL" read "$DATA" some/lines >"$SCRATCH/command" 2>/dev/null
expect 1 reader records "$DATA" --log some/lines --payloads >"$SCRATCH/read" 2>/dev/null
cmp "$SCRATCH/command" "$SCRATCH/read"
[[ -s $SCRATCH/read ]]
head -c "$(stat -c %s "$SCRATCH/read")" "$SCRATCH/lines" | cmp - "$SCRATCH/read"
echo "a flipped bit at byte $middle of ${file##*/}: both say damage at byte $position"
echo "took $SECONDS s without the build"
