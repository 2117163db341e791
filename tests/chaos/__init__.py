"""`./run chaos`: a topology on real servers, broken in every way again and again, and an audit of the result."""
