-- The airlines by their carrier codes. ts is the same for all: what counts is the newest record of a carrier.
CREATE TABLE IF NOT EXISTS nyc.airlines (
  ts      TIMESTAMP,
  carrier VARCHAR(2) COMPOSITE KEY,
  name    VARCHAR(40)
);
