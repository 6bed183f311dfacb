"""What CMake requires, and what the recipes for package managers (packaging/) ask for: both read from their files."""
import collections
import pathlib
import re
import subprocess
import sys
import types

import yaml

SOURCES = pathlib.Path(__file__).parents[2]
PACKAGING = SOURCES / "packaging"
MANAGERS = ("conda", "homebrew", "nix", "spack")
FILES = {"conda": PACKAGING / "conda/recipe.yaml", "homebrew": PACKAGING / "homebrew/codecfs.rb.in", "nix": PACKAGING / "nix/package.nix",
         "spack": PACKAGING / "spack/spack_repo/codecfs/packages/codecfs/package.py"}

# What CMake calls it -> its package in each manager, in the order of MANAGERS; None: comes with every system that builds.
NAMES = {
    "cmake": ("cmake",) * 4,
    "gzip": ("gzip", None, "gzip", "gzip"),
    "PkgConfig": ("pkg-config", "pkgconf", "pkg-config", "pkgconfig"),
    "Threads": (None,) * 4,
    "m": (None,) * 4,
    "nlohmann_json": ("nlohmann_json", "nlohmann-json", "nlohmann_json", "nlohmann-json"),
    "CLI11": ("cli11",) * 4,
    "fmt": ("fmt",) * 4,
    "spdlog": ("spdlog",) * 4,
    "fuse3": ("libfuse3", "libfuse", "fuse3", "libfuse"),
    "libseccomp": ("libseccomp",) * 4,
    "libcurl": ("libcurl", "curl", "curl", "curl"),
    "libcrypto": ("openssl", "openssl@3", "openssl", "openssl"),
    "expat": ("libexpat", "expat", "expat", "expat"),
    "libdeflate": ("libdeflate",) * 4,
    "libzstd": ("zstd",) * 4,
    "blosc": ("blosc", "c-blosc", "c-blosc", "c-blosc"),
    "liblz4": ("lz4-c", "lz4", "lz4", "lz4"),
    "liblzma": ("liblzma-devel", "xz", "xz", "xz"),
    "HDF5": ("hdf5",) * 4,
    "bz2": ("bzip2",) * 4,
    "sz": ("libaec",) * 4,
    "aec": ("libaec",) * 4,
    "lzf": ("liblzf",) * 4,
    "zfp": ("zfp",) * 4,
    "z": ("zlib", "zlib", "zlib", "zlib-api"),
}
# What a recipe may ask for beside it.
TOOLS = {"conda": {"compiler c", "compiler cxx", "stdlib c", "ninja"}, "homebrew": {"ninja", ":linux"}, "nix": {"ninja"},
         "spack": {"c", "cxx"}}
# Files that are looked for are those of libraries that are required by other lines.
FOUND_FILES = {"H5pubconf.h": "HDF5", "lzf.h": "lzf", "hdf5.h": "HDF5", "hdf5_serial": "HDF5", "hdf5_serial_hl": "HDF5"}


def cmake_text():
    """Of everything that is built without the tests and the benchmarks."""
    return "\n".join((SOURCES / name).read_text() for name in (
        "CMakeLists.txt", *sorted(str(path.relative_to(SOURCES)) for path in (SOURCES / "cmake").glob("*.cmake")), "plugins/CMakeLists.txt",
        "src/CMakeLists.txt"))


def project_version(text):
    return re.search(r"^project\(codecfs VERSION ([0-9.]+)", text, re.MULTILINE)[1]


def cmake_requirements(text):
    """Name as CMake has it -> its minimal version, or ""."""
    text = re.sub(r'^\s*#.*$|\s# .*$', "", text, flags=re.MULTILINE)
    required = {"cmake": re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", text)[1]}
    for command, arguments in re.findall(r"\b(find_\w+|pkg_check_modules)\(([^()]*)\)", text):
        words = arguments.split()
        if "REQUIRED" not in words:
            continue
        if command == "find_package":
            names = [(words[0], words[1] if re.fullmatch("[0-9.]+", words[1]) else "")]
        elif command == "pkg_check_modules":
            names = [re.fullmatch(r"([^<>=]+)(?:>=([0-9.]+))?", word).groups("") for word in words[1:] if word not in ("REQUIRED", "IMPORTED_TARGET")]
        else:  # find_library, find_path, find_file, find_program: any one of the names
            words = [word for word in words[1:] if word != "NAMES"]
            names = [(words[0], "")]
        for name, version in names:
            name = FOUND_FILES.get(name, name)
            required[name] = version or required.get(name, "")
    return required


def conda_dependencies(text):
    found = {}
    requirements = yaml.safe_load(text)["requirements"]
    for entry in requirements["build"] + requirements["host"]:
        call = re.fullmatch(r'\$\{\{ (\w+)\("(\w+)"\) \}\}', entry)
        name, _, version = (f"{call[1]} {call[2]}", "", "") if call else entry.partition(" ")
        assert not version or version.startswith(">="), entry
        found[name] = version[2:]
    return found


def homebrew_dependencies(text):
    return {name.strip('"'): "" for name in re.findall(r'^  depends_on ("[^"]+"|:\w+)', text, re.MULTILINE)}


def nix_dependencies(text):
    """Those that are inputs of the build; each must be an argument as well, and no other may be one."""
    lists = re.findall(r"^  (?:nativeBuildInputs|buildInputs) = \[([^\]]*)\];", text, re.MULTILINE)
    inputs = [name for entry in lists for name in entry.split()]
    arguments = re.search(r"^\{([^}]*)\}:", text, re.MULTILINE)[1].replace(",", " ").split()
    assert len(lists) == 2 and sorted([*inputs, "lib", "stdenv"]) == sorted(arguments), (inputs, arguments)
    return {name: "" for name in inputs}


def spack_class(text):
    """The package's class and what its directives said, with a stand-in of what Spack gives to packages."""
    said = collections.defaultdict(list)

    def directive(name):
        return lambda *words, **options: said[name].append((words, options))

    class CMakePackage:
        def define(self, name, value):
            return f"-D{name}={('ON' if value else 'OFF') if isinstance(value, bool) else value}"

    def decorator(*_, **__):
        return lambda function: function

    build_systems = types.ModuleType("spack_repo.builtin.build_systems.cmake")
    build_systems.CMakePackage = CMakePackage
    build_systems.generator = directive("generator")
    package = types.ModuleType("spack.package")
    for name in ("version", "license", "depends_on", "conflicts"):
        setattr(package, name, directive(name))
    package.run_after = package.on_package_attributes = decorator
    package.join_path = lambda *parts: "/".join(str(part) for part in parts)
    package.Executable = None
    modules = {"spack": types.ModuleType("spack"), "spack.package": package, "spack_repo": types.ModuleType("spack_repo"),
               "spack_repo.builtin": types.ModuleType("builtin"), "spack_repo.builtin.build_systems": types.ModuleType("build_systems"),
               build_systems.__name__: build_systems}
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        names = {}
        exec(compile(text, str(FILES["spack"]), "exec"), names)
    finally:
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    return names["Codecfs"], said


def spack_dependencies(text):
    found = {}
    for (spec,), _ in spack_class(text)[1]["depends_on"]:
        name, version = re.fullmatch(r"([a-z0-9-]+)(?:@([0-9.]+):)?[+~a-z]*", spec).groups()
        found[name] = version or ""
    return found


DEPENDENCIES = {"conda": conda_dependencies, "homebrew": homebrew_dependencies, "nix": nix_dependencies, "spack": spack_dependencies}


def disagreements(manager, recipe, cmake):
    """Sentences, one for each requirement of CMake (its text) that the recipe (its text) does not have, and the other way round."""
    wrong = []
    found = DEPENDENCIES[manager](recipe)
    known = set(TOOLS[manager])
    for name, version in cmake_requirements(cmake).items():
        if name not in NAMES:
            wrong.append(f"CMake requires {name}, which no recipe has: add it to them, and to NAMES in tests/packaging/recipes.py")
            continue
        package = NAMES[name][MANAGERS.index(manager)]
        if package is None:
            continue
        known.add(package)
        if package not in found:
            wrong.append(f"{package} is missing, which CMake calls {name}")
        elif manager in ("conda", "spack") and found[package] != version and version:
            wrong.append(f"{package}: {found[package] or 'any version'}, but CMake requires {version}")
    return wrong + [f"{package} is not required by CMake" for package in found if package not in known]


def cmake_arguments(manager, prefix, tmp_path):
    """The -D arguments that the recipe's build has for this prefix."""
    text = FILES[manager].read_text()
    if manager == "conda":
        # The script is run, with a cmake that prints what it is asked for.
        shim = tmp_path / "shim/cmake"
        shim.parent.mkdir()
        shim.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        shim.chmod(0o755)
        words = subprocess.run(["bash", PACKAGING / "conda/build.sh"], env={"PATH": f"{shim.parent}:/usr/bin:/bin", "PREFIX": prefix}, check=True,
                               capture_output=True, text=True, timeout=60).stdout.split("\n")
    elif manager == "homebrew":
        words = re.search(r"args = %W\[([^\]]*)\]", text)[1].replace("#{lib}", f"{prefix}/lib").split()
    elif manager == "nix":
        words = re.findall(r'"([^"]*)"', re.search(r"cmakeFlags = \[(.*?)\n  \];", text, re.DOTALL)[1].replace('${placeholder "out"}', prefix))
        # As nixpkgs calls it, with absolute directories.
        words += [f"-DCMAKE_INSTALL_{name}DIR={prefix}/{place}" for name, place in (("BIN", "bin"), ("SBIN", "sbin"), ("LIB", "lib"), ("MAN", "share/man"),
                                                                                    ("DOC", "share/doc/codecfs"))]
    else:
        package = spack_class(text)[0]()
        package.prefix = types.SimpleNamespace(lib=f"{prefix}/lib")
        words = package.cmake_args()
    return [*(word for word in words if word.startswith("-D")), f"-DCMAKE_INSTALL_PREFIX={prefix}"]
