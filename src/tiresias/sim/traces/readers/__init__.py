"""The readers of trace files: one module per format, each with a `FORMAT`."""
