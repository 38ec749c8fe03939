"""The live page: what goes through, as it happens, and back in time (docs/monitor.md)."""
