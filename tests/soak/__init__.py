"""Processes of a whole cloud under users and faults drawn from a seed: python -m tests.soak SEED SECONDS"""
