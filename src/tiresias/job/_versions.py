"""The versions of frameworks with which `--auto` was tried. Others are named in the log and not patched."""

from __future__ import annotations

import re

from ._say import say

# From the first of these versions to the last, both included, as far as major and minor numbers go.
KNOWN = {
    "transformers": ((5, 23), (5, 23)),
    "lightning": ((2, 6), (2, 6)),
    "pytorch_lightning": ((2, 6), (2, 6)),  # the same code under another name; not run by the tests
    "mlflow": ((3, 17), (3, 17)),
}


def is_known(package: str, version: str) -> bool:
    """Whether this version may be patched; says so if not."""
    low, high = KNOWN[package]
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and low <= (int(found[1]), int(found[2])) <= high:
        return True
    known = f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
    say(
        f"{package} {version} is not patched: --auto was tried with {known}. The training is not resumed by"
        " itself; see `from tiresias import job`"
    )
    return False
