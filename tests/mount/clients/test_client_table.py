"""Each client in the table of docs/python.md does what its row says. Those that are not installed are skipped; scripts/client-test
--install installs them. scripts/client-test --table --write writes what is found into the table."""
import pytest

import client_table
from client_table import ACTIONS, CLIENTS, COLUMNS, RIGHT, Missing


@pytest.fixture(scope="module")
def found(request, tmp_path_factory):
    """The rows of the clients that are asked for, and what was said where a cell is not right. Two at a time, as all take minutes."""
    chosen = {item.callspec.params["client"] for item in request.session.items if item.fspath == request.fspath and hasattr(item, "callspec")}
    try:
        return client_table.run_rows([client for client in CLIENTS if client in chosen], tmp_path_factory.mktemp("table"))
    except Missing as error:
        pytest.skip(f"{error}: scripts/client-test installs the clients")


def test_the_table_has_each_client():
    assert list(client_table.read_table()) == [client.title for client in CLIENTS]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_row(found, client):
    rows, said = found
    row, wanted = rows[client.title], client_table.read_table()[client.title]
    if isinstance(row, Missing):
        pytest.skip(f"{row}: scripts/client-test installs it")
    differs = {(action, view): {"found": row[action, view], "the table": wanted[action, view]}
               for action in ACTIONS for view in COLUMNS if row[action, view] != wanted[action, view]}
    if differs and row["version"] != wanted["version"] and all(cell["the table"] != RIGHT for cell in differs.values()):
        # Another release refuses something else, or less.
        pytest.skip(f"{client.title} {row['version']} differs from {wanted['version']}, which the table has: scripts/client-test --table --write")
    assert not differs, said[client.title]


def test_wrong_content_is_told():
    """What judges the cells: a missing variable, other values and another one."""
    right = {"a": [1, 2], "b": [[1.5]]}
    assert client_table.difference(right, right, exactly=True) == ""
    assert client_table.difference({"a": [1, 2]}, right) == "no b"
    assert client_table.difference({"a": [1, 3], "b": [[1.5]]}, right) == "a has other values"
    assert client_table.difference({"a": [1, 2], "b": [1.5]}, right) == "the shape of b is (1,)"
    assert client_table.difference({**right, "c": []}, right, exactly=True) == "there is c" and not client_table.difference({**right, "c": []}, right)


def test_a_client_that_writes_something_else_is_wrong(tmp_path):
    """Not what the client says counts, but what the source holds: dd changes values, which are wanted as they were."""
    class Wrong(client_table.table_tools.Dd):
        @classmethod
        def expected(cls, action, view, kind):
            return client_table.DATA

    Wrong.__name__ = "Dd"  # by which the client's process finds it
    try:
        rows, _ = client_table.run_rows([Wrong], tmp_path, threads=1)
    except Missing as error:
        pytest.skip(str(error))
    row = rows[Wrong.title]
    assert row["change", "decoded"] == "wrong: t has other values" and row["read", "decoded"].startswith("wrong: "), row


def test_a_client_that_fails_is_told():
    runner = client_table.Runner(client_table.table_tools.Dd)
    told = runner.do("read", "/nonexistent", view="decoded", kind="HDF5", work="/nonexistent")
    runner.close()
    assert "error" in told and "values" not in told
