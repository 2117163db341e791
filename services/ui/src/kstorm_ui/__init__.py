"""The web UI: running topologies, their components and processes, in a browser."""
