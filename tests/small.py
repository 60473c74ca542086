"""What makes Spark quick where tables have a few rows: for tests, never for the product."""

from __future__ import annotations

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Session settings: to compile the code of a query takes longer than to run it over a few rows."""

QUICK_START = "-XX:TieredStopAtLevel=1"
"""For a JVM that lives for seconds: it ends before the second compiler has paid for itself."""

FEW_TABLES = {"spark.driver.extraJavaOptions": "-Ddelta.log.cacheSize=50"}
"""For a process that sees a thousand tables: Delta keeps the log of each, with its plans, for an hour."""

LONG_LIVED = (
    "-XX:TieredStopAtLevel=4 -XX:ReservedCodeCacheSize=512m -XX:Tier4InvocationThreshold=30000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=90000 -XX:Tier4BackEdgeThreshold=400000"
)
"""For the JVM of a test process, which lives for minutes: both compilers, the second for what runs often."""
