"""The process that runs libhdf5 is in a sandbox: which files it can use, as root and as an ordinary user."""
import errno
import fcntl
import os
import pathlib
import shutil
import tempfile

import h5py
import numpy as np
import pytest

from conftest import CODECFS, mounted, wait_until, xattr
from mounts import kill_workers, signal_all, workers_of
from filter_plugins import HOSTILE, hostile  # noqa: F401: a fixture
from running import run

DATA = np.arange(1000, dtype="<i4")
ORDINARY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def worker_of(mount):
    wait_until(lambda: workers_of(mount.path, ["codecfs-hdf5"]))
    return next(iter(workers_of(mount.path, ["codecfs-hdf5"])))


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


@pytest.fixture
def place():
    """A folder that all users can use, unlike pytest's."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-sandbox-", dir="/tmp"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize("user", ["root", "ordinary", "root, the file of another"])
def test_reads_and_writes_in_the_sandbox(place, user):
    source = place / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("v", data=DATA, chunks=(100,), compression="gzip")
    if user != "root":
        os.chown(source, 65534, 65534)
        source.chmod(0o600)
    (place / "mnt").mkdir()
    if user == "ordinary":
        os.chown(place / "mnt", 65534, 65534)
    program = [*ORDINARY, CODECFS] if user == "ordinary" else None
    if program and run(*ORDINARY, "test", "-w", "/dev/fuse", "-a", "-x", CODECFS, code=None).returncode != 0:
        pytest.skip("ordinary users cannot mount here")  # the unit tests open a file as one
    with mounted(source, place / "mnt", program=program) as m:
        def is_in_sandbox():
            status = status_of(worker_of(m))
            return (status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16), int(status["CapPrm"], 16)) == ("2", "1", 0, 0)

        def in_shell(script, *arguments):
            run(*(ORDINARY if user == "ordinary" else []), "sh", "-ec", script, "sh", *arguments)

        assert is_in_sandbox()
        in_shell('head -c 400 /dev/zero > "$1/v/3"; mkdir "$1/group"; sync "$1/v/3"', m.path)
        log = source.with_name(".a.h5.codecfs-wal").stat()
        assert log.st_uid == source.stat().st_uid and log.st_mode & 0o777 == source.stat().st_mode & 0o777
        in_shell('setfattr -n user._Filter -v "shuffle|zstd,3" "$1/v"', m.path)
        signal_all(workers_of(m.path, ["codecfs-hdf5"]))
        in_shell('test -d "$1/group"; head -c 400 /dev/zero > "$1/v/4"; mkdir "$1/group/inner"', m.path)
        assert is_in_sandbox()
        text = run(*(ORDINARY if user == "ordinary" else []), "cat", m.path / ".codecfs/filters", m.path / ".codecfs/log", code=None).stdout
        assert "# libhdf5 runs in processes with " in text and "files opened by the daemon" in text
    assert sorted(os.listdir(place)) == ["a.h5", "mnt", "mnt.log"]
    with h5py.File(source) as file:
        assert set(file) == {"v", "group"} and "inner" in file["group"]


@pytest.mark.parametrize("options, possible", [
    ([], "OwsufAkprTe"),  # it reads what the user may read
    (["allow_other"], "owsufakprTe"),
    (["follow=beneath"], "owsufakprTe"),
    (["allow_other", "follow=all"], "OwsufAkprTe"),
])
def test_what_code_in_the_worker_can_do(mount, hostile, tmp_path, options, possible):  # noqa: F811
    """A plugin that libhdf5 calls itself, for a virtual dataset, tries everything. A capital: it was possible."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((64,))
        properties.set_filter(HOSTILE, h5py.h5z.FLAG_OPTIONAL)
        data = h5py.h5d.create(file.id, b"v", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((64,)), properties)
        data.write_direct_chunk((0,), b"BADt".ljust(64, b"."))
        layout = h5py.VirtualLayout((64,), "u1")
        layout[:] = h5py.VirtualSource(".", "v", (64,))
        file.create_virtual_dataset("all", layout)
    m = mount(tmp_path / "a.h5", *options, env={"HDF5_PLUGIN_PATH": str(hostile)})
    notes = (m.path / "all/0").read_bytes()[4:15].decode()
    assert notes == possible
    assert not os.path.exists("/tmp/codecfs-hostile-plugin")
    assert ("/etc/passwd is outside of" in m.messages()) == (possible[0] == "o")


# What a source in folder/sub refers to, and whether it is beneath its directory.
REFERENCES = {
    "there.{}": True,
    "deeper/there.{}": True,
    "deeper/../there.{}": True,
    "{folder}/sub/there.{}": True,
    "link-inside.{}": True,
    "../outside.{}": False,
    "{folder}/outside.{}": False,
    "deeper/../../outside.{}": False,
    "link-outside.{}": False,
    "absolute-link.{}": False,
    "folder-link/outside.{}": False,
}


@pytest.fixture
def referring(tmp_path):
    """A source whose variables external_N and virtual_N refer to other files by the names of REFERENCES."""
    folder = tmp_path / "folder"
    (folder / "sub/deeper").mkdir(parents=True)
    for path in ("outside", "sub/there", "sub/deeper/there"):
        (folder / f"{path}.raw").write_bytes(DATA.tobytes())
        with h5py.File(folder / f"{path}.h5", "w") as file:
            file["v"] = DATA
    for kind in ("raw", "h5"):
        (folder / f"sub/link-inside.{kind}").symlink_to(f"deeper/there.{kind}")
        (folder / f"sub/link-outside.{kind}").symlink_to(f"../outside.{kind}")
        (folder / f"sub/absolute-link.{kind}").symlink_to(folder / f"outside.{kind}")
    (folder / "sub/folder-link").symlink_to("..")
    with h5py.File(folder / "sub/a.h5", "w") as file:
        for i, name in enumerate(REFERENCES):
            file.create_dataset(f"external_{i}", DATA.shape, DATA.dtype,
                                external=[(name.format("raw", folder=folder), 0, DATA.nbytes)])
            layout = h5py.VirtualLayout(DATA.shape, DATA.dtype, maxshape=DATA.shape)
            layout[:] = h5py.VirtualSource(name.format("h5", folder=folder), "v", DATA.shape)
            file.create_virtual_dataset(f"virtual_{i}", layout, fillvalue=-1)
    return folder / "sub/a.h5"


@pytest.mark.parametrize("options, is_limited", [
    ([], False),
    (["allow_other"], True),
    (["allow_other", "follow=all"], False),
    (["follow=beneath"], True),
    (["ro", "allow_other"], True),
])
def test_references(mount, referring, options, is_limited):
    m = mount(referring, *options)
    for i, (name, is_beneath) in enumerate(REFERENCES.items()):
        for kind in ("external", "virtual"):
            path = m.path / f"{kind}_{i}/0"
            if is_beneath or not is_limited:
                assert path.read_bytes() == DATA.tobytes(), (kind, name)
                continue
            with pytest.raises(OSError) as raised:
                path.read_bytes()
            assert raised.value.errno == errno.EACCES, (kind, name)
            assert "-o follow=all" in xattr(path, "_Error"), (kind, name)
            assert pathlib.Path(name).name.split(".")[0] in xattr(path, "_Error"), (kind, name)
    assert ("-o follow=all" in m.messages()) == is_limited


def test_references_of_a_folder_stay_in_the_folder(mount, referring):
    m = mount(referring.parents[1], "allow_other")
    for i, name in enumerate(REFERENCES):
        if name != "absolute-link.{}":  # whether it leads out of the folder is not looked at
            assert (m.path / f"sub/a.h5/external_{i}/0").read_bytes() == DATA.tobytes(), name


def test_no_special_files(mount, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    names = [str(tmp_path / "pipe"), "/dev/zero", "/proc/self/status", "/proc/1/environ", str(tmp_path / "mnt1/v/0")]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i, name in enumerate(names):
            file.create_dataset(f"v{i}", (10,), "u1", external=[(name, 0, 10)])
    m = mount(tmp_path / "a.h5")
    for i, name in enumerate(names):
        with pytest.raises(OSError):
            (m.path / f"v{i}/0").read_bytes()
    assert (m.path / ".codecfs/stats").read_text()


# Starts a program as a container manager does that listens to system calls itself: no second listener is possible.
LISTENED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
allow = ctypes.create_string_buffer((0x06).to_bytes(2, "little") + bytes(2) + (0x7fff0000).to_bytes(4, "little"), 8)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
listener = libc.syscall(number, 1, 8, ctypes.byref(Program(1, ctypes.addressof(allow))))
assert listener >= 0
os.set_inheritable(listener, True)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_in_a_container_without_a_listener(place):
    source = place / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("v", data=DATA, chunks=(100,))
    os.chown(source, 65534, 65534)
    source.chmod(0o600)
    program = ["/usr/bin/python3", "-c", LISTENED, CODECFS]
    with mounted(source, place / "mnt", "allow_other", program=program) as m:
        status = status_of(worker_of(m))
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
        (m.path / "v/0").write_bytes(bytes(400))
        (m.path / "g").mkdir()
        says = "without no capabilities, files opened by the daemon, which this system does not allow"
        assert says in (m.path / ".codecfs/filters").read_text()
        assert m.messages().count(says) == 1 and "-o follow=beneath has no effect" in m.messages()
    with h5py.File(source) as file:
        assert "g" in file and not file["v"][:100].any()


def test_the_lock_outlives_the_worker(mount, tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("v", data=DATA, chunks=(100,))

    def is_locked():
        with open(source, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    m = mount(source, "commit=3600")
    assert not is_locked()
    for i in range(3):
        (m.path / f"v/{i}").write_bytes(bytes(400))
        (m.path / f"g{i}").mkdir()
        assert is_locked()
        kill_workers(m.path)
        assert is_locked()
    m.unmount()
    assert not is_locked()
    with h5py.File(source) as file:
        assert set(file) == {"v", "g0", "g1", "g2"} and not file["v"][:300].any()


def test_a_source_that_is_moved(mount, tmp_path):
    """Its log follows, also out of the directory in which it was mounted."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    source = tmp_path / "one/a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("v", data=DATA, chunks=(100,))
    m = mount(source, "allow_other")
    (m.path / "v/0").write_bytes(bytes(400))
    (m.path / "g").mkdir()
    moved = source.rename(tmp_path / "two/b.h5")
    (m.path / "v/1").write_bytes(bytes(400))
    os.sync()
    with open(m.path / "v/1", "r+b") as file:
        os.fsync(file.fileno())
    assert os.listdir(tmp_path / "one") == []
    assert sorted(os.listdir(tmp_path / "two")) == [".b.h5.codecfs-wal", "b.h5"]
    signal_all(workers_of(m.path, ["codecfs-hdf5"]))
    (m.path / "h").mkdir()
    m.unmount()
    with h5py.File(moved) as file:
        assert set(file) == {"v", "g", "h"} and not file["v"][:200].any()
