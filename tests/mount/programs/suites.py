"""Other people's suites on a writable mount; see scripts/fs-suites.

    suites.py CODECFS fio|stress|fsx|pjdfstest hdf5|zarr|zip [AMOUNT]

fio writes chunk files and the files of the npy and raw views with each of its engines and verifies what it reads, in this mount and in
the next one. stress-ng gets a group of its own to work in; the variables beside it must be unchanged afterwards. fsx does random
operations on a chunk file and on the file of the raw view, and compares. pjdfstest (as root) asks for the errors and effects of each
call, in a group; what fails must be in the table of what does not apply.
"""
import contextlib
import pathlib
import re
import shutil
import sys
import tempfile

import h5py
import numpy as np
import zarr

sys.path.append(str(pathlib.Path(__file__).parents[2] / "support"))
from mounts import Mount, MountError  # noqa: E402
from running import run  # noqa: E402

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

# Tests of pjdfstest, and why they do not apply.
INAPPLICABLE = {
    "special files": r"::(fifo|block|char|socket)$|open::(fifo_nonblock_wronly|socket_error)$|mk(fifo|nod)::"
                     r"(changed_times?_|(privileged::)?eexist_file_exists|device_files|eloop_comp|permission_bits|uid_gid_eq)",
    "hard links": r"link::(changed_ctime_success|eexist_dest_exists|eloop_comp|remove_link|share_metadata)|"
                  r"unlink::(unchanged_ctime_failed|update_ctime_success)::regular$|rename::(to_multiply_linked|updates_link_parent)",
    "owner and mode are the source's": r"chmod::(change_perm|clear_isgid_bit|update_ctime)|::affected_(only_)?create_flags|"
                                       r"::uid_gid_eq_euid_egid$|mkdir::permission_bits_from_mode$|rename::preserve_metadata::regular$",
    "renaming over a group": r"rename::write_access_required_subdir$",
    "files that are no chunks are in memory": r"open::interact_2gb$",
}
SYMLINKS = r"::symlink$|^symlink::|::eloop_|::enoent_symlink$|::open_nofollow$|::preserve_metadata_symlink$"  # Zarr has none
PJDFSTEST = """[features]
posix_fallocate = {}
[settings]
naptime = 0.02
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
FSX = """flen = 1048576
blockmode = %s
[opsize]
max = 200000
[weights]
truncate = %d
invalidate = 3
fsync = 1
fdatasync = 1
sendfile = 3
posix_fadvise = 3
copy_file_range = 3
"""


@contextlib.contextmanager
def mounted(codecfs, source, directory, *options):
    """Yields the mount point."""
    try:
        mount = Mount(source, directory / "mnt", *options, program=codecfs, log=directory / "daemon.log")
        try:
            yield mount.path
            mount.close(120)
        finally:
            mount.end()
    except MountError as error:
        raise SystemExit(f"FAILED: {error}; see {error.mount.log}") from None


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


def try_out(command, seconds):
    done = run(*command, seconds=seconds, code=None)
    if done.returncode != 0 or "verify:" in done.stderr:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def fio(codecfs, source, directory, passes):
    for number in range(passes):
        for engine in ENGINES:
            # Not views of one variable: fio would overwrite what it is to verify. raw has no header, and fio would change that.
            names = [f"v/{number % 4}.0", f"{VIEW}/raw/w"]
            with mounted(codecfs, source, directory) as mount:
                for name in names:
                    try_out(fio_job(mount / name, engine, "--do_verify=1"), 600)
            with mounted(codecfs, source, directory) as mount:
                for name in names:
                    try_out(fio_job(mount / name, engine, "--verify_only=1"), 600)
            print(f"fio {engine}: {' '.join(names)} verified, mounted again verified", flush=True)
    rest = [i for i in range(4) if i >= passes]
    if not np.array_equal(read(source, "v")[rest], values()[rest]):
        raise SystemExit("FAILED: chunks that fio did not write have changed")


def stress(codecfs, source, directory, seconds):
    with mounted(codecfs, source, directory) as mount:
        work = mount / "work.tmp"  # there any file is accepted
        work.mkdir()
        for stressor in STRESSORS:
            # Two of fsize may have more bytes at a time than all files that are no chunks (1 GiB): ENOSPC.
            workers = "1" if stressor == "fsize" else "2"
            try_out(["stress-ng", f"--{stressor}", workers, "--timeout", seconds, "--temp-path", work, "--verify"], 60 + 10 * seconds)
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


def fsx(codecfs, source, directory, operations):
    (directory / "cut.toml").write_text(FSX % ("false", 5))
    (directory / "whole.toml").write_text(FSX % ("true", 0))  # an array has its size
    for config, name, seed in (("cut", "v/0.0", 1), ("whole", "v/1.0", 2), ("whole", f"{VIEW}/raw/w", 3)):
        with mounted(codecfs, source, directory) as mount:
            try_out(["fsx", "-f", directory / f"{config}.toml", "-N", operations, "-S", seed, "-P", directory, mount / name], 3600)
            expected = (mount / name).read_bytes()
        with mounted(codecfs, source, directory) as mount:
            if (mount / name).read_bytes() != expected:
                raise SystemExit(f"FAILED: {name} has other bytes in the next mount")
        print(f"fsx {name}: {operations} operations, mounted again the same", flush=True)
    if not np.array_equal(read(source, "v")[2:], values()[2:]):
        raise SystemExit("FAILED: chunks that fsx did not write have changed")


def pjdfstest(codecfs, source, directory, _):
    (directory / "pjdfstest.toml").write_text(PJDFSTEST)
    directory.chmod(0o755)  # other users are to reach the mount
    with mounted(codecfs, source, directory, "allow_other", "default_permissions") as mount:
        (mount / "work.tmp").mkdir()  # there any file is accepted
        done = run("pjdfstest", "-c", directory / "pjdfstest.toml", "-p", mount / "work.tmp", seconds=600, code=None)
    results = dict(re.findall(r"^(\w+::\S+)\s+(ok|FAILED|skipped)$", done.stdout, re.MULTILINE))
    reasons = INAPPLICABLE if source.suffix == ".h5" else {**INAPPLICABLE, "symbolic links": SYMLINKS}
    failed = [name for name, result in results.items() if result == "FAILED"]
    wrong = [name for name in failed if not any(re.search(pattern, name) for pattern in reasons.values())]
    well = list(results.values()).count("ok")
    if wrong or well < 130:
        raise SystemExit(f"FAILED: {wrong}, {well} well\n{done.stdout[-20000:]}{done.stderr[-3000:]}")
    print(f"pjdfstest: {well} well, {len(failed)} do not apply ({', '.join(reasons)}), {len(results) - well - len(failed)} skipped",
          flush=True)


SUITES = {"fio": (fio, 4, "passes"), "stress": (stress, 10, "seconds each"), "fsx": (fsx, 20000, "operations each"),
          "pjdfstest": (pjdfstest, 1, "pass")}


def main():
    if len(sys.argv) < 4 or sys.argv[2] not in SUITES or sys.argv[3] not in ("hdf5", "zarr", "zip"):
        sys.exit(__doc__)
    codecfs, suite, kind = sys.argv[1:4]
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"codecfs-{suite}-")).resolve()
    call, amount, unit = SUITES[suite]
    amount = int(sys.argv[4]) if len(sys.argv) > 4 else amount
    print(f"{suite}, {kind}, {amount} {unit}, in {directory}", flush=True)
    call(codecfs, make(kind, directory), directory, amount)
    shutil.rmtree(directory)  # stays where something failed


if __name__ == "__main__":
    main()
