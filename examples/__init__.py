"""Example topologies to read and to run: `./run topology examples.wordcount.topology:topology`."""
