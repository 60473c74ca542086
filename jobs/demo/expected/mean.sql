-- The row of a quarter of the day has the time at which it begins.
SELECT
  'root.mean.' || lower(origin)                    AS device,
  local_midnight(date) + to_hours(6 * (hour // 6)) AS ts,
  avg(temp)                                        AS temp,
  count(temp)                                      AS records
FROM weather
WHERE date = DATE '2013-01-15'
GROUP BY origin, date, hour // 6
ORDER BY device, ts
