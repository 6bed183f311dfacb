"""The tarball of scripts/make-portable: what it needs of a system, and that it works in a bare Debian root."""
import functools
import http.server
import json
import os
import pathlib
import re
import ssl
import subprocess
import tarfile
import threading

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


def libraries(place):
    """The components of the list of what is linked in."""
    return json.loads((place / "sbom.cdx.json").read_text())["components"]


def test_the_list_of_libraries_is_true(unpacked):
    """The versions that the program itself tells are those of the list."""
    if unpacked.name != HERE[-1].name.removesuffix(".tar.gz"):
        pytest.skip("of another architecture")
    versions = {component["name"]: component["version"] for component in libraries(unpacked)}
    said = run(unpacked / "bin/codecfs", "--version")
    for name, library in (("libfuse", "libfuse3-dev"), ("libhdf5", "libhdf5-dev"), ("libdeflate", "libdeflate-dev"), ("bzip2", "bzip2"),
                          ("blosc", "c-blosc"), ("lz4", "liblz4-dev"), ("zstd", "libzstd-dev"), ("liblzma", "liblzma-dev"), ("zfp", "zfp")):
        version = re.search(rf"\b{name} ([0-9.]+)", said)[1]
        assert re.match(rf"(\d+:)?{re.escape(version)}\b", versions[library]), (library, version, versions[library])


def test_the_list_of_libraries_is_cyclonedx(unpacked):
    document = json.loads((unpacked / "sbom.cdx.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    validator = pytest.importorskip("cyclonedx.validation.json", reason="no cyclonedx-python-lib[validation] of PyPI")
    from cyclonedx.schema import SchemaVersion

    wrong = validator.JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(document))
    assert wrong is None, wrong


def filters_of(program, sample, mountpoint):
    """The table of filters and codecs, without the versions and places of plugins."""
    run(program, "-o", "ro,mkdir,plugins=off", sample, mountpoint)
    try:
        return (mountpoint / ".codecfs/filters").read_text()
    finally:
        run(program, "unmount", mountpoint)


@pytest.mark.skipif(not HERE, reason="no tarball of this architecture")
def test_it_has_all_formats_and_codecs_of_an_ordinary_build(unpacked, tmp_path):
    ordinary = pathlib.Path(os.environ.get("CODECFS_BUILD", REPOSITORY / "build/release")) / "src/codecfs"
    if not ordinary.exists():
        pytest.skip(f"no {ordinary} to compare with")
    sample = tmp_path / "sample.nc"
    run("ncgen", "-4", "-o", sample, REPOSITORY / "tests/data/sample.cdl")
    tables = [filters_of(program, sample, tmp_path / "mnt") for program in (ordinary, unpacked / "bin/codecfs")]
    assert "zfpy" in tables[0] and tables[0] == tables[1]
    assert run(ordinary, "--help") == run(unpacked / "bin/codecfs", "--help")
    for number, rule in enumerate(("zstd,3", "blosc,0,0,0,0,5,1,0", "blosc,0,0,0,0,5,1,3", "lz4,65536", "bzip2,9", "szip,141,8", "lzf")):
        for name in "out.h5", "out.zarr", "out.zip":
            place = tmp_path / f"{number}{name}"
            if rule == "lzf" and not name.endswith("h5"):
                continue  # a filter of HDF5 alone
            run(unpacked / "bin/codecfs", "convert", "-F", f"*,{rule}", sample, place)
            run(ordinary, "compare", sample, place)


@pytest.mark.skipif(not HERE, reason="no tarball of this architecture")
def test_https_takes_the_certificates_that_the_environment_names(unpacked, tmp_path):
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key", "-out", tmp_path / "certificate",
        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    run("ncgen", "-4", "-o", tmp_path / "sample.nc", REPOSITORY / "tests/data/sample.cdl")
    run(unpacked / "bin/codecfs", "convert", tmp_path / "sample.nc", tmp_path / "sample.zarr")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            words = [unpacked / "bin/codecfs", "info", "-O", "retry=1", f"https://localhost:{server.server_port}/sample.zarr"]
            trusted = {**os.environ, "SSL_CERT_FILE": str(tmp_path / "certificate")}
            assert "temperature" in run(*words, env=trusted)
            refused = subprocess.run(words, capture_output=True, text=True, timeout=60)
            assert refused.returncode != 0 and "certificate" in refused.stderr, refused.stderr
        finally:
            server.shutdown()


def test_the_licenses_of_what_is_linked_in_are_in_it(unpacked):
    names = {path.name for path in (unpacked / "licenses").iterdir()}
    linked = [component["name"].removesuffix("-dev") for component in libraries(unpacked)]
    assert {"libhdf5", "libfuse3", "libssl", "curl", "zfp"} <= set(linked) and {*linked, "libcxx"} <= names
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
