"""The repository's own tools. Users of kstorm never run them."""
