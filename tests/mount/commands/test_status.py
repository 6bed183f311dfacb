"""codecfs status: what mounts tell, as text, as JSON, and in Prometheus' format."""
import json
import os
import re
import shutil
import signal

from conftest import DATA, Mount
from running import codecfs


def status(*words, code=0):
    done = codecfs("status", *words, code=code)
    return done.stdout if code == 0 else done.stderr


def test_a_mount(tmp_path, mount):
    source = tmp_path / 'with "quotes" and space.h5'
    shutil.copy(DATA / "hdf5/filters_builtin.h5", source)
    point = mount(source).path
    data = (point / "gzip/0.0").read_bytes()
    (point / "gzip/1.1").write_bytes(data)
    [found] = json.loads(status("--json", point))
    assert found["mountpoint"] == str(point) and found["source"] == str(source) and not found["read_only"]
    told = dict(line.split() for line in (point / ".codecfs/stats").read_text().splitlines())
    assert set(found["counters"]) == set(told) and found["counters"]["chunks_decoded"] == int(told["chunks_decoded"])
    text = status(point)
    assert str(source) in text and "read" in text and "waiting" in text
    lines = status("--prometheus", point).splitlines()
    label = f'{{mountpoint="{point}",source="{str(source)}"}}'.replace('h "', 'h "')
    assert any(line.startswith("codecfs_up{") and line.endswith(" 1") for line in lines)
    for line in lines:
        assert line.startswith("# ") or re.fullmatch(r'codecfs_\w+\{mountpoint="[^"]*",source="(?:[^"\\]|\\.)*"\} \d+', line), line
    assert len([line for line in lines if line.startswith("codecfs_")]) == len(told) + 1


def test_errors_of_the_log(tmp_path, mount):
    shutil.copy(DATA / "hdf5/filters_builtin.h5", tmp_path / "a.h5")
    point = mount(tmp_path / "a.h5").path
    try:
        os.setxattr(point / "gzip", "user._Filter", b"nosuch")
    except OSError:
        pass
    assert "nosuch" in status(point)
    assert any("nosuch" in line for line in json.loads(status("--json", point))[0]["errors"])


def test_all_mounts_and_none(tmp_path, mount):
    one, two = (mount(DATA / f"hdf5/{name}.h5", "ro") for name in ("layouts", "links"))
    found = {entry["mountpoint"]: entry for entry in json.loads(status("--json"))}
    assert found[str(one.path)]["read_only"] and str(two.path) in found
    assert "no codecfs mount" in status(tmp_path, code=32)


def test_a_dead_mount(place):
    dead = Mount(DATA / "hdf5/layouts.h5", place, "ro")
    dead.process.kill()
    dead.process.wait(60)
    dead.ended = True
    [found] = json.loads(status("--json", dead.path))
    assert "dead" in found["unreachable"] and "dead" in status(dead.path)
    assert re.search(r"^codecfs_up.* 0$", status("--prometheus", dead.path), re.M)


def test_a_daemon_that_does_not_answer(tmp_path, mount):
    """Stopped. Its mount is listed with the reason, and does not hold up the others."""
    stopped, other = (mount(DATA / f"hdf5/{name}.h5", "ro") for name in ("layouts", "links"))
    directory = stopped.path / "inside"
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        for words in ([], [stopped.path], [other.path]):
            text = status(*words)
            assert str(other.path) in text or words == [stopped.path]
            assert words == [other.path] or str(stopped.path) in text
        found = {entry["mountpoint"]: entry for entry in json.loads(status("--json"))}
        assert "does not answer" in found[str(stopped.path)]["unreachable"]
        assert found[str(other.path)]["counters"] and "unreachable" not in found[str(other.path)]
        lines = status("--prometheus").splitlines()
        ups = {line.split('"')[1]: line[-1] for line in lines if line.startswith("codecfs_up{")}
        assert ups[str(stopped.path)] == "0" and ups[str(other.path)] == "1"
        assert "no answer" in status(directory, code=32)
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    assert "unreachable" not in json.loads(status("--json", stopped.path))[0]
