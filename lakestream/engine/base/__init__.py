"""What every room of the engine stands on: state of groups, instants, names, crash points, refusals."""
