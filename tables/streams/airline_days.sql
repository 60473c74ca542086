-- Each airline's days (UTC), and the weather in the hours of its departures: a query in Spark's own SQL. A change of
-- a flight, of the weather or of an airline's record reaches the days that it touches.
CREATE MATERIALIZED VIEW IF NOT EXISTS nyc.airline_days AS
  SELECT
    a.name                    AS airline,
    window.start              AS day,
    count(*)                  AS flights,
    count(f.dep_delay)        AS departed,
    avg(f.dep_delay)          AS mean_delay,
    count_if(w.precip > 0)    AS flights_in_rain,
    min(w.visib)              AS min_visib
  FROM nyc.flights f
  JOIN nyc.airlines a ON a.carrier = f.carrier
  LEFT JOIN nyc.weather w ON w.origin = f.origin AND w.ts = date_trunc('hour', f.ts)
  GROUP BY window(f.ts, '1 day'), a.name;
