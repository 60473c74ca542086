"""What every command has: the global options, the daemon, results and failures on the terminal."""
