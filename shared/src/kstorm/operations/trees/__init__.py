"""Read a topology's trees, dead letters and status from its records: pure code without I/O."""
