"""Benchmarks: each prints its figures relative to something that was measured in the same run."""
