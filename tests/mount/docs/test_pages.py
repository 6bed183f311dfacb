"""The documentation: its links lead to something, and its command lines are ones that codecfs takes. Without network."""
import difflib
import functools
import pathlib
import re
import shlex

import pytest
from pages import PAGES, TOP, blocks, prose, read, steps
from running import codecfs, run
from test_manual import commands_of_help, help_text, mount_options

COMMANDS = commands_of_help()
OF_MOUNT8 = {"rw", "noauto", "defaults", "_netdev", "nosuid", "nodev"}


# --- links


def anchor_of(heading):
    """As GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


@functools.cache
def anchors(page):
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", prose(page), re.M):
        name, count = anchor_of(heading), 0
        while (name if not count else f"{name}-{count}") in found:
            count += 1
        found.add(name if not count else f"{name}-{count}")
    return found


def links(page):
    """(line, target) of each link and picture, but not of those in code."""
    text = re.sub(r"`[^`\n]*`", lambda found: " " * len(found[0]), prose(page))
    for found in re.finditer(r"\]\(([^)\s]+)\)", text):
        yield text.count("\n", 0, found.start()) + 1, found[1]
    for found in re.finditer(r"^\[[^\]]+\]: +(\S+)$", text, re.M):
        yield text.count("\n", 0, found.start()) + 1, found[1]


def broken(page):
    for line, target in links(page):
        if re.match("[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (TOP / page).parent.joinpath(path).resolve() if path else TOP / page
        if not file.is_relative_to(TOP) or not file.exists():
            yield f"{page}:{line}: {target}: does not exist"
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file.relative_to(TOP).as_posix())):
            yield f"{page}:{line}: {target}: has no such heading"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    assert list(broken(page)) == []


def test_every_page_is_reached_from_the_readme():
    reached, new = set(), {"README.md"}
    while new:
        page = new.pop()
        reached.add(page)
        for _, target in links(page):
            path = target.partition("#")[0]
            if not path or re.match("[a-z]+:", target):
                continue
            file = (TOP / page).parent.joinpath(path).resolve()
            name = file.relative_to(TOP).as_posix()
            if name in PAGES and name not in reached:
                new.add(name)
    assert set(PAGES) <= reached


def test_a_broken_link_is_found():
    assert anchor_of("Before you write") == "before-you-write"
    assert anchor_of("`user._Error`, and [why](x.md)?") == "user_error-and-why"
    assert "before-you-write" in anchors("README.md") and "before-you-right" not in anchors("README.md")
    assert any(target == "docs/terminal.svg" for _, target in links("README.md"))


# --- paths in the pages for developers

FOR_DEVELOPERS = ["CONTRIBUTING.md", *(page for page in PAGES if page.startswith("docs/contributing/"))]
PATHS = ("src/", "include/", "plugins/", "tests/", "scripts/", "docs/", "bench/", "packaging/", "cmake/", "completions/", ".ci/", ".github/")


def paths_in(text):
    """Those in code: what begins with a folder of the repository, without the arguments of a script."""
    return [path for code in re.findall(r"`([^`\n]+)`", text) if (path := code.split()[0]).startswith(PATHS)]


def missing_paths(page, text):
    for path in paths_in(text):
        # tests/mount/*/test_NAME.py is any.
        if not any(TOP.glob(re.sub(r"\b[A-Z]+\b|(?<=_)[A-Z]+(?=\.)", "*", path.rstrip("/")))):
            yield f"{page}: {path}"


@pytest.mark.parametrize("page", FOR_DEVELOPERS)
def test_paths_for_developers_exist(page):
    assert list(missing_paths(page, prose(page))) == []


def test_a_missing_path_is_found():
    text = "`src/fs`, `src/fs/node.h`, `scripts/test [PRESET]`, `scripts/tset [PRESET]`, `tests/mount/*/test_NAME.py`, `tests/unit/test_NAME.py`"
    assert list(missing_paths("page", text)) == ["page: src/fs/node.h", "page: scripts/tset", "page: tests/unit/test_NAME.py"]
    assert all(paths_in(read(page)) for page in FOR_DEVELOPERS)
    assert len(paths_in(read("docs/contributing/changing.md"))) > 150


def rows_with_constants():
    for line in read("docs/contributing/changing.md").splitlines():
        if names := re.findall(r"`(k[A-Z]\w+)`", line):
            yield line, names, [TOP / path for path in paths_in(line)]


def test_constants_are_in_the_files_that_the_row_names():
    """So that a table does not keep a knob that was renamed or moved."""
    wrong = [f"{name}: {line}" for line, names, paths in rows_with_constants() for name in names
             if not any(re.search(rf"\b{name}\b", path.read_text()) for path in paths if path.is_file())]
    assert wrong == []
    assert len(list(rows_with_constants())) > 8


# --- command lines


def options_of(*command):
    """{option: whether it has a value} of --help."""
    found = {}
    for names, value in re.findall(r"^  (-\S+)(?: +([A-Z][A-Z,]*))?(?: .*)?$", help_text(*command), re.M):
        for name in names.split(","):
            found[name] = bool(value)
    return found


@functools.cache
def offered(command=None):
    if command:
        return options_of(command)
    return {**options_of(), "-u": False, "--unmount": False}  # former names, which still work


@functools.cache
def positionals(command):
    """(least, most) of them."""
    _, found, part = help_text(command).partition("Positionals:")
    if not found:
        return 0, 0
    part = part.split("\n\n")[0]
    found = re.findall(r"^  ([A-Z]+)( REQUIRED)?", part, re.M)
    return sum(bool(required) for _, required in found), len(found)


@functools.cache
def known_mount_options():
    return {re.split("[=|]", name)[0] for name, _ in mount_options()} | OF_MOUNT8


def check_mount_options(text):
    for word in re.findall(r'(?:[^,"\\]|\\.|"[^"]*")+', text):
        name = word.split("=")[0]
        assert name in known_mount_options() or name.startswith("x-"), f"no mount option {name!r}"


@functools.cache
def check_rule(rule):
    done = codecfs("-F", rule, "/nonexistent", "/nonexistent", code=32)
    assert "/nonexistent" in done.stderr, done.stderr


def check(words, mention=False):
    """One call of codecfs: a command or option that it does not know is an AssertionError. A mention may lack arguments."""
    words = words[1:]
    command = words.pop(0) if words and words[0] in COMMANDS else None
    known, arguments, given = offered(command), [], set()
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            arguments.append(word)
            continue
        name, equals, value = word.partition("=")
        assert name in known, f"no option {name!r} of codecfs {command or ''}"
        given.add(name)
        if known[name] and not equals:
            if mention and not words:
                return
            assert words, f"{name} without its value"
            value = words.pop(0)
        if not value or re.fullmatch("[A-Z,]+", value):
            continue
        if name == "-O" or name == "--options" or name == "-o" and not command:
            check_mount_options(value)
        if name in ("-F", "--filter"):
            check_rule(value)
    meant = [] if command else difflib.get_close_matches(arguments[0] if arguments else "", COMMANDS, cutoff=0.7)
    assert not meant, f"no command {arguments[0]!r}; meant is {meant[0]}"
    if mention or given & {"-h", "--help", "-V", "--version"}:
        return
    if command:
        least, most = positionals(command)
        assert least <= len(arguments) <= most, f"codecfs {command} with {arguments}"
    elif given & {"-u", "--unmount"}:
        assert len(arguments) == 1
    else:
        is_source = len(arguments) == 1 and re.search(r"[./]", arguments[0])  # without a mount point; a mistaken command has none of these
        assert len(arguments) == 2 or is_source, f"no command, and no source: {arguments}"


def calls(line):
    """The calls of codecfs and of mount(8) in a line of a shell, as lists of words."""
    try:
        lexer = shlex.shlex(re.sub("^ExecStart=", "", line), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # a line of something else than a shell
        assert not re.match(r"(\$ |sudo )?codecfs ", line), line
        return
    call = []
    for word in [*words, ";"]:
        if not re.fullmatch("[;&|()<>]+", word):
            call.append(word)
            continue
        while call and (re.fullmatch(r"\w+=.*", call[0]) or call[0] in ("$", "sudo", "gdb", "--args", "timeout")):
            call.pop(0)
        if call and re.fullmatch(r"(.*/)?codecfs", call[0]) or call[:1] == ["mount"]:
            yield call
        # What is behind < or > is a file, and no call.
        call = ["(file)"] if re.search("[<>]", word) else []


def check_line(line, mention=False):
    for call in calls(line):
        if call[0] != "mount":
            check(call, mention)
        elif "codecfs" in call:
            for before, value in zip(call, call[1:]):
                if before == "-o":
                    check_mount_options(value)
    if fstab := re.match(r"[/\w.]+\s+/\S+\s+codecfs\s+(\S+)\s+\d\s+\d$", line):
        check_mount_options(fstab[1])


def inline_code(page):
    text = prose(page)
    for found in re.finditer(r"`([^`\n]+)`", text):
        yield text.count("\n", 0, found.start()) + 1, found[1]


def lines_of_code(page):
    """(line, code, whether it is only a mention)"""
    for block in blocks(page):
        if block.kind.startswith("console"):
            for step in steps(block.text):
                if "codecfs: " not in step.output:  # a command that is shown as it fails
                    yield block.line, step.command.splitlines()[0], False
            continue
        for number, line in enumerate(block.text.splitlines()):
            yield block.line + number, line, False
    for number, code in inline_code(page):
        if code.startswith(("codecfs ", "mount ")) or re.match(r"\S+ +/\S+ +codecfs ", code):
            yield number, code, True
        elif re.match(r"-o \w+", code):
            yield number, f"codecfs {code.rstrip('=')} SOURCE MOUNTPOINT", True


@pytest.mark.parametrize("page", PAGES)
def test_command_lines_parse(page):
    wrong = []
    for number, line, mention in lines_of_code(page):
        try:
            check_line(line, mention)
        except AssertionError as error:
            wrong.append(f"{page}:{number}: {line}: {str(error).splitlines()[0]}")
    assert wrong == []


@pytest.mark.parametrize("line", [
    "$ codecfs cehck a.nc", "codecfs verify --jsonn a.nc", "sudo codecfs -o ro,mkdirs a.nc m", "true; codecfs info", "codecfs data",
    "ExecStart=/usr/bin/codecfs -f -x a m", "mount -t codecfs a.nc /mnt -o ro,idel=3", "/data/a.nc /mnt/a codecfs ro,nofial 0 0",
    "codecfs -F '*,nonsense' a.nc m", "codecfs compare a.nc | head", "codecfs convert --format=zarr a.nc",
])
def test_a_wrong_command_line_is_found(line):
    with pytest.raises(AssertionError):
        check_line(line)


@pytest.mark.parametrize("line", [
    "$ codecfs check a.nc   # a 'comment", "sudo codecfs -o ro,mkdir -F '*,shuffle|zstd,3' a.nc m && ls m", "codecfs --help",
    "codecfs -o 'ro,filter=\"*,zstd,3\",cache=1G' a.nc m", "codecfs -u m", "codecfs a.nc", "codecfs status", "codecfs refs a.nc -o a.json > x",
    "/data/a.nc /mnt/a codecfs ro,nofail,x-systemd.automount 0 0", "codecfs -o 'filter=*\\,zstd\\,3' data m",
])
def test_a_right_command_line_passes(line):
    check_line(line)


@pytest.mark.parametrize("example", sorted(path.name for path in (TOP / "docs/examples").iterdir()))
def test_examples_of_configuration_parse(example):
    lines = (TOP / "docs/examples" / example).read_text().splitlines()
    for line in lines:
        check_line(line.lstrip("# "))
        if line.startswith("Options="):
            check_mount_options(line.removeprefix("Options="))
    assert any("codecfs" in line for line in lines if not line.startswith("#"))


def test_every_command_has_a_place_in_the_documentation():
    for command in COMMANDS:
        assert f"## codecfs {command}" in read("docs/commands.md"), command


def test_the_reference_has_every_mount_option():
    text = read("docs/reference.md")
    for name, _ in mount_options():
        assert f"`{re.split('[=|]', name)[0]}" in text, name


# --- the rest


def test_the_newest_changes_are_those_of_this_version():
    version = re.search(r"project\(codecfs VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M)[1] == version


def test_pages_end_with_a_newline_and_have_one_title():
    for page in PAGES:
        text = read(page)
        assert text.endswith("\n") and not text.endswith("\n\n"), page
        assert len(re.findall("^# ", prose(page), re.M)) == 1, page
    assert pathlib.Path(TOP / "docs/README.md").exists()


def test_the_order_of_locks_is_that_of_the_code():
    run(TOP / "scripts/print-locking", "--check")


def test_the_long_tests_have_a_row_each():
    listed = re.findall(r"^([\w-]+): (.*)$", run(TOP / "scripts/test-long", "--list").stdout, re.M)
    assert listed and re.findall(r"^\| `([\w-]+)` \| ([^|]*) \|", read(TOP / "docs/contributing/long-tests.md"), re.M) == listed


def test_forwarding_sources_forward_all():
    """A default of Source is right for a source of its own, not for one that shows another: each function is named."""
    api = TOP / "src/backends/api"
    named = lambda text, pattern: set(re.findall(pattern, re.sub(r"\s+", " ", re.sub(r"//.*", "", text))))
    declared = {name for name in named((api / "source.h").read_text(), r"virtual [^;{]*?\b(\w+)\(") if not name[0].isupper()}
    forwarded = named((api / "forwarding_source.h").read_text(), r"\b(\w+)\([^;{]*\) (?:const |noexcept )*override")
    # What their defaults make of functions that are forwarded, what reads another way, and what only writes or shares.
    not_forwarded = {"overview", "summaries", "open_twin", "is_shared", "change_in_bulk", "commit", "commit_at_interval",
                     "reclaimable_bytes", "relocate_log", "is_deleted", "writable"}
    assert len(declared) > 70
    assert declared - forwarded == not_forwarded
