"""Fault simulation: the real Manager and the real store over a simulated World, all from one seed.

    python -m tiresias.testing.faults SEED          # print the story of one seed
    python -m tiresias.testing.faults 0 --count 500 # try many, and stop at the first that fails

First there are faults, and nothing wrong may happen. Then there are no more faults, and everything must
finish. The checks look at the World (`witness.py`), not at the manager's journal.
"""
