#!/bin/bash
# Writes every kind of FIT and what it answers, in the layout of the build as it is, into
# a new folder beside the earlier ones: testdata/gen/fits.sh build/bglm testdata/fits/2.
# What is there is never written again: programs have such files.
set -euo pipefail
bglm=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
mkdir "$2"
cd "$2"

# By SQL: a column fit, in Parquet, JSON and a database.
{
  cat "$here/fits.sql"
  echo "CREATE TABLE answers AS"
  cat "$here/../fits/answers.sql"
  cat <<'SQL'
COPY (SELECT name, what, answer::VARCHAR AS answer, text FROM answers ORDER BY ALL) TO 'answers.csv';
COPY fits TO 'fits.parquet' (COMPRESSION zstd);
COPY softmaxes TO 'softmaxes.parquet' (COMPRESSION zstd);
COPY processes TO 'processes.parquet' (COMPRESSION zstd);
COPY fits TO 'fits.json.gz';
COPY d TO 'd.parquet' (COMPRESSION zstd);
COPY (FROM d WHERE i % 17 = 3) TO 'rows.csv';
ATTACH 'sql.duckdb' AS db (BLOCK_SIZE 16384);
CREATE TABLE db.fits AS FROM fits;
CREATE TABLE db.softmaxes AS FROM softmaxes;
CREATE TABLE db.processes AS FROM processes;
DETACH db;
SQL
} >make.sql
"$bglm" sql make.sql
gzip -n9 sql.duckdb
rm make.sql

# By the command line: one fit a file, and what it predicts.
mkdir kinds predictions
predict() { # file name
  "$bglm" predict -q --beliefs "$1" rows.csv --columns none ${3:---dist} --out "predictions/$2.csv"
}
fit() { # name y flags...
  local name=$1 y=$2
  shift 2
  "$bglm" fit -q d.parquet --order i --y "$y" --x '{a: u, s: s}' "$@" --out "kinds/$name.parquet"
  "$bglm" fit -q d.parquet --order i --y "$y" --x '{a: u, s: s}' "$@" --out "kinds/$name.arrow"
  predict "kinds/$name.parquet" "$name"
}
fit adf_diagonal y --method adf -o covariance=diagonal
fit adf_full y --method adf -o covariance=full
fit adf_lowrank y --method adf -o covariance=lowrank -o rank=3
fit adf_time y --method adf -o covariance=diagonal -o process_noise=0.01 -o time=i/4
fit adf_hash y --method adf -o covariance=diagonal -o hash_bits=4
fit adf_probit y --method adf -o covariance=diagonal -o link=probit -o prior_mean=0.25 -o prior_variance=2 -o intercept_variance=3
fit adf_gaussian w --method adf -o family=gaussian -o covariance=full -o dispersion=0.5
fit adf_poisson c --method adf -o family=poisson -o covariance=diagonal
fit adf_binomial 'least(c, m)' --method adf -o family=binomial -o covariance=diagonal -o trials=m
fit ep_full y --method ep -o link=probit -o covariance=full
fit laplace_full y --method laplace -o hessian=full
fit laplace_diagonal y --method laplace -o hessian=diagonal
fit laplace_lowrank y --method laplace -o hessian=lowrank -o rank=2
fit laplace_negbinomial c --method laplace -o family=negbinomial -o shape=2.5
fit laplace_studentt w --method laplace -o family=studentt -o shape=5 -o dispersion=0.75
fit lowrank y --method lowrank -o rank=3
fit sequential_laplace y --method sequential_laplace
fit variational y --method variational
fit ekf y --method ekf
fit hmc y --method hmc -o samples=200 -o warmup=200 -o chains=2 -o seed=1
fit skipped 'NULL::BOOLEAN' --method adf -o covariance=diagonal -o intercept=false
"$bglm" fit -q d.parquet --order i --y k --x '{a: u, s: s}' --method softmax --out kinds/softmax.parquet
"$bglm" fit -q d.parquet --order i --y k --x '{a: u, s: s}' --method softmax --out kinds/softmax.arrow
"$bglm" fit -q d.parquet --order i --y k --x '{a: u, s: s}' --method softmax -o reference=mid --out kinds/softmax_reference.parquet
"$bglm" fit -q d.parquet --where 'i < 20' --order i --y y --x '[u, i / 60]' --method gp -o lengthscale=0.5 --out kinds/gp.parquet
predict kinds/softmax.parquet softmax ' '
predict kinds/softmax_reference.parquet softmax_reference ' '
predict kinds/gp.parquet gp

# Groups: one column and several, of several types and with NULL.
for out in parquet arrow duckdb csv json; do
  "$bglm" fit -q d.parquet --method adf --order i --formula 'y ~ u + s' --group g1 --out "group.$out"
  "$bglm" fit -q d.parquet --method adf --order i --formula 'w ~ u + s' -o family=gaussian -o covariance=full -o dispersion=0.5 --group 'g1, g2, g3' --out "groups.$out"
done
"$bglm" fit -q d.parquet --order i --y c --x '{a: u}' --method softmax -o hessian=full --group g2 --out softmax_groups.parquet
"$bglm" fit -q d.parquet --method adf --engine arrow --formula 'y ~ u + s' --group 'g2, g3' --out arrow_groups.parquet
predict group.parquet group
predict groups.parquet groups
predict arrow_groups.parquet arrow_groups
predict softmax_groups.parquet softmax_groups ' '
gzip -n9 group.duckdb groups.duckdb

# Plain tables: what CSV and JSON hold of a fit.
"$bglm" fit -q d.parquet --method adf --order i --y y --x '{a: u, s: s}' -o covariance=diagonal --out plain.csv
"$bglm" fit -q d.parquet --method adf --order i --y y --x '{a: u, s: s}' -o covariance=diagonal --out plain.json
du -sb .
