"""Completion in bash, zsh and fish: what Tab offers for a line that was begun."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import CODECFS
from running import codecfs, run
from test_manual import COMMANDS, commands_of_help, help_text, mount_options, options_of_help

TOP = pathlib.Path(__file__).resolve().parents[3]


def bash(line, cwd=None, rest="", env=None):
    """What bash offers at the end of `line` (readline's view of it: the last word, split at COMP_WORDBREAKS)."""
    script = r"""
      source "$1"; COMP_LINE=$2$3; COMP_POINT=${#2}; COMP_WORDS=(codecfs); COMP_CWORD=1; COMP_TYPE=9
      _codecfs "${2%% *}" "" ""
      printf '%s\n' "${COMPREPLY[@]}"
    """
    result = run("bash", "-c", script, "bash", TOP / "completions/codecfs.bash", line, rest, cwd=cwd, seconds=30, env=env or with_codecfs())
    assert result.stderr == "", result.stderr
    return [word for word in result.stdout.split("\n") if word]


def with_codecfs(folder=None):
    """So that the program is the one that is tested, or another one in that folder."""
    return {"PATH": f"{folder or pathlib.Path(CODECFS).parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}


def fish(line, cwd=None, env=None):
    """What fish offers: whole words, without what it says about each."""
    if shutil.which("fish") is None:
        pytest.skip("no fish")
    script = 'source $argv[1]; complete -C $argv[2]'
    result = run("fish", "--no-config", "-c", script, TOP / "completions/codecfs.fish", line, cwd=cwd, seconds=30, env=env or with_codecfs())
    assert result.stderr == "", result.stderr
    return [word.split("\t")[0] for word in result.stdout.split("\n") if word]


@pytest.mark.parametrize("line, offers", [
    ("codecfs -o lo", ["log=", "loglevel="]),
    ("codecfs -o ro,mk", ["ro,mkdir"]),
    ("codecfs -o view=", ["decoded", "encoded", "decoded3", "encoded3", "npy", "raw", "netcdf"]),
    ("codecfs -o ro,view=e", ["encoded", "encoded3"]),
    ("codecfs -o 'ro,view=e", ["ro,view=encoded", "ro,view=encoded3"]),
    ("codecfs -o create=z", ["zarr", "zarr3", "zip"]),
    ("codecfs -o cache=1G,loglevel=d", ["debug"]),
    ("codecfs -o builtin=off:zs", ["zstd"]),
    ("codecfs -o builtin=off:lz4:bz", ["bzip2"]),
    ("codecfs -F '*,zs", ["*,zstd"]),
    ("codecfs -F '*,shuffle|z", ["*,shuffle|zstd"]),
    ("codecfs -F '*,shuffle|zstd,", []),
    ("codecfs -F n", ["none"]),
    ("codecfs c", ["compare", "convert", "check", "compact"]),
    ("codecfs check --", ["--help"]),
    ("codecfs a c", []),
    ("codecfs -o addressing=", ["auto", "path", "virtual"]),
    ("codecfs -o nonsense=", []),
])
def test_bash_offers(line, offers, tmp_path):
    assert bash(line, tmp_path) == offers


@pytest.mark.parametrize("line, offers", [
    ("codecfs -o lo", ["log=", "loglevel="]),
    ("codecfs -o ro,mk", ["ro,mkdir"]),
    ("codecfs -o view=", ["view=decoded", "view=decoded3", "view=encoded", "view=encoded3", "view=netcdf", "view=npy", "view=raw"]),
    ("codecfs -o 'ro,view=e", ["ro,view=encoded", "ro,view=encoded3"]),
    ("codecfs -o cache=1G,loglevel=d", ["cache=1G,loglevel=debug"]),
    ("codecfs -o builtin=off:lz4:bz", ["builtin=off:lz4:bzip2"]),
    ("codecfs -F '*,zs", ["*,zstd"]),
    ("codecfs -F '*,shuffle|z", ["*,shuffle|zstd"]),
    ("codecfs -F '*,shuffle|zstd,", []),
    ("codecfs -F n", ["none"]),
    ("codecfs c", ["check", "compact", "compare", "convert"]),
    ("codecfs check --", ["--help"]),
    ("codecfs set v 'shuffle|z", ["shuffle|zstd"]),
    ("codecfs convert --format z", ["zarr", "zarr3", "zip"]),
    ("codecfs -o nonsense=", []),
])
def test_fish_offers(line, offers, tmp_path):
    assert fish(line, tmp_path) == offers


def test_fish_offers_files(tmp_path):
    (tmp_path / "temperature one.nc").touch()
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugged.so").touch()
    assert fish("codecfs temp", tmp_path) == fish("codecfs check temp", tmp_path) == ["temperature one.nc"]
    assert fish("codecfs -o plugin_path=/x:plug", tmp_path) == ["plugin_path=/x:plugged.so", "plugin_path=/x:plugins/"]
    for name in ("log", "ca_file", "header_file", "token_file"):
        assert fish(f"codecfs -o ro,{name}=plugg", tmp_path) == [f"ro,{name}=plugged.so"]


NAUGHTY = "$(touch here)"  # if a shell reads it


@pytest.fixture
def dataset(tmp_path):
    with h5py.File(tmp_path / "a b.h5", "w") as file:
        for name in ("time", "temp sea", "ocean/salinity", "ocean/depth/x", "a,b", 'quo"te', "größe", "esc\x1b[31m", NAUGHTY):
            file[name] = np.arange(5)
        file["time"].attrs["path"] = "/no/variable"
    os.symlink("a b.h5", tmp_path / "t.h5")
    return tmp_path


# What is offered for a line, with a slash where that was typed; and the files in the folder where there is no source.
VARIABLES = [
    ("codecfs info t.h5 ti", ["time"]),
    ("codecfs info t.h5 oc", ["ocean", "ocean/depth", "ocean/depth/x", "ocean/salinity"]),
    ("codecfs info t.h5 /ocean/s", ["/ocean/salinity"]),
    ("codecfs info --json -O ro t.h5 t", ["temp sea", "time"]),
    ("codecfs info 'a b.h5' ti", ["time"]),
    ("codecfs info a\\ b.h5 ti", ["time"]),
    ("codecfs info --html t.h5 t.", ["t.h5"]),
    ("codecfs info t.h5 q", []),
    ("codecfs info t.h5 g", ["größe"]),
    ("codecfs info t.h5 esc", []),
    ("codecfs recode t.h5 -F '$", []),
    ("codecfs info t.h5 time t", ["t.h5"]),
    ("codecfs info nothing.h5 t", []),
    ("codecfs convert t.h5 new.zarr --skip ocean/s", ["ocean/salinity"]),
    ("codecfs recode t.h5 -F ti", ["time,"]),
    ("codecfs recode t.h5 -F 'time&/o", ["time&/ocean/depth/x,", "time&/ocean/salinity,"]),
    ("codecfs recode --dry-run t.h5 -F /", ["/größe,", "/ocean/depth/x,", "/ocean/salinity,", "/time,"]),
    ("codecfs t.h5 m -F ti", ["time,"]),
    ("codecfs recode t.h5 -F 'time,zs", ["time,zstd"]),
    ("codecfs verify t.h5 ti", []),
]


@pytest.mark.parametrize("line, offers", VARIABLES)
def test_variables_in_bash(line, offers, dataset):
    shown = [word.replace("\\", "") for word in bash(line, dataset)]
    assert sorted(shown) == sorted(offers)


@pytest.mark.parametrize("line, offers", VARIABLES)
def test_variables_in_fish(line, offers, dataset):
    assert sorted(fish(line, dataset)) == sorted(offers)


def test_what_is_behind_the_cursor_may_be_the_source(dataset):
    assert bash("codecfs recode -F ti", dataset, " t.h5") == ["time,"]
    assert bash("codecfs recode -F ti", dataset, "nothing t.h5") == ["time,"]
    assert bash("codecfs recode -F ti", dataset, "") == []


def test_a_name_does_not_become_a_command(dataset):
    for quote in ("\\", "'", '"'):
        line = f"codecfs info t.h5 {quote}$"
        offered = bash(line, dataset)
        assert len(offered) == (0 if quote == '"' else 1), line
        for name in offered:
            typed = f"printf '%s\\n' " + (f"'{name}'" if quote == "'" else name)
            assert run("bash", "-c", typed, cwd=dataset).stdout == NAUGHTY + "\n"
    assert [word.replace("\\", "") for word in fish("codecfs info t.h5 \\$", dataset)] == [NAUGHTY]
    assert bash("codecfs recode t.h5 -F \\$", dataset) == [] and fish("codecfs recode t.h5 -F \\$", dataset) == []
    assert not (dataset / "here").exists()


def test_quotes_and_the_program_that_was_typed(dataset):
    assert bash("codecfs info t.h5 temp", dataset) == [r"temp\ sea"]
    assert bash("codecfs info t.h5 'temp", dataset) == ["temp sea"]
    folder = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    assert bash("codecfs info t.h5 ti", dataset, env=folder) == [] or shutil.which("codecfs")
    assert bash(f"{CODECFS} info t.h5 ti", dataset, env=folder) == ["time"]
    assert fish(f"{CODECFS} info t.h5 ti", dataset, folder) == ["time"]


@pytest.mark.parametrize("shell", [bash, fish])
def test_urls_and_what_is_not_there_are_not_opened(shell, dataset):
    """A program in the place of codecfs is only started for a file or directory, and has two seconds."""
    (dataset / "bin").mkdir()
    (dataset / "store.zarr").mkdir()
    program = dataset / "bin/codecfs"
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {dataset}/calls\nexec sleep 60\n")
    program.chmod(0o755)
    env = with_codecfs(dataset / "bin")
    for source in ("s3://bucket/t.h5", "https://example.org/t.h5", "gs://bucket/t.h5", "no.h5"):
        assert shell(f"codecfs info {source} t", dataset, env=env) == []
        assert shell(f"codecfs recode {source} -F ti", dataset, env=env) == []
        assert shell(f"codecfs convert {source} x --skip t", dataset, env=env) == []
    assert not (dataset / "calls").exists()
    for source in ("t.h5", "store.zarr"):
        started = time.monotonic()
        assert shell(f"codecfs info {source} ti", dataset, env=env) == []
        assert 1 < time.monotonic() - started < 20
    assert (dataset / "calls").read_text().splitlines() == ["info --json -O plugins=off t.h5", "info --json -O plugins=off store.zarr"]


@pytest.mark.parametrize("shell", [bash, fish])
def test_mount_points(shell, dataset, mount, tmp_path):
    one = mount(dataset / "t.h5").path
    (tmp_path / "mine").mkdir()
    place = tmp_path / "mine/with blank"
    place.mkdir()
    codecfs("-o", "ro", dataset / "a b.h5", place)
    try:
        for command in ("unmount", "status", "status --json", "set"):
            offered = [word.replace("\\", "") for word in shell(f"codecfs {command} ", tmp_path)]
            assert {str(one), str(place)} <= set(offered) and str(tmp_path) not in offered, command
            assert all(os.path.isabs(name) for name in offered)
            assert [word.rstrip("/") for word in shell(f"codecfs {command} min", tmp_path)] == ["mine"]
        assert str(place) in [word.replace("\\", "") for word in shell(f"codecfs unmount {tmp_path}/mine/w", tmp_path)]
        assert sorted(word.rstrip("/") for word in shell(f"codecfs set {one}/o", tmp_path)) == [f"{one}/ocean"]
        assert str(one) not in shell("codecfs info ", tmp_path)
    finally:
        codecfs("unmount", place)
    assert str(place) not in [word.replace("\\", "") for word in shell("codecfs unmount ", tmp_path)]


def options_of(command):
    return {name for names in re.findall(r"^  (-\w|--[a-z-]+)(?:,(--[a-z-]+))?", help_text(command), re.M) for name in names if name}


@pytest.mark.parametrize("command", COMMANDS)
def test_all_know_the_options_of_a_command_and_no_other(command, tmp_path):
    options = options_of(command)
    in_bash = set(bash(f"codecfs {command} -", tmp_path))
    short_forms = {"-h", "-o", "-F", "-O", "-v"}  # bash offers some by their long names alone
    assert in_bash <= options and options - in_bash <= short_forms
    in_fish = set(fish(f"codecfs {command} -", tmp_path)) | set(fish(f"codecfs {command} --", tmp_path))
    assert in_fish == options
    text = (TOP / "completions/_codecfs").read_text()
    [block] = [lines for names, lines in re.findall(r"^    ([a-z|]+)\)\n(.*?)^      ;;$", text, re.M | re.S) if command in names.split("|")]
    in_zsh = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*(?=[\[},])", block))
    assert in_zsh | {"-h", "--help"} == options


def test_fish_knows_every_option_and_no_other(tmp_path):
    assert set(fish("codecfs -", tmp_path)) | set(fish("codecfs --", tmp_path)) == options_of_help()
    offered = {word.rstrip("=") for word in fish("codecfs -o ", tmp_path)}
    assert names_of_help() <= offered
    for name in offered - names_of_help():
        refuses_not(name)
    assert sorted(fish("codecfs ", tmp_path)) == sorted(commands_of_help())


def test_bash_offers_files(tmp_path):
    (tmp_path / "temperature one.nc").touch()
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugged.so").touch()
    assert bash("codecfs temp", tmp_path) == ["temperature one.nc"]
    assert bash("codecfs check temp", tmp_path) == ["temperature one.nc"]
    assert bash("codecfs -o plugin_path=/x:plug", tmp_path) == ["plugins"]
    assert bash("codecfs -o log=plugg", tmp_path) == ["plugged.so"]
    for name in ("ca_file", "header_file", "token_file"):
        assert bash(f"codecfs -o {name}=plugg", tmp_path) == ["plugged.so"]
    assert bash("codecfs -o ro temp", tmp_path, " and what is behind the cursor") == ["temperature one.nc"]


def names_of_help():
    return {name.split("=")[0] for name, _ in mount_options()}


def test_bash_knows_every_mount_option():
    offered = {word.rstrip("=") for word in bash("codecfs -o ")}
    assert names_of_help() <= offered
    # And nothing that the program refuses.
    for name in offered - names_of_help():
        refuses_not(name)


def refuses_not(name):
    result = codecfs("-o", name, "/nonexistent", "/nonexistent", code=None)
    assert "unknown mount option" not in result.stderr, name


def test_bash_offers_filters_that_there_are():
    for name in bash("codecfs -F '*,"):
        word = name.removeprefix("*,")
        if word in ("szip", "deflate"):
            word += ",4,8" if word == "szip" else ",5"  # their parameters have no defaults
        result = codecfs("-F", f"*,{word}", "/nonexistent", "/nonexistent", code=32)
        assert "/nonexistent" in result.stderr, result.stderr


def test_zsh_knows_every_mount_option():
    text = (TOP / "completions/_codecfs").read_text()
    assert text.startswith("#compdef codecfs\n")
    missing = [name for name in names_of_help() if f"'{name}[" not in text]
    assert not missing
    described = re.findall(r"^    '(\w+)\[", text, re.M)
    assert len(described) >= 20
    for name in described:
        refuses_not(name)


def test_both_know_every_option_and_no_other(tmp_path):
    assert {*bash("codecfs -"), "-h", "-V"} == options_of_help()  # bash offers these by their long names
    assert bash("codecfs ", tmp_path) == commands_of_help()
    text = (TOP / "completions/_codecfs").read_text()
    assert set(re.findall(r"^  '([a-z]+):", text, re.M)) == set(commands_of_help())
    text = text.split("local -a help")[1].split("if ((")[0] + text.split("# A mount.")[1]
    assert set(re.findall(r"(?<![\w-])--?[A-Za-z]\w*(?=[\[},])", text)) == options_of_help()


class Zsh:
    """A real zsh on a terminal of its own, which completes by Tab; codecfs is a function there that prints its words."""

    def __init__(self, folder):
        self.master, slave = pty.openpty()
        self.shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=folder,
                                      env={**os.environ, **with_codecfs(), "TERM": "dumb", "HOME": str(folder)})
        os.close(slave)
        self.seen = ""
        os.write(self.master, f"PS1=; codecfs() {{ print -r -- \"<${{(j:|:)@}}>\" }}; fpath=({TOP}/completions $fpath); unsetopt zle_bracketed_paste\n"
                              "autoload -U compinit; compinit -u -D; echo rea''dy\n".encode())
        self.read_until("ready")

    def read_until(self, text):
        deadline = time.monotonic() + 30
        while text not in self.seen:
            assert time.monotonic() < deadline and select.select([self.master], [], [], 30)[0], (text, self.seen)
            self.seen += os.read(self.master, 4096).decode(errors="replace")

    def words_of(self, keys):
        """Those of the command after these keys and Return."""
        self.seen = ""
        os.write(self.master, keys.encode() + b"\n")
        self.read_until("\n<")
        self.read_until(">\r\n")
        return self.seen.rpartition("\n<")[2].partition(">\r\n")[0].split("|")

    def close(self):
        self.shell.kill()
        self.shell.wait(60)
        os.close(self.master)


@pytest.fixture
def zsh(dataset):
    if shutil.which("zsh") is None:
        pytest.skip("no zsh")
    shell = Zsh(dataset)
    yield shell
    shell.close()


def test_zsh_completes(zsh):
    assert zsh.words_of("codecfs -o view=enc\t,mkd\t /nonexist -F '*,zst\t'") == ["-o", "view=encoded,mkdir", "/nonexist", "-F", "*,zstd"]


def test_zsh_completes_variables(zsh, dataset):
    for keys, words in (
            ("codecfs info t.h5 ti\t", ["info", "t.h5", "time"]),
            ("codecfs info t.h5 te\t", ["info", "t.h5", "temp sea"]),
            ("codecfs info --json a\\ b.h5 /ocean/s\t", ["info", "--json", "a b.h5", "/ocean/salinity"]),
            ("codecfs info t.h5 ocean/de\t/x", ["info", "t.h5", "ocean/depth/x"]),
            ("codecfs convert t.h5 new --skip oce\t/sal\t", ["convert", "t.h5", "new", "--skip", "ocean/salinity"]),
            ("codecfs info t.h5 '$\t", ["info", "t.h5", NAUGHTY]),
            ("codecfs info t.h5 \\$\t", ["info", "t.h5", NAUGHTY]),
            ("codecfs recode t.h5 -F \\$\t", ["recode", "t.h5", "-F", "$"]),
            ("codecfs info t.h5 gr\t", ["info", "t.h5", "größe"]),
            ("codecfs recode t.h5 -F ti\tzst\t,3", ["recode", "t.h5", "-F", "time,zstd,3"]),
            ("codecfs recode t.h5 -F 'time&/ocean/s\tzst\t'", ["recode", "t.h5", "-F", "time&/ocean/salinity,zstd"]),
            ("codecfs info s3://b/t.h5 ti\t", ["info", "s3://b/t.h5", "ti"]),
            ("codecfs set v shuf\t", ["set", "v", "shuffle"]),
    ):
        assert zsh.words_of(keys) == words, keys


def test_zsh_completes_mount_points(zsh, dataset, mount, tmp_path):
    place = tmp_path / "one place"
    place.mkdir()
    codecfs("-o", "ro", dataset / "t.h5", place)
    try:
        for command in ("unmount", "status", "set"):
            assert zsh.words_of(f"codecfs {command} {tmp_path}/on\t") == [command, str(place)], command
        assert zsh.words_of("codecfs set one\\ place/oc\t shuf\t") == ["set", "one place/ocean", "shuffle"]
    finally:
        codecfs("unmount", place)
