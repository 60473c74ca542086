"""``lakestream job``: the jobs of a bundle, here."""
