"""Benchmarks: each prints figures beside something measured in the same run."""
