"""The page: running topologies, their components and processes, in a browser."""
