-- The weather of each day and airport. A day is written when the first record of the next day arrives.
-- The airport is the end of the subtable's name: weather_jfk.
CREATE STREAM IF NOT EXISTS nyc.weather_daily_stream
  INTERVAL(1d) SLIDING(1d)
  FROM nyc.weather PARTITION BY tbname
  STREAM_OPTIONS(FILL_HISTORY_FIRST | EXACT)
  INTO nyc.weather_daily
  OUTPUT_SUBTABLE(concat('daily_', %%1))
  TAGS (origin VARCHAR(3) AS upper(right(%%1, 3)))
  AS SELECT
    _twstart        AS day,
    count(*)        AS records,
    avg(temp)       AS mean_temp,
    min(temp)       AS min_temp,
    max(temp)       AS max_temp,
    spread(temp)    AS temp_range,
    sum(precip)     AS rain,
    first(pressure) AS first_pressure,
    last(pressure)  AS last_pressure
  FROM %%trows;
