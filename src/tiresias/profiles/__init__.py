"""Model profiles, and the network model that predicts the speed of a model on an allocation.

Layer: below policies and placers, above the core. Pure, except `readers`, which read model files and are
used only by the command line.
"""
