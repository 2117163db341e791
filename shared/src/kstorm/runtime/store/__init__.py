"""Tables on the local disk: the acker's ledger, the state of bolts."""
