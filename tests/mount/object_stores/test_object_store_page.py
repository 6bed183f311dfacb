"""codecfs info --html and --plot of what is in an object store: the same as of the local file, in bounded time and with few requests."""
import time

import h5py
import numpy as np

from buckets import BUCKET, codecfs_with, make_v2, put, server, weather  # noqa: F401 (fixtures)
from overview_pages import facts_of, parsed, statistics_of, variables_of
from running import codecfs


def told(page):
    found = variables_of(parsed(page))
    return {path: (statistics_of(variable), facts_of(variable), [image.attributes["src"] for image in variable.find_all("img")])
            for path, variable in found.items()}


def test_a_page_is_that_of_the_local_file(weather, server, tmp_path):
    put(server, weather)
    expected = told(codecfs("info", "--html", "-", weather).stdout)
    assert len(expected) == 4 and sum(bool(images) for _, _, images in expected.values()) >= 4
    assert told(codecfs_with(server, "info", "--html", "-", f"s3://{BUCKET}/{weather.name}").stdout) == expected
    requests = len(server.log())
    assert requests <= 40, requests
    make_v2(tmp_path / "s.zarr")
    server.put_tree(BUCKET, tmp_path / "s.zarr", "s.zarr/")
    expected = told(codecfs("info", "--html", "-", tmp_path / "s.zarr").stdout)
    assert expected and told(codecfs_with(server, "info", "--html", "-", f"s3://{BUCKET}/s.zarr").stdout) == expected
    plot = codecfs("info", tmp_path / "s.zarr", "a", "--plot").stdout
    assert codecfs_with(server, "info", f"s3://{BUCKET}/s.zarr", "a", "--plot").stdout == plot


def test_a_slow_server_makes_a_page_in_time(server, tmp_path):
    """Pictures for which there is no time say so."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i in range(40):
            f.create_dataset(f"v{i:02}", data=np.random.default_rng(i).random((32, 40, 40)), chunks=(1, 40, 40), compression="gzip")
    put(server, tmp_path / "a.h5")
    server.set(latency=0.5)
    begin = time.monotonic()
    page = codecfs_with(server, "info", "--html", "-", f"s3://{BUCKET}/a.h5").stdout
    seconds = time.monotonic() - begin
    assert seconds < 60, seconds
    found = variables_of(parsed(page))
    assert len(found) == 40
    for variable in found.values():
        assert statistics_of(variable) or "time for reading was over" in variable.text
