"""Private servers for the tests and the demo: real programs, in a folder and on ports of their own.

Standard library only, so that any Python can run them.
"""
