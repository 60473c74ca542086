-- How warm each room is. What no sensor can measure is left out.
CREATE STREAM rooms_hourly_stream
  INTERVAL(${window}) SLIDING(${window})
  FROM readings PARTITION BY room
  STREAM_OPTIONS(FILL_HISTORY | EXACT | PRE_FILTER(celsius < ${hottest}))
  INTO rooms_hourly
  AS SELECT
    _twstart     AS hour,
    count(*)     AS measured,
    avg(celsius) AS mean,
    max(celsius) AS warmest
  FROM %%trows;
