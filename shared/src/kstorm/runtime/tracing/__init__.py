"""Reads the topics of a topology afterwards: the trees of a message, and what is known beside them."""
