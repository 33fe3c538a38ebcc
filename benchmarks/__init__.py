"""One question per file; ``python -m benchmarks`` writes the answers to ``results/*.json``."""
