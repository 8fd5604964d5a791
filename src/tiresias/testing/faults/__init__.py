"""The real Manager and the real store over a simulated World, from one seed.

    python -m tiresias.testing.faults SEED          # tell the story of one seed
    python -m tiresias.testing.faults 0 --count 500 # try many, and stop at the first that fails

First with faults: nothing wrong may happen. Then with faults off: everything must finish. The checks look
at the World (`witness.py`), not at the manager's own books.
"""
