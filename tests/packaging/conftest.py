"""The tests of packages use what all tests share (tests/support)."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "support"))
import running  # noqa: E402

running.SECONDS = 600  # packages are made and installed
