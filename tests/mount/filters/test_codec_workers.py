"""Plugins that crash, hang and do what they must not, on real mounts: each costs the chunk that it is called for."""
import contextlib
import os
import random
import sys
import threading
import time

import h5py
import pytest

from conftest import wait_until, xattr
from mounts import signal_all
from filter_plugins import DEBIAN, HOSTILE, compile_plugin, hostile  # noqa: F401: a fixture
from running import codecfs, run
from test_plugins import DATA, every_chunk, fails, loaded_by, read, table


def write_chunks(path, chunks):
    """A dataset v of one-dimensional chunks that have these bytes when they are decoded."""
    with h5py.File(path, "w") as f:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((len(chunks[0]),))
        # optional, so that it can be made without the plugin
        properties.set_filter(HOSTILE, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple((len(chunks) * len(chunks[0]),))
        data = h5py.h5d.create(f.id, b"v", h5py.h5t.STD_U8LE, space, properties)
        for i, chunk in enumerate(chunks):
            data.write_direct_chunk((i * len(chunk),), chunk)
    return path


def chunk(start, number):
    return start + bytes((number + i) % 251 for i in range(4000 - len(start)))


BEHAVIOURS = {
    "crash": (b"BADc", "crashes (Segmentation fault)"),
    "abort": (b"BADa", "crashes (Aborted)"),
    "overflow": (b"BADd", "crashes (Segmentation fault)"),
    "out of bounds": (b"BADo", "crashes ("),
    "memory": (b"BADm", "crashes (Segmentation fault)"),
    "exit": (b"BADe", "ends the process"),
    "kill": (b"BADk", "was killed 100 times"),
    "loop": (b"BADl", "needs more processor time than allowed"),
    "lie": (b"BADL", "gives no room"),
}


def test_one_bad_chunk(mount, hostile, tmp_path):
    """Each kind of failure refuses its chunk with the reason; all others are read, by the same daemon."""
    chunks = [chunk(b"GOOD", i) for i in range(40)]
    bad = {4 * i + 1: start for i, (start, _) in enumerate(BEHAVIOURS.values())}
    for i, start in bad.items():
        chunks[i] = chunk(start, i)
    mounted = mount(write_chunks(tmp_path / "a.h5", chunks), env={"HDF5_PLUGIN_PATH": str(hostile)})
    library = str(hostile / "libhostile.so")
    for i, content in enumerate(chunks):
        if i in bad:
            start, says = list(BEHAVIOURS.values())[list(bad).index(i)]
            reason = fails(mounted, f"v/{i}")
            assert library in reason and says in reason, reason
        else:
            assert read(mounted, f"v/{i}") == content
    assert mounted.process.poll() is None
    assert mounted.process.pid not in loaded_by(library)
    states = [line for line in table(mounted)[1] if line.startswith(f"# workers of {library}: ")]
    assert len(states) == 1 and " ended, the latest: " in states[0], states
    mounted.close()
    assert not loaded_by(library)


def test_random_kills_of_workers(mount, hostile, tmp_path):
    """Readers see right bytes and no error while the workers are killed at random."""
    chunks = [chunk(b"BADn", i) for i in range(60)]  # 20 ms each
    mounted = mount(write_chunks(tmp_path / "a.h5", chunks), "cache=1M", env={"HDF5_PLUGIN_PATH": str(hostile)})
    assert read(mounted, "v/0") == chunks[0]
    done = threading.Event()
    kills = 0

    def kill():
        nonlocal kills
        while not done.wait(0.05):
            workers = loaded_by(hostile / "libhostile.so")
            if workers:
                signal_all([random.choice(workers)])
                kills += 1

    failures = []

    def reader(seed):
        order = random.Random(seed)
        until = time.monotonic() + 6
        while time.monotonic() < until:
            i = order.randrange(len(chunks))
            try:
                if read(mounted, f"v/{i}") != chunks[i]:
                    failures.append(f"chunk {i} differs")
            except OSError as error:
                failures.append(f"chunk {i}: {error} ({xattr(mounted.path / f'v/{i}', '_Error')})")
            with open(mounted.path / f"v/{i}", "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    killer = threading.Thread(target=kill)
    readers = [threading.Thread(target=reader, args=(seed,)) for seed in range(3)]
    killer.start()
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    done.set()
    killer.join()
    assert not failures, failures[:5]
    assert kills > 5
    assert "killed by another program" in "".join(table(mounted)[1])


def test_workers_end_with_a_killed_daemon(mount, hostile, tmp_path):
    """Even one in a call that never returns."""
    mounted = mount(write_chunks(tmp_path / "a.h5", [chunk(b"GOOD", 0), chunk(b"BADs", 1)]),
                    env={"HDF5_PLUGIN_PATH": str(hostile)})
    assert read(mounted, "v/0")[:4] == b"GOOD"

    def read_and_fail():
        with contextlib.suppress(OSError):
            read(mounted, "v/1")

    sleeper = threading.Thread(target=read_and_fail)
    sleeper.start()
    time.sleep(0.5)
    assert loaded_by(hostile)
    mounted.kill_daemon()
    sleeper.join()
    wait_until(lambda: not loaded_by(hostile))


def test_writing_through_workers(mount, hostile, tmp_path):
    """What is written is encoded by a worker."""
    path = write_chunks(tmp_path / "a.h5", [chunk(b"GOOD", i) for i in range(3)])
    mounted = mount(path, env={"HDF5_PLUGIN_PATH": str(hostile)})
    new = chunk(b"NEW!", 7)
    (mounted.path / "v/1").write_bytes(new)
    mounted.close()
    again = mount(path, env={"HDF5_PLUGIN_PATH": str(hostile)})
    assert read(again, "v/1") == new and read(again, "v/2") == chunk(b"GOOD", 2)


@pytest.mark.parametrize("filter_", ["32013,1,0,0,1077149696", "32001,0,0,0,0,5,1,1"])
def test_set_local_runs_in_a_worker(mount, tmp_path, filter_):
    """libhdf5 creates the dataset in the daemon, but the plugin completes its parameters in a worker."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("v", data=DATA.astype("<f8"), chunks=(10, 50))
    mounted = mount(tmp_path / "a.h5", "builtin=off:32001", env={"HDF5_PLUGIN_PATH": DEBIAN})
    os.setxattr(mounted.path / "v", "user._Filter", filter_.encode())
    stored = xattr(mounted.path / "v", "_Filter")
    assert stored != filter_, stored
    assert f"{DEBIAN}/" not in open(f"/proc/{mounted.process.pid}/maps").read()
    shown = every_chunk(mounted, "v")
    mounted.close()
    program = f"""
import h5py, sys
with h5py.File({str(tmp_path / "a.h5")!r}) as f:
    data = f["v"][()]
    sys.stdout.buffer.write(b"".join(data[i:i + 10, j:j + 50].tobytes() for i in range(0, 40, 10) for j in (0, 50)))
"""
    read_back = run(sys.executable, "-c", program, env={"HDF5_PLUGIN_PATH": DEBIAN}, text=False)
    assert read_back.stdout == shown


# --- libraries that must not be loaded beside one that is wanted, in HDF5 files, where libhdf5's process needs it too

UNLOADABLE = {"hangs": 3, "crashes": 1, "aborts": 4, "exits": 2, "hangs_too": 3}


@pytest.fixture
def beside(tmp_path):
    """The plugin path of a folder with such libraries, before that of filter 32900."""
    bad, good = tmp_path / "bad", tmp_path / "good"
    for folder in (bad, good):
        folder.mkdir()
    for name, number in UNLOADABLE.items():
        compile_plugin("bad_plugin.c", bad / f"lib{name}.so", f"-DCASE={number}", "-Wl,-z,lazy")
    compile_plugin("mask_filter.c", good / "libmask.so")
    for part in (2, 4):
        whole = (good / "libmask.so").read_bytes()
        (bad / f"libtruncated{part}.so").write_bytes(whole[:len(whole) * part // 10] + b"H5PLget_plugin_info")
    return f"{bad}:{good}"


def small_file(path):
    with h5py.File(path, "w") as f:
        f.create_dataset("v", data=DATA, chunks=(10, 50))
        f.create_dataset("texts", data=["one", "two"], dtype=h5py.string_dtype(), chunks=(1,))
    return path


def unmount_in_time(mounted, seconds):
    codecfs("unmount", mounted.path, seconds=seconds)
    wait_until(lambda: mounted.process.poll() is not None)


def test_unloadable_libraries_beside_a_wanted_one(mount, beside, tmp_path):
    """Setting, reading and writing the filters of other plugins works, and the end of the mount waits for none."""
    mounted = mount(small_file(tmp_path / "a.h5"), env={"HDF5_PLUGIN_PATH": beside})
    shown = every_chunk(mounted, "v")
    begun = time.monotonic()
    for name in ("v", "texts"):  # libhdf5 itself encodes texts
        os.setxattr(mounted.path / name, "user._Filter", b"32900,7|deflate,1")
    assert time.monotonic() - begun < 100
    assert every_chunk(mounted, "v") == shown
    assert read(mounted, "texts/1")[-3:] == b"two"
    (mounted.path / "v/0.0").write_bytes(bytes(2000))
    notes = [line for line in table(mounted)[1] if line.startswith("# not used ")]
    for name in UNLOADABLE:
        assert any(f"/lib{name}.so: " in line for line in notes), notes
    assert len([line for line in notes if "/libtruncated" in line]) == 2
    library = next(pid for pid in loaded_by("libmask.so") if "hdf5" in open(f"/proc/{pid}/comm").read())
    assert "/bad/" not in open(f"/proc/{library}/maps").read()
    unmount_in_time(mounted, 60)
    again = mount(tmp_path / "a.h5", env={"HDF5_PLUGIN_PATH": beside})
    assert read(again, "v/0.0") == bytes(2000) and every_chunk(again, "v")[2000:] == shown[2000:]
    assert read(again, "texts/1")[-3:] == b"two"
    unmount_in_time(again, 60)


@pytest.mark.parametrize("behaviour, says", [("pause()", "did not finish in time"), ("abort()", "crashes (Aborted)")])
def test_a_library_that_fails_only_where_libhdf5_runs(mount, tmp_path, behaviour, says):
    """It was accepted, and fails when libhdf5's process loads it: that costs the call, not the file."""
    source = tmp_path / "late.c"
    source.write_text(f"""
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void) {{
  char name[16];
  prctl(PR_GET_NAME, name);
  while (strcmp(name, "codecfs-hdf5") == 0) {behaviour};
}}
""")
    folder = tmp_path / "plugins"
    folder.mkdir()
    compile_plugin("mask_filter.c", folder / "libmask.so", str(source))
    mounted = mount(small_file(tmp_path / "a.h5"), env={"HDF5_PLUGIN_PATH": str(folder)})
    shown = every_chunk(mounted, "v")
    with pytest.raises(OSError) as failure:
        os.setxattr(mounted.path / "v", "user._Filter", b"32900,7")
    assert failure.value.errno == 5
    reason = xattr(mounted.path / "v", "_Error")
    assert says in reason and "libmask.so" in reason and "the file is damaged" not in reason, reason
    os.setxattr(mounted.path / "v", "user._Filter", b"deflate,1")
    assert every_chunk(mounted, "v") == shown
    unmount_in_time(mounted, 60)


def test_a_filter_that_crashes_while_a_variable_is_encoded_again(mount, tmp_path):
    """Also in a thread that only takes part in it."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    compile_plugin("mask_filter.c", folder / "libmask.so")
    mounted = mount(small_file(tmp_path / "a.h5"), env={"HDF5_PLUGIN_PATH": str(folder)})
    shown = every_chunk(mounted, "v")
    with pytest.raises(OSError) as failure:
        os.setxattr(mounted.path / "v", "user._Filter", b"32900,7,13")
    assert failure.value.errno == 5
    reason = xattr(mounted.path / "v", "_Error")
    assert "crashes (Aborted) in " in reason and "libmask.so" in reason, reason
    assert every_chunk(mounted, "v") == shown
