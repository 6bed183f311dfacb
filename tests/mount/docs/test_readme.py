"""The examples of the README and of docs/, run as they are printed: what they print is what the page says.

The blocks marked `console` of a page are run in their order, in a directory with sample.nc, a copy of
tests/data/sample.cdl and the empty directory mnt. `...` in what a page prints stands for any text of a line; a line that is
`...` alone, for any lines. They are run with Debian's zarr-python 2 and xarray, and with today's of PyPI, where blocks that are
marked `console zarr2` are left out, and blocks that are marked `console zarr3` are run instead. Modules that are named behind it must
be there, too; without them the block is left out.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from conftest import CODECFS, is_mounted, unmount
from pages import PAGES, TOP, blocks, steps
from filter_plugins import OURS
from running import run
from venvs import python_of

WITH_EXAMPLES = [page for page in PAGES if any(block.kind.startswith("console") for block in blocks(page))]


def pattern(output):
    """What a page prints as a regular expression."""
    text = re.escape(output)
    text = re.sub(r"^\\\.\\\.\\\.\n", lambda _: "(?:.*\n)*", text.replace("\\\n", "\n"), flags=re.M)
    return text.replace(r"\.\.\.", "[^\n]*")


# An entry in the table of users, which fusermount3 wants.
ORDINARY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def run_page(page, version, python, tmp_path, user=()):
    """`version`: "zarr2" or "zarr3", which the Python has. `user`: a command before each, which makes it one of another user."""
    shutil.copytree(TOP / "tests/data", tmp_path / "tests/data")
    run("ncgen", "-4", "-o", tmp_path / "sample.nc", TOP / "tests/data/sample.cdl")
    tools = tmp_path / ".bin"
    tools.mkdir()
    (tools / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n')  # a link would lose the venv
    (tools / "python3").chmod(0o755)
    (tools / "codecfs").symlink_to(CODECFS)
    (tmp_path / "mnt").mkdir()
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}:/usr/sbin:/sbin", "HDF5_PLUGIN_PATH": OURS,
                   "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "ignore"}
    if user:
        environment |= {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
        run("chown", "-R", "65534:65534", tmp_path)
    try:
        for block in blocks(page):
            kind, *needs = block.kind.split() or [""]
            if kind != "console" or (needs and needs[0] != version):
                continue
            if any(run(python, "-c", f"import {module}", code=None).returncode for module in needs[1:]):
                continue
            for command, output in steps(block.text):
                done = run(*user, "bash", "-c", f"cd {tmp_path}; {command}" if user else command, cwd=tmp_path, stderr=subprocess.STDOUT, env=environment, code=None)
                place = f"{page}:{block.line}: {command}"
                if "..." in output:
                    assert output.replace("...", "").strip(), f"{place}: says nothing of what it prints"
                    assert re.fullmatch(pattern(output), done.stdout), (place, done.stdout)
                else:
                    assert done.stdout == output, place
                # A command may fail where the page shows its message.
                assert done.returncode == 0 or re.search(r"^\w+: ", output, re.M), (place, done.returncode)
    finally:
        for path in tmp_path.iterdir():
            if is_mounted(path):
                unmount(path)


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples(page, tmp_path):
    run_page(page, "zarr2", "/usr/bin/python3", tmp_path)


@pytest.fixture(scope="module")
def ordinary_user():
    """A command before others that makes them those of an ordinary user, whom this machine may not give /dev/fuse: in a mount namespace
    where it does."""
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user, and so do all examples")
    device = "mount -t tmpfs none /mnt && mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse && umount -l /mnt"
    with subprocess.Popen(["unshare", "-m", "sh", "-c", f"{device} && echo ready && exec sleep infinity"], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"ready\n", "no rights to make a device"
            yield ["nsenter", "-m", "-t", str(holder.pid), *ORDINARY]
        finally:
            holder.kill()


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_as_an_ordinary_user(page, ordinary_user, request):
    # Not in pytest's directory, which only its user can search.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-page-"))
    request.addfinalizer(lambda: shutil.rmtree(folder))
    folder.chmod(0o755)
    run_page(page, "zarr2", "/usr/bin/python3", folder, ordinary_user)


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_with_packages_of_today(page, tmp_path):
    run_page(page, "zarr3", python_of("mount-tests"), tmp_path)


def test_the_readme_has_its_examples():
    commands = [step.command for block in blocks("README.md") if block.kind == "console" for step in steps(block.text)]
    assert len(commands) > 12 and sum(command.startswith("codecfs ") for command in commands) >= 5


def test_the_readme_begins_with_the_two_commands():
    lines = blocks("README.md")[0].text.splitlines()
    assert [line.split()[0] for line in lines] == ["scripts/quickstart", "scripts/test"]
    assert all((TOP / line.split()[0]).exists() for line in lines)


def test_omissions_in_what_is_printed():
    assert re.fullmatch(pattern("a: ... b\n"), "a: 17 + b\n")
    assert not re.fullmatch(pattern("a: ... b\n"), "a: 17\nb\n")
    assert re.fullmatch(pattern("first (1)\n...\nlast\n"), "first (1)\n\nx\nlast\n")
    assert not re.fullmatch(pattern("first\n...\nlast\n"), "first\nx\n")
