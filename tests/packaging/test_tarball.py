"""The tarball of scripts/make-portable: what it needs of a system, and that it works in a bare Debian root."""
import json
import os
import pathlib
import re
import shutil
import sys
import tarfile

import h5py
import pytest
import zarr

REPOSITORY = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "tests/object_stores"))
from fake_s3 import FakeS3, make_certificate  # noqa: E402
from running import run

TARBALLS = sorted((REPOSITORY / "build/portable").glob("codecfs-*-linux-*.tar.gz"))
HERE = [path for path in TARBALLS if path.name.endswith(f"-{os.uname().machine}.tar.gz")]
pytestmark = pytest.mark.skipif(not TARBALLS, reason="no tarball: scripts/make-portable makes it")


@pytest.fixture(scope="module", params=TARBALLS, ids=lambda path: path.name)
def unpacked(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(request.param) as archive:
        archive.extractall(place)
    return next(place.iterdir())


@pytest.fixture
def program(unpacked):
    """The program, for tests that run it."""
    if not unpacked.name.endswith(f"-{os.uname().machine}"):
        pytest.skip("of another architecture")
    return unpacked / "bin/codecfs"


def test_it_needs_glibc_2_28_and_nothing_else(unpacked):
    plugins = list((unpacked / "lib/codecfs").glob("libcodecfs_*.so"))
    assert len(plugins) == 9
    run(REPOSITORY / "scripts/elf-needs", "--at-most", "2.28", unpacked / "bin/codecfs", *plugins)


def libraries(place):
    """The components of the list of what is linked in."""
    return json.loads((place / "sbom.cdx.json").read_text())["components"]


def test_the_list_of_libraries_is_true(program, unpacked):
    """The versions that the program itself tells are those of the list."""
    versions = {component["name"]: component["version"] for component in libraries(unpacked)}
    said = run(program, "--version").stdout
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

# Rules of the filters that have a library in the program.
FILTERS = "zstd,3", "blosc,0,0,0,0,5,1,0", "blosc,0,0,0,0,5,1,3", "lz4,65536", "bzip2,9", "szip,141,8", "lzf"


def filters_of(program, sample, mountpoint):
    """The table of filters and codecs, without the versions and places of plugins."""
    run(program, "-o", "ro,mkdir,plugins=off", sample, mountpoint)
    try:
        return (mountpoint / ".codecfs/filters").read_text()
    finally:
        run(program, "unmount", mountpoint)


def test_it_has_all_formats_and_codecs_of_an_ordinary_build(program, tmp_path):
    ordinary = pathlib.Path(os.environ.get("CODECFS_BUILD", REPOSITORY / "build/release")) / "src/codecfs"
    if not ordinary.exists():
        pytest.skip(f"no {ordinary} to compare with")
    sample = tmp_path / "sample.nc"
    run("ncgen", "-4", "-o", sample, REPOSITORY / "tests/data/sample.cdl")
    tables = [filters_of(one, sample, tmp_path / "mnt") for one in (ordinary, program)]
    assert "zfpy" in tables[0] and tables[0] == tables[1]
    assert run(ordinary, "--help").stdout == run(program, "--help").stdout
    for number, rule in enumerate(FILTERS):
        for name in "out.h5", "out.zarr", "out.zip":
            place = tmp_path / f"{number}{name}"
            if rule == "lzf" and not name.endswith("h5"):
                continue  # a filter of HDF5 alone
            run(program, "convert", "-F", f"*,{rule}", sample, place)
            run(ordinary, "compare", sample, place)


@pytest.mark.parametrize("scheme", ["https", "s3"])
def test_https_takes_the_certificates_that_the_environment_names(program, tmp_path, scheme):
    certificate, key = make_certificate(tmp_path)
    run("ncgen", "-4", "-o", tmp_path / "sample.nc", REPOSITORY / "tests/data/sample.cdl")
    run(program, "convert", tmp_path / "sample.nc", tmp_path / "sample.zarr")
    with FakeS3(certificate=certificate, key=key) as server:
        server.bucket("data", public=True)
        server.put_tree("data", tmp_path / "sample.zarr", "sample.zarr/")
        place = {"https": f"{server.endpoint}/data/sample.zarr", "s3": "s3://data/sample.zarr"}[scheme]
        endpoint = ["-O", f"endpoint={server.endpoint}"] if scheme == "s3" else []
        words = [program, "info", "-O", "retry=1", *endpoint, place]
        usual = {name: value for name, value in os.environ.items() if name not in ("SSL_CERT_FILE", "SSL_CERT_DIR", "AWS_CA_BUNDLE", "CURL_CA_BUNDLE")}
        keys = {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_REGION": "us-east-1"}
        assert "temperature" in run(*words, environment={**usual, **keys, "SSL_CERT_FILE": str(certificate)}).stdout
        refused = run(*words, environment={**usual, **keys}, code=None)
        assert refused.returncode != 0 and "certificate" in refused.stderr, refused.stderr


def sample_source(program, folder, name):
    """sample.nc, as the format that the ending of the name says."""
    netcdf = folder / "sample.nc"
    run("ncgen", "-4", "-o", netcdf, REPOSITORY / "tests/data/sample.cdl")
    if name == netcdf.name:
        return netcdf
    run(program, "convert", netcdf, folder / name)
    return folder / name


@pytest.mark.parametrize("name", ["sample.nc", "copy.h5", "copy.zarr", "copy.zip"])
def test_a_mount_is_read_and_written(program, tmp_path, name):
    """In directories, files and archives: what a program writes is what other readers then find in the source."""
    source, mountpoint = sample_source(program, tmp_path, name), tmp_path / "mnt"
    with h5py.File(tmp_path / "sample.nc") as file:
        whole = file["temperature"][:]
        chunk = tuple(slice(0, length) for length in file["temperature"].chunks)
    run(program, "-o", "mkdir", source, mountpoint)
    try:
        first = mountpoint / "temperature/0.0.0"
        assert first.read_bytes() == whole[chunk].tobytes()
        changed = whole[chunk] + 1
        first.write_bytes(changed.tobytes())
        os.setxattr(mountpoint / "temperature", "user.units", b"kelvin")
    finally:
        run(program, "unmount", mountpoint)
    assert not mountpoint.exists()
    whole[chunk] = changed
    if source.suffix in (".nc", ".h5"):
        with h5py.File(source) as file:
            stored, units = file["temperature"][:], file["temperature"].attrs["units"]
    else:
        array = zarr.open(os.fspath(source), mode="r")["temperature"]
        stored, units = array[:], array.attrs["units"]
    assert (stored == whole).all() and units in ("kelvin", b"kelvin")


def test_other_programs_take_its_plugins(program, unpacked, tmp_path):
    """h5py writes and reads, and h5dump reads, with the plugins of the tarball alone."""
    environment = {**os.environ, "HDF5_PLUGIN_PATH": str(unpacked / "lib/codecfs")}
    for number in 32015, 32001, 32004, 307:
        path = tmp_path / f"{number}.h5"
        run("/usr/bin/python3", "-c", f"""if True:
            import h5py, numpy, re
            with h5py.File({str(path)!r}, "w") as file:
                file.create_dataset("v", data=numpy.arange(10000), chunks=(1000,), compression={number})
            with h5py.File({str(path)!r}) as file:
                assert file["v"].id.get_storage_size() < 70000 and (file["v"][:] == numpy.arange(10000)).all()
            loaded = set(re.findall(r"/\\S*libcodecfs\\S*", open("/proc/self/maps").read()))
            assert loaded and all(name.startswith({str(unpacked)!r}) for name in loaded), loaded
        """, env=environment)
        assert "(9990): 9990, 9991" in run("h5dump", "-d", "v", "-s", "9990", "-c", "2", path, env=environment).stdout


def test_the_licenses_of_what_is_linked_in_are_in_it(unpacked):
    names = {path.name for path in (unpacked / "licenses").iterdir()}
    linked = [component["name"].removesuffix("-dev") for component in libraries(unpacked)]
    assert {"libhdf5", "libfuse3", "libssl", "curl", "zfp"} <= set(linked) and {*linked, "libcxx"} <= names
    assert (unpacked / "LICENSE").exists()


def test_plugins_show_only_their_interface(unpacked):
    for plugin in (unpacked / "lib/codecfs").glob("*.so"):
        symbols = {line.split()[-1] for line in run("nm", "-D", "--defined-only", plugin).stdout.splitlines()}
        assert symbols <= {"H5PLget_plugin_type", "H5PLget_plugin_info", "NCZ_get_codec_info", "NCZ_codec_info_defaults",
                           "codecfs_plugin_is_reentrant"}, (plugin, symbols)


@pytest.mark.skipif(not HERE, reason="no tarball of this architecture")
@pytest.mark.parametrize("name, variable, maker", [("bare", "CODECFS_BARE_ROOT", "make-bare-root"),
                                                   ("glibc-2.28", "CODECFS_OLD_ROOT", "make-old-root")])
def test_it_works_in_another_root(tmp_path, name, variable, maker):
    """A Debian without a compiler; the oldest glibc, with busybox alone."""
    root = os.environ.get(variable, os.path.expanduser(f"~/.cache/codecfs-platforms/{name}"))
    if os.geteuid() != 0 or not os.path.exists(f"{root}/tmp"):
        pytest.skip(f"needs root and {root}: tests/packaging/{maker}")
    sample = tmp_path / "sample.nc"
    run("ncgen", "-4", "-o", sample, REPOSITORY / "tests/data/sample.cdl")
    with h5py.File(sample) as file:
        first = file["temperature"]
        (tmp_path / "chunk").write_bytes(first[tuple(slice(0, length) for length in first.chunks)].tobytes())
    said = run(pathlib.Path(__file__).parent / "try-tarball", root, HERE[-1], sample, tmp_path / "chunk").stdout
    assert said.endswith("the tarball works\n"), said
    if name.startswith("glibc-"):
        assert f"version {name.removeprefix('glibc-')}." in said, said


@pytest.mark.skipif(not HERE, reason="no tarball of this architecture to compare with")
def test_the_tarball_of_another_architecture_under_qemu(unpacked, tmp_path):
    """What it encodes, with each filter, this machine's program reads, and the reverse."""
    architecture = unpacked.name.rpartition("-")[2]
    qemu = shutil.which(f"qemu-{architecture}-static")
    libraries = pathlib.Path(os.environ.get("CODECFS_FOREIGN_ROOT", os.path.expanduser(f"~/.cache/codecfs-platforms/{architecture}")))
    if architecture == os.uname().machine:
        pytest.skip("of this machine")
    if qemu is None or not libraries.exists():
        pytest.skip(f"needs qemu-user-static and {libraries}: debootstrap --foreign --arch=arm64 --variant=minbase bookworm {libraries}")
    with tarfile.open(HERE[-1]) as archive:
        archive.extractall(tmp_path)
    here = next(tmp_path.glob("codecfs-*")) / "bin/codecfs"
    (tmp_path / "prefix").mkdir()  # nothing but the libraries: what a prefix has, qemu takes for that of the system
    (tmp_path / "prefix/lib").symlink_to(libraries / "lib")
    there = [qemu, "-L", tmp_path / "prefix", unpacked / "bin/codecfs"]
    sample = sample_source(here, tmp_path, "sample.nc")
    assert run(*there, "--version").stdout.splitlines()[:4] == run(here, "--version").stdout.splitlines()[:4]  # qemu-user has no seccomp
    assert run(*there, "info", sample).stdout == run(here, "info", sample).stdout
    for number, rule in enumerate(FILTERS):
        for name in ["out.h5"] if rule == "lzf" else ["out.h5", "out.zarr"]:
            pair = tmp_path / f"there{number}{name}", tmp_path / f"here{number}{name}"
            run(*there, "convert", "-F", f"*,{rule}", sample, pair[0])
            run(here, "convert", "-F", f"*,{rule}", sample, pair[1])
            run(here, "compare", *pair)
            run(*there, "compare", *pair)
            run(*there, "verify", pair[1])
    mountpoint = tmp_path / "mnt"
    mountpoint.mkdir()  # not by -o mkdir: qemu takes the prefix for the root directory
    run(*there, sample, mountpoint)
    try:
        with h5py.File(tmp_path / "sample.nc") as file:
            changed = file["temperature"][tuple(slice(0, length) for length in file["temperature"].chunks)]
        assert (mountpoint / "temperature/0.0.0").read_bytes() == changed.tobytes()
        changed += 1
        (mountpoint / "temperature/0.0.0").write_bytes(changed.tobytes())
    finally:
        run(*there, "unmount", mountpoint)
    with h5py.File(tmp_path / "sample.nc") as file:
        assert (file["temperature"][tuple(slice(0, length) for length in file["temperature"].chunks)] == changed).all()
