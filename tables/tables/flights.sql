-- Every flight that was to leave New York: one subtable per airport and carrier (flights_jfk_b6, ...).
-- ts is the scheduled departure, which a cancelled flight has too. Many flights are scheduled for the same
-- minute, so the flight number is the second part of the key: no two flights of a carrier share it at one
-- minute and airport. departed, dep_delay and arr_delay (minutes) are NULL for what did not happen.
CREATE STABLE IF NOT EXISTS nyc.flights (
  ts        TIMESTAMP,
  flight    INT COMPOSITE KEY,
  dest      VARCHAR(3),
  tailnum   VARCHAR(6),
  departed  TIMESTAMP,
  dep_delay INT,
  arr_delay INT,
  air_time  INT,
  distance  INT
) TAGS (origin VARCHAR(3), carrier VARCHAR(2));
