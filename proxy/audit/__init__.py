"""The audit log: one line a closed exchange, chained by hashes, and the check of the chain."""
