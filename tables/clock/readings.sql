-- One day of the weather, as it comes in by the hour.
CREATE STABLE IF NOT EXISTS nyc.readings (ts TIMESTAMP, temp DOUBLE) TAGS (origin VARCHAR(3));
-- Four times a day: what has been written since the last time, whatever its hour is.
CREATE STREAM IF NOT EXISTS nyc.bulletin_stream
  PERIOD(6h)
  FROM nyc.readings PARTITION BY origin
  INTO nyc.bulletin
  AS SELECT
    CAST(_tlocaltime / 1000000 AS TIMESTAMP) AS issued,
    count(*)  AS records,
    min(temp) AS coldest,
    max(temp) AS warmest
  FROM %%trows;
