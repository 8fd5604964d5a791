"""Tiresias: a GPU cluster manager that needs no knowledge of how long a job will run."""

__version__ = "0.1.0"
