-- A bulletin is issued at the end of each quarter of the day, of the records of that quarter.
SELECT
  origin,
  local_midnight(date) + to_hours(6 * (hour // 6 + 1)) AS issued,
  count(*)  AS records,
  min(temp) AS coldest,
  max(temp) AS warmest
FROM weather
WHERE date = DATE '2013-01-15'
GROUP BY origin, date, hour // 6
ORDER BY origin, issued
