"""Completion in the shells that people have: what Tab offers for a line that was begun."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from running import codecfs, run
from test_manual import commands_of_help, mount_options, options_of_help

TOP = pathlib.Path(__file__).resolve().parents[3]


def bash(line, cwd=None, rest=""):
    """What bash offers at the end of `line` (readline's view of it: the last word, split at COMP_WORDBREAKS)."""
    script = r"""
      source "$1"; COMP_LINE=$2$3; COMP_POINT=${#2}; COMP_WORDS=(codecfs); COMP_CWORD=1; COMP_TYPE=9
      _codecfs codecfs "" ""
      printf '%s\n' "${COMPREPLY[@]}"
    """
    result = run("bash", "-c", script, "bash", TOP / "completions/codecfs.bash", line, rest, cwd=cwd, seconds=30)
    assert result.stderr == "", result.stderr
    return [word for word in result.stdout.split("\n") if word]


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


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh_completes():
    """A real zsh on a terminal of its own, which completes by Tab."""
    master, slave = pty.openpty()
    shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                             env={**os.environ, "TERM": "dumb"})
    os.close(slave)
    seen = ""

    def read_until(text):
        nonlocal seen
        deadline = time.monotonic() + 30
        while text not in seen:
            assert time.monotonic() < deadline and select.select([master], [], [], 30)[0], (text, seen)
            seen += os.read(master, 4096).decode(errors="replace")

    try:
        os.write(master, f"PS1=; codecfs() {{ print -r -- \"[$*]\" }}; fpath=({TOP}/completions $fpath)\n"
                         "autoload -U compinit; compinit -u -D; echo rea''dy\n".encode())
        read_until("ready")
        os.write(master, b"codecfs -o view=enc\t,mkd\t /nonexist -F '*,zst\t'\n")
        read_until("\n[")
        read_until("]")
        assert "[-o view=encoded,mkdir /nonexist -F *,zstd]" in seen, seen
    finally:
        shell.kill()
        shell.wait(60)
        os.close(master)
