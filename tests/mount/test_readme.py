"""The examples of the README that change something, run as they are printed: what they print is what the README says."""
import os
import pathlib
import re
import subprocess


from conftest import CODECFS, is_mounted, unmount
from test_recode import OURS

TOP = pathlib.Path(__file__).resolve().parents[2]


def examples():
    """(command with its here-document, output) of all blocks marked `console`, in their order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", (TOP / "README.md").read_text(), re.M | re.S):
        lines = block.splitlines(keepends=True)
        while lines:
            command = lines.pop(0)
            assert command.startswith("$ "), command
            command = command[2:]
            if (end := re.search(r"<<(\w+)$", command)):
                while True:
                    command += lines.pop(0)
                    if command.endswith(f"\n{end[1]}\n"):
                        break
            output = ""
            while lines and not lines[0].startswith("$ "):
                output += lines.pop(0)
            found.append((command, output))
    return found


def test_examples(tmp_path):
    steps = examples()
    assert len(steps) > 12 and sum(command.startswith("codecfs ") for command, _ in steps) >= 3
    subprocess.run(["ncgen", "-4", "-o", tmp_path / "sample.nc", TOP / "tests/data/sample.cdl"], check=True)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to("/usr/bin/python3")
    (tools / "codecfs").symlink_to(CODECFS)
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HDF5_PLUGIN_PATH": OURS}
    try:
        for command, output in steps:
            done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60)
            assert done.returncode == 0, (command, done.stderr)
            if command.startswith("codecfs compact"):
                assert done.stdout.startswith("sample.nc: ") or "sample.nc" in done.stdout
            else:
                assert done.stdout == output, command
    finally:
        for path in (mountpoint, tmp_path / "m"):
            if is_mounted(path):
                unmount(path)
