-- Departures of each hour and airport and how late they were; hours without flights (at night) are left out.
-- Grouping by the tag origin makes one timeline of an airport's carriers.
CREATE STREAM IF NOT EXISTS nyc.departures_hourly_stream
  INTERVAL(1h) SLIDING(1h)
  FROM nyc.flights PARTITION BY origin
  STREAM_OPTIONS(FILL_HISTORY_FIRST | IGNORE_NODATA_TRIGGER | EXACT)
  INTO nyc.departures_hourly
  AS SELECT
    _twstart         AS hour,
    count(*)         AS scheduled,
    count(dep_delay) AS departed,
    avg(dep_delay)   AS mean_delay,
    max(dep_delay)   AS max_delay
  FROM %%trows;
