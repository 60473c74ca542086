"""eKuiper's rules as streams: its windows, functions and options."""
