"""The protocol of kstorm, without I/O: frames, routing, the tasks' state machines and the ledger.

Nothing here reads a clock, a socket or an event loop. Time and ids come in as arguments, so that the very same objects
run in the services and, by the hundred thousand schedules, in tests.
"""
