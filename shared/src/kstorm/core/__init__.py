"""The protocol of kstorm, without I/O: frames, routing, the tasks' state machines and the ledger.

Nothing here reads a clock, a socket or an event loop. Time and ids are arguments. So the same
objects run in the services and, under hundreds of thousands of schedules, in tests.
"""
