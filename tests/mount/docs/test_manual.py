"""The manual pages: they render without a complaint in 80 columns, and tell of every option that --help prints."""
import pathlib
import re

import pytest
from running import codecfs, run

MANUAL = pathlib.Path(__file__).resolve().parents[3] / "docs/man"


def help_text(*command):
    return codecfs(*command, "--help", code=None).stdout


def commands_of_help():
    return re.findall(r"^  codecfs (\w+) ", help_text(), re.M)


COMMANDS = commands_of_help()
PAGES = ["codecfs.8", "mount.codecfs.8", "codecfs-filters.7", *(f"codecfs-{name}.1" for name in COMMANDS)]


def shown(page):
    """As man(1) shows it on a terminal of 80 columns, without the bold; what groff complains of is an error."""
    result = run("man", "--warnings=w", "-l", MANUAL / page, env={"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANOPT": "", "PAGER": "cat"})
    assert result.stderr == "", result.stderr
    return re.sub(".\b", "", result.stdout)


def told(page):
    """The same, with the columns of groff 1.22, which indents by five; later ones indent by seven."""
    text = shown(page)
    return re.sub("^  (?=     )", "", text, flags=re.M) if re.search(r"^NAME\n {7}\S", text, re.M) else text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_well_in_80_columns(page):
    text = shown(page)
    assert "NAME" in text and "SEE ALSO" in text and len(text) > 700
    for line in text.splitlines():
        assert len(line) <= 80, line


@pytest.mark.parametrize("page", PAGES)
def test_mandoc_has_no_complaint(page):
    result = run("mandoc", "-Tlint", "-Wwarning", MANUAL / page)
    assert result.stdout == "", result.stdout


def test_every_alias_leads_to_a_page():
    for path in MANUAL.iterdir():
        if path.name not in PAGES:
            assert re.fullmatch(r"\.so man8/(.*)\n", path.read_text())[1] in PAGES, path


def test_every_option_is_in_the_manual():
    page = told("codecfs.8")
    options = re.findall(r"^  (-\w|--[a-z]+)(?:,(--[a-z]+))?", help_text(), re.M)
    assert len(options) >= 5
    for names in options:
        for name in filter(None, names):
            assert re.search(rf"(?<![\w-]){name}(?![\w-])", page), name


def test_every_command_is_in_the_manual():
    page = told("codecfs.8")
    assert len(commands_of_help()) >= 4
    for name in commands_of_help():
        assert re.search(rf"^     {name} (\[?[A-Z-])", page, re.M), name


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_a_command_is_complete(command):
    """It has every argument and option of its --help and no other, all parts, and its exit codes."""
    page = told(f"codecfs-{command}.1")
    parts = [line for line in page.splitlines() if re.fullmatch("[A-Z][A-Z ]+", line)]
    for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert part in parts, (part, parts)
    text = help_text(command)
    offered = {name for names in re.findall(r"^  (-\w|--[a-z-]+)(?:,(--[a-z-]+))?", text, re.M) for name in names if name}
    described = re.search("^DESCRIPTION\n(.*?)^[A-Z]", page, re.M | re.S)[1]
    entries = re.findall(r"^\n     (-.*)$", described, re.M)  # a line of text may begin with an option, too
    names = {word for entry in entries for word in re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", entry)}
    assert names == offered
    synopsis = re.search("^SYNOPSIS\n(.*?)^[A-Z]", page, re.M | re.S)[1]
    assert set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", synopsis)) <= offered
    assert f"codecfs {command} " in " ".join(synopsis.split())
    for argument in re.findall(r"^  ([A-Z]+)\b", text.partition("Positionals:")[2].split("Options:")[0], re.M):
        assert re.search(rf"\b{argument}\b", synopsis) and re.search(rf"\b{argument}\b", described), argument
    status = page.split("EXIT STATUS")[1].split("EXAMPLES")[0]
    codes = {code for code in ("0", "1", "2", "3", "32") if re.search(rf"^     {code}\s", status, re.M)}
    assert {"0", "1", "32"} <= codes
    if found := re.search(r"^Exit codes: (.*?)\n\n", text, re.M | re.S):
        assert codes == {"1"} | set(re.findall(r"(?<!\d)(\d+),", found[1]))
    examples = re.findall(r"^ +codecfs .*$", page.split("EXAMPLES")[1].split("SEE ALSO")[0], re.M)
    assert examples and all(f"codecfs {command}" in line for line in examples)


def options_of_help():
    return {name for names in re.findall(r"^  (-\w|--[a-z]+)(?:,(--[a-z]+))?", help_text(), re.M) for name in names if name}


def test_the_manual_has_no_option_that_there_is_not():
    page = told("codecfs.8")
    described = set(re.findall(r"^     (--?[a-z]\S*)", page.split("DESCRIPTION")[1].split("MOUNT OPTIONS")[0], re.M | re.I))
    described = {name.rstrip(",") for name in described}
    assert len(described) >= 5 and described <= options_of_help()
    entries = re.findall(r"^     ([a-z].*?)(?:  .*)?$", page.split("MOUNT OPTIONS")[1].split("FILTER RULES")[0], re.M)
    names = {re.split(r"[=\[]", word)[0] for entry in entries for word in entry.split(", ")} - {"..."}
    offered = {re.split("=", name)[0] for name, _ in mount_options()}
    assert len(names) >= 20 and names <= offered, names - offered


def mount_options():
    block = help_text().split("Options of -o")[1].split("\n\n")[0]
    lines = re.findall(r"^  (\S.*?)  +(\S.*)$", block, re.M)
    for names, meaning in lines:
        for name in names.split(", "):
            if name != "...":
                yield name, meaning


def test_every_mount_option_is_in_the_manual_with_its_default():
    found = list(mount_options())
    assert len(found) >= 20
    page = told("codecfs.8").split("MOUNT OPTIONS")[1].split("FILTER RULES")[0]
    for name, meaning in found:
        entry = re.search(rf"^     (?:\S+, )*{re.escape(re.split('[=|]', name)[0])}\b(.*?)(?=^     \S|\Z)", page,
                          re.M | re.S)
        assert entry, name
        if default := re.search(r"\(default:? ([^:()]+)\)", meaning):
            for word in re.findall(r"[\w-]+", default[1].split(", ")[0]):
                assert word in " ".join(entry[0].split()), (name, default[1])


def test_the_manual_has_the_exit_codes_and_what_is_searched():
    page = told("codecfs.8").split("EXIT STATUS")[1]
    for code in ("0", "1", "32"):
        assert re.search(rf"^     {code}\s", page, re.M), code
    filters = " ".join(told("codecfs-filters.7").split())
    assert filters.index("-o plugin_path=") < filters.index("HDF5_PLUGIN_PATH;") < filters.index("default one")
    # What is built in is what the program says.
    version = codecfs("--version", code=None).stdout
    for name in ("zstd", "blosc", "lz4"):
        assert name in filters and name in version
