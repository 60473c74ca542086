-- Every day of the file has records, so grouping finds each window; the last day is still open.
SELECT
  origin,
  local_midnight(date)                     AS day,
  count(*)                                 AS records,
  avg(temp)                                AS mean_temp,
  min(temp)                                AS min_temp,
  max(temp)                                AS max_temp,
  max(temp) - min(temp)                    AS temp_range,
  sum(precip)                              AS rain,
  arg_min(pressure, time_hour)             AS first_pressure,
  arg_max(pressure, time_hour)             AS last_pressure
FROM weather
GROUP BY origin, date
HAVING local_midnight(date + 1) <= (SELECT max(m.time_hour) FROM weather m WHERE m.origin = weather.origin)
ORDER BY origin, day
