"""A real guest: python -m tests.benchmarks.guest"""
