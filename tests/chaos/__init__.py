"""`./run chaos`: breaks a topology on real servers in every way, again and again, and audits it."""
