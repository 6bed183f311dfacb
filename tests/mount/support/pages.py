"""The documentation as tests see it: its pages, the blocks of code in them, and the commands in a block."""
import pathlib
import re
from typing import NamedTuple

TOP = pathlib.Path(__file__).resolve().parents[3]
PAGES = sorted(path.relative_to(TOP).as_posix() for path in [*TOP.glob("*.md"), *TOP.glob("docs/**/*.md"), *TOP.glob("plugins/*.md"),
                                                            *TOP.glob("packaging/*.md")])


class Block(NamedTuple):
    line: int  # of the text, from 1
    kind: str  # what is behind the fence: console, "console zarr3", sh, ...
    text: str


class Step(NamedTuple):
    command: str  # with its here-document
    output: str


def read(page):
    return (TOP / page).read_text()


def blocks(page):
    text = read(page)
    assert len(re.findall("^```", text, re.M)) % 2 == 0, f"{page}: a block without an end"
    return [Block(text.count("\n", 0, found.start()) + 2, found[1].strip(), found[2])
            for found in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S)]


def prose(page):
    """The page without its blocks of code, of as many lines."""
    return re.sub(r"^```.*?^```$", lambda found: "\n" * found[0].count("\n"), read(page), flags=re.M | re.S)


def steps(text):
    """The commands of a block marked `console`, and what the page says that they print."""
    found, lines = [], text.splitlines(keepends=True)
    while lines:
        command = lines.pop(0)
        assert command.startswith("$ "), command
        command = command[2:]
        if end := re.search(r"<<'?(\w+)'?", command):
            while not command.endswith(f"\n{end[1]}\n"):
                command += lines.pop(0)
        output = ""
        while lines and not lines[0].startswith("$ "):
            output += lines.pop(0)
        found.append(Step(command, output))
    return found
