"""Cold moves of fake guests beside boots: python -m tests.benchmarks.moves"""
