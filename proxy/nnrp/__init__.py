"""NNRP in the world: the tap between a client and a server, and recordings of connections."""
