"""The demo: a relay with known faults, traffic through the real proxy, and what was found.

What belongs here: the relay (relay.py) and what it answers (scenarios.py), the client side
(traffic.py), the comparison of both ends (transcript.py), what it comes to (findings.py) and how
it is shown (table.py). What doesn't: anything that finds a fault; the demo has no validator of
its own.
"""
