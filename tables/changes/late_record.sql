-- The strongest gust of the night at LaGuardia: its record comes when the year is over.
INSERT INTO nyc.weather_lga
  (ts, temp, dewp, humid, wind_dir, wind_speed, wind_gust, precip, visib)
  VALUES ('2013-01-31 03:00:00', 57.02, 53.96, 93.65, 180, 35.67418, 62.14212, 0.15, 2);
