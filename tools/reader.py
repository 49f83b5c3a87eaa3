#!/usr/bin/env python3
"""Reader for logs in the storage format, layout version 1.

    reader.py records PATH [--log NAME] [--json | --payloads] [--since MS]
    reader.py header PATH [--log NAME]
    reader.py check PATH [--log NAME]
    reader.py selftest GOLDEN_DIR

PATH is a segment file, the directory of a log, or a data directory. Exit code:
0 readable (a torn tail included), 1 damage, 2 wrong usage, 3 cannot be read.

Section numbers below are those of storage-format.md. Nothing is ever written,
no lock is taken, and no symbolic link inside a data directory is followed.
"""

import argparse
import base64
import datetime
import errno
import io
import json
import os
import random
import re
import shutil
import stat
import struct
import sys
import tempfile
import time
import zlib
from typing import NamedTuple, Optional

# ---------------------------------------------------------------- constants

W = 2_097_152                       # section 1: the window
FIRST = 8192                        # section 3: position of the first record
SECTOR = 512
CHECKPOINT_AT = 4096
ALL_ONES = 2**64 - 1
RECORD_HEAD = 32
SMALLEST_CAPACITY = 12_288
LARGEST_CAPACITY = 2**32

HEADER_MAGIC = bytes.fromhex("8e504c494d530d0a")
CHECKPOINT_MAGIC = b"PLIMCKPT"

HEADER_FIELDS = struct.Struct("<8sHBBHB9sQQQQQ16s")
CHECKPOINT_FIELDS = struct.Struct("<8sH6sQQQ16s")
RECORD_FIELDS = struct.Struct("<IIIHHIIHHI")
LE16 = struct.Struct("<H")
LE32 = struct.Struct("<I")
LE64 = struct.Struct("<Q")
PAIR_HEAD = struct.Struct("<BH")
ZEROES = [bytes(n) for n in range(8)]

SPARE, IN_USE = 1, 2
STATES = {1: "spare", 2: "in use"}
CLASSES = {1: "tiny", 2: "small", 3: "main"}
ORIGINS = {0: "none", 1: "roll", 2: "heal", 3: "repair"}

CHUNK = 1 << 20                     # bytes read at a time
KEY_BUDGET = 4 * W                  # section 6: lengths of the records tried for a key
LEFTOVERS_BUDGET = 1 << 29          # the same, where no verdict depends on it

RULES = {                           # section 4.1
    1: "short",
    2: "nothing was written here",
    3: "left over from another use",
    4: "field header CRC32",
    5: "field flags",
    6: "fields payload length and headers length",
    7: "field unsynced",
    8: "field offset",
    9: "field body CRC32",
    10: "padding",
}

EXIT_OK, EXIT_DAMAGE, EXIT_USAGE, EXIT_UNREADABLE = 0, 1, 2, 3

# ------------------------------------------------------------------ reports


class Refused(Exception):
    """Something that the format tells a reader to refuse, or not to follow."""

    def __init__(self, path, why):
        super().__init__(why)
        self.path, self.why = path, why


class UsageError(Exception):
    """The command line asks for something that cannot be asked."""


class OutputError(Exception):
    """Standard output takes no more; `broken` if its reader went away."""

    def __init__(self, error):
        super().__init__(describe_error(error))
        self.broken = isinstance(error, BrokenPipeError)


class Output:
    """Buffered standard output, whose errors are not those of reading."""

    def __init__(self, descriptor):
        self.buffer = io.BufferedWriter(io.FileIO(descriptor, "wb", closefd=False), CHUNK)

    def write(self, octets):
        try:
            self.buffer.write(octets)
        except OSError as error:
            raise OutputError(error) from None

    def flush(self):
        try:
            self.buffer.flush()
        except OSError as error:
            raise OutputError(error) from None

    def drop(self):
        """Send what is still buffered nowhere, and leave nothing to fail at exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


class Finding(NamedTuple):
    """One line of a report."""

    kind: str
    path: str
    position: Optional[int]
    text: str

    def __str__(self):
        where = "" if self.position is None else f" at {self.position}"
        return f"{self.kind}: {printable(self.path)}{where}: {self.text}"


class Report:
    """Prints findings as they come and keeps the exit code they add up to."""

    def __init__(self, stream):
        self.stream = stream
        self.findings = []

    def add(self, kind, path, text, position=None):
        finding = Finding(kind, path, position, text)
        self.findings.append(finding)
        emit_line(self.stream, str(finding))

    def has(self, *kinds):
        return any(finding.kind in kinds for finding in self.findings)

    @property
    def exit_code(self):
        if self.has("damage"):
            return EXIT_DAMAGE
        return EXIT_UNREADABLE if self.has("refused", "unreadable") else EXIT_OK


def emit_line(stream, text):
    """Write one line of text to a binary stream, whatever it contains."""
    stream.write(text.encode("utf-8", "backslashreplace") + b"\n")


def printable(text):
    return text if text.isprintable() else ascii(text)[1:-1]


def describe_error(error):
    """What went wrong, in words; a MemoryError has none of its own."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    return getattr(error, "strerror", None) or str(error)


def counted(count, thing):
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def iso_time(millis):
    """A stamp in words; stamps may be any value, so many name no date."""
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=millis)
    except OverflowError:
        return "no date"
    return moment.isoformat(sep=" ", timespec="milliseconds") + " UTC"


# ---------------------------------------------------------- segment access


class Segment:
    """An open segment file: bounded, buffered reads, and never beyond E.

    `end` is E of section 3: the smaller of the file's length and the capacity.
    """

    def __init__(self, path):
        self.path = path
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self.fd = os.open(path, flags)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Refused(path, "is a symbolic link") from None
            raise
        status = os.fstat(self.fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(self.fd)
            raise Refused(path, "is not a regular file")
        self.length = self.end = status.st_size
        self.buffer, self.start = b"", 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def limit_to(self, capacity):
        self.end = min(self.length, capacity)

    def forget(self):
        """Drop what is buffered, so that it is read from the file again."""
        self.buffer, self.start = b"", 0

    def read(self, position, size):
        """Up to `size` bytes from `position`, unbuffered; less only at the end."""
        parts, wanted = [], max(0, min(size, self.end - position))
        while wanted > 0:
            part = os.pread(self.fd, min(wanted, 1 << 30), position)
            if not part:            # the file was shortened meanwhile
                self.end = min(self.end, position)
                break
            parts.append(part)
            position += len(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def locate(self, position, size):
        """Index into `buffer` of `size` bytes at `position`, or -1 if not there."""
        index = position - self.start
        if index >= 0 and index + size <= len(self.buffer):
            return index
        if position + size > self.end:
            return -1
        self.buffer, self.start = self.read(position, max(size, CHUNK)), position
        return 0 if len(self.buffer) >= size else -1

    def crc(self, position, size, seed):
        """CRC32 of a range without holding all of it; None if it is cut off."""
        while size > 0:
            part = self.read(position, min(size, CHUNK))
            if not part:
                return None
            seed = zlib.crc32(part, seed)
            position += len(part)
            size -= len(part)
        return seed


# ------------------------------------------------------------ header block


class Header(NamedTuple):
    """Section 3.1."""

    magic: bytes
    version: int
    state: int
    size_class: int
    generation: int
    origin: int
    reserved: bytes
    capacity: int
    created: int
    base: int
    previous_end: int
    previous_millis: int
    log_id: bytes

    @property
    def in_use(self):
        return self.state == IN_USE

    @property
    def key(self):
        return key_of(self.log_id, self.generation, self.base)


class HeaderFault(NamedTuple):
    """Why a file has no usable header: empty, short, zero, newer or damage."""

    kind: str
    position: int
    text: str


def key_of(log_id, generation, base):
    """Section 1: the key that binds a record's checksums to log, use and segment."""
    return zlib.crc32(log_id + LE16.pack(generation) + LE64.pack(base))


def is_capacity(number):
    return number % 4096 == 0 and SMALLEST_CAPACITY <= number <= LARGEST_CAPACITY


def parse_header(sector):
    """Section 3.1: a Header, or the first rule broken, in the order given."""
    if not sector:
        return HeaderFault("empty", 0, "empty: 0 bytes, a header has 512")
    if len(sector) < SECTOR:
        return HeaderFault("short", 0, f"short: {len(sector)} bytes, a header has 512")
    if not any(sector):
        return HeaderFault("zero", 0, "zero: the first sector holds only zeroes")
    header = Header(*HEADER_FIELDS.unpack_from(sector))
    if header.magic != HEADER_MAGIC:
        return HeaderFault("damage", 0, "field magic")
    if LE32.unpack_from(sector, 508)[0] != zlib.crc32(sector[:508]):
        return HeaderFault("damage", 508, "field CRC32")
    if header.version > 1:
        return HeaderFault("newer", 8, f"layout version {header.version} is newer")
    for broken, position, name in header_rules(header, sector):
        if broken:
            return HeaderFault("damage", position, "field " + name)
    return header


def header_rules(header, sector):
    """Rules 5 to 7 of section 3.1: (broken, position, field), in order."""
    yield header.version == 0, 8, "layout version"
    yield header.size_class not in CLASSES, 11, "size class"
    yield header.generation == 0, 12, "generation"
    yield not is_capacity(header.capacity), 24, "capacity"
    reserved = next((at for at in (*range(15, 24), *range(80, 508)) if sector[at]), None)
    yield reserved is not None, reserved, "reserved"
    yield header.state not in STATES, 10, "state"
    if header.in_use:
        yield header.origin not in (1, 2, 3), 14, "origin"
        yield header.base == ALL_ONES, 40, "base offset"
        yield not previous_end_fits(header), 48, "previous end"
        return
    yield header.origin != 0, 14, "origin"
    yield header.base != ALL_ONES, 40, "base offset"
    yield header.previous_end != ALL_ONES, 48, "previous end"
    yield header.previous_millis != 0, 56, "previous millis"
    yield any(header.log_id), 64, "log id"


def previous_end_fits(header):
    """Equal to the base; below it only where a repair declares a gap."""
    if header.origin == 3:
        return header.previous_end <= header.base
    return header.previous_end == header.base


def read_header(segment):
    """The header of an open file; a valid one sets E."""
    header = parse_header(segment.read(0, SECTOR))
    if isinstance(header, Header):
        segment.limit_to(header.capacity)
    return header


# -------------------------------------------------------- checkpoint block


class Checkpoint(NamedTuple):
    """Section 3.2; `fault` is the rule for which it is ignored, or None."""

    generation: int
    position: int
    next_offset: int
    millis: int
    log_id: bytes
    fault: Optional[str]


class Expected(NamedTuple):
    """What a checkpoint must agree with; None: left out."""

    generation: Optional[int] = None
    log_id: Optional[bytes] = None
    base: Optional[int] = None
    capacity: Optional[int] = None


def expected_by(header):
    """A spare's header names neither a log nor a base."""
    if not isinstance(header, Header):
        return Expected()
    if not header.in_use:
        return Expected(generation=header.generation)
    return Expected(header.generation, header.log_id, header.base, header.capacity)


def read_checkpoint(segment, expected):
    """Section 3.2: the checkpoint block, or None where the file has none."""
    sector = segment.read(CHECKPOINT_AT, SECTOR)
    if len(sector) < SECTOR:
        return None
    fields = CHECKPOINT_FIELDS.unpack_from(sector)
    magic, generation, reserved, position, next_offset, millis, log_id = fields
    checkpoint = Checkpoint(generation, position, next_offset, millis, log_id, None)
    rules = checkpoint_rules(checkpoint, expected)
    blocks = block_rules(sector, magic, reserved)
    fault = next((name for broken, name in (*blocks, *rules) if broken), None)
    return checkpoint._replace(fault=fault)


def block_rules(sector, magic, reserved):
    """Rules on the block itself: (broken, name)."""
    yield not any(sector), "zero"
    yield magic != CHECKPOINT_MAGIC, "field magic"
    yield LE32.unpack_from(sector, 508)[0] != zlib.crc32(sector[:508]), "field CRC32"
    yield any(reserved) or any(sector[56:508]), "field reserved"


def checkpoint_rules(checkpoint, expected):
    """Rules on the fields, as far as the header gives something to compare."""
    generation, position = checkpoint.generation, checkpoint.position
    yield generation == 0, "field generation"
    if expected.generation is not None:
        yield generation != expected.generation, "field generation: another use's"
    if expected.log_id is not None:
        yield checkpoint.log_id != expected.log_id, "field log id: another log's"
    yield position % 8 != 0 or position < FIRST, "field position"
    if expected.capacity is not None:
        yield position > expected.capacity, "field position: above the capacity"
    if expected.base is not None:
        count = checkpoint.next_offset - expected.base
        yield count < 0, "field next offset: below the base"
        yield count > (position - FIRST) // 32, "field next offset: too far"
        yield (count == 0) != (position == FIRST), "field next offset: no records"


# ------------------------------------------------------------------ records


class Record(NamedTuple):
    """A valid record, section 4; `relative` counts from the base."""

    position: int
    relative: int
    millis: int
    unsynced: int
    headers: memoryview
    payload: memoryview
    length: int


class Failure(NamedTuple):
    """The first rule of section 4.1 that a position breaks."""

    rule: int
    position: int

    def __str__(self):
        return RULES[self.rule]


def padded(length):
    return (length + 7) & ~7


def examine(segment, position, key, generation, expected,
            crc32=zlib.crc32, unpack=RECORD_FIELDS.unpack_from, le64=LE64.pack):
    """Section 4.1: the Record at `position`, or the Failure that it is."""
    index = segment.locate(position, RECORD_HEAD)
    if index < 0:
        return Failure(1, position)
    (header_crc, body_crc, payload_length, its_generation, headers_length,
     unsynced, relative, flags, millis_low, millis_high) = unpack(segment.buffer, index)
    if its_generation != generation:
        return Failure(3 if its_generation else 2, position)
    seed = crc32(le64(position))
    if header_crc ^ key != crc32(segment.buffer[index + 4:index + 32], seed):
        return Failure(4, position)
    if flags:
        return Failure(5, position)
    body_length = headers_length + payload_length
    length = (RECORD_HEAD + body_length + 7) & ~7
    if position + length > segment.end:
        return Failure(6, position)
    if unsynced > W or unsynced > position - FIRST:
        return Failure(7, position)
    if relative != expected:
        return Failure(8, position)
    index = segment.locate(position, length)
    if index < 0:
        return Failure(6, position)
    body_at, body_end = index + RECORD_HEAD, index + RECORD_HEAD + body_length
    body = memoryview(segment.buffer)[body_at:body_end]
    if body_crc ^ key != crc32(body, seed):
        return Failure(9, position)
    padding = index + length - body_end
    if padding and segment.buffer[body_end:index + length] != ZEROES[padding]:
        return Failure(10, position)
    return Record(position, relative, millis_low | millis_high << 16, unsynced,
                  body[:headers_length], body[headers_length:], length)


def parse_pairs(headers):
    """Section 4.2: [(name, value)], or None where the bytes are no such pairs."""
    pairs, at, end = [], 0, len(headers)
    while at < end:
        if at + 3 > end:
            return None
        name_length, value_length = PAIR_HEAD.unpack_from(headers, at)
        value_at = at + 3 + name_length
        if name_length == 0 or value_at + value_length > end:
            return None
        name = as_text(headers[at + 3:value_at])
        if name is None:
            return None
        pairs.append((name, bytes(headers[value_at:value_at + value_length])))
        at = value_at + value_length
    return pairs


def as_text(octets):
    try:
        return str(octets, "utf-8")
    except UnicodeDecodeError:
        return None


class Walk:
    """Sections 4.1 and 5: the walk from one record to the next.

    `end` is the relative offset at which a sealed segment ends, else None.
    After run(), `position` and `expected` are Stop, or the sealed end;
    `failure` says what was found at Stop, and is None at a sealed end.
    """

    def __init__(self, segment, key, generation, end=None):
        self.segment, self.key, self.generation = segment, key, generation
        self.end = end
        self.position, self.expected = FIRST, 0
        self.failure = None
        self.claim = FIRST          # the furthest claim of the records passed
        self.mark = 2**64           # a checkpoint's position
        self.at_mark = None         # position and offset of what the walk met there

    def run(self, take=None):
        """Walk on from here; `take` is called with each record."""
        segment, key, generation, end = self.segment, self.key, self.generation, self.end
        position, expected, claim, mark = self.position, self.expected, self.claim, self.mark
        self.failure = None
        while expected != end:
            record = examine(segment, position, key, generation, expected)
            if len(record) == 2:    # a Failure
                self.failure = record
                break
            if take is not None:
                take(record)
            if position - record.unsynced > claim:
                claim = position - record.unsynced
            if position <= mark < position + record.length:
                self.at_mark = position, expected
            position += record.length
            expected += 1
        if position == mark:
            self.at_mark = position, expected
        self.position, self.expected, self.claim = position, expected, claim


# ------------------------------------------------------- search beyond Stop


class Counted(NamedTuple):
    """A header that counts, section 6."""

    position: int
    length: int
    claim: int


class Found:
    """What a search has seen: how many headers count, and what they claim."""

    def __init__(self):
        self.count = 0
        self.furthest = None
        self.strongest = None

    def add(self, header):
        self.count += 1
        if self.furthest is None or header.position > self.furthest.position:
            self.furthest = header
        if self.strongest is None or header.claim > self.strongest.claim:
            self.strongest = header

    @property
    def claim(self):
        return self.strongest.claim if self.strongest else 0


class Beyond:
    """The search of section 6 behind a Stop."""

    def __init__(self, segment, key, generation, stop, expected):
        self.segment, self.key, self.generation = segment, key, generation
        self.stop, self.expected = stop, expected

    def run(self):
        found = Found()
        for low, high in self.ranges():
            for position in candidates(self.segment, low, high, self.generation):
                self.look_at(position, found)
        if found.furthest:
            self.look_at(found.furthest.position + found.furthest.length, found)
        return found

    def ranges(self):
        """Places 1 and 2 of the search, without looking anywhere twice."""
        stop = self.stop
        yield stop + 8, stop + W
        index = self.segment.locate(stop, RECORD_HEAD)
        if index >= 0:
            fields = RECORD_FIELDS.unpack_from(self.segment.buffer, index)
            length = padded(RECORD_HEAD + fields[2] + fields[4])
            yield max(stop + length, stop + W + 8), stop + length + W

    def look_at(self, position, found):
        header = self.counts(position)
        if header:
            found.add(header)

    def counts(self, position):
        """Rules 1 to 7 of section 4.1, and a relative offset that can be."""
        segment = self.segment
        index = segment.locate(position, RECORD_HEAD)
        if index < 0:
            return None
        fields = RECORD_FIELDS.unpack_from(segment.buffer, index)
        header_crc, _, payload, generation, headers, unsynced, relative, flags, _, _ = fields
        if generation != self.generation:
            return None
        seed = zlib.crc32(LE64.pack(position))
        crc = zlib.crc32(segment.buffer[index + 4:index + 32], seed)
        if header_crc ^ crc != self.key:
            return None
        length = padded(RECORD_HEAD + headers + payload)
        if flags or position + length > segment.end:
            return None
        if unsynced > W or unsynced > position - FIRST:
            return None
        if not 0 < relative - self.expected <= (position - self.stop) // 32:
            return None
        return Counted(position, length, position - unsynced)


def candidates(segment, low, high, generation):
    """Multiples of 8 in [low, high] where a record header of that use may be."""
    high = min(high, segment.end - RECORD_HEAD)
    while low <= high:
        size = min(CHUNK, high - low + 8)
        block = segment.read(low + 12, size)    # bytes 12 and 13: the generation
        if len(block) < 2:
            return
        lows, highs = block[0::8], block[1::8]
        for index in matches(lows, highs, generation):
            if low + 8 * index <= high:
                yield low + 8 * index
        low += size


def matches(lows, highs, generation):
    """Indices at which the generation stands; with None, any but 0."""
    if generation is None:
        for index, pair in enumerate(zip(lows, highs)):
            if pair != (0, 0):
                yield index
        return
    low, high = generation & 0xFF, generation >> 8
    index = lows.find(low)
    while index >= 0:
        if index < len(highs) and highs[index] == high:
            yield index
        index = lows.find(low, index + 1)


# ------------------------------------------------------------- derived keys


class Proof(NamedTuple):
    """A record that proved the key which its own header implies."""

    position: int
    key: int
    generation: int
    relative: int


class Prover:
    """Section 6, deriving the key: for files whose header names no log."""

    def __init__(self, segment, budget=KEY_BUDGET):
        self.segment = segment
        self.budget = budget        # lengths of the records whose bodies may still be read

    def first(self, low, high, generation=None):
        """The first record in [low, high] that proves its key, or None."""
        for position in candidates(self.segment, low, high, generation):
            proof = self.prove(position)
            if proof:
                return proof
        return None

    def prove(self, position):
        """Derive the key at `position`; it counts only if the body fits too."""
        segment = self.segment
        index = segment.locate(position, RECORD_HEAD)
        if index < 0:
            return None
        fields = RECORD_FIELDS.unpack_from(segment.buffer, index)
        header_crc, body_crc, payload, generation, headers, unsynced, relative, flags, _, _ = fields
        room = position - FIRST
        length = padded(RECORD_HEAD + headers + payload)
        if flags or generation == 0 or position + length > segment.end:
            return None
        if unsynced > W or unsynced > room:
            return None
        if relative > room // 32 or (relative == 0) != (room == 0):
            return None
        if length > self.budget:
            return None
        self.budget -= length
        seed = zlib.crc32(LE64.pack(position))
        key = header_crc ^ zlib.crc32(segment.buffer[index + 4:index + 32], seed)
        if not self.body_fits(position, headers + payload, length, body_crc ^ key, seed):
            return None
        return Proof(position, key, generation, relative)

    def body_fits(self, position, body, length, crc, seed):
        body_at = position + RECORD_HEAD
        if self.segment.crc(body_at, body, seed) != crc:
            return False
        return not any(self.segment.read(body_at + body, length - RECORD_HEAD - body))


class Leftover(NamedTuple):
    """A run of records of one earlier use."""

    generation: int
    key: int
    position: int
    end: int
    count: int
    relative: int


def leftovers(segment):
    """Runs of whole records under derived keys, each within W of the last."""
    prover, runs, low = Prover(segment, LEFTOVERS_BUDGET), [], FIRST
    while True:
        proof = prover.first(low, low + W)
        if proof is None:
            return runs
        walk = Walk(segment, proof.key, proof.generation)
        walk.position, walk.expected = proof.position, proof.relative
        walk.run()
        count = walk.expected - proof.relative
        runs.append(Leftover(proof.generation, proof.key, proof.position,
                             walk.position, count, proof.relative))
        low = max(walk.position, low + 8)


def leftovers_text(segment):
    """The leftovers in words, by use."""
    uses = {}
    for run in leftovers(segment):
        uses.setdefault((run.generation, run.key), []).append(run)
    if not uses:
        return "no leftovers"
    texts = []
    for (generation, _), runs in sorted(uses.items()):
        count = sum(run.count for run in runs)
        texts.append(f"{counted(count, 'record')} of generation {generation}"
                     f" in [{runs[0].position}, {runs[-1].end})")
    return "leftovers: " + ", ".join(texts)


# -------------------------------------------- files without their own header


def vouches(segment, header, log_ids, named_base):
    """Section 6, "what vouches in a trailing file": in words, or None."""
    if isinstance(header, HeaderFault) and header.kind in ("empty", "short"):
        return None
    generation = header.generation if isinstance(header, Header) else None
    checkpoint = read_checkpoint(segment, Expected(generation=generation))
    if checkpoint and checkpoint.fault is None:
        return f"a checkpoint of generation {checkpoint.generation} at 4096"
    if generation is None:
        proof = Prover(segment).first(FIRST, FIRST + W)
        return proof and f"a record at {proof.position}"
    key = key_for(segment, header, log_ids, named_base)
    found = key is not None and Beyond(segment, key, generation, FIRST, 0).run()
    if found and found.claim > FIRST:
        return f"the record at {found.strongest.position}, which claims {found.claim}"
    return None


def key_for(segment, header, log_ids, named_base):
    """The key of the header's log and base, of the directory's and the name's, or one proved."""
    if header.in_use:
        return header.key
    if log_ids:
        return key_of(log_ids[0], header.generation, named_base)
    proof = Prover(segment).first(FIRST, FIRST + W, header.generation)
    return proof and proof.key


# --------------------------------------------------------- one segment file


class Outcome:
    """What reading a segment came to."""

    def __init__(self, walk, base):
        self.walk, self.base = walk, base
        self.verdict = None         # sealed, clean, torn tail, damage or gone
        self.found = Found()
        self.checkpoint = None      # as of the judgement
        self.passed = None          # the valid one that was there when the walk began
        self.text = ""

    @property
    def disagreement(self):
        """Section 6: where a checkpoint that counts and the walk differ, in words, or None."""
        met = self.walk.at_mark
        if met is None or self.verdict == "gone":
            return None
        said = self.passed.position, self.passed.next_offset
        position, offset = met[0], self.base + met[1]
        if said == (position, offset):
            return None
        return position, f"the checkpoint puts record {said[1]} at {said[0]}; here is {offset}"

    @property
    def position(self):
        return self.walk.position if self.verdict == "damage" else None

    @property
    def vouched(self):
        """What surely survives: V of section 6, the walk's claims included."""
        claims = [self.walk.claim, self.found.claim]
        if self.checkpoint and self.checkpoint.fault is None:
            claims.append(self.checkpoint.position)
        return max(claims)


def read_segment(segment, header, sealed_at=None, take=None):
    """Sections 4 to 6: walk a segment that is in use, and judge its end.

    `sealed_at` is the next segment's previous end, None in a last segment.
    Damage is reported only if a second walk from Stop stops there again and
    the file is still the same segment (section 6, "looking at a live node").
    """
    end = None if sealed_at is None else sealed_at - header.base
    walk = Walk(segment, header.key, header.generation, end)
    outcome = Outcome(walk, header.base)
    try:
        outcome.checkpoint = passed = read_checkpoint(segment, expected_by(header))
        if passed and passed.fault is None:
            outcome.passed, walk.mark = passed, passed.position
        while True:
            walk.run(take)
            if walk.failure is None:
                return conclude(outcome, "sealed", f"ends at {walk.position}, as the next segment says")
            damage = sealed_damage(walk, sealed_at) if end is not None else last_damage(outcome, header)
            if damage is None:
                return conclude(outcome, *describe_end(outcome))
            stop = walk.position
            segment.forget()
            walk.run(take)
            if walk.position == stop:
                break
    except OSError:
        if is_gone(segment, header):
            return conclude(outcome, "gone", "the file was given up meanwhile")
        raise
    if is_gone(segment, header):
        return conclude(outcome, "gone", "the file was given up meanwhile")
    return conclude(outcome, "damage", damage)


def conclude(outcome, verdict, text):
    outcome.verdict, outcome.text = verdict, text
    return outcome


def sealed_damage(walk, sealed_at):
    return (f"{walk.failure}; the walk stops {counted(walk.end - walk.expected, 'record')} before"
            f" {sealed_at}, the previous end of the next segment")


def last_damage(outcome, header):
    """Section 6: the damage at the Stop of a last segment in words, or None."""
    walk = outcome.walk
    segment, stop = walk.segment, walk.position
    outcome.found = Beyond(segment, header.key, header.generation, stop, walk.expected).run()
    outcome.checkpoint = read_checkpoint(segment, expected_by(header))
    voices = [(outcome.found.claim, "record")]
    if outcome.checkpoint and outcome.checkpoint.fault is None:
        voices.append((outcome.checkpoint.position, "checkpoint"))
    vouched, who = max(voices, key=lambda voice: voice[0])
    if segment.length < FIRST:
        return f"{walk.failure}; the file was cut in front of where its records begin"
    if vouched <= stop:
        other = misplaced(segment, header) if stop == FIRST else None
        return other and f"{walk.failure}; {other}"
    if who == "record":
        who = f"record at {outcome.found.strongest.position}"
    return f"{walk.failure}; the {who} vouches for the bytes [{stop}, {vouched})"


def misplaced(segment, header):
    """Section 6, "a header that is not the file's own": in words, or None."""
    checkpoint = read_checkpoint(segment, Expected(generation=header.generation))
    if checkpoint and checkpoint.fault is None and checkpoint.log_id != header.log_id:
        return "the checkpoint of this generation is another log's, so the header was too"
    proof = Prover(segment).prove(FIRST)
    if proof and proof.generation == header.generation and proof.key != header.key:
        return "records of another log's or another use's header stand behind this one"
    return None


def describe_end(outcome):
    """Tell an orderly end from a tail that a crash tore."""
    walk, found = outcome.walk, outcome.found
    state = f"ends at {walk.position}: {walk.failure}"
    if found.count:
        state += f"; {counted(found.count, 'header')} beyond, claiming nothing that is lost"
    torn = found.count or walk.failure.rule > 3
    return ("torn tail" if torn else "clean"), state


def is_gone(segment, header):
    """Section 6: the name is gone, or is another use's or another state's."""
    try:
        with Segment(segment.path) as again:
            return is_another(read_header(again), header)
    except FileNotFoundError:
        return True
    except (OSError, Refused):
        return False


def is_another(now, header):
    """Whether a header read later is that of another use or another state."""
    return (isinstance(now, Header)
            and (now.generation, now.state) != (header.generation, header.state))


def report_outcome(report, path, outcome, header, checking):
    """The verdict, and what section 6 says of checkpoints and of short files."""
    report.add(outcome.verdict, path, outcome_text(outcome, header), outcome.position)
    if outcome.disagreement:
        position, text = outcome.disagreement
        report.add("damage", path, text, position)
    length = outcome.walk.segment.length
    if checking and length < header.capacity and outcome.verdict not in ("sealed", "gone"):
        report.add("damage", path, f"the file ends here, its header says {header.capacity} bytes", length)


def outcome_text(outcome, header):
    walk = outcome.walk
    text = f"{counted(walk.expected, 'record')} [{header.base}, {header.base + walk.expected})"
    if outcome.verdict in ("clean", "torn tail"):
        text += f"; vouched to {outcome.vouched}"
    checkpoint = outcome.checkpoint
    if checkpoint and checkpoint.fault not in (None, "zero"):
        text += f"; checkpoint ignored ({checkpoint.fault})"
    return f"{outcome.text}; {text}"


def report_fault(report, path, fault, extra=""):
    """Section 3.1: a header that is newer is refused, any other is damage."""
    if fault.kind == "newer":
        report.add("refused", path, fault.text)
    else:
        report.add("damage", path, "header, " + fault.text + extra, fault.position)


def report_gap(report, path, header):
    if header.previous_end < header.base:
        report.add("gap", path, f"offsets [{header.previous_end}, {header.base}) were given up by a repair")


# -------------------------------------------------------------------- a log


class Entry(NamedTuple):
    """A file with a segment's name in the directory of a log."""

    path: str
    named_base: int
    header: object                  # Header or HeaderFault

    @property
    def is_segment(self):
        """Section 6: a valid in-use header whose base is the number in its name."""
        return (isinstance(self.header, Header) and self.header.in_use
                and self.header.base == self.named_base)


def base_in_name(name):
    """Section 2: the base that a segment's name gives, or None."""
    if not re.fullmatch(r"[0-9]{20}\.seg", name, re.ASCII):
        return None
    base = int(name[:20])
    return base if base < ALL_ONES else None


def kind_of(path):
    """'file', 'directory', 'link' or 'other', without following links."""
    mode = os.lstat(path).st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def list_directory(path):
    """Sorted [(name, path, kind)]; names that vanish meanwhile are left out."""
    rows = []
    for name in sorted(os.listdir(path)):
        full = os.path.join(path, name)
        try:
            rows.append((name, full, kind_of(full)))
        except FileNotFoundError:
            continue
    return rows


def refuse_strangers(kind, path):
    """Section 2: links, and what is neither directory nor regular file."""
    if kind == "link":
        raise Refused(path, "is a symbolic link")
    if kind == "other":
        raise Refused(path, "is neither a directory nor a regular file")


def segment_names(directory):
    """Section 2: [(base, path)] of a log's files; refuses foreign ones."""
    names = []
    for name, path, kind in list_directory(directory):
        refuse_strangers(kind, path)
        base = base_in_name(name)
        if kind == "directory":
            if base is not None:
                raise Refused(path, "is a directory with a segment's name")
        elif base is not None:
            names.append((base, path))
        elif not name.endswith(".tmp"):
            raise Refused(path, "is a file of a name that no log has")
    return names


def load_entry(base, path):
    with Segment(path) as segment:
        return Entry(path, base, read_header(segment))


def load_log(directory):
    """All files of a log with their headers, in the order of names."""
    entries = []
    for base, path in segment_names(directory):
        try:
            entry = load_entry(base, path)
        except FileNotFoundError:
            continue                # given up since the directory was listed
        if isinstance(entry.header, HeaderFault) and entry.header.kind == "newer":
            raise Refused(path, entry.header.text)
        entries.append(entry)
    return entries


class Fate(NamedTuple):
    """What section 6 makes of a file: segment, unused, damage, gone or unreadable."""

    kind: str
    text: str = ""
    position: Optional[int] = None


class LogReader:
    """Sections 5 and 6: the files of a log, one after the other."""

    def __init__(self, entries, report, take=None):
        self.entries, self.report = entries, report
        self.segments = [entry for entry in entries if entry.is_segment]
        self.take = take            # take(base, record)
        self.log_ids = [self.segments[0].header.log_id] if self.segments else []
        self.fates = self.judge_files()

    def check(self):
        """Judge and read every file, damaged ones included."""
        for index in range(len(self.entries)):
            self.tell(index, checking=True)

    def read(self):
        """Read up to the first file with damage, or that must be refused."""
        for index, entry in enumerate(self.entries):
            self.tell(index, checking=False)
            if self.report.has("damage", "refused", "unreadable"):
                self.report.add("note", entry.path, "nothing behind this is listed")
                return

    def judge_files(self):
        """Headers and names: from the last file to the first, then how they hang together."""
        fates, trailing = [], True
        for entry in reversed(self.entries):
            fate = self.guarded(entry.path, lambda: self.judge(entry, trailing))
            trailing = trailing and fate.kind in ("unused", "gone")
            fates.insert(0, fate)
        if trailing and self.entries and self.entries[0].named_base > 0:
            fates[0] = Fate("damage", "no segment is left, and the name says that there were some", 0)
        for index in range(1, len(fates)):
            if fates[index - 1].kind == fates[index].kind == "segment":
                fates[index] = chained(self.entries[index - 1].header, self.entries[index].header)
        return fates

    def guarded(self, path, function):
        """The Fate that function gives, or what keeps it from reading."""
        try:
            return function()
        except FileNotFoundError:
            return Fate("gone", "the file was given up meanwhile")
        except OSError as error:
            return Fate("unreadable", describe_error(error))
        except Refused as refusal:
            return Fate("refused", refusal.why)

    def judge(self, entry, trailing):
        """One file by its header, name and place; not yet against the segment before it."""
        header = entry.header
        if entry.is_segment and header.log_id == self.log_ids[0]:
            return Fate("segment")
        fate = self.judge_stranger(entry, trailing)
        if fate.kind == "damage" and has_changed(entry):
            return Fate("gone", "its header was written meanwhile: look again")
        return fate

    def judge_stranger(self, entry, trailing):
        header = entry.header
        if entry.is_segment:
            return Fate("damage", "field log id: not that of the first segment", 64)
        if isinstance(header, HeaderFault) and header.kind == "damage":
            return Fate("damage", "header, " + header.text, header.position)
        if isinstance(header, HeaderFault) and header.kind == "short":
            return Fate("damage", header.text + "; the file was cut, no crash makes it", 0)
        what = state_text(header)
        if not trailing:
            return Fate("damage", f"{what} before a file that has its header", 0)
        with Segment(entry.path) as segment:
            proof = vouches(segment, read_header(segment), self.log_ids, entry.named_base)
        if proof:
            return Fate("damage", f"{what}, but it holds {proof}", 0)
        return Fate("unused", f"{what}; not part of the log")

    def sealed_at(self, index):
        """Where the next file says that this one ends; the name of a damaged one says it too."""
        for entry, fate in zip(self.entries[index + 1:], self.fates[index + 1:]):
            if fate.kind == "segment":
                return entry.header.previous_end
            if fate.kind == "damage":
                return entry.named_base
        return None

    def tell(self, index, checking):
        """Report one file; read it if it is a segment, damaged ones only to check them."""
        entry, fate = self.entries[index], self.fates[index]
        if fate.kind == "segment":
            if index > 0:
                report_gap(self.report, entry.path, entry.header)
        else:
            self.report.add(fate.kind, entry.path, fate.text, fate.position)
        if fate.kind == "segment" or (checking and fate.kind == "damage" and entry.is_segment):
            failed = self.guarded(entry.path, lambda: self.read_entry(entry, self.sealed_at(index), checking))
            if failed:
                self.report.add(failed.kind, entry.path, failed.text)

    def read_entry(self, entry, sealed_at, checking):
        header, take = entry.header, None
        if self.take:
            def take(record):
                self.take(header.base, record)
        with Segment(entry.path) as segment:
            if is_another(read_header(segment), header):
                raise FileNotFoundError
            outcome = read_segment(segment, header, sealed_at, take)
            report_outcome(self.report, entry.path, outcome, header, checking)


def chained(before, header):
    """Section 6: whether a segment can be the one after another."""
    if header.previous_end < before.base:
        return Fate("damage", "field previous end: below the base of the segment before", 48)
    if header.previous_end > before.base + (before.capacity - FIRST) // 32:
        return Fate("damage", "field previous end: more than fits in the segment before", 48)
    return Fate("segment")


def has_changed(entry):
    """A running node may be just taking the file, or stamping it."""
    return load_entry(entry.named_base, entry.path).header != entry.header


def state_text(header):
    if isinstance(header, HeaderFault):
        return header.text
    if header.in_use:
        return f"header of base {header.base}, another than in the name"
    return f"header of a spare, generation {header.generation}"


def offset_for_time(entries, moment):
    """Section 5, time: the smallest offset whose running maximum reaches it."""
    segments = [entry for entry in entries if entry.is_segment]
    index = next((i for i in reversed(range(len(segments)))
                  if segments[i].header.previous_millis < moment), None)
    if index is None:
        return segments[0].header.base if segments else 0
    header = segments[index].header
    end = segments[index + 1].header.previous_end if index + 1 < len(segments) else None
    hits = []

    def take(record):
        if not hits and record.millis >= moment:
            hits.append(header.base + record.relative)

    with Segment(segments[index].path) as segment:
        segment.limit_to(header.capacity)
        outcome = read_segment(segment, header, end, take)
    if hits:
        return hits[0]
    if end is None:
        return header.base + outcome.walk.expected
    return segments[index + 1].header.base


# ------------------------------------------------------------------- LAYOUT


class Layout(NamedTuple):
    """Section 2, `LAYOUT`: verdict is ok, unfinished, newer or damage."""

    verdict: str
    text: str


LAYOUT_LINES = (
    re.compile(rb"plimsoll layout 1"),
    re.compile(rb"main (0|[1-9][0-9]*)"),
    re.compile(rb"small (0|[1-9][0-9]*)"),
    re.compile(rb"tiny (0|[1-9][0-9]*)"),
    re.compile(rb"crc32 (.{8})", re.DOTALL),
)
LAYOUT_MAX = 4096
CHECKSUM_LINE = re.compile(rb"crc32 ([0-9a-f]{8})\n")


def parse_layout(content):
    """Section 2: the table of answers, in its order."""
    if not any(content):
        return Layout("unfinished", "it was being made; a start makes it again")
    first = re.match(rb"plimsoll layout ([1-9][0-9]{0,19})\n", content)
    if first and 1 < int(first[1]) <= ALL_ONES and checksum_line_fits(content):
        return Layout("newer", f"layout version {first[1].decode()} is newer")
    lines = content.split(b"\n")
    for number, form in enumerate(LAYOUT_LINES, 1):
        found = form.fullmatch(lines[number - 1]) if number <= len(lines) else None
        if not found or (1 < number < 5 and int(found[1][:21]) > ALL_ONES):
            return Layout("damage", f"line {number} is missing or of another form")
    if lines[5:] != [b""]:
        return Layout("damage", "line 6: the file does not end with the line feed of line 5")
    if not checksum_line_fits(content):
        return Layout("damage", "line 5: the CRC32 does not fit")
    return layout_sizes(lines)


def layout_sizes(lines):
    main, small, tiny = (int(line.split()[1]) for line in lines[1:4])
    if not all(is_capacity(size) for size in (main, small, tiny)):
        return Layout("damage", "line 2: sizes that are no capacities")
    if not tiny <= small <= main:
        return Layout("damage", "line 2: sizes out of order")
    return Layout("ok", f"layout version 1, main {main}, small {small}, tiny {tiny}")


def checksum_line_fits(content):
    last = CHECKSUM_LINE.fullmatch(content[-15:])
    return last is not None and int(last[1], 16) == zlib.crc32(content[:-15])


def read_layout(path):
    try:
        with Segment(path) as file:
            return parse_layout(file.read(0, LAYOUT_MAX))
    except FileNotFoundError:
        return Layout("unfinished", "is missing; a start makes it again")


def report_layout(report, path):
    """Says whether the directory may be read on."""
    layout = read_layout(path)
    kind = {"ok": "layout", "newer": "refused"}.get(layout.verdict, layout.verdict)
    report.add(kind, path, layout.text)
    return layout.verdict != "newer"


# ----------------------------------------------------------- data directory

LOG_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", re.ASCII)
KNOWN_NAMES = {"LOCK": "file", "LAYOUT": "file", "logs": "directory", "spares": "directory",
               "trash": "directory", "quarantine": "directory"}


def is_log_name(name):
    """Section 2: 1 to 200 bytes, parts joined by slashes."""
    parts = name.split("/")
    return (len(name) <= 200
            and all(LOG_PART.fullmatch(part) and not part.endswith(".seg") for part in parts))


def is_data_directory(path):
    names = set(os.listdir(path))
    if "LAYOUT" in names:
        return "logs" in names or not any(name.endswith(".seg") for name in names)
    return {"logs", "LOCK"} <= names


def find_logs(root, report, prefix=""):
    """[(name, directory)] of all logs, a log before those below it."""
    logs = []
    rows = list_directory(os.path.join(root, prefix))
    own = [path for name, path, kind in rows if kind == "file" and name.endswith(".seg")]
    below = [path for _, path, kind in rows if kind == "directory"]
    is_log = prefix and (own or not below)
    if is_log:
        logs.append((prefix[:-1], os.path.join(root, prefix[:-1])))
        if below:
            report.add("foreign", os.path.join(root, prefix), "a log's directory with directories in it")
    for name, path, kind in rows:
        if kind == "directory" and is_log_name(prefix + name):
            logs.extend(find_logs(root, report, prefix + name + "/"))
        elif kind == "directory":
            report.add("foreign", path, "a directory that no log can be named after")
        elif kind == "file" and not is_log:
            report.add("foreign", path, "a file outside of any log")
        elif kind != "file" and not is_log:
            report.add("refused", path, "a link in the place of a log")
    return logs


def log_directory(root, name):
    """The directory of a log in a data directory, each part a real directory."""
    path = root
    for part in ["logs", *name.split("/")]:
        path = os.path.join(path, part)
        kind = kind_of(path)
        refuse_strangers(kind, path)
        if kind != "directory":
            raise Refused(path, "is not a directory")
    return path


def check_top_level(root, report):
    for name, path, kind in list_directory(root):
        wanted = KNOWN_NAMES.get(name)
        if wanted and wanted != kind:
            raise Refused(path, f"is a {kind}")
        if wanted is None and (name, kind) != ("LAYOUT.tmp", "file"):
            report.add("foreign", path, "is no part of the format")


def check_data_directory(root, report):
    """Section 2: LAYOUT, the names, every log and every spare."""
    check_top_level(root, report)
    if not report_layout(report, os.path.join(root, "LAYOUT")):
        return
    for name, parent in (("logs", check_logs), ("spares", check_spares)):
        path = os.path.join(root, name)
        if os.path.lexists(path) and kind_of(path) == "directory":
            parent(path, report)


def check_logs(path, report):
    for _, directory in find_logs(path, report):
        check_log(directory, report)


def check_log(directory, report):
    try:
        entries = load_log(directory)
    except Refused as refusal:
        report.add("refused", directory, f"the log is left alone: {refusal.path} {refusal.why}")
        return
    except OSError as error:
        report.add("unreadable", error.filename or directory, describe_error(error))
        return
    if not entries:
        report.add("clean", directory, "a log without records, or only on the way to another")
    LogReader(entries, report).check()


def check_spares(directory, report):
    for name, path, kind in list_directory(directory):
        if kind != "file":
            report.add("foreign", path, f"is a {kind}")
        elif not name.endswith(".seg"):
            report.add("unused", path, "a spare that was being made")
        else:
            guarded(report, path, check_spare_file)


def guarded(report, path, function):
    """Run function(report, path) and report what keeps it from reading."""
    try:
        function(report, path)
    except FileNotFoundError:
        report.add("gone", path, "the file is gone")
    except OSError as error:
        report.add("unreadable", path, describe_error(error))
    except Refused as refusal:
        report.add("refused", refusal.path, refusal.why)


def check_spare_file(report, path):
    """A file in `spares`: nothing was promised, so nothing in it is damage."""
    with Segment(path) as segment:
        header = read_header(segment)
        if isinstance(header, HeaderFault):
            report.add("unused", path, f"header, {header.text}; a start deletes it")
            return
        state = "header of a file in use, not stamped as a spare yet; " if header.in_use else ""
        report.add("spare", path, f"{state}generation {header.generation}; {leftovers_text(segment)}")


# ------------------------------------------------------------- single files


def sealing_segment(path, header):
    """The segment behind this one in the same directory, if there is one."""
    base = base_in_name(os.path.basename(path))
    if base is None or base != header.base:
        return None
    directory = os.path.dirname(path) or "."
    for name, other, kind in list_directory(directory):
        later = base_in_name(name)
        if kind == "file" and later is not None and later > base:
            entry = load_entry(later, other)
            if entry.is_segment:
                return entry
    return None


def check_single(report, path, take=None):
    """A segment file by itself: sealed by its neighbour, else a last segment."""
    with Segment(path) as segment:
        header = read_header(segment)
        if isinstance(header, HeaderFault):
            report_fault(report, path, header, "; " + leftovers_text(segment))
        elif header.in_use:
            check_in_use(report, segment, header, take)
        else:
            report.add("spare", path, f"generation {header.generation}; {leftovers_text(segment)}")


def check_in_use(report, segment, header, take):
    named = base_in_name(os.path.basename(segment.path))
    if named is not None and named != header.base:
        report.add("note", segment.path, f"its header's base {header.base} is not the one in its name")
    report_gap(report, segment.path, header)
    following = sealing_segment(segment.path, header)
    sealed_at = following.header.previous_end if following else None
    if sealed_at is not None and sealed_at < header.base:
        report.add("damage", following.path, "field previous end: below the base of the segment before", 48)
        return
    one = (lambda record: take(header.base, record)) if take else None
    outcome = read_segment(segment, header, sealed_at, one)
    report_outcome(report, segment.path, outcome, header, checking=take is None)


# ----------------------------------------------------------------- commands


class Target(NamedTuple):
    """What PATH and --log name: layout, segment, log or data."""

    kind: str
    path: str


def find_target(path, log_name):
    kind = kind_of(path)
    refuse_strangers(kind, path)
    if log_name is not None:
        return log_target(path, kind, log_name)
    if kind == "directory":
        return Target("data" if is_data_directory(path) else "log", path)
    return Target("layout" if os.path.basename(path) == "LAYOUT" else "segment", path)


def log_target(path, kind, log_name):
    if not is_log_name(log_name):
        raise UsageError(f"{printable(log_name)} is no name of a log")
    if kind != "directory":
        raise UsageError("--log goes with a data directory")
    layout = os.path.join(path, "LAYOUT")
    answer = read_layout(layout)
    if answer.verdict == "newer":
        raise Refused(layout, answer.text)
    return Target("log", log_directory(path, log_name))


def command_check(options, out, _):
    report = Report(out)
    target = find_target(options.path, options.log)
    if target.kind == "layout":
        report_layout(report, target.path)
    elif target.kind == "segment":
        check_single(report, target.path)
    elif target.kind == "log":
        check_log(target.path, report)
    else:
        check_data_directory(target.path, report)
    return report.exit_code


def command_records(options, out, err):
    report = Report(err)
    target = find_target(options.path, options.log)
    if target.kind == "data":
        raise UsageError("a data directory needs --log NAME")
    if target.kind == "layout":
        raise UsageError("LAYOUT holds no records")
    write = record_writer(options, out)
    if target.kind == "segment":
        take = since(write, options.since, single_entry(target.path, options.since))
        check_single(report, target.path, take)
    else:
        entries = load_log(target.path)
        LogReader(entries, report, since(write, options.since, entries)).read()
    return report.exit_code


def single_entry(path, moment):
    """A lone file as a log of one segment, for the search by time."""
    if moment is None:
        return []
    entry = load_entry(0, path)
    header = entry.header
    return [entry._replace(named_base=header.base)] if isinstance(header, Header) else []


def since(write, moment, entries):
    """Leave out what comes before the offset for that time."""
    if moment is None:
        return write
    first = offset_for_time(entries, moment)

    def write_later(base, record):
        if base + record.relative >= first:
            write(base, record)
    return write_later


def record_writer(options, out):
    """The function that writes one record in the form asked for."""
    write = out.write

    def raw(_, record):
        write(record.payload)
        write(b"\n")

    def as_json(base, record):
        write(json_line(base, record))

    def plain(base, record):
        write(plain_line(base, record))

    if options.payloads:
        return raw
    return as_json if options.json else plain


ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def json_line(base, record):
    row = {"offset": base + record.relative, "time": record.millis}
    pairs = parse_pairs(record.headers)
    if pairs is None:
        row["headers_base64"] = in_base64(record.headers)
    else:
        row["headers"] = pairs_as_object(pairs)
    text = as_text(record.payload)
    if text is None:
        row["payload_base64"] = in_base64(record.payload)
    else:
        row["payload"] = text
    return ENCODE(row).encode() + b"\n"


def pairs_as_object(pairs):
    """Repeated names become lists, values that are no text {"base64": ...}."""
    values = {}
    for name, value in pairs:
        text = as_text(value)
        values.setdefault(name, []).append({"base64": in_base64(value)} if text is None else text)
    return {name: row[0] if len(row) == 1 else row for name, row in values.items()}


def plain_line(base, record):
    """Offset, stamp, headers and payload, between tabs; text in quotes."""
    pairs = parse_pairs(record.headers)
    if pairs is None:
        headers = "headers base64:" + in_base64(record.headers)
    else:
        headers = " ".join(f"{quoted(name.encode())}={quoted(value)}" for name, value in pairs) or "-"
    columns = (str(base + record.relative), str(record.millis), headers, quoted(record.payload))
    return "\t".join(columns).encode() + b"\n"


def quoted(octets):
    text = as_text(octets)
    return "base64:" + in_base64(octets) if text is None else ENCODE(text)


def in_base64(octets):
    return base64.b64encode(octets).decode("ascii")


def command_header(options, out, err):
    report = Report(err)
    target = find_target(options.path, options.log)
    if target.kind == "data":
        raise UsageError("a data directory needs --log NAME")
    if target.kind == "layout":
        layout_report = Report(out)
        report_layout(layout_report, target.path)
        return layout_report.exit_code
    paths = [target.path]
    if target.kind == "log":
        paths = [path for _, path in segment_names(target.path)]
    for path in paths:
        guarded(report, path, lambda report, path: show_blocks(report, path, out))
    return report.exit_code


def show_blocks(report, path, out):
    with Segment(path) as segment:
        header = read_header(segment)
        emit_line(out, f"{printable(path)}: {segment.length} bytes")
        show_header(segment, header, out)
        show_checkpoint(read_checkpoint(segment, expected_by(header)), out)
    if isinstance(header, HeaderFault):
        if header.kind == "damage":
            report.add("damage", path, "header, " + header.text, header.position)
        else:
            report.add("refused", path, "no header: " + header.text)


def show_header(segment, header, out):
    """The fields as they stand, also those of a header that is not valid."""
    if isinstance(header, HeaderFault):
        emit_line(out, f"header: not valid: {header.text}, at {header.position}")
        if header.kind != "damage":
            return
    sector = segment.read(0, SECTOR)
    shown = Header(*HEADER_FIELDS.unpack_from(sector))
    rows = (
        ("magic", shown.magic.hex(" ")),
        ("layout version", shown.version),
        ("state", named(STATES, shown.state)),
        ("size class", named(CLASSES, shown.size_class)),
        ("generation", shown.generation),
        ("origin", named(ORIGINS, shown.origin)),
        ("reserved", "zero" if not any(shown.reserved + sector[80:508]) else "not zero"),
        ("capacity", shown.capacity),
        ("created", f"{shown.created} ({iso_time(shown.created)})"),
        ("base offset", number(shown.base)),
        ("previous end", number(shown.previous_end)),
        ("previous millis", f"{shown.previous_millis} ({iso_time(shown.previous_millis)})"),
        ("log id", shown.log_id.hex(" ")),
        ("CRC32", checksum(sector)),
        ("key", f"0x{shown.key:08x}"),
    )
    show_rows("header", rows, out)


def show_checkpoint(checkpoint, out):
    if checkpoint is None:
        emit_line(out, "checkpoint: the file ends before it")
        return
    if checkpoint.fault is not None:
        emit_line(out, f"checkpoint: ignored: {checkpoint.fault}")
        if checkpoint.fault in ("zero", "field magic", "field CRC32"):
            return
    rows = (
        ("generation", checkpoint.generation),
        ("position", checkpoint.position),
        ("next offset", number(checkpoint.next_offset)),
        ("millis", f"{checkpoint.millis} ({iso_time(checkpoint.millis)})"),
        ("log id", checkpoint.log_id.hex(" ")),
    )
    show_rows("checkpoint", rows, out)


def show_rows(title, rows, out):
    emit_line(out, title + ":")
    for name, value in rows:
        emit_line(out, f"  {name:16} {value}")


def named(names, value):
    return f"{value} ({names.get(value, 'illegal')})"


def number(value):
    return "all ones" if value == ALL_ONES else value


def checksum(sector):
    stored, computed = LE32.unpack_from(sector, 508)[0], zlib.crc32(sector[:508])
    return f"0x{stored:08x} " + ("fits" if stored == computed else f"does not fit: 0x{computed:08x}")


# ---------------------------------------------------------------- self test


class SelfTest:
    """Section 11: the golden files, and random corruptions of them."""

    def __init__(self, golden, out):
        self.golden, self.out = golden, out
        self.passed, self.failures = 0, 0

    def expect(self, what, condition):
        if condition:
            self.passed += 1
        else:
            self.failures += 1
            emit_line(self.out, f"FAILED: {what}")

    def path(self, name):
        return os.path.join(self.golden, name)

    def run(self):
        tests = (self.checksums, self.in_use_files, self.worked, self.spare, self.tails,
                 self.damages, self.layout, self.node, self.corruptions)
        for test in tests:
            try:
                test()
            except (OSError, Refused, AttributeError, IndexError, TypeError) as error:
                self.expect(f"{test.__name__}: {error!r}", False)
        emit_line(self.out, f"{self.passed} passed, {self.failures} failed")
        return EXIT_DAMAGE if self.failures else EXIT_OK

    def analyse(self, name):
        """(header, outcome, records) of a golden file that is in use."""
        records = []
        with Segment(self.path(name)) as segment:
            header = read_header(segment)
            outcome = read_segment(segment, header, None, records.append)
        return header, outcome, records

    def checksums(self):
        self.expect("CRC32 check value", zlib.crc32(b"123456789") == 0xCBF43926)
        self.expect("key of the worked example",
                    key_of(bytes(range(0x10, 0x20)), 2, 1000) == 0xE2995799)

    def in_use_files(self):
        header, outcome, records = self.analyse("empty.seg")
        self.expect("empty: in use, no records, clean",
                    header.in_use and not records and outcome.verdict == "clean")
        _, outcome, records = self.analyse("two-records.seg")
        self.expect("two-records: two, clean", len(records) == 2 and outcome.verdict == "clean")
        self.expect("two-records: one batch", records[1].unsynced == records[0].length)
        _, outcome, records = self.analyse("largest-record.seg")
        self.expect("largest-record: ends with the file",
                    outcome.walk.position == outcome.walk.segment.length and len(records) == 1)
        header, outcome, _ = self.analyse("last-generation.seg")
        self.expect("last-generation: 65535, large offsets, clean",
                    header.generation == 65535 and header.base > 2**62 and outcome.verdict == "clean")
        header, outcome, _ = self.analyse("heal.seg")
        self.expect("heal: origin 2", header.origin == 2 and outcome.verdict == "clean")
        header, outcome, _ = self.analyse("declared-gap.seg")
        self.expect("declared-gap: origin 3 and a gap",
                    header.origin == 3 and header.previous_end < header.base)
        self.reused()

    def reused(self):
        header, outcome, records = self.analyse("reused.seg")
        self.expect("reused: generation 3, a leftover at Stop, clean",
                    header.generation == 3 and outcome.walk.failure.rule == 3
                    and outcome.verdict == "clean")
        self.expect("reused: checkpoint ignored", outcome.checkpoint.fault is not None)
        with Segment(self.path("reused.seg")) as segment:
            left = Prover(segment).prove(outcome.walk.position)
        self.expect("reused: the leftover is of generation 2, at the same offset",
                    left and left.generation == 2 and left.relative == len(records))

    def worked(self):
        """Section 10."""
        header, outcome, records = self.analyse("worked.seg")
        self.expect("worked: header", header[1:] == (
            1, 2, 1, 2, 1, bytes(9), 12288, 1767225600000, 1000, 1000, 1767225599000,
            bytes(range(0x10, 0x20))))
        self.expect("worked: checkpoint", outcome.checkpoint == Checkpoint(
            2, 8256, 1001, 1767225600000, bytes(range(0x10, 0x20)), None))
        self.expect("worked: first record", [
            records[0].position, records[0].millis, bytes(records[0].payload),
            parse_pairs(records[0].headers)] == [
                8192, 1767225600000, b"hello", [("type", b"order"), ("trace", b"\0\xff")]])
        self.expect("worked: second record", records[1][:4] == (8256, 1, 1767225600001, 0)
                    and records[1].length == 32)
        self.expect("worked: Stop", outcome.walk.failure == (2, 8288) and outcome.verdict == "clean")

    def spare(self):
        with Segment(self.path("spare-with-leftovers.seg")) as segment:
            header = read_header(segment)
            self.expect("spare: generation 2", not header.in_use and header.generation == 2)
            runs = leftovers(segment)
            self.expect("spare: leftovers of generation 1",
                        runs and all(run.generation == 1 for run in runs))
            self.expect("spare: nothing vouches", vouches(segment, header, [], 0) is None)

    def tails(self):
        _, torn, torn_records = self.analyse("torn-tail.seg")
        self.expect("torn-tail: a survivor beyond, the end",
                    torn.verdict == "torn tail" and torn.found.count > 0)
        _, whole, records = self.analyse("torn-tail-recovered.seg")
        self.expect("torn-tail-recovered: nothing beyond, the same end",
                    whole.found.count == 0 and whole.walk.position == torn.walk.position
                    and len(records) == len(torn_records))

    def damages(self):
        _, outcome, _ = self.analyse("damage-in-the-middle.seg")
        self.expect("damage-in-the-middle: by a claim",
                    outcome.verdict == "damage" and outcome.found.claim > outcome.position)
        for name in ("checkpoint-vouches.seg", "shortened.seg"):
            _, outcome, _ = self.analyse(name)
            self.expect(f"{name}: by the checkpoint",
                        outcome.verdict == "damage" and outcome.found.claim <= outcome.position
                        and outcome.checkpoint.position > outcome.position)
        self.expect("shortened: cut below its checkpoint",
                    outcome.walk.segment.length < outcome.checkpoint.position)
        with Segment(self.path("damaged-header.seg")) as segment:
            self.expect("damaged-header: at 508", read_header(segment)[:2] == ("damage", 508))

    def layout(self):
        for name in ("LAYOUT", "node/LAYOUT"):
            self.expect(name, read_layout(self.path(name)).verdict == "ok")
        self.expect("LAYOUT: sizes of the default", "main 67108864, small 8388608, tiny 262144"
                    in read_layout(self.path("LAYOUT")).text)

    def node(self):
        code, text, _ = call(["check", self.path("node")])
        self.expect("node: no damage", code == EXIT_OK)
        self.expect("node: a sealed segment, a last one, a spare",
                    all(kind in text for kind in ("sealed: ", "clean: ", "spare: ")))
        first = os.path.join("node", "logs", "orders", "0" * 20 + ".seg")
        _, alone, _ = self.analyse(first)
        _, listed, _ = call(["records", self.path(first), "--json"])
        self.expect("node: a record beyond the sealed end, not listed",
                    alone.walk.expected > listed.count("\n") > 0)

    def corruptions(self):
        """200 of them: no exception, an answer, and within a second."""
        dice = random.Random(1)
        files = sorted(name for name in os.listdir(self.golden) if name.endswith(".seg"))
        with tempfile.TemporaryDirectory() as scratch:
            for turn in range(200):
                if turn % 5 == 4:
                    path, extra = self.corrupt_node(scratch, dice), ["--log", "orders"]
                else:
                    path, extra = self.corrupt_file(scratch, files, dice), []
                self.try_all(path, extra, turn)

    def corrupt_file(self, scratch, files, dice):
        path = os.path.join(scratch, dice.choice(["x.seg", "0" * 20 + ".seg"]))
        with open(self.path(dice.choice(files)), "rb") as source:
            content = corrupted(source.read(), dice)
        with open(path, "wb") as target:
            target.write(content)
        return path

    def corrupt_node(self, scratch, dice):
        root = os.path.join(scratch, "node")
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.path("node"), root)
        victims = sorted(os.path.join(folder, name)
                         for folder, _, names in os.walk(root) for name in names)
        victim = dice.choice(victims)
        with open(victim, "rb+") as file:
            content = corrupted(file.read(), dice)
            file.seek(0)
            file.truncate()
            file.write(content)
        return root

    def try_all(self, path, extra, turn):
        commands = (["check", path], ["check", path] + extra, ["header", path] + extra,
                    ["records", path] + extra, ["records", path, "--json"] + extra,
                    ["records", path, "--payloads"] + extra,
                    ["records", path, "--since", "1767225600001"] + extra)
        for command in commands:
            begun = time.monotonic()
            try:
                code, text, errors = call(command)
                answered = code in (0, 1, 3) and (text or errors or command[0] == "records")
            except Exception as error:
                answered = False
                emit_line(self.out, f"exception: {error!r}")
            self.expect(f"corruption {turn}: {command[0]} answers", answered)
            self.expect(f"corruption {turn}: within a second", time.monotonic() - begun < 1)


def call(command):
    """Run a command: (exit code, its output, its messages)."""
    out, err = io.BytesIO(), io.BytesIO()
    code = run(command, out, err)
    return code, out.getvalue().decode("utf-8", "replace"), err.getvalue().decode("utf-8", "replace")


def corrupted(content, dice):
    """Content with one thing wrong: flips, zeroes, junk, a cut, or more bytes."""
    content = bytearray(content or b"\0")
    at = dice.choice((dice.randrange(len(content)), min(dice.randrange(8192, 8500), len(content) - 1),
                      dice.randrange(min(96, len(content)))))
    size = dice.randrange(1, 600)
    kind = dice.randrange(7)
    if kind == 0:
        content[at] ^= 1 << dice.randrange(8)
    elif kind == 1:
        content[at:at + size] = bytes(len(content[at:at + size]))
    elif kind == 2:
        content[at:at + size] = dice.randbytes(len(content[at:at + size]))
    elif kind == 3:
        del content[at:]
    elif kind == 4:
        content += dice.randbytes(size)
    elif kind == 5:
        content = bytearray(dice.randbytes(dice.randrange(20000)))
    else:
        reseal(content, at, dice)
    return bytes(content)


def reseal(content, at, dice):
    """An illegal value in a header or checkpoint block under a CRC32 that fits."""
    start = dice.choice((0, CHECKPOINT_AT))
    if len(content) < start + SECTOR:
        return
    content[start + at % 88] ^= 1 << dice.randrange(8)
    LE32.pack_into(content, start + 508, zlib.crc32(content[start:start + 508]))


def command_selftest(options, out, _):
    if not os.path.isdir(options.path):
        raise Refused(options.path, "is not a directory")
    return SelfTest(options.path, out).run()


# --------------------------------------------------------------------- main


def build_parser():
    parser = argparse.ArgumentParser(prog="reader.py", description="Reads logs, layout version 1.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function, text in (
            ("records", command_records, "list the records in order"),
            ("header", command_header, "show the header and the checkpoint"),
            ("check", command_check, "say clean, torn tail or damaged"),
            ("selftest", command_selftest, "test the reader on the golden files")):
        command = commands.add_parser(name, help=text)
        command.add_argument("path", metavar="GOLDEN_DIR" if name == "selftest" else "PATH")
        command.set_defaults(function=function)
        if name != "selftest":
            command.add_argument("--log", metavar="NAME", help="a log of the data directory PATH")
        if name == "records":
            form = command.add_mutually_exclusive_group()
            form.add_argument("--json", action="store_true", help="one JSON object a line")
            form.add_argument("--payloads", action="store_true", help="payloads only, as they are")
            command.add_argument("--since", type=int, metavar="MS", help="start at the offset for this time")
    return parser


def run(arguments, out, err):
    """Run one command; what cannot be read becomes a message and a code."""
    options = build_parser().parse_args(arguments)
    try:
        return options.function(options, out, err)
    except UsageError as error:
        emit_line(err, f"usage: {error}")
        return EXIT_USAGE
    except Refused as refusal:
        emit_line(err, f"refused: {printable(refusal.path)}: {refusal.why}")
        return EXIT_UNREADABLE
    except (OSError, MemoryError, ValueError) as error:
        path = getattr(error, "filename", None) or options.path
        emit_line(err, f"unreadable: {printable(str(path))}: {describe_error(error)}")
        return EXIT_UNREADABLE


def main():
    err = open_messages()
    try:
        out = Output(1)
        code = run(sys.argv[1:], out, err)
        out.flush()
        err.flush()
        return code
    except OutputError as error:
        return give_up_output(error, out, err)
    except OSError as error:        # standard output is closed
        emit_line(err, f"unreadable: standard output: {describe_error(error)}")
    except KeyboardInterrupt:
        return 130
    except Exception as error:      # a mistake in this program, not in the input
        emit_line(err, f"unreadable: internal error: {error!r}")
    err.flush()
    return EXIT_UNREADABLE


def open_messages():
    """Standard error, or a place for messages that nobody can read."""
    try:
        return Output(2)
    except OSError:
        return io.BytesIO()


def give_up_output(error, out, err):
    """A reader that went away is no error; a full disk is."""
    out.drop()
    if error.broken:
        return EXIT_OK
    try:
        emit_line(err, f"unreadable: standard output: {error}")
        err.flush()
    except OutputError:
        pass                        # nobody is left to tell
    return EXIT_UNREADABLE


if __name__ == "__main__":
    sys.exit(main())
