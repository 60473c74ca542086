-- SkyWest's record had its name in two words. Its days change, and no other airline's.
UPDATE nyc.airlines SET name = 'SkyWest Airlines Inc.' WHERE carrier = 'OO';
