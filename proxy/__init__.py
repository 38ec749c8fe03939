"""Everything of teeline that touches the world: sockets, files, clocks, terminals, collectors."""
