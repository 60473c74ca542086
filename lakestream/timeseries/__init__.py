"""IoTDB's tree of time series: points, queries, continuous queries, triggers."""
