-- time_hour is the hour of the scheduled departure; hours without flights give no row.
SELECT
  origin,
  time_hour        AS hour,
  count(*)         AS scheduled,
  count(dep_delay) AS departed,
  avg(dep_delay)   AS mean_delay,
  max(dep_delay)   AS max_delay
FROM flights
GROUP BY origin, time_hour
HAVING time_hour + INTERVAL 1 HOUR <= (SELECT max(m.scheduled) FROM flights m WHERE m.origin = flights.origin)
ORDER BY origin, hour
