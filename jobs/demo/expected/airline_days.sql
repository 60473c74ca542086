-- A view shows a day from its first flight on: the last one too.
SELECT
  name                                                       AS airline,
  date_trunc('day', scheduled)                               AS day,
  count(*)                                                   AS flights,
  count(dep_delay)                                           AS departed,
  avg(dep_delay)                                             AS mean_delay,
  count(*) FILTER (precip > 0)                               AS flights_in_rain,
  min(visib)                                                 AS min_visib
FROM flights JOIN airlines USING (carrier)
  LEFT JOIN (SELECT origin, time_hour, precip, visib FROM weather) USING (origin, time_hour)
GROUP BY name, date_trunc('day', scheduled)
ORDER BY 1, 2
