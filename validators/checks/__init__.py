"""Order and relations that a field table can't say: the checks of one exchange."""
