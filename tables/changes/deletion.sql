-- The shuttle 2120 to Boston was entered twice, the second time under a number that no flight has.
DELETE FROM nyc.flights_lga_us
  WHERE ts = '2013-01-31 09:00:00-05:00' AND flight = 2210;
