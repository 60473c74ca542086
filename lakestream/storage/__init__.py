"""Where things lie: the lake's layout, Delta tables, their change feed, the catalog, the registry.

Modules: ``layout`` and ``files`` (paths), ``lock`` (one writer on a local lake), ``log`` (commits),
``table`` (kept handles), ``reading`` and ``changes`` (rows at a version, rows of a version range),
``commit`` (the one function that writes a stream's output), ``edits`` (what users write), ``catalog``,
``registry`` with its ``records``, ``types`` and ``values``. ``delta`` gathers what other packages use of
the Delta modules.
Nothing here imports pyspark or pyarrow at module level on the way to ``registry.Registry.streams``.
"""
