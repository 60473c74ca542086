"""When a stream fires: one module per trigger kind, as SQL over changed rows and group state."""
