-- What rain does to a day's departures: a day's flights joined with the weather of the hour they were to leave.
-- The window of the day decides what is read of both tables.
CREATE STREAM IF NOT EXISTS nyc.delays_and_weather_stream
  INTERVAL(1d) SLIDING(1d)
  FROM nyc.flights PARTITION BY origin
  STREAM_OPTIONS(FILL_HISTORY_FIRST)
  INTO nyc.delays_and_weather
  AS SELECT
    _twstart                                                    AS day,
    count(*)                                                    AS flights,
    count(*) - count(f.dep_delay)                               AS cancelled,
    avg(f.dep_delay)                                            AS mean_delay,
    count(CASE WHEN w.precip > 0 THEN 1 END)                    AS flights_in_rain,
    avg(CASE WHEN w.precip > 0 THEN f.dep_delay END)            AS mean_delay_in_rain,
    min(w.visib)                                                AS min_visib,
    max(w.wind_speed)                                           AS max_wind
  FROM nyc.flights f LEFT JOIN nyc.weather w
    ON w.origin = f.origin AND w.ts = date_trunc('hour', f.ts) AND w.ts >= _twstart AND w.ts < _twend
  WHERE f.ts >= _twstart AND f.ts < _twend AND f.origin = %%1;
