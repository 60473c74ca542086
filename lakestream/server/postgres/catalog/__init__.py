"""PostgreSQL's system tables, which its clients ask for databases, tables and columns."""
