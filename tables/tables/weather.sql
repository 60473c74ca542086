-- Hourly weather at New York's three airports: one subtable per airport (weather_jfk, ...).
-- ts is the hour of the record; units as published: degrees Fahrenheit, miles per hour, inches, millibars, miles.
CREATE STABLE IF NOT EXISTS nyc.weather (
  ts         TIMESTAMP,
  temp       DOUBLE,
  dewp       DOUBLE,
  humid      DOUBLE,
  wind_dir   INT,
  wind_speed DOUBLE,
  wind_gust  DOUBLE,
  precip     DOUBLE,
  pressure   DOUBLE,
  visib      DOUBLE
) TAGS (origin VARCHAR(3));
