"""The short form of scripts/fs-suites: random operations against a model, and fio."""
import random
import shutil
import sys

import pytest

from conftest import CODECFS, PROGRAMS
from running import run

EXERCISER = PROGRAMS / "exerciser.py"


@pytest.mark.parametrize("seed", ["fixed", "random"])
@pytest.mark.parametrize("kind", ["hdf5", "zarr", "zip"])
def test_random_operations_agree_with_the_model(kind, seed):
    seed = "1" if seed == "fixed" else str(random.randrange(10**6))
    done = run(sys.executable, "-B", EXERCISER, CODECFS, kind, "600", seed, seconds=600)
    assert "sources compared" in done.stdout  # with h5py or zarr-python


def test_fio_verifies_what_it_wrote():
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed")
    done = run(sys.executable, "-B", EXERCISER.with_name("suites.py"), CODECFS, "fio", "hdf5", "1", seconds=600)
    assert done.stdout.count("mounted again verified") == 5, done.stdout + done.stderr[-4000:]
