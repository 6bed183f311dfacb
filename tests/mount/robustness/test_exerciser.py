"""The short form of scripts/fs-suites: random operations against a model, and fio."""
import random
import shutil
import subprocess
import sys

import pytest

from conftest import CODECFS, PROGRAMS

EXERCISER = PROGRAMS / "exerciser.py"


@pytest.mark.parametrize("seed", ["fixed", "random"])
@pytest.mark.parametrize("kind", ["hdf5", "zarr", "zip"])
def test_random_operations_agree_with_the_model(kind, seed):
    seed = "1" if seed == "fixed" else str(random.randrange(10**6))
    done = subprocess.run([sys.executable, "-B", EXERCISER, CODECFS, kind, "600", seed], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-4000:]
    assert "sources compared" in done.stdout  # with h5py or zarr-python


def test_fio_verifies_what_it_wrote():
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    done = subprocess.run([sys.executable, "-B", EXERCISER.with_name("suites.py"), CODECFS, "fio", "hdf5", "1"], capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.count("mounted again verified") == 5, done.stdout + done.stderr[-4000:]
