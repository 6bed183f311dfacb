"""The picture of the README is what the commands in it print."""
import html
import os
import re
import xml.etree.ElementTree as ElementTree

from conftest import CODECFS, is_mounted, unmount
from pages import TOP, read
from running import run

PICTURE = TOP / "docs/terminal.svg"


def text_of(path):
    """The lines of text in the picture."""
    rows = ElementTree.parse(path).getroot().findall("{http://www.w3.org/2000/svg}text")
    return ["".join(row.itertext()) for row in rows]


def test_the_picture_is_what_the_script_makes(tmp_path):
    made = tmp_path / "made.svg"
    run(TOP / "scripts/make-picture", "--codecfs", CODECFS, "--output", made)
    assert text_of(PICTURE) == text_of(made)
    assert PICTURE.read_text() == made.read_text()


def test_its_commands_print_its_text(tmp_path):
    """Without the script: the same commands, without a terminal, so that only the filling of the lines may differ."""
    run("ncgen", "-4", "-o", tmp_path / "sample.nc", TOP / "tests/data/sample.cdl")
    (tmp_path / ".bin").mkdir()
    (tmp_path / ".bin/codecfs").symlink_to(CODECFS)
    environment = {**os.environ, "PATH": f"{tmp_path}/.bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    sessions = re.findall(r"\$ (.*)\n((?:(?!\$ ).*\n)*)", "\n".join(text_of(PICTURE)) + "\n")
    assert len(sessions) >= 5 and sum(command.startswith("codecfs ") for command, _ in sessions) >= 3
    try:
        for command, shown in sessions:
            done = run("bash", "-c", command, cwd=tmp_path, env=environment)
            assert sorted(done.stdout.split()) == sorted(shown.split()), command
    finally:
        if is_mounted(tmp_path / "mnt"):
            unmount(tmp_path / "mnt")


def test_the_readme_shows_it_with_its_text():
    """Readers without pictures get the commands by the alternative text."""
    shown = re.search(r"!\[([^\]]*)\]\(docs/terminal\.svg\)", read("README.md"))
    assert shown and len(html.unescape(shown[1])) > 40
