-- Windows start at every full hour whose six hours reach the first record; windows without records count too.
WITH bounds AS (
  SELECT origin, min(time_hour) AS first_record, max(time_hour) AS mark FROM weather GROUP BY origin
),
windows AS (
  SELECT origin, unnest(generate_series(first_record - INTERVAL 5 HOUR, mark - INTERVAL 6 HOUR, INTERVAL 1 HOUR)) AS since
  FROM bounds
)
SELECT
  windows.origin,
  windows.since,
  windows.since + INTERVAL 6 HOUR AS until,
  count(weather.time_hour)        AS records,
  avg(wind_speed)                 AS mean_wind,
  max(wind_speed)                 AS max_wind,
  max(wind_gust)                  AS max_gust
FROM windows
LEFT JOIN weather
  ON weather.origin = windows.origin AND time_hour >= since AND time_hour < since + INTERVAL 6 HOUR
GROUP BY windows.origin, since
ORDER BY windows.origin, since
