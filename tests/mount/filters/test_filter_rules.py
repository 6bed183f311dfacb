"""Filter rules: what -F and -o filter= give each variable, shown as user._FilterOut. How rules are read and combined is
tested in tests/unit/filters/filter_rules_test.cc; here they meet real names, sources and the command line."""
import itertools
import os

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from conftest import xattr
from running import run


@pytest.fixture
def source(tmp_path):
    """Variables whose names try the rules, with and without filters of their own."""
    path = tmp_path / "source.h5"
    data = np.arange(12, dtype="f8")
    with h5py.File(path, "w") as file:
        for name in ("plain", "a,b", "temp sea", "/group/plain", "/group/deep/v", "100%25", "*"):
            file.create_dataset(name, data=data, chunks=(5,))
        file.create_dataset("deflated", data=data, chunks=(5,), compression=5, shuffle=True)
        file.create_dataset("checked", data=data, chunks=(5,), fletcher32=True)
        file.create_dataset("scalar", data=1.0)
        file["plain"].attrs["_FilterOut"] = "an attribute of the file"
        file["second name"] = file["plain"]
    return path


def filter_out(path):
    """None where no rule applies."""
    return xattr(path, "_FilterOut") if "user._FilterOut" in os.listxattr(path) else None


def test_without_rules_nothing_is_shown(mount, source):
    at = mount(source).path
    assert filter_out(at / "deflated") is None
    assert filter_out(at / "plain") == "an attribute of the file"


def test_each_variable_gets_its_chain(mount, source):
    at = mount(source, rules=["plain&/group/deep/v, shuffle | ZSTD,3", r"a\,b,32004,-17b", "temp sea,bzip2,9", r"100%25,1,1",
                              r"\*,1,2"]).path
    assert filter_out(at / "plain") == "2|32015,3"
    assert filter_out(at / "group/deep/v") == "2|32015,3"
    assert filter_out(at / "a,b") == "32004,239"
    assert filter_out(at / "temp sea") == "307,9"
    assert filter_out(at / "*") == "1,2"
    assert filter_out(at / "100%25") == "1,1"
    assert filter_out(at / "group/plain") is None
    assert filter_out(at / "deflated") is None
    assert filter_out(at) is None and filter_out(at / "group") is None
    assert (at / "second name").is_symlink() and filter_out(at / "second name") == "2|32015,3"
    # Nothing is re-encoded, and the stored chain is still told.
    assert xattr(at / "deflated", "_Filter") == "2,8|1,5"
    assert np.fromfile(at / "plain/0", "f8").tolist() == [0, 1, 2, 3, 4]


def test_none_for_all_is_weaker_than_a_rule_for_one(mount, source):
    at = mount(source, rules=["checked,307,9", "none", "deflated,1,9"]).path
    assert filter_out(at / "checked") == "307,9"
    assert filter_out(at / "deflated") == "1,9"  # nccopy keeps the input's deflate: netcdf-c issue 2198
    assert filter_out(at / "plain") == filter_out(at / "group/plain") == "none"


def test_none_for_one(mount, source):
    at = mount(source, rules=["*,1,5|3|2", "deflated,none"]).path
    assert filter_out(at / "deflated") == "none"
    assert filter_out(at / "checked") == "3|2|1,5"
    assert filter_out(at / "scalar") is None  # as in nccopy: a scalar has no chunks


def test_two_rules_in_either_order_give_what_nccopy_gives(mount, tmp_path):
    path, copy = tmp_path / "a.nc", tmp_path / "b.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 4096)
        for name in "vw":
            file.createVariable(name, "i4", ("x",), chunksizes=(1024,))[:] = np.arange(4096)
    for rules in itertools.permutations(["v,none", "*,1,3", "v,1,5", "*,2", "v&w,1,7", "w,none"], 2):
        run("nccopy", *(word for rule in rules for word in ("-F", rule)), path, copy)
        mounted = mount(path, "ro", rules=rules)
        with h5py.File(copy) as file:
            for name in "vw":
                chain = file[name].id.get_create_plist()
                filters = [chain.get_filter(i) for i in range(chain.get_nfilters())]
                theirs = "|".join(",".join(map(str, [number, *(parameters if number == 1 else ())])) for number, _, parameters, _ in filters)
                assert (filter_out(mounted.path / name) or "none") == (theirs or "none"), (rules, name)
        mounted.unmount()


def test_the_older_separator_of_names(mount, source):
    """That of the filter document of 2018."""
    at = mount(source, rules=["plain|/group/deep/v,shuffle|zstd,3"]).path
    assert filter_out(at / "plain") == filter_out(at / "group/deep/v") == "2|32015,3" and filter_out(at / "deflated") is None


def test_rules_in_the_mount_options(mount, source):
    at = mount(source, r"filter=plain&group/deep/v\,307\,9|4\,32\,4", "cache=8M", r"filter=a\\\,b\,szip\,32\,4",
               'filter="temp sea,1,5"').path
    assert filter_out(at / "plain") == filter_out(at / "group/deep/v") == "307,9|4,32,4"
    assert filter_out(at / "a,b") == "4,32,4"
    assert filter_out(at / "temp sea") == "1,5"
    assert filter_out(at / "deflated") is None


def test_a_rule_that_meets_nothing_is_told(mount, source):
    rules = ["plain&/group/deep/v&a\\,b,1,5", "nothing,1,5", "group,1,5", "plain/x,1,5", "/group/no/v,none", "second name,1,5", "none"]
    mounted = mount(source, rules=rules)
    told = [line.split("filter rule for ")[1] for line in mounted.messages().splitlines() if "filter rule for" in line]
    assert told == [
        "/nothing: there is no such variable; the rule does nothing",
        "/group: this is a group, not a variable; the rule does nothing",
        "/plain/x: there is no such variable; the rule does nothing",
        "/group/no/v: there is no such variable; the rule does nothing",
        "/second name: this is a link to plain; name that; the rule does nothing",
    ]


@pytest.mark.parametrize("rule, says", [
    ("plain,307,3.5", 'character 12 of "plain,307,3.5": a number with a fraction or an exponent needs its type: add f or d'),
    ("plain", 'at the end of "plain"'),
    ("plain,nosuchfilter", "character 7 of"),
    ("*&plain,1,5", "character 1 of"),
])
def test_a_bad_rule_ends_the_mount_with_its_position(mount, source, rule, says):
    for form in ({"rules": [rule]}, {"options": ["filter=" + rule.replace(",", r"\,")]}):
        with pytest.raises(RuntimeError) as failure:
            mount(source, *form.get("options", []), rules=form.get("rules", []))
        assert "ended with 1" in str(failure.value) and says in str(failure.value)
        assert str(failure.value).count("\n") == 1


def test_zarr_places_shuffle_where_numcodecs_can_read_it(mount, tmp_path):
    store = tmp_path / "store"
    group = zarr.open_group(str(store), "w")
    for name, dtype in (("narrow", "i4"), ("wide", "f8"), ("wider", "f8")):
        group.create_dataset(name, data=np.arange(12, dtype=dtype), chunks=5, compressor=None)
    mounted = mount(store, rules=["*,2|1,5|3"])
    assert filter_out(mounted.path / "narrow") == "3|2|1,5"
    assert filter_out(mounted.path / "wide") == filter_out(mounted.path / "wider") == "2|3|1,5"
    filter_out(mounted.path / "wide")
    assert mounted.messages().count("shuffle is placed before fletcher32") == 1


def test_a_source_that_is_one_array(mount, tmp_path):
    store = tmp_path / "array"
    zarr.save_array(str(store), np.arange(12), compressor=None)
    assert filter_out(mount(store, rules=["/,zstd"]).path) == "32015"
    assert filter_out(mount(store, rules=["*,none"]).path) == "none"
    assert filter_out(mount(store, rules=["array,zstd"]).path) is None
