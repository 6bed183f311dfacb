"""The recipes for conda, Homebrew, Nix and Spack: they agree with CMake, and what they install works and stays in its prefix."""
import hashlib
import os
import pathlib
import re
import shutil
import tempfile

import pytest

import recipes
from recipes import FILES, MANAGERS, NAMES, PACKAGING, SOURCES
from running import run

BUILD = pathlib.Path(os.environ["CODECFS_BUILD"])


@pytest.mark.parametrize("manager", MANAGERS)
def test_it_names_what_cmake_requires(manager):
    assert recipes.disagreements(manager, FILES[manager].read_text(), recipes.cmake_text()) == []


def test_the_requirements_of_cmake_are_found():
    """So that a change of its files cannot make the comparison empty."""
    required = recipes.cmake_requirements(recipes.cmake_text())
    assert set(required) == set(NAMES)
    assert {name: version for name, version in required.items() if version} == {
        "cmake": "3.25", "nlohmann_json": "3.11", "fuse3": "3.10", "libcurl": "7.85", "libcrypto": "3.0"}


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_recipe_without_one_of_them_is_noticed(manager):
    text = FILES[manager].read_text()
    packages = {names[MANAGERS.index(manager)] for names in NAMES.values()} - {None}
    for package in packages:
        # In each form: `- NAME >=1`, `depends_on "NAME"`, a line with NAME, `depends_on("NAME@1:+x")`.
        line = rf'^ {{2,4}}(- |depends_on[ (]"|){re.escape(package)}(,?|[" @~+].*)\n'
        without, count = re.subn(line, "", text, flags=re.MULTILINE)
        assert count == (2 if manager == "nix" else 1), package
        missing = recipes.disagreements(manager, without, recipes.cmake_text())
        assert missing and all(sentence.startswith(f"{package} is missing") for sentence in missing), (package, missing)


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_new_library_is_noticed(manager):
    text = recipes.cmake_text() + "\npkg_check_modules(NEW REQUIRED IMPORTED_TARGET libnew>=2)\nfind_library(OTHER_LIBRARY other REQUIRED)\n"
    wrong = recipes.disagreements(manager, FILES[manager].read_text(), text)
    assert len(wrong) == 2 and "libnew" in wrong[0] and "other" in wrong[1]
    text = recipes.cmake_text().replace("libcurl>=7.85", "libcurl>=8.0")
    wrong = recipes.disagreements(manager, FILES[manager].read_text(), text)
    assert len(wrong) == (1 if manager in ("conda", "spack") else 0)


def test_their_version_is_the_projects():
    version = recipes.project_version((SOURCES / "CMakeLists.txt").read_text())
    assert recipes.yaml.safe_load(FILES["conda"].read_text())["context"]["version"] == version
    assert recipes.spack_class(FILES["spack"].read_text())[1]["version"] == [((version,), {})]
    # The commands in the page name it as well.
    assert set(re.findall(r"codecfs[@-]([0-9][0-9.]*[0-9])", (PACKAGING / "README.md").read_text())) == {version}
    # Nix reads it from CMakeLists.txt, and Homebrew's formula gets it from an archive (below).
    assert re.search(r"builtins\.match [^;]*VERSION \(\[0-9\.\]\+\)[^;]*\.\./\.\./CMakeLists\.txt", FILES["nix"].read_text())
    assert version not in FILES["nix"].read_text() and version not in FILES["homebrew"].read_text()


def test_none_has_a_release_that_does_not_exist():
    """No address to download from and no checksum is in them; the publisher of a release adds them."""
    looked_at = [path for path in PACKAGING.rglob("*") if path.is_file() and path.parts[len(PACKAGING.parts)] in MANAGERS]
    assert len(looked_at) >= 9
    for path in looked_at:
        text = path.read_text()
        assert not re.search(r"\b(https?|ftp|git)://|github\.com|[0-9a-f]{32}|sha256-|sha512", text), path


@pytest.mark.skipif(run("git", "rev-parse", "HEAD", cwd=SOURCES, code=None).returncode != 0, reason="no git checkout")
def test_the_formula_is_of_an_archive_that_exists(tmp_path):
    run(PACKAGING / "source-archive", tmp_path)
    archive = next(tmp_path.glob("codecfs-*.tar.gz"))
    before = archive.read_bytes()
    printed = run(PACKAGING / "source-archive", tmp_path).output
    sha256 = hashlib.sha256(before).hexdigest()
    assert archive.read_bytes() == before and printed.split()[0] == sha256
    version = archive.name[len("codecfs-"):-len(".tar.gz")]
    assert version == recipes.project_version(run("git", "show", "HEAD:CMakeLists.txt", cwd=SOURCES).output)

    make = PACKAGING / "homebrew/make-formula"
    formula = run(make, archive).output
    assert f'  url "file://{archive}"\n  version "{version}"\n  sha256 "{sha256}"\n' in formula
    assert "@HOMEPAGE@" not in formula and "homepage" not in formula and re.search("@[A-Z]", formula) is None
    formula = run(make, "--url", "https://example.org/a.tar.gz?x=1&y=2", "--homepage", "https://example.org/", archive).output
    assert '  homepage "https://example.org/"\n  url "https://example.org/a.tar.gz?x=1&y=2"\n' in formula
    assert recipes.disagreements("homebrew", formula, recipes.cmake_text()) == []
    (tmp_path / "codecfs.rb").write_text(formula)
    assert "Syntax OK" in run("ruby", "-c", tmp_path / "codecfs.rb").output

    assert "No such file" in run(make, tmp_path / "none.tar.gz", code=1).output
    assert "character" in run(make, "--url", 'https://example.org/"', archive, code=2).output
    (tmp_path / "other").mkdir()
    run("tar", "-czf", tmp_path / "other.tar.gz", "-C", tmp_path, "other")
    assert "not an archive of codecfs's sources" in run(make, tmp_path / "other.tar.gz", code=1).output


def test_nix_takes_the_expression(tmp_path):
    names = " ".join(f'"{name}"' for name in recipes.nix_dependencies(FILES["nix"].read_text()))
    stand_in = f"""let
      pkgs = builtins.listToAttrs (map (name: {{ inherit name; value = name; }}) [ {names} ]) // {{
        lib = {{ cleanSourceWith = a: builtins.filterSource a.filter a.src; licenses.bsd3 = "bsd3"; platforms.linux = [ ]; }};
        stdenv.mkDerivation = attributes: attributes;
        callPackage = file: more: let package = import file; in package (builtins.intersectAttrs (builtins.functionArgs package) pkgs // more);
      }};
      package = import {PACKAGING}/nix {{ inherit pkgs; }};
    in "${{package.pname}} ${{package.version}} ${{package.src}}" """
    environment = {**os.environ, "NIX_STATE_DIR": str(tmp_path / "state"), "NIX_STORE_DIR": str(tmp_path / "store"),
                   "NIX_LOG_DIR": str(tmp_path / "log"), "NIX_CONF_DIR": str(tmp_path), "HOME": str(tmp_path)}
    # Its warnings are around what it prints.
    version = recipes.project_version((SOURCES / "CMakeLists.txt").read_text())
    assert f'"codecfs {version} {tmp_path}/store/' in run("nix-instantiate", "--eval", "--expr", stand_in, env=environment).output


def configure(tree, *arguments):
    run("cmake", "-S", SOURCES, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *arguments,
        env={"HDF5_PLUGIN_PATH": None})


def install(tmp_path, *arguments):
    """The directory below which all is installed, with the programs of this build in the place of those that it would build."""
    tree = tmp_path / "tree"
    configure(tree, *arguments)
    run("cmake", "--build", tree, "--target", "compressed_files")
    shutil.copy2(BUILD / "src/codecfs", tree / "src/codecfs")
    (tree / "plugins/lib").mkdir(exist_ok=True)
    for plugin in (BUILD / "plugins/lib").glob("*.so"):
        shutil.copy2(plugin, tree / "plugins/lib")
    run("cmake", "--install", tree, env={"DESTDIR": str(tmp_path / "root")})
    return tmp_path / "root"


@pytest.mark.parametrize("manager", MANAGERS)
def test_what_it_installs_stays_in_its_prefix_and_works(manager, tmp_path):
    prefix = "/opt/a prefix" if manager == "conda" else "/opt/a-prefix"
    root = install(tmp_path, *recipes.cmake_arguments(manager, prefix, tmp_path))
    place = pathlib.Path(f"{root}{prefix}")
    outside = [path for path in root.rglob("*") if not path.is_relative_to(place) and (path.is_symlink() or not path.is_dir())]
    assert outside == []
    names = {str(path.relative_to(place)) for path in place.rglob("*")}
    assert names >= {"bin/codecfs", "sbin/mount.codecfs", "sbin/umount.fuse.codecfs", "share/man/man8/codecfs.8.gz",
                     "lib/hdf5/plugin/libcodecfs_zstd.so", "share/bash-completion/completions/codecfs",
                     "share/zsh/site-functions/_codecfs", "share/fish/vendor_completions.d/codecfs.fish"}
    assert os.readlink(place / "sbin/mount.codecfs") == "../bin/codecfs" and (place / "sbin/mount.codecfs").exists()
    assert f"CODECFS_PLUGIN_DIR:INTERNAL={prefix}/lib/hdf5/plugin\n" in (tmp_path / "tree/CMakeCache.txt").read_text()
    can_mount = ["--mount"] if os.access("/dev/fuse", os.W_OK) and shutil.which("fusermount3") else []
    assert "smoke-test: passed" in run(PACKAGING / "smoke-test", *can_mount, place).output


def test_by_default_the_helpers_are_where_mount_looks(tmp_path):
    root = install(tmp_path, "-DBUILD_TESTING=OFF", "-DCMAKE_INSTALL_PREFIX=/usr", "-DPLUGIN_INSTALL_DIR=NO")
    for helper in ("mount.codecfs", "umount.fuse.codecfs"):
        assert os.readlink(root / "sbin" / helper) == "/usr/bin/codecfs"
    assert not list(root.rglob("*.so"))


def test_the_helpers_can_be_left_out(tmp_path):
    configure(tmp_path / "tree", "-DBUILD_TESTING=OFF", "-DCODECFS_HELPER_DIR=")
    assert "mount.codecfs" not in (tmp_path / "tree/src/cmake_install.cmake").read_text()


def test_hdf5_without_a_file_for_pkg_config_is_found(tmp_path):
    configure(tmp_path / "tree", "-DBUILD_TESTING=OFF", "-DCODECFS_HDF5=none")
    run("cmake", "--build", tmp_path / "tree", "--target", "bench_h5d_read")  # what is linked with libhdf5 in the shortest time
    linked = re.search(r"^build src/codecfs: .*?\n\n", (tmp_path / "tree/build.ninja").read_text(), re.DOTALL | re.MULTILINE)[0]
    assert re.search(r"libhdf5(_serial)?\.so", linked) and re.search(r"libhdf5(_serial)?_hl\.so", linked)


def test_a_shorter_prefix_can_be_written_into_the_program(tmp_path):
    """As conda does at installation: the prefix of the build is replaced, and the rest filled with zeros."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    built_for = re.search("^CODECFS_PLUGIN_DIR:INTERNAL=(.+)$", cache, re.MULTILINE)[1].encode()
    program = (BUILD / "src/codecfs").read_bytes()
    assert program.count(built_for + b"\0") == 1
    with tempfile.TemporaryDirectory(prefix="cp", dir="/tmp") as place:
        assert len(place) < len(built_for)
        for plugin in (BUILD / "plugins/lib").glob("*.so"):
            shutil.copy2(plugin, place)
        moved = tmp_path / "codecfs"
        moved.write_bytes(program.replace(built_for, place.encode().ljust(len(built_for), b"\0")))
        moved.chmod(0o755)
        (tmp_path / "in.zarr/x").mkdir(parents=True)
        (tmp_path / "in.zarr/.zgroup").write_text('{"zarr_format": 2}')
        (tmp_path / "in.zarr/x/.zarray").write_text('{"zarr_format": 2, "shape": [64], "chunks": [64], "dtype": "<i4", "order": "C", "fill_value": 0,'
                                                    ' "filters": null, "compressor": null}')
        (tmp_path / "in.zarr/x/0").write_bytes(bytes(256))
        environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
        # Without what is built in, the codec can only come from a plugin.
        words = ("convert", "--format", "hdf5", "-O", "builtin=off", "-F", "/x,32015,3", tmp_path / "in.zarr")
        run(moved, *words, tmp_path / "moved.h5", environment=environment)
        assert "zstd" in run(moved, "info", tmp_path / "moved.h5").output
        shutil.rmtree(place)
        run(moved, *words, tmp_path / "none.h5", env={**environment, "HDF5_PLUGIN_PATH": ""}, code=1)
        pathlib.Path(place).mkdir()


def test_the_smoke_test_can_fail(tmp_path):
    (tmp_path / "bin").mkdir()
    assert "not found" in run(PACKAGING / "smoke-test", tmp_path, code=127).output
    program = tmp_path / "bin/codecfs"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert "passed" not in run(PACKAGING / "smoke-test", tmp_path, code=1).output
