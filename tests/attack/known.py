"""Failures that are known and not repaired yet, by the number of their item: what runs into one is left out.

A repair removes its line here, and from then on every run includes these cases. `--known-failures` (all) or
`--known-failures=1,grown` includes them before that.
"""
KNOWN = {
}


def parse(text):
    """Items to leave out, of the option's value (None: the option is not given; "all")."""
    if text is None:
        return set(KNOWN)
    if text == "all":
        return set()
    return set(KNOWN) - set(text.split(","))
