# Programs, benchmarks and fuzz targets.
