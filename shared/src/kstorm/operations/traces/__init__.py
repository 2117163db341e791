"""Read the trees of messages, and related facts, from the topics of a topology."""
