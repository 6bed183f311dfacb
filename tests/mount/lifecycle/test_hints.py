"""Messages that say what was meant, or what is missing: misspelled names, no access to /dev/fuse, mounts in use."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import pytest

from conftest import CODECFS, is_mounted
from running import codecfs, run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def source(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.arange(1000), chunks=(100,))
    return tmp_path / "a.h5"


@pytest.mark.parametrize("words, meant", [
    (["-o", "cahce=64M"], "did you mean cache?"), (["-o", "alow_other"], "did you mean allow_other?"),
    (["-o", "ro,nonemtpy"], "did you mean nonempty?"), (["-o", "isolated=on"], "did you mean isolate?"),
    (["-F", "*,shufle|zstd,3"], "did you mean shuffle?"), (["-F", "v,ztsd"], "did you mean zstd?"),
    (["-o", r"filter=v\,defalte\,5"], "did you mean deflate?"), (["-F", "v,bitshufle"], "did you mean bitshuffle?"),
])
def test_misspelled_names(source, place, words, meant):
    place.mkdir()
    done = codecfs(*words, source, place, code=1)
    assert meant in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_other_names_are_not_guessed(source, place):
    place.mkdir()
    for words in (["-o", "something"], ["-F", "*,whatever"]):
        done = codecfs(*words, source, place, code=1)
        assert "did you mean" not in done.stderr and "known" in done.stderr, done.stderr


def test_misspelled_names_in_attributes(source, mount):
    m = mount(source)
    with pytest.raises(OSError):
        os.setxattr(m.path / "v", "user._Filter", b"shuffel|zstd")
    assert "did you mean shuffle?" in os.getxattr(m.path / "v", "user._Error").decode()


def test_misspelled_variables_of_commands(tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file["group/temperature"] = np.arange(1000)
    before = source.read_bytes()

    def says(code, *words):
        done = codecfs(*words, code=code)
        assert before == source.read_bytes(), words
        return done.stderr
    assert says(32, "info", source, "group/temprature").endswith("there is no /group/temprature; did you mean temperature?\n")
    rule = ("-F", "/group/temprature,zstd,3")
    for words in (("recode", *rule, source), ("recode", "--dry-run", *rule, source), ("recode", "--estimate", *rule, source)):
        told = says(32, *words)
        assert "did you mean temperature?\n" in told and "no rule names a variable" in told, told
    told = says(32, "convert", *rule, source, tmp_path / "b.zarr")
    assert told.endswith("/group/temprature: there is no such variable; did you mean temperature?\n"), told
    assert "; did you mean /group?\n" in says(32, "convert", "--skip", "grop", source, tmp_path / "b.zarr")
    assert "; did you mean /group/temperature?\n" in says(32, "convert", "--skip", "/group/temprature", source, tmp_path / "b.zarr")
    for words in (("info", source, "other"), ("convert", "-F", "other,zstd,3", source, tmp_path / "b.zarr"),
                  ("recode", "--estimate", "-F", "other,zstd,3", source), ("convert", "--skip", "other", source, tmp_path / "b.zarr")):
        told = says(32, *words)
        assert "other" in told and "did you mean" not in told, told
    assert not (tmp_path / "b.zarr").exists()


def test_misspelled_variables_of_a_mount(tmp_path, mount):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as file:
        file.create_dataset("temp sea", data=np.arange(1000), chunks=(100,))
        file["notes"] = "text"
    m = mount(source, rules=["tempsea,zstd,3"])
    assert "there is no such variable; the rule does nothing; did you mean temp sea?" in m.messages()
    for path in ("tempsea", "tempsea/"):
        told = codecfs("set", f"{m.path}/{path}", "zstd,3", code=32).stderr
        assert told.endswith("No such file or directory; did you mean temp sea?\n"), told
    assert codecfs("set", "tempsea", "zstd,3", cwd=m.path, code=32).stderr.endswith("did you mean temp sea?\n")
    # Chunks and what is beside mounts is no variable.
    (tmp_path / "temper").mkdir()
    for path in (m.path / "temp sea/00", m.path / "other", tmp_path / "tempr"):
        assert "did you mean" not in codecfs("set", path, "zstd,3", code=32).stderr
    codecfs("set", m.path / "temp sea", "zstd,3")


def users_of(done, place):
    assert done.returncode == 32 and is_mounted(place), done.stderr
    line = next(line for line in done.stderr.splitlines() if "stays mounted" in line)
    return line.split("in use by ")[1].split(";")[0]


def test_a_busy_mount_names_its_users(source, place):
    place.mkdir()
    codecfs("-o", "ro", source, place)
    sleeper = subprocess.Popen(["sleep", "100"], cwd=place / "v")
    reader = subprocess.Popen(["tail", "-f", place / "v/0"], stdout=subprocess.DEVNULL)
    code = ("import mmap, os, sys, time; f = os.open(sys.argv[1], 0); m = mmap.mmap(f, 0, prot=mmap.PROT_READ); os.close(f);"
            "print('ready', flush=True); time.sleep(100)")
    mapper = subprocess.Popen([sys.executable, "-c", code, place / ".codecfs/view/raw/v"], stdout=subprocess.PIPE)
    try:
        assert mapper.stdout.readline() == b"ready\n"
        users = users_of(codecfs("-u", place, code=None), place)
        assert f"{sleeper.pid} (sleep: its current directory)" in users
        assert f"{reader.pid} (tail: an open file)" in users
        # Python keeps a duplicate of the descriptor.
        assert f"{mapper.pid} (python3: a" in users or f"{mapper.pid} (python: a" in users
        assert users.count("(") == 3 and str(os.getpid()) not in users.replace("(", " ").split()
    finally:
        for process in (sleeper, reader, mapper):
            process.kill()
            process.wait(60)
    codecfs("-u", place)


def test_at_most_ten_users_are_named(source, place):
    place.mkdir()
    codecfs("-o", "ro", source, place)
    sleepers = [subprocess.Popen(["sleep", "100"], cwd=place) for _ in range(12)]
    try:
        users = users_of(codecfs("-u", place, code=None), place)
        assert users.count("(sleep: ") == 10 and users.endswith(" and more")
    finally:
        for process in sleepers:
            process.kill()
            process.wait(60)
    codecfs("-u", place)


def without_fuse(how, source, place):
    """In a mount namespace whose /dev has no FUSE device, or one that cannot be opened."""
    script = {
        "missing": "mount -t tmpfs none /dev",
        "forbidden": "mount -t tmpfs -o nodev none /dev && mknod /dev/fuse c 10 229",  # as in a container without the device
    }[how]
    return run("unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh", CODECFS, "-f", source, place, code=None)


@needs_root
@pytest.mark.parametrize("how, says", [("missing", "there is no /dev/fuse"), ("forbidden", "/dev/fuse: Permission denied")])
def test_no_access_to_the_device(source, place, how, says):
    if run("unshare", "-m", "true", code=None).returncode != 0:
        pytest.skip("no rights to make a namespace")
    place.mkdir()
    done = without_fuse(how, source, place)
    assert done.returncode == 32 and says in done.stderr and "--device /dev/fuse" in done.stderr, done.stderr
    assert "cannot mount on" in done.stderr


@needs_root
def test_allow_other_of_ordinary_users(source, request):
    if "user_allow_other" in [line.strip() for line in open("/etc/fuse.conf")] or shutil.which("fusermount3") is None:
        pytest.skip("ordinary users may use allow_other here")
    # Not in pytest's directory, which each run that begins gives to its user alone again.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-open-"))
    request.addfinalizer(lambda: shutil.rmtree(folder))
    folder.chmod(0o755)
    shutil.copy(source, folder / "a.h5")
    shutil.copy(CODECFS, folder / "codecfs")
    (folder / "mnt").mkdir()
    for path in (folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    # Some machines give only root access to /dev/fuse.
    device = "mount -t tmpfs none /dev && mknod -m 666 /dev/fuse c 10 229 && mknod -m 666 /dev/null c 1 3"
    if run("unshare", "-m", "sh", "-c", f"{device} && : <> /dev/fuse", code=None).returncode != 0:
        pytest.skip("no rights to make a device")
    done = run("unshare", "-m", "sh", "-c", f'{device} && exec "$@"', "sh", "setpriv", "--reuid=65534", "--regid=65534",
               "--clear-groups", folder / "codecfs", "-o", "allow_other", folder / "a.h5", folder / "mnt", code=32)
    assert "/etc/fuse.conf has the line user_allow_other" in done.stderr, done.stderr
