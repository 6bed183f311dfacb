"""Each of today's tools reads back, as the same object, what codecfs shows, converts and re-encodes of the tool's own files; or
codecfs refuses, and names what it cannot keep. docs/formats.md has the table of what is found, which these tests compare.

scripts/tool-test makes the venvs of the tools. Without a tool's venv its tests say that they were skipped. With
CODECFS_TOOL_TABLE=write they write what they find into the table.
"""
import json
import os
import pathlib
import re
import shutil
import textwrap

import pytest

import tools
from conftest import PROGRAMS
from pages import TOP
from running import codecfs, run

VENVS = pathlib.Path(os.environ.get("CODECFS_CLIENTS", pathlib.Path.home() / ".cache/codecfs-clients"))
SCRIPT = PROGRAMS / "tools.py"
PAGE = TOP / "docs/formats.md"
BEGIN, END = "<!-- tools: scripts/tool-test --table writes what is between these marks -->", "<!-- end of tools -->"
COLUMNS = ["mounted", "HDF5", "Zarr v2", "Zarr v3", "re-encoded", "compacted"]
JUDGES = {"zarr2": "zarr-python 2 in views of Zarr v2", "xarray": "zarr-python 3 in views of Zarr v3"}  # by venv
VIEWS = ["", ".codecfs/view/encoded", ".codecfs/view/decoded3", ".codecfs/view/encoded3"]
FORMATS = {"HDF5": "hdf5", "Zarr v2": "zarr", "Zarr v3": "zarr3"}
RULES = {"HDF5": "*,shuffle|deflate,4", "Zarr v2": "*,zstd,3", "Zarr v3": "*,zstd,3"}
PLUGINS = next(map(str, VENVS.glob("tool-hdf5plugin/lib/python3*/site-packages/hdf5plugin/plugins")), "")
SAME, NONE = ("same", ""), ("–", "")


# --- the table


def read_table():
    """The cells of each tool, as pairs of the text and its note."""
    text = PAGE.read_text()
    text = text[text.index(BEGIN) + len(BEGIN):text.index(END)]
    notes = {number: " ".join(note.split()) for number, note in re.findall(r"^(\d+)\. (.*(?:\n   .*)*)", text, re.M)}
    rows = {}
    for line in re.findall(r"^\| (.*) \|$", text, re.M)[2:]:
        tool, *cells = line.split(" | ")
        rows[tool] = []
        for cell in cells:
            number = re.search(r" \((\d+)\)$", cell)
            rows[tool].append((cell[:number.start()], notes[number[1]]) if number else (cell, ""))
    return rows


def write_table(rows):
    notes, lines = [], [["tool", *COLUMNS], ["---"] * (1 + len(COLUMNS))]
    for tool in (kind.tool for kind in tools.SPECIMENS.values()):
        cells = []
        for text, note in rows.get(tool, [("not tried", "")] * len(COLUMNS)):
            if note and note not in notes:
                notes.append(note)
            cells.append(f"{text} ({notes.index(note) + 1})" if note else text)
        lines.append([tool, *cells])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    if notes:
        text += "\n" + "\n".join(textwrap.fill(note, 140, initial_indent=f"{i}. ", subsequent_indent="   ", break_long_words=False,
                                               break_on_hyphens=False) for i, note in enumerate(notes, 1)) + "\n"
    page = PAGE.read_text()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:start] + "\n\n" + text + "\n" + page[end:])


def test_the_table_has_each_tool():
    assert list(read_table()) == [kind.tool for kind in tools.SPECIMENS.values()]


# --- the steps


class Trial:
    """One file of one tool. `results`: for each column the paths that the tool must read, or a cell."""

    def __init__(self, kind, directory):
        self.kind, self.directory = kind, directory
        self.own = {0: "HDF5", 2: "Zarr v2", 3: "Zarr v3"}[kind.zarr]
        self.python = VENVS / f"tool-{kind.venv}" / "bin/python3"
        self.source = directory / f"source{kind.ending}"
        self.cells = {}
        self.paths = {}  # column: what the tool must read as it reads the source
        self.notes = {}  # column: what was refused before

    def run(self, action, *paths, python=None):
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HDF5_PLUGIN_PATH")}
        if python or self.kind.venv == "anndata":  # without filters of its own
            environment["HDF5_PLUGIN_PATH"] = PLUGINS
        done = run(python or self.python, "-B", SCRIPT, self.kind.name, action, *paths, seconds=100,
                   environment={**environment, "KERAS_BACKEND": "jax"})
        return json.loads(done.stdout.rpartition("RESULT ")[2])

    def codecfs(self, *words):
        """The last lines of an error, or nothing."""
        done = codecfs(*words, seconds=300, code=None)
        return self.reasons(done.stderr) if done.returncode not in (0, 3) else ""  # 3: some variables keep their filters

    def plain(self, text):
        """Without what differs from run to run."""
        text = re.sub(re.escape(str(self.directory)) + r"/(mnt\d+|[\w-]+[^\s:/'\"]*)", "FILE", text)
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UUID", re.sub(r"0x[0-9a-f]+", "0x", text))
        return " ".join(text.split())

    def reasons(self, text):
        """An error of codecfs, with the variables of one reason together."""
        paths = {}
        for line in text.replace("codecfs: ", "").splitlines():
            path, _, reason = re.sub(r"; --skip.*", "", line).partition(": ")
            if path != "warning" and "cannot be converted" not in path:
                paths.setdefault(self.plain(reason), []).append(self.plain(path))
        return "; ".join(f"{', '.join(of)}: {reason}" if reason else of[0] for reason, of in paths.items())

    def convert(self, column, source, name, *options):
        """The copy, or nothing where it is refused in both ways. A refusal is a note of the column."""
        copy = self.directory / name
        words = ["convert", "--format", FORMATS[column], *options, source, copy]
        refused = self.codecfs(*words)
        if not refused:
            return copy
        self.notes.setdefault(column, refused)
        refused = self.codecfs(*words[:1], "--skip-unsupported", *words[1:])
        if refused:
            also = "the same" if refused == self.notes[column] else refused
            self.cells[column] = ("refused", f"{self.notes[column]}. With `--skip-unsupported`: {also}")
            return None
        return copy

    def formats(self):
        for column in FORMATS:
            ending = self.kind.ending if column == self.own else ".h5" if column == "HDF5" else ".zarr"
            copy = self.convert(column, self.source, f"copy-{FORMATS[column]}{ending}")
            if copy is None:
                continue
            self.paths[column] = []
            if self.kind.reads_hdf5 if column == "HDF5" else self.kind.reads_zarr:
                self.paths[column].append(copy)
            if column != self.own:
                back = self.directory / f"copy-{FORMATS[column]}-back{self.kind.ending}"
                refused = self.codecfs("convert", "--format", FORMATS[self.own], copy, back)
                if refused:
                    self.cells[column] = ("refused", f"back: {refused}")
                    continue
                self.paths[column].append(back)

    def recoded(self):
        copy = self.directory / f"copy-recoded{self.kind.ending}"
        (shutil.copytree if self.source.is_dir() else shutil.copy)(self.source, copy)
        refused = self.codecfs("recode", "-F", RULES[self.own], copy)
        if refused:
            self.cells["re-encoded"] = ("refused", refused)
        converted = self.directory / f"copy-rule{self.kind.ending}"
        words = "convert", "--format", FORMATS[self.own], "-F", RULES[self.own], self.source, converted
        refused = self.codecfs(*words)
        if refused:
            self.cells["re-encoded"] = ("refused", refused)
        self.paths["re-encoded"] = [copy, converted]
        if self.own != "HDF5":
            self.cells["compacted"] = NONE
            return
        compacted = self.directory / f"copy-compacted{self.kind.ending}"
        shutil.copy(copy, compacted)
        refused = self.codecfs("compact", compacted)
        if refused:
            self.cells["compacted"] = ("refused", refused)
        self.paths["compacted"] = [compacted]

    def judge(self, column, found):
        """A cell of what the tool said."""
        said = next((differs for differs in found if differs), None)
        refused = self.notes.get(column)
        if refused is None:
            return ("differs", self.plain(said)[:300].strip()) if said else SAME
        rest = f"{self.kind.tool.split(',')[0]} says of the rest: {self.plain(said)[:200].strip()}" if said else "the rest is the same"
        return ("refused", f"{refused}. With `--skip-unsupported`, {rest}")

    def row(self, mount):
        self.run("write", self.source)
        stores = [mount(self.source, "ro").path / view for view in VIEWS]
        mounted = []
        if self.own == "HDF5":
            for judge, of in ("zarr2", stores[:2]), ("xarray", stores[2:]):
                found = self.run("zarr", self.source, *of, python=VENVS / f"tool-{judge}/bin/python3")
                mounted += [said and f"{JUDGES[judge]}: {said}" for said in found.values()]
        if self.kind.reads_zarr:
            self.paths["mounted"] = stores
        self.formats()
        self.recoded()
        paths = list(dict.fromkeys(path for column in self.paths.values() for path in column))
        found = self.run("same", self.source, *paths) if paths else {}
        for column, of in self.paths.items():
            said = [found[str(path)] for path in of]
            self.cells.setdefault(column, self.judge(column, [*mounted, *said] if column == "mounted" else said))
        self.cells.setdefault("mounted", self.judge("mounted", mounted))
        return [self.cells[column] for column in COLUMNS]


@pytest.mark.parametrize("name", tools.SPECIMENS)
def test_a_tool_reads_the_same_object(mount, tmp_path, name):
    kind = tools.SPECIMENS[name]
    for venv in kind.venv, *JUDGES:
        if not (VENVS / f"tool-{venv}" / "bin/python3").exists():
            pytest.skip(f"{kind.tool}: no {venv} in {VENVS}: scripts/tool-test installs it")
    found = Trial(kind, tmp_path).row(mount)
    if os.environ.get("CODECFS_TOOL_TABLE") == "write":
        write_table({**read_table(), kind.tool: found})
    assert dict(zip(COLUMNS, read_table()[kind.tool])) == dict(zip(COLUMNS, found))
