"""Pure, sans-IO validators: bytes, facts and given times in, findings out.

Nothing in here reads a clock, a socket, a file of the machine or an environment variable.
"""
