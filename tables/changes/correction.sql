-- Hawaiian Airlines 51 to Honolulu was reported one minute late. It left the next morning.
UPDATE nyc.flights_jfk_ha
  SET dep_delay = 1301, departed = '2013-01-10 06:41:00'
  WHERE ts = '2013-01-09 09:00:00-05:00' AND flight = 51;
