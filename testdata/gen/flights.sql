-- Cuts testdata/flights.parquet, every sixth flight in time order, from
-- data/flights-3m.parquet. From the top of the repository:
--
--   testdata/gen/fetch-data.sh
--   go run ./cmd/bglm sql testdata/gen/flights.sql
--
-- The row number decides, not a random number or a hash: the same 500,000 rows
-- each time, evenly spread over the six months.
SET threads = 1;
SET preserve_insertion_order = true;

COPY (
    SELECT "date"::TIMESTAMP AS "date", delay::SMALLINT AS delay, distance::SMALLINT AS distance, origin, destination
    FROM read_parquet('data/flights-3m.parquet', file_row_number = true)
    WHERE file_row_number % 6 = 0
    ORDER BY file_row_number
) TO 'testdata/flights.parquet' (
    -- Version 2 stores ascending times as packed differences: 0.1 MB for 0.6 MB.
    FORMAT parquet, PARQUET_VERSION v2,
    COMPRESSION zstd, COMPRESSION_LEVEL 22,
    -- Several row groups, so that a scan can use several threads.
    ROW_GROUP_SIZE 122880
);

SELECT count(*) AS "rows", min("date") AS "first", max("date") AS "last",
       count(DISTINCT origin) AS origins, avg((delay > 15)::INTEGER) AS late
FROM 'testdata/flights.parquet';
