"""Read and move the offsets of spouts."""
