"""Other people's suites on a writable mount; see scripts/fs-suites.

    suites.py CODECFS fio|stress hdf5|zarr|zip [AMOUNT]

fio writes chunk files and the files of the npy and raw views with each of its engines and verifies what it reads, in this mount and in
the next one. stress-ng gets a group of its own to work in; the variables beside it must be unchanged afterwards.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
import zarr

SHAPE, CHUNKS = (4, 1 << 20), (1, 1 << 20)
VIEW = ".codecfs/view"
ENGINES = {
    "buffered": ["--ioengine=psync"],
    "direct": ["--ioengine=psync", "--direct=1"],
    "asynchronous": ["--ioengine=libaio", "--direct=1", "--iodepth=8"],
    "threads": ["--ioengine=posixaio", "--iodepth=8"],
    "mmap": ["--ioengine=mmap"],
}
# Those of stress-ng's class "filesystem" that make calls to files of a directory. Not: those of other filesystems or devices
# (bind-mount, binderfs, procfs, verity, chattr), of descriptors without files (dup, eventfd, handle, fanotify, ioprio),
# and what is refused here, or read back in another form: link, symlink, xattr of files that are no variables.
STRESSORS = """access chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify fallocate fcntl fiemap file-ioctl filename
    flock fpunch fsize fstat getdent hdd inode-flags inotify io iomix lease locka lockf lockofd mknod open rename
    sync-file touch utime""".split()


class Daemon:
    """A mount, as a context; it must end well."""

    def __init__(self, codecfs, source, place):
        self.place, self.command = place, [codecfs, "-f", str(source), str(place)]

    def __enter__(self):
        self.place.mkdir(exist_ok=True)
        self.log = open(self.place.with_name("daemon.log"), "a")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        while not self.place.is_mount():
            if self.process.poll() is not None:
                raise SystemExit(f"FAILED: codecfs ended with {self.process.returncode}; see {self.log.name}")
            time.sleep(0.01)
        return self.place

    def __exit__(self, kind, error, trace):
        for command in (["fusermount3", "-u", self.place], ["umount", "-l", self.place]):
            if subprocess.run(command, capture_output=True).returncode == 0:
                break
        code = self.process.wait(120)
        self.log.close()
        if kind is None and code != 0:
            raise SystemExit(f"FAILED: the daemon ended with {code}; see {self.log.name}")


def values():
    return np.random.default_rng(1).integers(0, 50, SHAPE, "u1")


def make(kind, directory):
    path = directory / {"hdf5": "data.h5", "zarr": "data.zarr", "zip": "data.zip"}[kind]
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            for name in ("v", "w"):
                file.create_dataset(name, data=values(), chunks=CHUNKS, compression="gzip", compression_opts=1)
        return path
    store = zarr.ZipStore(str(path), mode="w") if kind == "zip" else zarr.DirectoryStore(str(path))
    group = zarr.open_group(store, "w")
    for name in ("v", "w"):
        group.create_dataset(name, data=values(), chunks=CHUNKS)
    store.close()
    return path


def read(path, name):
    if path.suffix == ".h5":
        with h5py.File(path, "r") as file:
            return file[name][...]
    return zarr.open_group(str(path), "r")[name][...]


def fio_job(file, engine, *more):
    size = file.stat().st_size
    return ["fio", f"--name={file.name}", f"--filename={file}", f"--filesize={size}", f"--size={size // 4096 * 4096}", "--bs=4k",
            "--rw=randwrite", "--verify=crc32c", "--verify_fatal=1", "--allow_file_create=0", "--overwrite=1", "--fallocate=none",
            "--randrepeat=1", "--end_fsync=1", "--verify_state_save=0", *ENGINES[engine], *more]


def run(command, seconds):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0 or "verify:" in done.stderr:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def fio(codecfs, source, directory, passes):
    for number in range(passes):
        for engine in ENGINES:
            # Not views of one variable: fio would overwrite what it is to verify. raw has no header, and fio would change that.
            names = [f"v/{number % 4}.0", f"{VIEW}/raw/w"]
            with Daemon(codecfs, source, directory / "mnt") as mount:
                for name in names:
                    run(fio_job(mount / name, engine, "--do_verify=1"), 600)
            with Daemon(codecfs, source, directory / "mnt") as mount:
                for name in names:
                    run(fio_job(mount / name, engine, "--verify_only=1"), 600)
            print(f"fio {engine}: {' '.join(names)} verified, mounted again verified", flush=True)
    rest = [i for i in range(4) if i >= passes]
    if not np.array_equal(read(source, "v")[rest], values()[rest]):
        raise SystemExit("FAILED: chunks that fio did not write have changed")


def stress(codecfs, source, directory, seconds):
    with Daemon(codecfs, source, directory / "mnt") as mount:
        work = mount / "work"
        work.mkdir()
        for stressor in STRESSORS:
            run(["stress-ng", f"--{stressor}", "2", "--timeout", seconds, "--temp-path", work, "--verify"], 60 + 10 * seconds)
            if not np.array_equal(np.fromfile(mount / VIEW / "raw/v", "u1").reshape(SHAPE), values()):
                raise SystemExit(f"FAILED: after {stressor}, v is not what it was")
            print(f"stress-ng {stressor}: done", flush=True)
        left = [path for path in work.rglob("*") if not path.name.startswith(".z")]
        if left:
            raise SystemExit(f"FAILED: stress-ng left {left[:5]}")
        work.rmdir()
    for name in ("v", "w"):
        if not np.array_equal(read(source, name), values()):
            raise SystemExit(f"FAILED: {name} of the source has changed")


def main():
    if len(sys.argv) < 4 or sys.argv[2] not in ("fio", "stress") or sys.argv[3] not in ("hdf5", "zarr", "zip"):
        sys.exit(__doc__)
    codecfs, suite, kind = sys.argv[1:4]
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"codecfs-{suite}-")).resolve()
    amount = int(sys.argv[4]) if len(sys.argv) > 4 else {"fio": 4, "stress": 10}[suite]
    print(f"{suite}, {kind}, {amount} {'passes' if suite == 'fio' else 'seconds each'}, in {directory}", flush=True)
    {"fio": fio, "stress": stress}[suite](codecfs, make(kind, directory), directory, amount)
    shutil.rmtree(directory)  # stays where something failed


if __name__ == "__main__":
    main()
