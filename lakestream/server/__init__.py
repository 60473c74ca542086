"""The daemon: rounds over all streams, an HTTP API beside them, and one daemon at a time per lake.

Statements run in lakes of their own, as they would in another process: the lake's lock keeps them and the
rounds apart.
"""
