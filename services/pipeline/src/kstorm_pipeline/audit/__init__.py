"""The audit: accounts for every message of a time window, or names it.

    0 cover       each offset is in a finished range, is not yet due, or is a gap      `coverage`, `checks`
    1 population  where a range reports no messages, there are none                    `checks`
    2 dead        each dead letter named by a range is among the dead letters          `letters`, `checks`
    3 output      each record of the sink was made from an accounted message;          `outputs`
                  messages without a record are counted and listed
    4 proof       Spark recomputes that trees reported as complete are complete        `proof`

`ranges` reads the spouts' reports, `window` finds the offsets of a time window, and `stored` reads
the offsets stored in ZooKeeper. `audit` combines them. The audit does not depend on how kstorm
arrived at its reports.
"""
