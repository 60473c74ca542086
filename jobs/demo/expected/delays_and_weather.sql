-- Every day of the file has flights from each airport, so grouping finds each window; the last day is still open.
SELECT
  origin,
  local_midnight(date)                          AS day,
  count(*)                                      AS flights,
  count(*) FILTER (dep_time IS NULL)            AS cancelled,
  avg(dep_delay)                                AS mean_delay,
  count(*) FILTER (precip > 0)                  AS flights_in_rain,
  avg(dep_delay) FILTER (precip > 0)            AS mean_delay_in_rain,
  min(visib)                                    AS min_visib,
  max(wind_speed)                               AS max_wind
FROM flights LEFT JOIN (SELECT origin, time_hour, precip, visib, wind_speed FROM weather) USING (origin, time_hour)
GROUP BY origin, date
HAVING local_midnight(date + 1) <= (SELECT max(m.scheduled) FROM flights m WHERE m.origin = flights.origin)
ORDER BY origin, day
