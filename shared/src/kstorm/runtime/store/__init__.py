"""Tables on the local disk: the acker's ledger and the state of bolts."""
