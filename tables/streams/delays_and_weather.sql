-- What rain does to a day's departures: a day's flights joined with the weather of the hour they were to leave.
-- The window of the day decides what is read of both tables; %%1 is the airport.
CREATE STREAM IF NOT EXISTS nyc.delays_and_weather_stream
  INTERVAL(1d) SLIDING(1d)
  FROM nyc.flights PARTITION BY origin
  STREAM_OPTIONS(FILL_HISTORY_FIRST | EXACT)
  INTO nyc.delays_and_weather
  AS SELECT
    _twstart AS day,
    flights,
    cancelled,
    mean_delay,
    flights_in_rain,
    mean_delay_in_rain,
    min_visib,
    max_wind
  FROM (
    SELECT
      count(*)                                                     AS flights,
      count(*) - count(flights.dep_delay)                          AS cancelled,
      avg(flights.dep_delay)                                       AS mean_delay,
      count(CASE WHEN weather.precip > 0 THEN 1 END)               AS flights_in_rain,
      avg(CASE WHEN weather.precip > 0 THEN flights.dep_delay END) AS mean_delay_in_rain,
      min(weather.visib)                                           AS min_visib,
      max(weather.wind_speed)                                      AS max_wind
    FROM nyc.flights LEFT JOIN nyc.weather
      ON weather.origin = flights.origin AND weather.ts = date_trunc('hour', flights.ts)
      AND weather.ts >= _twstart AND weather.ts < _twend
    WHERE flights.ts >= _twstart AND flights.ts < _twend AND flights.origin = %%1
  );
