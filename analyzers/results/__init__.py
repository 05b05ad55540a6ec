"""The tables that leave rankscope: what Python, CSV and Parquet users get."""
