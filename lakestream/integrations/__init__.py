"""Other people's schedulers: operators for Apache Airflow, assets for Dagster, models for dbt."""
