"""The RPM package of scripts/make-rpm: what is in it, and its installation into an empty root with rpm."""
import os
import pathlib

import pytest
from running import run

REPOSITORY = pathlib.Path(__file__).parents[2]
PACKAGES = sorted((REPOSITORY / "build/rpm").glob(f"codecfs-*.{os.uname().machine}.rpm"))
pytestmark = pytest.mark.skipif(not PACKAGES, reason="no package: scripts/make-rpm makes it")


def test_what_is_in_it():
    names = set(run("rpm", "-qpl", PACKAGES[-1]).stdout.splitlines())
    for name in ("/usr/bin/codecfs", "/sbin/mount.codecfs", "/usr/share/man/man8/codecfs.8.gz", "/usr/share/doc/codecfs/README.md",
                 "/usr/share/doc/codecfs/licenses/libfuse3", "/usr/share/doc/codecfs/licenses/curl",
                 "/usr/share/bash-completion/completions/codecfs", "/usr/share/zsh/site-functions/_codecfs",
                 "/usr/share/fish/vendor_completions.d/codecfs.fish"):
        assert name in names, name
    assert not [name for name in names if not name.startswith(("/usr/", "/sbin/"))]
    assert not {"/usr", "/usr/bin", "/sbin", "/usr/share", "/usr/share/doc", "/usr/share/man", "/usr/share/man/man1",
                "/usr/share/fish", "/usr/share/fish/vendor_completions.d"} & names


def test_it_needs_fuse3_and_an_old_glibc():
    needs = run("rpm", "-qp", "--requires", PACKAGES[-1]).stdout.splitlines()
    assert "fuse3" in needs and "libc.so.6(GLIBC_2.28)(64bit)" in needs
    others = [name for name in needs if name != "fuse3" and not name.startswith(
        ("libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "ld-linux-x86-64.so.2", "rpmlib("))]
    assert not others, others


@pytest.mark.skipif(os.geteuid() != 0, reason="rpm installs as root")
def test_it_is_installed_and_removed(tmp_path):
    def rpm(*words):
        return run("rpm", "--root", tmp_path, "--dbpath", "/rpmdb", *words).stdout

    rpm("--initdb")
    rpm("-i", "--nodeps", PACKAGES[-1])  # fuse3 and glibc are not in this root
    assert run(tmp_path / "usr/bin/codecfs", "--version").stdout.startswith("codecfs ")
    assert os.readlink(tmp_path / "sbin/mount.codecfs") == "/usr/bin/codecfs"
    rpm("-V", "--nodeps", "codecfs")
    rpm("-e", "--nodeps", "codecfs")
    assert not [path for path in tmp_path.rglob("*") if not path.is_dir() and "rpmdb" not in path.parts]


def test_rpmlint_says_nothing():
    assert "0 errors, 0 warnings" in run("rpmlint", "-c", REPOSITORY / "packaging/rpmlint.toml", PACKAGES[-1]).stdout
