"""Lakes that earlier versions made, kept as archives: what is written must be read by every later one."""
