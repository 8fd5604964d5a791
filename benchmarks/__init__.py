"""Benchmarks: each prints its figures relative to something that was measured in the same run."""

import os

# The processes that are measured keep compiled modules, as those of a user do. Without them each start would
# compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
