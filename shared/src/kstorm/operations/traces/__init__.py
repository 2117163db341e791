"""Read the topics of a topology afterwards: the trees of messages, and related facts."""
