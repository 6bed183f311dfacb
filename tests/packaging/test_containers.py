"""Mounts in a user namespace without root, and in a container of the Dockerfile's last stage (podman, runc; no image is pulled)
with the tarball of scripts/make-portable."""
import os
import pathlib
import shutil

import pytest
from running import run

REPOSITORY = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ["CODECFS_BUILD"])
BARE = os.environ.get("CODECFS_BARE_ROOT", os.path.expanduser("~/.cache/codecfs-platforms/bare"))

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give others /dev/fuse")

# /dev/fuse as it is on most machines: for all users. In a mount namespace.
OPEN_DEVICE = 'mount -t tmpfs tmpfs /mnt && mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse && exec "$@"'


def with_device(*words, **kwargs):
    return run("unshare", "--mount", "sh", "-c", OPEN_DEVICE, "sh", *words, **kwargs).stdout


@pytest.fixture
def place(tmp_path):
    """A directory of the user nobody, with sample.nc and the program."""
    made = pathlib.Path(run("mktemp", "-d", "/tmp/codecfs-containers-XXXXXX").stdout.strip())
    run("ncgen", "-4", "-o", made / "sample.nc", REPOSITORY / "tests/data/sample.cdl")
    shutil.copy(BUILD / "src/codecfs", made)
    (made / "mnt").mkdir()
    run("chown", "-R", "65534:65534", made)
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_a_user_namespace(place):
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if run(*as_nobody, "unshare", "-Urm", "true", code=None).returncode != 0:
        pytest.skip("no user namespaces")
    tools = place / "tools"  # all but fusermount3
    tools.mkdir()
    for name in ("unshare", "sh", "ls", "setfattr", "umount"):
        (tools / name).symlink_to(shutil.which(name))
    said = with_device(*as_nobody, "env", f"PATH={tools}", "unshare", "-Urm", "sh", "-ec", """
        ./codecfs -o coherent sample.nc mnt
        ls mnt
        setfattr -n user.units -v kelvin mnt/temperature
        ./codecfs unmount mnt
        ! ls mnt/temperature""", cwd=place)
    assert "temperature" in said
    assert 'temperature:units = "kelvin"' in run("ncdump", "-h", place / "sample.nc").stdout


@pytest.fixture(scope="module")
def podman(tmp_path_factory):
    """podman with an image of the Dockerfile's last stage."""
    if not shutil.which("podman") or not shutil.which("runc") or not os.path.exists(f"{BARE}/usr/bin/apt-get"):
        pytest.skip("needs podman, runc and a bare Debian: tests/packaging/make-bare-root")
    tarballs = list((REPOSITORY / "build/portable").glob(f"codecfs-*-linux-{os.uname().machine}.tar.gz"))
    if len(tarballs) != 1:
        pytest.skip("no tarball: scripts/make-portable makes it")
    made = tmp_path_factory.mktemp("podman")
    command = ["podman", "--root", made / "root", "--runroot", made / "run", "--storage-driver", "vfs", "--runtime", "runc",
               "--cgroup-manager", "cgroupfs", "--events-backend", "file"]
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
    context = made / "context"
    (context / "made").mkdir(parents=True)
    run("tar", "-xf", tarballs[0], "-C", context / "made", "--strip-components=1")
    run("sh", "-c", f"tar -C {BARE} -c . | {' '.join(map(str, command))} import - localhost/debian:12")
    stages = (REPOSITORY / "packaging/container/Dockerfile").read_text().split("FROM ${BASE}")
    assert len(stages) == 3
    (context / "Dockerfile").write_text("ARG BASE\nFROM scratch AS build\nCOPY made /made\nFROM ${BASE}" + stages[2])
    build = run(*command, "build", *limits, "--network", "host", "--build-arg", "BASE=localhost/debian:12", "-t", "localhost/codecfs",
                context, seconds=600, code=None)
    if build.returncode != 0:
        pytest.skip(f"podman cannot build here: {build.stderr[-500:]}")
    yield [*command, "run", "--rm", "--network", "none", *limits]
    run(*command, "system", "reset", "--force")


def test_the_image_runs_commands_as_a_user(podman, place):
    said = run(*podman, "-v", f"{place}:/data:ro", "localhost/codecfs", "info", "/data/sample.nc").stdout
    assert "temperature" in said
    assert run(*podman, "--entrypoint", "id", "localhost/codecfs", "-u").stdout == "1000\n"


@pytest.mark.parametrize("user", ["1000", "0"])
def test_the_image_mounts(podman, place, user):
    script = "codecfs -o ro,mkdir /data/sample.nc /tmp/m && ls /tmp/m && codecfs unmount /tmp/m"
    said = with_device(*podman, "--user", user, "--device", "/dev/fuse", "--cap-add", "SYS_ADMIN", "-v", f"{place}:/data:ro",
                       "--entrypoint", "sh", "localhost/codecfs", "-ec", script)
    assert "temperature" in said


def test_without_the_device_the_message_says_so(podman, place):
    result = run(*podman, "-v", f"{place}:/data:ro", "localhost/codecfs", "-o", "ro,mkdir", "/data/sample.nc", "m", seconds=100, code=None)
    assert result.returncode != 0 and "--device /dev/fuse" in result.stderr, result.stderr
