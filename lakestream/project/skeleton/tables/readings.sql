-- What the sensors measure. The first column is the event time; each sensor is a subtable of its own.
CREATE STABLE readings (ts TIMESTAMP, celsius DOUBLE) TAGS (room VARCHAR(20));
