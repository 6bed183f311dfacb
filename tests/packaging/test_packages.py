"""The Debian packages: what is in them, where, what they need, and that what is in them works when it is unpacked."""
import gzip
import os
import pathlib
import re
import shutil

import pytest
from running import run

BUILD = pathlib.Path(os.environ["CODECFS_BUILD"])


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Name -> file."""
    made = tmp_path_factory.mktemp("packages")
    before = {path: os.lstat(path) for path in pathlib.Path("/usr/sbin").glob("*codecfs*")}
    run(os.environ["CPACK_COMMAND"], "-B", made, cwd=BUILD)
    after = {path: os.lstat(path) for path in pathlib.Path("/usr/sbin").glob("*codecfs*")}
    assert before == after, "making a package has changed the machine"
    return {path.name.split("_")[0]: path for path in made.glob("*.deb")}


def test_the_same_build_makes_the_same_bytes(tmp_path):
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    for name in ("one", "two"):
        run(os.environ["CPACK_COMMAND"], "-B", tmp_path / name, cwd=BUILD, env=environment)
    for package in (tmp_path / "one").glob("*.deb"):
        assert package.read_bytes() == (tmp_path / "two" / package.name).read_bytes(), package.name


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    place = tmp_path_factory.mktemp("unpacked")
    for name, path in packages.items():
        run("dpkg-deb", "-x", path, place / name)
    return place


def names_in(place):
    return {"/" + str(path.relative_to(place)) for path in place.rglob("*") if path.is_symlink() or not path.is_dir()}


def plugin_directory():
    for header in pathlib.Path("/usr/include").glob("**/H5pubconf.h"):
        if "openmpi" not in str(header):
            return re.search(r'H5_DEFAULT_PLUGINDIR "(.*)"', header.read_text())[1]
    raise RuntimeError("no H5pubconf.h")


def test_there_are_two(packages):
    assert set(packages) == {"codecfs", "codecfs-plugins"}


def test_codecfs_has_what_belongs_to_it(unpacked):
    names = names_in(unpacked / "codecfs")
    for name in ("/usr/bin/codecfs", "/sbin/mount.codecfs", "/sbin/umount.fuse.codecfs",
                 "/usr/share/man/man8/codecfs.8.gz", "/usr/share/man/man8/mount.codecfs.8.gz",
                 "/usr/share/man/man8/umount.fuse.codecfs.8.gz", "/usr/share/man/man7/codecfs-filters.7.gz",
                 *(f"/usr/share/man/man1/{page.name}.gz" for page in (pathlib.Path(__file__).parents[2] / "docs/man").glob("codecfs-*.1")),
                 "/usr/share/bash-completion/completions/codecfs", "/usr/share/zsh/vendor-completions/_codecfs",
                 "/usr/share/fish/vendor_completions.d/codecfs.fish",
                 "/usr/share/doc/codecfs/copyright", "/usr/share/doc/codecfs/changelog.gz",
                 "/usr/share/doc/codecfs/examples/fstab", "/usr/share/lintian/overrides/codecfs",
                 "/usr/share/metainfo/invalid.codecfs.codecfs.metainfo.xml"):
        assert name in names, name
        names.discard(name)
    assert all(name.startswith("/usr/share/doc/codecfs/") for name in names), names
    for helper in ("mount.codecfs", "umount.fuse.codecfs"):
        assert os.readlink(unpacked / "codecfs/sbin" / helper) == "/usr/bin/codecfs"


def test_the_metadata_for_software_centres_is_valid(unpacked):
    done = run("appstreamcli", "validate", "--no-net", *(unpacked / "codecfs/usr/share/metainfo").iterdir(), code=None)
    # AppStream 1.0 wants a home page, and there is none.
    problems = [line for line in done.stdout.splitlines() if re.match(r"\s*[EW]:", line)]
    assert done.returncode == 0 or (len(problems) == 1 and "url-homepage-missing" in problems[0]), done.stdout


def test_the_plugins_are_where_libhdf5_looks(unpacked):
    names = names_in(unpacked / "codecfs-plugins")
    libraries = {name for name in names if name.endswith(".so")}
    assert libraries == {f"{plugin_directory()}/libcodecfs_{name}.so" for name in (
        "bzip2", "zstd", "blosc", "lz4", "deflate", "shuffle", "fletcher32", "szip", "defaults")}
    assert all(name.startswith("/usr/share/doc/codecfs-plugins/") for name in names - libraries), names


def control(package, field):
    return run("dpkg-deb", "-f", package, field).stdout.strip()


def test_they_need_what_they_use(packages):
    depends = control(packages["codecfs"], "Depends")
    for library in ("fuse3", "libfuse3-[34]", "libhdf5", "libzstd1", "libblosc1", "liblz4-1", "libzfp1", "libc6"):
        assert re.search(rf"(^|, ){library}", depends), (library, depends)
    depends = control(packages["codecfs-plugins"], "Depends")
    for library in ("libzstd1", "libblosc1", "liblz4-1", "libbz2-1.0", "zlib1g", "libc6"):
        assert re.search(rf"(^|, ){library}", depends), (library, depends)
    for unwanted in ("libhdf5", "libnetcdf", "libfuse", "codecfs ", "codecfs,"):
        assert unwanted not in depends, depends
    version = run(BUILD / "src/codecfs", "--version").stdout.split()[1]
    for package in packages.values():
        assert control(package, "Version") == version
        assert control(package, "Architecture") == run("dpkg", "--print-architecture").stdout.strip()
        assert len(control(package, "Description").splitlines()) > 2


def test_nothing_runs_at_installation_but_the_usual(packages):
    """So that removing a package removes all of it."""
    for package in packages.values():
        scripts = run("dpkg-deb", "-I", package).stdout
        assert "preinst" not in scripts and "prerm" not in scripts and "postrm" not in scripts


def test_the_program_is_stripped_and_starts(unpacked):
    program = unpacked / "codecfs/usr/bin/codecfs"
    assert "not stripped" not in run("file", program).stdout
    assert "libhdf5" in run(program, "--version").stdout
    assert run("readelf", "-d", program).stdout.count("RUNPATH") == 0


def test_the_commands_work_without_a_mount(unpacked, tmp_path):
    program = unpacked / "codecfs/usr/bin/codecfs"
    sample = tmp_path / "sample.nc"
    run("ncgen", "-4", "-o", sample, pathlib.Path(__file__).parents[1] / "data/sample.cdl")
    before = run("ncdump", sample).stdout
    assert "temperature" in run(program, "info", sample).stdout
    assert "temperature" in run(program, "recode", "--estimate", "-F", "temperature,zstd,3", sample).stdout
    run(program, "recode", "-F", "*,shuffle|deflate,6", sample)
    run(program, "compact", sample)
    for words in (["check"], ["recover"], ["verify"]):
        run(program, *words, sample)
    assert run("ncdump", sample).stdout == before
    run(program, "convert", sample, tmp_path / "a.zarr")
    run(program, "convert", tmp_path / "a.zarr", tmp_path / "b.h5")
    run(program, "compare", sample, tmp_path / "b.h5")
    assert "temperature/0.0.0" in run(program, "refs", sample).stdout
    run(program, "status")


def test_h5py_and_h5dump_read_zstd_with_the_plugins_alone(unpacked, tmp_path):
    environment = {**os.environ, "HDF5_PLUGIN_PATH": f"{unpacked}/codecfs-plugins{plugin_directory()}"}
    run("/usr/bin/python3", "-c", f"""if True:
        import h5py, numpy
        with h5py.File("{tmp_path}/a.h5", "w") as f:
            f.create_dataset("v", data=numpy.arange(1000), chunks=(100,), compression=32015, compression_opts=(3,))
        with h5py.File("{tmp_path}/a.h5") as f:
            assert f["v"].id.get_storage_size() < 4000 and (f["v"][:] == numpy.arange(1000)).all()
    """, env=environment)
    assert "(990): 990, 991" in run("h5dump", "-d", "v", "-s", "990", "-c", "2", tmp_path / "a.h5", env=environment).stdout


def test_a_manual_page_is_whole(unpacked):
    with gzip.open(unpacked / "codecfs/usr/share/man/man8/codecfs.8.gz", "rt") as file:
        assert file.read() == (pathlib.Path(__file__).parents[2] / "docs/man/codecfs.8").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_systemd_takes_the_example_units(unpacked, tmp_path):
    examples = unpacked / "codecfs/usr/share/doc/codecfs/examples"
    for name, text in (("mnt-era5.mount", "Type=codecfs"), ("codecfs@.service", "Type=notify")):
        unit = (examples / name).read_text()
        assert text in unit
        (tmp_path / name).write_text(unit.replace("/usr/bin/codecfs", str(unpacked / "codecfs/usr/bin/codecfs")))
    (tmp_path / "codecfs@a.service").symlink_to("codecfs@.service")
    result = run("systemd-analyze", "verify", "./mnt-era5.mount", "./codecfs@a.service", cwd=tmp_path)
    assert result.stderr == "", result.stderr


def can_be_apart():
    command = "mount -t tmpfs t /mnt && cd /mnt && mkdir a b c && mount -t overlay o -o lowerdir=/,upperdir=a,workdir=b c"
    return os.geteuid() == 0 and shutil.which("apt-get") and run("unshare", "-m", "sh", "-c", command, code=None).returncode == 0


@pytest.mark.skipif(not can_be_apart(), reason="needs root and an overlay")
def test_apt_installs_and_removes_them(packages):
    here = pathlib.Path(__file__).parent
    said = run(here / "install-apart", packages["codecfs"].parent, here.parent / "data/sample.cdl").stdout
    assert said.endswith("nothing is left\n"), said


def test_lintian_finds_nothing(packages):
    """No error or warning, but for the one that packaging/lintian-overrides has."""
    result = run("lintian", "--allow-root", "--fail-on", "error,warning", *packages.values())
    assert not re.search("^[EW]: ", result.stdout, re.MULTILINE), result.stdout
    overridden = run("lintian", "--allow-root", "--show-overrides", *packages.values(), code=None).stdout
    assert set(re.findall("^O: .*", overridden, re.MULTILINE)) <= {"O: codecfs: embedded-library zlib [usr/bin/codecfs]"}, overridden


def test_zlib_is_not_in_the_program(packages, unpacked):
    """That lintian's remark on it is overridden hides no copy: each has this name in it."""
    program = unpacked / "codecfs/usr/bin/codecfs"
    assert b"Mark Adler" not in program.read_bytes() and re.search("(^|, )libdeflate0", control(packages["codecfs"], "Depends"))
