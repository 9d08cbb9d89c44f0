"""Audits of nodes with many instances, and claims on them: python -m tests.benchmarks.audit"""
