-- The demo's database. Its lake keeps New York's time: a day there has 23 hours on 10 March 2013
-- and 25 hours on 3 November 2013, and INTERVAL(1d) follows.
CREATE DATABASE IF NOT EXISTS nyc;
