"""pytest fixtures for small disks, which need root: a tmpfs whose size can change, and ext4 images on loop devices."""
import os
import shutil

import pytest
from running import run


@pytest.fixture
def small_disk(tmp_path):
    """A function small_disk(size) that mounts a tmpfs of that size; called again, it changes the size."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    is_made = False

    def make(size):
        nonlocal is_made
        run("mount", "-t", "tmpfs", "-o", f"{'remount,' if is_made else ''}size={size}", "tmpfs", disk)
        is_made = True
        return disk

    yield make
    run("umount", "-l", disk, code=None)


class Image:
    """An ext4 image at `path`; each mount is on another loop device when the previous one is kept."""

    def __init__(self, path, disk):
        self.path, self.disk, self.devices = path, disk, []

    def make(self, size):
        run("truncate", "-s", size, self.path)
        run("mkfs.ext4", "-q", self.path)
        return self

    def mount(self):
        done = run("losetup", "--find", "--show", self.path, code=None)
        if done.returncode != 0:
            pytest.skip("there are no loop devices")
        self.devices.append(done.stdout.strip())
        run("mount", self.devices[-1], self.disk)
        return self.disk

    def unmount(self, keep_device=False):
        run("umount", self.disk)
        if not keep_device:
            run("losetup", "-d", self.devices.pop())


@pytest.fixture
def image(tmp_path):
    """An Image without content: image.make(size).mount() gives a directory."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("mounting an image needs root and mkfs.ext4")
    disk = tmp_path / "disk"
    disk.mkdir()
    made = Image(tmp_path / "image", disk)
    yield made
    run("umount", "-l", disk, code=None)
    for device in made.devices:
        run("losetup", "-d", device, code=None)
