"""What a firing computes: the calculation of a stream as one Spark SQL query over all its windows."""
