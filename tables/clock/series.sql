-- The same day as time series, and their means of six hours, computed when these are over.
CREATE DATABASE root.nyc;
CREATE CQ mean_temperature
RESAMPLE EVERY 6h BOUNDARY 2013-01-15T06:00:00-05:00
BEGIN
  SELECT avg(temp), count(temp) INTO root.mean.::(temp, records)
  FROM root.nyc.* GROUP BY(6h) ALIGN BY DEVICE
END;
