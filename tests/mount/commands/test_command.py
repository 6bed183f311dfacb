"""The command: help, versions, failures with one clear line, background, signals, mount(8) and fstab."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

import h5py
import pytest
from conftest import CODECFS, DATA, any_source, is_mounted, unmount, wait_until, xattr
from running import codecfs, run



@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "mnt"
    path.mkdir()
    yield path
    unmount(path)


def test_help_is_grouped_and_shows_defaults():
    result = codecfs("--help")
    for text in ("SOURCE", "MOUNTPOINT", "Mounting", "Information", "cache=SIZE", "default 64M", "threads=N",
                 "-F VARS,SPEC", "filter=VARS,SPEC"):
        assert text in result.stdout


def test_words_that_other_programs_have(directory):
    """A file of such a name is ./NAME."""
    source = any_source()
    assert codecfs("help").stdout == codecfs("--help").stdout
    assert codecfs("help", "verify").stdout == codecfs("verify", "--help").stdout
    assert codecfs("version").stdout == codecfs("--version").stdout
    assert codecfs("ls", source).stdout == codecfs("info", source).stdout
    assert "did you mean --json?" in codecfs("info", "--jsn", source, code=None).stderr


def test_version_names_the_libraries():
    result = codecfs("--version")
    for text in ("codecfs ", "libfuse 3.", "libhdf5 ", "libdeflate", "zstd", "blosc", "lz4"):
        assert text in result.stdout, text


@pytest.mark.parametrize("content, says", [
    (b"CDF\x01" + b"\0" * 100, "netCDF-3"),
    (b"CDF\x02" + b"\0" * 100, "netCDF-3"),
    (b"CDF\x05" + b"\0" * 100, "netCDF"),
    (b"PK\x03\x04" + b"\0" * 100, "zip"),
    (b"", "empty"),
    (b"hello world" * 50, "neither"),
    (b"\x89HDF\r\n\x1a\n" + b"\xff" * 200, "HDF5"),
])
def test_refuses_by_name_what_it_cannot_read(tmp_path, directory, content, says):
    source = tmp_path / "source"
    source.write_bytes(content)
    result = codecfs(source, directory, code=32)
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("codecfs: ")
    assert says.lower() in result.stderr.lower() and str(source) in result.stderr
    assert not is_mounted(directory)


def test_refuses_a_zarr_store_of_a_later_format(tmp_path, directory):
    (tmp_path / "v4").mkdir()
    (tmp_path / "v4/zarr.json").write_text('{"zarr_format": 4, "node_type": "group"}')
    result = codecfs(tmp_path / "v4", directory, code=32)
    assert '"zarr_format" is 4' in result.stderr


@pytest.mark.parametrize("files", [
    ["refs/branch.main/ref.json", "snapshots/1CECHNKREP0F1RSTCMT0", "transactions/1CECHNKREP0F1RSTCMT0", "config.yaml"],  # format 1
    ["repo", "snapshots/1CECHNKREP0F1RSTCMT0", "transactions/1CECHNKREP0F1RSTCMT0"],  # format 2
])
def test_an_icechunk_repository_is_no_folder(tmp_path, directory, files):
    for name in files:
        (tmp_path / "repository" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repository" / name).write_bytes(b"x")
    assert "is an Icechunk repository" in codecfs(tmp_path / "repository", directory, code=32).stderr
    assert not is_mounted(directory)


def test_an_empty_directory_is_mounted_with_a_warning(tmp_path, directory):
    (tmp_path / "empty").mkdir()
    mounted = codecfs(tmp_path / "empty", directory)
    codecfs("unmount", directory)
    assert "empty: is an empty directory" in mounted.stderr


@pytest.mark.parametrize("words, says", [
    (["/nonexistent.nc", "{dir}"], "/nonexistent.nc"),
    (["{source}", "/nonexistent"], "mount point /nonexistent: does not exist; make it, or use -o mkdir"),
    (["{source}", "{source}"], "not a directory"),
    (["-o", "ro"], "usage"),
    (["-o", "nonsense=1", "{source}", "{dir}"], "nonsense"),
    (["-o", "cache=lots", "{source}", "{dir}"], "lots"),
    (["-o", "threads=0", "{source}", "{dir}"], "threads"),
    (["-F", "*,307,3.5", "{source}", "{dir}"], '-F: character 8 of "*,307,3.5"'),
    (["-o", r"filter=v\,307\,9x", "{source}", "{dir}"], '-o filter: character 8 of "v,307,9x"'),
    (["-o", "filter=v,307", "{source}", "{dir}"], '-o filter: there a comma is written'),
    (["--nonsense", "{source}", "{dir}"], "nonsense"),
    (["{source}", "{dir}", "third"], "third"),
])
def test_failure_is_one_clear_line(directory, words, says):
    source = any_source()
    result = codecfs(*(word.format(source=source, dir=directory) for word in words), code=None)
    assert result.returncode in (1, 32)
    assert says in result.stderr and result.stderr.count("\n") == 1, result.stderr
    assert not is_mounted(directory)


def test_goes_to_the_background_when_the_mount_is_there(directory):
    result = codecfs(any_source(), directory)
    assert result.stdout == "" and result.stderr == ""
    assert is_mounted(directory)
    assert (directory / ".zgroup").read_text().strip() != ""
    run("fusermount3", "-u", directory)
    assert not is_mounted(directory)


def test_relative_names_work_in_the_background(tmp_path, directory):
    shutil.copy(any_source(), tmp_path / "with, comma.nc")
    codecfs("with, comma.nc", "mnt", cwd=tmp_path)
    assert (directory / ".zmetadata").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_unmounts(directory, number):
    with subprocess.Popen([CODECFS, "-f", str(any_source()), str(directory)], stderr=subprocess.PIPE) as process:
        wait_until(lambda: is_mounted(directory))
        (directory / ".zattrs").read_text()
        process.send_signal(number)
        assert process.wait(20) == 0
    assert not is_mounted(directory)


def test_unmounting_ends_the_daemon(directory):
    with subprocess.Popen([CODECFS, "-f", str(any_source()), str(directory)], stderr=subprocess.PIPE) as process:
        wait_until(lambda: is_mounted(directory))
        run("umount", directory)
        assert process.wait(20) == 0


def test_mounting_over_the_source_directory_itself(tmp_path):
    store = tmp_path / "store"
    shutil.copytree(sorted(p for p in (DATA / "zarr").iterdir() if (p / ".zgroup").exists())[0], store)
    codecfs(store, store)
    try:
        assert "zarr_format" in (store / ".zgroup").read_text()
        assert (store / ".codecfs/stats").exists()
    finally:
        unmount(store)


@pytest.fixture
def mount_helper():
    """mount(8) looks for /sbin/mount.TYPE only; if none is installed, the test puts ours there."""
    if os.geteuid() != 0:
        pytest.skip("mount(8) needs root")
    helper = pathlib.Path("/sbin/mount.codecfs")
    if os.path.lexists(helper):
        helper.unlink()
    helper.symlink_to(CODECFS)
    yield
    helper.unlink()


def test_umount_8_waits(mount_helper, tmp_path, directory):
    """umount(8) calls umount.fuse.codecfs, and returns when what was written is in the file."""
    helper = pathlib.Path("/sbin/umount.fuse.codecfs")
    if os.path.lexists(helper):
        helper.unlink()
    helper.symlink_to(CODECFS)
    try:
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as f:
            f.create_dataset("v", shape=(64, 1 << 16), dtype="u1", chunks=(1, 1 << 16), compression="gzip")
        run("mount", "-t", "codecfs", path, directory, "-o", "commit=3600")
        for i in range(64):
            (directory / f"v/{i}.0").write_bytes(bytes([i]) * (1 << 16))
        result = run("umount", directory)
        assert result.stderr == "", result.stderr
        with h5py.File(path) as f:
            assert all((f["v"][i] == i).all() for i in range(64))
        assert os.listdir(tmp_path).count(".a.h5.codecfs-wal") == 0
    finally:
        helper.unlink()


def test_mount_8_and_fstab(mount_helper, tmp_path, directory):
    source = any_source()
    result = run("mount", "-t", "codecfs", source, directory, "-o", "ro,cache=32M")
    line = [l for l in open("/proc/mounts") if str(directory) in l][0]
    assert line.split()[0] == str(source) and line.split()[2] == "fuse.codecfs" and "ro" in line.split()[3].split(",")
    run("umount", directory)

    table = tmp_path / "fstab"
    table.write_text(f"{source} {directory} codecfs ro,nofail,noauto,x-systemd.idle-timeout=60,threads=2 0 0\n")
    result = run("mount", "-T", table, directory)
    assert is_mounted(directory) and (directory / ".zgroup").exists()
    run("umount", directory)

    # nofail: a source that is not there is no failure; one that is no dataset is.
    for word, code in (("nofail", 0), ("rw", 32)):
        table.write_text(f"/nonexistent.nc {directory} codecfs {word} 0 0\n")
        result = run("mount", "-T", table, directory, code=code)
        assert (result.stderr == "") == (code == 0), result.stderr
        assert not is_mounted(directory)
    table.write_text(f"{table} {directory} codecfs nofail 0 0\n")
    run("mount", "-T", table, directory, code=32)

    # mount(8) hands on quotes and backslashes as they are.
    for rule in ('filter="*,307,9"', r"filter=*\,307\,9"):
        result = run("mount", "-t", "codecfs", DATA / "hdf5/filters_builtin.h5", directory, "-o", f"ro,{rule},threads=2")
        chains = [xattr(path.parent, "_FilterOut") for path in directory.glob("*/.zarray")]
        assert chains and set(chains) == {"307,9"}
        run("umount", directory)

    # A rule of an fstab line acts on what is written.
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("v", shape=(4, 8), dtype="u1", chunks=(1, 8))
    for rule, chain in ((r"filter=*\,shuffle|1\,3", "2,1|1,3"), ('filter="v,none"', "none"), (r"filter=/v\,1\,9", "1,9")):
        table.write_text(f"{path} {directory} codecfs {rule},noauto 0 0\n")
        result = run("mount", "-T", table, directory)
        (directory / "v/1.0").write_bytes(b"codecfs!")
        assert xattr(directory / "v", "_Filter") == chain
        run("umount", directory)
        deadline = time.monotonic() + 10
        while list(tmp_path.glob(".a.h5*")) and time.monotonic() < deadline:
            time.sleep(0.01)

    result = run("mount", "-t", "codecfs", "/nonexistent.nc", directory, code=32)
    assert "/nonexistent.nc" in result.stderr
