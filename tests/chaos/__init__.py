"""`./run chaos`: breaks a topology on real servers in every way, repeatedly, and audits the result."""
