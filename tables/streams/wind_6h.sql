-- The wind of the last six hours, every hour: each record counts in six windows.
CREATE STREAM IF NOT EXISTS nyc.wind_6h_stream
  INTERVAL(6h) SLIDING(1h)
  FROM nyc.weather PARTITION BY origin
  STREAM_OPTIONS(FILL_HISTORY_FIRST | EXACT)
  INTO nyc.wind_6h
  AS SELECT
    _twstart        AS since,
    _twend          AS until,
    count(*)        AS records,
    avg(wind_speed) AS mean_wind,
    max(wind_speed) AS max_wind,
    max(wind_gust)  AS max_gust
  FROM %%trows;
