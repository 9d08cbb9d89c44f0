"""Thousands of simulated computes against one conductor: python -m tests.benchmarks.computes"""
