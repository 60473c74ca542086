"""IoTDB's types of series, and Spark's that hold them (IoTDB A1)."""

from __future__ import annotations

SPARK_TYPES = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "STRING": "string",
    "BLOB": "binary",
    "TIMESTAMP": "timestamp",
    "DATE": "date",
}
"""IoTDB's types, and Spark's that hold them."""
SERIES_TYPES = {spark: iotdb for iotdb, spark in SPARK_TYPES.items() if iotdb != "STRING"}
"""The types that series get of values, by Spark's."""
