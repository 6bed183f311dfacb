#!/usr/bin/python3
"""Damaged HDF5 files: makes them from good ones, mounts each and reads all of it.

    damage.py CODECFS DATA [COUNT [SEED]]      see scripts/damage-test

Nothing that a file holds may end the daemon, make one call of a reader wait for longer than STEP seconds, or make the
daemon or its helpers take more than MEMORY bytes. That a file, or something in it, cannot be read is as it should be.
The same seed and number make the same file from the same source.
"""
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).parents[2] / "support"))
from mounts import Mount, MountError, memory_of, processes_of, signal_all, unmount  # noqa: E402

STEP = 10  # seconds
MEMORY = 1 << 30  # bytes
SIGNATURES = [b"TREE", b"SNOD", b"HEAP", b"GCOL", b"OHDR", b"OCHK", b"BTHD", b"BTIN", b"BTLF", b"FRHP", b"FHDB", b"FHIB",
              b"FSHD", b"FSSE", b"EAHD", b"EAIB", b"EASB", b"EADB", b"FAHD", b"FADB", b"SMTB", b"SMLI", b"\x89HDF"]
CHECKED = {b"OHDR", b"OCHK", b"BTHD", b"BTIN", b"BTLF", b"FRHP", b"FHIB", b"FSHD", b"EAHD", b"EAIB", b"FAHD", b"\x89HDF"}
LONGEST = 700  # bytes of a block whose checksum is computed again
KINDS = ["flip", "fields", "huge", "cycle", "zeros", "cut", "splice"]


def lookup3(data):
    """Bob Jenkins' hash, which HDF5 has as checksum of its metadata."""
    def rot(x, k):
        return ((x << k) | (x >> (32 - k))) & 0xFFFFFFFF
    a = b = c = (0xDEADBEEF + len(data)) & 0xFFFFFFFF
    if not data:
        return c
    padded = data + bytes(-len(data) % 12)
    words = struct.unpack(f"<{len(padded) // 4}I", padded)
    for at in range(0, len(words) - 3, 3):
        a = (a + words[at]) & 0xFFFFFFFF
        b = (b + words[at + 1]) & 0xFFFFFFFF
        c = (c + words[at + 2]) & 0xFFFFFFFF
        a = (a - c) & 0xFFFFFFFF; a ^= rot(c, 4); c = (c + b) & 0xFFFFFFFF
        b = (b - a) & 0xFFFFFFFF; b ^= rot(a, 6); a = (a + c) & 0xFFFFFFFF
        c = (c - b) & 0xFFFFFFFF; c ^= rot(b, 8); b = (b + a) & 0xFFFFFFFF
        a = (a - c) & 0xFFFFFFFF; a ^= rot(c, 16); c = (c + b) & 0xFFFFFFFF
        b = (b - a) & 0xFFFFFFFF; b ^= rot(a, 19); a = (a + c) & 0xFFFFFFFF
        c = (c - b) & 0xFFFFFFFF; c ^= rot(b, 4); b = (b + a) & 0xFFFFFFFF
    a = (a + words[-3]) & 0xFFFFFFFF
    b = (b + words[-2]) & 0xFFFFFFFF
    c = (c + words[-1]) & 0xFFFFFFFF
    c ^= b; c = (c - rot(b, 14)) & 0xFFFFFFFF
    a ^= c; a = (a - rot(c, 11)) & 0xFFFFFFFF
    b ^= a; b = (b - rot(a, 25)) & 0xFFFFFFFF
    c ^= b; c = (c - rot(b, 16)) & 0xFFFFFFFF
    a ^= c; a = (a - rot(c, 4)) & 0xFFFFFFFF
    b ^= a; b = (b - rot(a, 14)) & 0xFFFFFFFF
    c ^= b; c = (c - rot(b, 24)) & 0xFFFFFFFF
    return c


def blocks_of(data):
    """(start, signature) of all that looks like metadata; version 1 object headers by their first bytes."""
    found = []
    for mark in SIGNATURES:
        at = data.find(mark)
        while at >= 0:
            found.append((at, mark))
            at = data.find(mark, at + 1)
    for at in range(0, len(data) - 16, 8):
        if data[at:at + 2] == b"\1\0" and 0 < data[at + 2] < 30 and data[at + 3] == 0 and data[at + 4] < 9 and \
                data[at + 5:at + 8] == b"\0\0\0":
            found.append((at, b"v1"))
    return sorted(found)


def checked_length(data, start):
    """Bytes of the block that a checksum follows; none where that is not found."""
    for length in range(8, min(LONGEST, len(data) - start - 4)):
        if struct.unpack_from("<I", data, start + length)[0] == lookup3(data[start:start + length]):
            return length
    return None


def damaged(original, rng):
    """(kind, bytes): one of KINDS, mostly where metadata is, with checksums computed again half of the time."""
    data = bytearray(original)
    kind = rng.choice(KINDS)
    if kind == "cut":
        return kind, bytes(data[:rng.randrange(8, len(data))])
    blocks = blocks_of(original)
    resigned = {}
    for _ in range(rng.choice([1, 1, 2, 4])):
        start, mark = rng.choice(blocks)
        length = checked_length(original, start) if mark in CHECKED and rng.random() < 0.8 else None
        first = 1 if mark == b"v1" else len(mark)
        end = min(start + (length or rng.choice([40, 120, 400])), len(data))
        if start + first >= end:
            continue
        at = rng.randrange(start + first, end)
        if kind == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "fields":
            size = rng.choice([1, 2, 4, 8])
            value = rng.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, rng.getrandbits(64)])
            data[at:at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif kind == "huge":
            at -= at % 4
            size = rng.choice([4, 8])
            value = rng.choice([0xFFFFFFFFFFFFFFFE, 1 << 62, 1 << 40, (1 << 32) - 1, 1 << 30, 1 << 24])
            data[at:at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif kind == "cycle":
            # An address that is there becomes that of this block or of another.
            addresses = {block for block, _ in blocks}
            there = [p for p in range(start + first, min(start + 2000, len(data) - 8))
                     if struct.unpack_from("<Q", data, p)[0] in addresses - {0}]
            if there:
                at = rng.choice(there)
                data[at:at + 8] = struct.pack("<Q", rng.choice([start, rng.choice(blocks)[0]]))
        elif kind == "zeros":
            count = rng.choice([2, 4, 8, 64])
            data[at:at + count] = bytes(min(count, len(data) - at))
        elif kind == "splice":
            count = rng.choice([8, 16, 64])
            other = rng.choice(blocks)[0]
            data[at:at + count] = original[other:other + count][:max(0, len(data) - at)]
        del data[len(original):]
        if length:
            resigned[start] = length
    for start, length in resigned.items():
        struct.pack_into("<I", data, start + length, lookup3(bytes(data[start:start + length])))
    return kind, bytes(data)


def sources(folder):
    """Good files, of all layouts, indexes, types and writers."""
    return [path for path in sorted(pathlib.Path(folder, "hdf5").iterdir())
            if path.suffix in (".h5", ".nc") and not path.name.startswith("damaged_")]


def make(folder, seed, number):
    """(name, bytes) of the damaged file of this number."""
    rng = random.Random(f"{seed}/{number}")
    files = sources(folder)
    source = files[number % len(files)]
    kind, data = damaged(source.read_bytes(), rng)
    return f"{number:04}-{kind}-{source.name}", data


# Lists, stats and reads all of a mount, but of a folder with very many names the first ones only. Prints a line before
# each call that may take long. Errors are answers; ENOTCONN is none.
READER = r"""
import errno, os, sys
def call(what, function, *arguments):
    sys.stdout.write(what.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()
    try:
        return function(*arguments)
    except OSError as error:
        if error.errno in (errno.ENOTCONN, errno.ECONNABORTED):
            print("DEAD"); sys.exit(3)
    return None
def some_of(folder):
    with os.scandir(folder) as entries:
        return [(e.name, e.is_dir(follow_symlinks=False), e.is_symlink()) for e, _ in zip(entries, range(150))]
def read(path):
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        for at in sorted({0, max(0, size // 2), max(0, size - 65536)}):
            os.pread(file.fileno(), 65536, at)
def attributes(path):
    for name in os.listxattr(path):
        try: os.getxattr(path, name)
        except OSError: pass
folders, seen = [sys.argv[1]], 0
while folders:
    folder = folders.pop()
    for name, is_folder, is_link in call("list " + folder, some_of, folder) or []:
        path = os.path.join(folder, name)
        seen += 1
        if seen > 4000: sys.exit(0)
        call("stat " + path, os.lstat, path)
        if is_link: call("follow " + path, os.stat, path)
        elif is_folder:
            call("xattr " + path, attributes, path)
            folders.append(path)
        elif name not in ("log", "stats"):
            call("xattr " + path, attributes, path)
            call("read " + path, read, path)
"""


def peak_memory(session):
    return max(map(memory_of, processes_of(session)), default=0)


class Trial:
    """One damaged file. `complaints` is empty where all went as it should; `slowest` is (seconds, call)."""

    def __init__(self, codecfs, path, mountpoint, *options):
        self.complaints = []
        self.slowest = (0.0, "")
        self.refused = False
        self.peak = 0
        self.log = pathlib.Path(f"{mountpoint}.log")
        began = time.monotonic()
        try:
            mount = Mount(path, mountpoint, *options, program=codecfs, seconds=3 * STEP)
        except MountError as error:
            mount = error.mount
            self.refused = True
            if mount.process.returncode != 32 or not self.log.read_text().strip():
                self.complaints.append(f"mounting ended with {mount.process.returncode}")
        self.note(time.monotonic() - began, "mount")
        try:
            if not self.refused:
                self.read_all(mount)
                self.peak = max(self.peak, peak_memory(mount.process.pid))
                self.unmount(mount)
        finally:
            mount.end()
        self.wait_for_helpers(mount.process.pid)
        if self.peak > MEMORY:
            self.complaints.append(f"{self.peak >> 20} MiB of memory")

    def note(self, seconds, what):
        self.slowest = max(self.slowest, (seconds, what))
        if seconds > STEP:
            self.complaints.append(f"{seconds:.1f} s: {what}")

    def read_all(self, mount):
        daemon = mount.process
        reader = subprocess.Popen([sys.executable, "-c", READER, str(mount.path)], stdout=subprocess.PIPE, text=True)
        os.set_blocking(reader.stdout.fileno(), False)
        call, began, rest = "begin", time.monotonic(), ""
        while True:
            try:
                part = os.read(reader.stdout.fileno(), 1 << 16).decode()
            except BlockingIOError:
                part = None
            now = time.monotonic()
            if part == "":
                break
            if part:
                lines = (rest + part).split("\n")
                rest = lines.pop()
                if lines:
                    self.note(now - began, call if len(lines) == 1 else f"{call} (to {lines[-1]})")
                    call, began = lines[-1], now
            elif now - began > 3 * STEP:
                self.note(now - began, call)
                mount.end()
                reader.kill()
                break
            else:
                time.sleep(0.002)
                if int(now * 500) % 25 == 0:
                    self.peak = max(self.peak, peak_memory(daemon.pid))
        reader.wait()
        self.note(time.monotonic() - began, call)
        if reader.returncode == 3 or daemon.poll() is not None:
            self.complaints.append(f"the daemon died after {call}: {daemon.poll()}")
        elif reader.returncode != 0:
            self.complaints.append(f"the reader ended with {reader.returncode}")

    def unmount(self, mount):
        began = time.monotonic()
        unmount(mount.path)
        try:
            code = mount.process.wait(2 * STEP)
        except subprocess.TimeoutExpired:
            self.complaints.append("the daemon did not end")
            return
        self.note(time.monotonic() - began, "unmount")
        if code < 0:
            self.complaints.append(f"the daemon died at the end of {signal.Signals(-code).name}")

    def wait_for_helpers(self, session):
        """Helpers end when the daemon has ended; a busy one may finish its time slice first."""
        began = time.monotonic()
        while any(True for _ in processes_of(session)):
            if time.monotonic() - began > STEP:
                self.complaints.append("a helper outlives the daemon")
                signal_all(processes_of(session))
                return
            time.sleep(0.01)


def try_one(codecfs, data, directory, seed, number, *options):
    """(name, Trial); the file is kept where there are complaints."""
    name, content = make(data, seed, number)
    path = pathlib.Path(directory) / name
    path.write_bytes(content)
    trial = Trial(codecfs, path, pathlib.Path(directory) / "mnt", *options)
    if not trial.complaints:
        path.unlink()
    return name, trial


def main():
    codecfs, data = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 500
    seed = sys.argv[4] if len(sys.argv) > 4 else str(random.randrange(10**6))
    first = int(os.environ.get("DAMAGE_FIRST", 0))
    directory = tempfile.mkdtemp(prefix="codecfs-damage-")
    print(f"damage-test: {count} files of {len(sources(data))} sources, seed {seed}, in {directory}", flush=True)
    bad = refused = contained = 0
    slowest, peak = (0.0, ""), 0
    for number in range(first, first + count):
        name, trial = try_one(codecfs, data, directory, seed, number)
        refused += trial.refused
        contained += "; the file is damaged" in trial.log.read_text()
        peak = max(peak, trial.peak)
        slowest = max(slowest, (trial.slowest[0], f"{name}: {trial.slowest[1]}"))
        if trial.complaints:
            bad += 1
            print(f"{name}: {'; '.join(trial.complaints)}", flush=True)
    print(f"damage-test: {bad} of {count} bad; {refused} not mounted, {contained} with deaths of helpers; slowest call "
          f"{slowest[0]:.1f} s ({slowest[1]}), at most {peak >> 20} MiB; seed {seed}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
