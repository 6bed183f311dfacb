"""Tries HDF5 files of other projects, also damaged ones.

    foreign.py CODECFS FOLDER

Each HDF5 file below FOLDER is mounted by itself. What libhdf5 reads of it (through h5py, in the file's own types) must be
what the chunk files hold, and what zarr-python reads of a copy of the encoded view. Then a copy of the file is mounted
writable, all that has chunks is re-encoded with another chain, first chunks are written as they are, and h5dump must
print of it what it printed before. Whatever libhdf5 cannot read may fail here too, but the mount lives and unmounts.
"""
import collections
import errno
import itertools
import json
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

import h5py
import numpy as np
import zarr

sys.path += [str(pathlib.Path(__file__).parents[above] / "support") for above in (1, 2)]
from compare import chunk_names, numpy_dtype, same_bytes, text_of, vlen_strings  # noqa: E402
from mounts import detach, is_mounted  # noqa: E402
from running import run  # noqa: E402

SIGNATURE = b"\x89HDF\r\n\x1a\n"
LARGEST = 2_000_000  # elements of a variable, and of its grid
MOST = 300  # entries of a directory, directories
SECONDS = 60  # for a mount or an unmount
SOON = 10  # what takes longer (very many chunks) is left
ENCODED = ".codecfs/view/encoded"


def is_hdf5(path):
    with open(path, "rb") as file:
        for start in [0] + [512 << i for i in range(10)]:
            file.seek(start)
            if file.read(8) == SIGNATURE:
                return True
    return False


def variables(file):
    """(path, dataset) of what h5py reaches by hard links that are file names too; of groups (path, none)."""
    seen = set()

    def names_in(group):
        try:
            return list(itertools.islice(group.id, MOST))
        except RuntimeError:  # it is damaged
            return []

    def visit(group, prefix):
        for name in names_in(group):
            if group.id.links.get_info(name).type != h5py.h5l.TYPE_HARD or re.search(rb"[/%]|^\.|.{256}", name):
                continue
            try:
                item = h5py.h5o.open(group.id, name)
                address = h5py.h5o.get_info(item).addr
                path = prefix + name.decode()
            except (OSError, RuntimeError, KeyError, UnicodeDecodeError):
                continue
            if address in seen:
                continue
            seen.add(address)
            if isinstance(item, h5py.h5g.GroupID):
                yield path, None
                yield from visit(h5py.Group(item), path + "/")
            elif isinstance(item, h5py.h5d.DatasetID):
                yield path, h5py.Dataset(item)

    try:
        seen.add(h5py.h5o.get_info(file["/"].id).addr)
    except RuntimeError:
        return
    yield from visit(file["/"], "")


def stored_values(dataset):
    """An array of the bytes of each element as they are in the file's own type."""
    kind = dataset.id.get_type()
    values = np.zeros(dataset.shape, f"V{kind.get_size()}")
    dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=kind)
    return values


def read_bytes(path):
    """Its errors name the file, those of a read alone do not."""
    try:
        return path.read_bytes()
    except OSError as error:
        error.filename = path
        raise


def write_bytes(path, data):
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(data)
    except OSError as error:
        error.filename = path
        raise


def differs(directory, facts, dataset):
    """In which way the chunk files are not what h5py reads; nothing where they are."""
    shape, chunks, dtype = tuple(facts["shape"]), tuple(facts["chunks"]), numpy_dtype(facts["dtype"])
    if dtype.kind == "O":
        theirs = np.empty(shape, object)
        theirs[...] = np.vectorize(text_of, otypes=[object])(dataset[()]) if dataset.size else None
    else:
        stored = stored_values(dataset)
        # An array as the element is trailing dimensions here.
        theirs = np.frombuffer(stored.tobytes(), f"V{dtype.itemsize}").reshape(shape)
    for name, array, chunk in chunk_names(shape, chunks):
        try:
            data = read_bytes(directory / name)
        except FileNotFoundError:
            continue  # only where the fill says what it holds; zarr-python reads those, of the copy
        if dtype.kind == "O":
            ours = vlen_strings(data).reshape(chunks)
            if np.atleast_1d(ours[chunk]).tolist() != np.atleast_1d(theirs[array]).tolist():
                return f"chunk {name} holds other texts"
            continue
        ours = np.frombuffer(data, dtype).reshape(chunks)[chunk]
        if ours.tobytes() == np.ascontiguousarray(theirs[array]).tobytes():
            continue
        try:  # padding, and what is converted because it has another form in memory
            same_bytes(ours, np.asarray(dataset[()]).reshape(shape)[array], name)
        except (AssertionError, TypeError, ValueError) as error:
            return f"chunk {name} holds other bytes: {error!r}"
    return None


class Trial:
    """One file, in a process of its own. Writes lines: kind, tab, text."""

    def __init__(self, codecfs, source, directory, report):
        self.codecfs, self.source, self.directory, self.report = codecfs, source, directory, report
        self.root = directory / "mnt"
        self.root.mkdir()

    def fault(self, text):
        self.report("fault", text)

    def mount(self, source, *options):
        # External and virtual sources are found from where libhdf5 finds them.
        done = run(self.codecfs, *options, source, self.root, seconds=SECONDS, code=None)
        if done.returncode:
            self.report("not mounted", done.stderr.strip()[-200:])
        return done.returncode == 0

    def unmount(self, may_be_refused):
        """libhdf5 may refuse to write damaged files; then they stay as they were, which is looked at."""
        done = run(self.codecfs, "-u", self.root, seconds=SECONDS, code=None)
        if done.returncode:
            refused = may_be_refused and done.stderr.strip()
            self.report("not stored" if refused else "fault", f"unmounting: {done.stderr.strip()}")

    def why(self, path, error):
        try:
            return os.getxattr(path, "user._Error").decode()
        except OSError:
            return str(error)

    def read(self):
        if not self.mount(self.source, "-o", "ro"):
            return
        try:
            try:
                file = h5py.File(self.source)
            except OSError as error:
                self.report("h5py cannot open", str(error))
                return
            copy = self.copied()
            for path, dataset in variables(file):
                if dataset is None:
                    self.look_at_group(path)
                else:
                    self.compare(path, dataset, copy)
        finally:
            self.unmount(False)

    def look_at_group(self, path):
        try:
            json.loads((self.root / path / ".zattrs").read_text())
            with os.scandir(self.root / path) as entries:
                collections.deque(itertools.islice(entries, MOST), maxlen=0)
        except OSError as error:
            self.report("fault" if self.dumped(self.source) is not None else "damaged", f"{path}: {error}")

    def copied(self):
        target = self.directory / "copy.zarr"
        try:
            run("cp", "-r", self.root / ENCODED, target, seconds=SOON, code=None)
            return zarr.open_group(str(target), "r")
        except (subprocess.TimeoutExpired, zarr.errors.GroupNotFoundError):
            return None  # very many chunks; no root

    def compare(self, path, dataset, copy):
        directory = self.root / path.replace("_nc4_non_coord_", "")
        try:
            if dataset.shape is None or dataset.size > LARGEST:
                return
            stored_values(dataset)
        except (OSError, RuntimeError, TypeError, ValueError, MemoryError) as error:
            self.report("h5py cannot read", f"{path}: {error}")
            return
        try:
            facts = json.loads((directory / ".zarray").read_text())
            if math.prod(-(-n // max(c, 1)) for n, c in zip(facts["shape"], facts["chunks"])) > LARGEST:
                return
            if math.prod(facts["shape"][:dataset.ndim]) != dataset.size:
                self.report("longer by netCDF's rules", path)
                return
            difference = differs(directory, facts, dataset)
        except OSError as error:
            if b"This is a netCDF dimension but not" in bytes(dataset.attrs.get("NAME", b"")):
                return
            text = f"{path}: {self.why(error.filename or directory, error)}"
            # libhdf5 takes chunks of a wrong size, and makes up the rest; h5py may find a way around damage.
            damaged = error.errno == errno.EIO and ("bytes, not" in text or self.dumped(self.source) is None)
            self.report("no Zarr form" if error.errno == errno.EOPNOTSUPP else "damaged" if damaged else "fault", text)
            return
        if difference:
            self.fault(f"{path}: {difference}")
            return
        self.report("read", path)
        self.compare_copy(path, directory, facts, copy)

    def compare_copy(self, path, directory, facts, copy):
        if copy is None or "\\" in path:  # which is a slash to zarr-python
            return
        if facts["dtype"] == "|O" and facts["fill_value"] is None:
            return
        shown = zarr.open_group(str(self.root), "r")
        try:
            name = str(directory.relative_to(self.root))
            ours, theirs = shown[name][...], copy[name][...]
        except ValueError as error:
            if "codec not available" not in str(error):
                raise
            self.report("no codec", f"{path}: {error}")
            return
        same = ours.tobytes() == theirs.tobytes() if ours.dtype.kind != "O" else (ours == theirs).all()
        if not same:
            self.fault(f"{path}: the encoded copy is another array")
        else:
            self.report("copied", path)

    def write(self):
        mine = self.directory / self.source.name
        shutil.copy(self.source, mine)
        before = self.dumped(mine)
        # Of chunks of a wrong size, and of what was never written, it prints whatever its memory held.
        if before is None or before != self.dumped(mine):
            self.report("h5dump cannot", self.source.name)
            return
        if not self.mount(mine):
            return
        try:
            for directory in self.directories():
                self.change(directory)
        finally:
            self.unmount(True)
        after = self.dumped(mine)
        if after != before:
            (self.directory / "before").write_bytes(before)
            (self.directory / "after").write_bytes(after or b"")
            text = run("diff", "before", "after", cwd=self.directory, code=None, text=False).stdout
            self.fault(f"h5dump prints something else: {text[:300]}")
        else:
            self.report("written", "")

    def directories(self):
        todo = [self.root]
        for _ in range(MOST):
            if not todo:
                return
            here = todo.pop()
            try:
                with os.scandir(here) as entries:
                    for entry in itertools.islice(entries, MOST):
                        if entry.is_dir(follow_symlinks=False) and entry.name != ".codecfs":
                            todo.append(pathlib.Path(entry.path))
            except OSError:
                continue
            if (here / ".zarray").exists():
                yield here

    def change(self, directory):
        """What cannot be may be refused."""
        try:
            facts = json.loads((directory / ".zarray").read_text())
            if math.prod(facts["shape"]) > LARGEST:
                return
            os.setxattr(directory, "user._Filter", b"shuffle|deflate,4")
        except OSError as error:
            self.report("not re-encoded", f"{directory.relative_to(self.root)}: {self.why(directory, error)}")
        try:
            with os.scandir(directory) as entries:
                names = [e.name for e in itertools.islice(entries, 8) if re.fullmatch(r"[0-9.]*[0-9]", e.name)]
            for name in names:
                write_bytes(directory / name, read_bytes(directory / name))
        except OSError as error:
            self.report("not written", f"{directory.relative_to(self.root)}: {self.why(error.filename, error)}")

    @staticmethod
    def dumped(path):
        """What h5dump prints, without places in the file; none where it fails."""
        try:
            done = run("h5dump", path, seconds=SOON, code=None, text=False)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            return None
        return re.sub(rb"(DATASET|GROUP|DATATYPE) [0-9]+ ", rb"\1 N ", done.stdout.split(b"\n", 1)[1])


def try_one(codecfs, source, way):
    """What the trial reports, as (kind, text). libhdf5 may crash or hang in it."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-foreign-"))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        def report(kind, text):
            os.write(writing, f"{kind}\t{' '.join(str(text).split())[:500]}\n".encode(errors="replace"))

        try:
            os.chdir(source.parent)
            signal.alarm(3 * SECONDS)
            getattr(Trial(codecfs, source, directory, report), way)()
        except BaseException:
            report("fault", f"{traceback.format_exc()[-400:]}")
        os._exit(0)
    os.close(writing)
    with open(reading, encoding=None, mode="rb") as file:
        lines = file.read().decode(errors="replace").splitlines()
    _, status = os.waitpid(pid, 0)
    found = [tuple(line.split("\t", 1)) for line in lines if "\t" in line]
    if os.WIFSIGNALED(status):  # of libhdf5 in h5py, or the time is over
        found.append(("h5py dies", signal.Signals(os.WTERMSIG(status)).name))
    root = directory / "mnt"
    if is_mounted(root):
        if not os.WIFSIGNALED(status):
            found.append(("fault", "it stays mounted"))
        detach(root)
    shutil.rmtree(directory, ignore_errors=True)
    return found


def main():
    codecfs, folder = os.path.realpath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    os.environ.pop("HDF5_PLUGIN_PATH", None)
    totals, faults, files = collections.Counter(), 0, 0
    for source in sorted(folder.rglob("*")):
        if not source.is_file() or source.stat().st_size > 64 << 20 or not is_hdf5(source):
            continue
        files += 1
        for way in ("read", "write"):
            for kind, text in try_one(codecfs, source, way):
                totals[kind] += 1
                if kind == "fault":
                    faults += 1
                    print(f"{source.relative_to(folder)}: {way}: {text}", flush=True)
                elif "-v" in sys.argv[3:] and kind not in ("read", "copied", "written"):
                    print(f"  {source.relative_to(folder)}: {kind}: {text}", flush=True)
    print(f"foreign-test: {files} files, {faults} faults; "
          + ", ".join(f"{count} {kind}" for kind, count in sorted(totals.items()) if kind != "fault"))
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
