"""What is known of a model, and what follows for where it should run.

Layer: below policies and placers, above the core. Pure, but for `readers`, which read model files and are
used by the command line only.
"""
