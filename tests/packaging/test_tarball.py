"""The tarball of scripts/make-portable: what it needs of a system, and that it works in a bare Debian root."""
import os
import pathlib
import subprocess
import tarfile

import h5py
import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]
TARBALLS = sorted((REPOSITORY / "build/portable").glob("codecfs-*-linux-*.tar.gz"))
HERE = [path for path in TARBALLS if path.name.endswith(f"-{os.uname().machine}.tar.gz")]
pytestmark = pytest.mark.skipif(not TARBALLS, reason="no tarball: scripts/make-portable makes it")


def run(*words, **kwargs):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600, **kwargs)
    assert result.returncode == 0, (words, result.stdout[-3000:], result.stderr[-3000:])
    return result.stdout


@pytest.fixture(scope="module", params=TARBALLS, ids=lambda path: path.name)
def unpacked(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(request.param) as archive:
        archive.extractall(place)
    return next(place.iterdir())


def test_it_needs_glibc_2_28_and_nothing_else(unpacked):
    plugins = list((unpacked / "lib/codecfs").glob("libcodecfs_*.so"))
    assert len(plugins) == 9
    run(REPOSITORY / "scripts/elf-needs", "--at-most", "2.28", unpacked / "bin/codecfs", *plugins)


def test_the_licenses_of_what_is_linked_in_are_in_it(unpacked):
    names = {path.name for path in (unpacked / "licenses").iterdir()}
    for name in ("libhdf5", "libfuse3", "libssl", "curl", "c-blosc", "snappy", "libzstd", "liblz4", "zlib1g", "bzip2", "liblzf", "zfp", "libcxx"):
        assert name in names, (name, names)
    assert (unpacked / "LICENSE").exists()


def test_plugins_show_only_their_interface(unpacked):
    for plugin in (unpacked / "lib/codecfs").glob("*.so"):
        symbols = {line.split()[-1] for line in run("nm", "-D", "--defined-only", plugin).splitlines()}
        assert symbols <= {"H5PLget_plugin_type", "H5PLget_plugin_info", "NCZ_get_codec_info", "NCZ_codec_info_defaults",
                           "codecfs_plugin_is_reentrant"}, (plugin, symbols)


@pytest.mark.skipif(not HERE, reason="no tarball of this architecture")
def test_it_works_in_a_bare_debian(tmp_path):
    root = os.environ.get("CODECFS_BARE_ROOT", os.path.expanduser("~/.cache/codecfs-platforms/bare"))
    if os.geteuid() != 0 or not os.path.exists(f"{root}/usr/bin/fusermount3"):
        pytest.skip("needs root and a bare Debian: tests/packaging/make-bare-root")
    sample = tmp_path / "sample.nc"
    run("ncgen", "-4", "-o", sample, REPOSITORY / "tests/data/sample.cdl")
    with h5py.File(sample) as file:
        first = file["temperature"]
        (tmp_path / "chunk").write_bytes(first[tuple(slice(0, length) for length in first.chunks)].tobytes())
    said = run(pathlib.Path(__file__).parent / "try-tarball", root, HERE[-1], sample, tmp_path / "chunk")
    assert said.endswith("the tarball works\n"), said
