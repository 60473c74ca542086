"""The records of the registry: streams, the plans and progress of ticks, recalculations, failures.

``stream``, ``tick`` and ``job`` say what there is to know, ``saved`` under which names it lies in the lake.
"""
