"""Conformance recipes run live against an NNRP server, and vectors of raw bytes made from readable ones."""
