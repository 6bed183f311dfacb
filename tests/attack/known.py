"""Failures that are known and not repaired yet, by the number of their item: what runs into one is left out.

A repair removes its line here, and from then on every run includes these cases. `--known-failures` (all) or
`--known-failures=1,grown` includes them before that.
"""
KNOWN = {
    "1": "libver latest, one unlimited dimension that is not the first: --compact",
    "7": "a chunk of a late allocated variable whose mandatory filter libhdf5 does not have",
    "8": "clients that write Zarr v3 are not refused",
    "11": "variable-length strings behind shuffle in the encoded view",
    "13": "space that changes of a filter chain leave unused",
    "grown": "--compact after the growth of a variable whose allocation is not incremental: the copy has more chunks",
}


def parse(text):
    """Items to leave out, of the option's value (None: the option is not given; "all")."""
    if text is None:
        return set(KNOWN)
    if text == "all":
        return set()
    return set(KNOWN) - set(text.split(","))
