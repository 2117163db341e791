"""What records tell of a topology: pure code, for commands, pages and tests."""
