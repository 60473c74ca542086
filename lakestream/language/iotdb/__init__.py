"""The IoTDB dialect: time series, queries over the tree, continuous queries and triggers."""
