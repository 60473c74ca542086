"""CREATE STREAM: everything that can be wrong is found before anything is made."""
