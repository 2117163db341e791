"""The audit: every message of a window of time is accounted for, or named.

    0 cover       each offset is in a finished range, is not yet due, or is a gap          `coverage`, `checks`
    1 population  where a range says that there is no message there is none                `checks`
    2 dead        each dead letter that a range names is among the dead letters            `letters`, `checks`
    3 output      each record of the sink was made of a message that is accounted for;     `outputs`
                  which messages have none is counted and listed
    4 proof       the trees that kstorm says are complete are, by Spark's own reckoning    `proof`

`ranges` reads what the spouts have said, `window` which offsets a time is, `stored` what is stored in ZooKeeper; `audit` puts it
together. Nothing here looks at how kstorm came to what it says.
"""
