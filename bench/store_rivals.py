"""The rivals of bench/object-stores: their venv, which of them are here, and mounts of a bucket by s3fs-fuse and rclone."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import harness
from harness import Wrong, run

# The second version is for a Python before 3.12.
REQUIREMENTS = {"zarr": ("zarr==3.4.2", "zarr==3.1.6"), "obstore": ("obstore==0.12.1",) * 2, "tensorstore": ("tensorstore==0.1.86",) * 2,
                "icechunk": ("icechunk==2.3.0", "icechunk==1.1.21"), "s3fs": ("s3fs==2026.9.0",) * 2, "kerchunk": ("kerchunk==0.2.10",) * 2,
                "h5py": ("h5py==3.16.0",) * 2}
NEEDS = {"mounted": ["zarr"], "root": ["zarr"], "codecfs": [], "chunk-files": [], "kerchunk": ["kerchunk", "s3fs", "zarr"], "h5py": ["h5py", "s3fs"],
         "obstore": ["obstore", "zarr"], "s3fs": ["s3fs", "zarr"], "icechunk": ["icechunk", "zarr"], "tensorstore": ["tensorstore"]}
PROGRAMS = {"s3fs-fuse": "s3fs", "rclone": "rclone"}
MOUNT_SECONDS = 30
CONNECTIONS = pathlib.Path("/sys/fs/fuse/connections")


def versions_of_programs():
    found = {}
    for name, option in {"s3fs-fuse": "--version", "rclone": "version"}.items():
        if shutil.which(PROGRAMS[name]):
            found[name] = re.search(r"v(\d\S*)", run(PROGRAMS[name], option), re.I)[1]
    return found


def reason_against(client, mounts, missing):
    """Why a client cannot take part, or None. `missing`: what install() has told."""
    if mounts in PROGRAMS and shutil.which(PROGRAMS[mounts]) is None:
        return f"{PROGRAMS[mounts]} is not installed (Debian's package {PROGRAMS[mounts]})"
    return next((f"{needed}: {missing[needed]}" for needed in NEEDS[client] if needed in missing), None)


def install(folder, python):
    """(Python of the venv, why what is missing). Raises Wrong without a venv."""
    version = run(python, "-c", "import sys; print(*sys.version_info[:2])").split()
    venv = folder / f"venv-{'.'.join(version)}"
    inside = venv / "bin/python"
    if not inside.exists():
        done = subprocess.run([python, "-m", "venv", str(venv)], capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(venv, ignore_errors=True)
            raise Wrong(f"no venv: {(done.stderr or done.stdout).strip()[-200:]}")
    have = run(inside, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check").split()
    missing = {}
    for name, (newer, older) in REQUIREMENTS.items():
        requirement = newer if tuple(map(int, version)) >= (3, 12) else older
        if requirement not in have:
            print(f"  installing {requirement} into {venv} ...", flush=True)
            done = subprocess.run([inside, "-m", "pip", "install", "-q", "--only-binary=:all:", "--disable-pip-version-check", requirement],
                                  capture_output=True, text=True, timeout=900)
            if done.returncode:
                missing[name] = f"not from PyPI: {(done.stderr.strip().splitlines() or [''])[-1][:200]}"
    return inside, missing


def connection_of(path):
    """The number of a mount's connection to the kernel: the minor number of its device."""
    with open("/proc/self/mountinfo") as table:
        return next((line.split()[2].partition(":")[2] for line in table if line.split()[4] == str(path)), "none")


class FuseMount:
    """s3fs-fuse or rclone with the bucket, with what their manuals say is fast. `with FuseMount(...) as mount:`"""

    def __init__(self, program, bucket, endpoint, environment, read_only):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="codecfs-bench-"))
        if program == "s3fs-fuse":
            options = f"url={endpoint},use_path_request_style,parallel_count=32,multireq_max=64,max_stat_cache_size=200000,nomultipart"
            command = ["s3fs", bucket, self.path, "-f", "-o", options + (",ro" if read_only else "")]
            environment = environment | {"AWSACCESSKEYID": environment["AWS_ACCESS_KEY_ID"],
                                         "AWSSECRETACCESSKEY": environment["AWS_SECRET_ACCESS_KEY"]}
        else:
            command = ["rclone", "mount", f":s3:{bucket}", self.path, "--config", "/dev/null", "--s3-provider", "Other", "--s3-env-auth",
                       "--s3-endpoint", endpoint, "--s3-force-path-style", "--s3-no-check-bucket", "--s3-no-head", "--no-modtime", "--no-checksum",
                       "--vfs-fast-fingerprint", "--vfs-cache-mode", "off", "--transfers", "64", "--checkers", "64"]
            command += ["--read-only"] if read_only else []
        self.log = tempfile.TemporaryFile()
        start = time.perf_counter()
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *map(str, command)], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, env=environment)
        while not harness.mounts.is_mounted(self.path):
            if self.process.poll() is not None or time.perf_counter() - start > MOUNT_SECONDS:
                self.process.kill()
                self.log.seek(0)
                raise Wrong(f"{program} did not mount: {self.log.read()[-300:].decode(errors='replace')}")
            time.sleep(0.001)
        self.connection = connection_of(self.path)
        os.stat(self.path)
        self.seconds = time.perf_counter() - start

    def close(self):
        """Raises TimeoutError where the program does not end by itself."""
        if self.process.poll() is None:
            harness.mounts.unmount(self.path)
            try:
                self.process.wait(MOUNT_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise TimeoutError("it did not end after its unmount") from None
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def kill(self):
        """Also a program that waits in the kernel for itself, as rclone's may."""
        self.process.kill()
        harness.mounts.detach(self.path)
        # In containers, this file system is not there as a rule.
        is_missing = not harness.mounts.is_mounted(CONNECTIONS)
        with contextlib.suppress(OSError, Wrong):  # without the right to do so
            if is_missing:
                run("mount", "-t", "fusectl", "none", CONNECTIONS)
            (CONNECTIONS / self.connection / "abort").write_text("1")
        if is_missing and harness.mounts.is_mounted(CONNECTIONS):
            run("umount", CONNECTIONS)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(MOUNT_SECONDS)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
