-- bglm.sql: table macros over the functions of bglm.
--
--     LOAD 'bglm.duckdb_extension';
--     .read bglm.sql
--
-- The script creates macros with their comments in the current schema, and nothing else;
-- running it again replaces them. In a client without .read, bglm_macros() returns its text.
--
-- Give a table by its name as text, which may be 'file.parquet' or the name of a CTE, or as
-- a query in quotes that begins with SELECT, FROM, WITH or a bracket. Dollar quotes are
-- handy for queries: $$SELECT * FROM visits WHERE age > 3$$. Columns are expressions over
-- that table and need no quotes. Name arguments with a default by :=.
--
-- Each name means one thing: tbl and rows are tables of rows; fits is a table with FITs in
-- its column fit; beliefs, a and b are tables of beliefs, with the columns feature, mean
-- and variance. One in place of the other is an error that says so; bglm_weights(fits)
-- turns a table with FITs into a table of beliefs.
--
-- The examples below run in this order as part of the tests; "-- >" lines are
-- what they print.
--
-- Two clinics, the age in decades and whether a treatment worked:
--
--     CREATE OR REPLACE TEMP TABLE visits AS
--       SELECT i, 'clinic ' || i % 2 AS clinic, 2 + i % 6 AS age, i % 5 < 2 AS cured FROM range(60) t(i);
--
-- bglm_fit_by(tbl, grp, y, x, opts := NULL)
--   One fit for each value of grp. opts are those of bglm_fit and may use columns
--   ({weight: w}); the option method names the engine (default 'auto'). Give
--   several grouping columns as one STRUCT: {a: a, b: b}. Rows are absorbed in no
--   fixed order; use bglm_fit_by_ordered if the order matters (drift, bit-equal
--   repeats). The result has grp and fit, in no fixed order.
--
--     CREATE OR REPLACE TEMP TABLE fits AS FROM bglm_fit_by('visits', clinic, cured, {age: age},
--       opts := {link: 'probit', method: 'adf', covariance: 'diagonal', standardize: false});
--     SELECT grp, fit.n, fit.link FROM fits ORDER BY grp;
--     -- > clinic 0 | 30 | probit
--     -- > clinic 1 | 30 | probit
--     SELECT grp, fit.method FROM bglm_fit_by('visits', clinic, cured, {age: age}, opts := {method: 'laplace'}) ORDER BY grp;
--     -- > clinic 0 | laplace
--     -- > clinic 1 | laplace
--
-- bglm_fit_by_ordered(tbl, grp, y, x, ord, opts := NULL)
--   Like bglm_fit_by, with the rows of each group absorbed in the order of ord.
--
--     SELECT grp, fit.n FROM bglm_fit_by_ordered('visits', clinic, cured, {age: age / 10}, i, opts := {forgetting: 0.99}) ORDER BY grp;
--     -- > clinic 0 | 30
--     -- > clinic 1 | 30
--
-- bglm_compress(tbl, y, x, family := 'bernoulli', weight := 1, offset_ := 0, trials := 1)
--   Pools the rows of a table that have equal x into few, without loss. The result
--   has x, y, weight, offset_ and trials, which become options of the fit, and n,
--   how many rows were pooled. bernoulli, binomial, poisson and negbinomial give
--   one row for each response, trials and offset, and weight counts them. gaussian
--   (link identity) and gamma give two rows of half the weight each, with the same
--   mean and square, or the same arithmetic and geometric mean, as all rows;
--   responses that no fit accepts stay rows of their own. Rows with a NULL are left
--   out. Another family, or a negative weight, is an error. A fit of these rows is
--   that of all rows, except for n, the counts of its columns and, for gamma with
--   offsets, their weighted sum in log_evidence. The option compress of
--   bglm_laplace, bglm_hmc and bglm_fit keeps still fewer rows, with sums over
--   counts and exposures.
--
--     CREATE OR REPLACE TEMP TABLE few AS FROM bglm_compress('visits', cured, {clinic: clinic, age: age});
--     SELECT count(*), sum(weight), sum(n) FROM few;
--     -- > 12 | 60 | 60
--     SELECT abs(a.fit.log_evidence - b.fit.log_evidence) < 1e-6 AS same
--       FROM (SELECT bglm_laplace(y, x, {weight: weight}) AS fit FROM few) a,
--            (SELECT bglm_laplace(cured, {clinic: clinic, age: age}) AS fit FROM visits) b;
--     -- > true
--
-- bglm_weights(fits, sd := 1.959963984540054)
--   The weights of all fits in the column fit of a table. The result has the other
--   columns of the table, then feature, mean, variance, lower and upper (mean -+ sd
--   standard deviations, by default the central 95 %) and z = mean / standard
--   deviation (NULL for a known weight). The weights of each fit are in belief
--   order. For fits with classes (bglm_softmax), class follows variance.
--
--     SELECT feature, round(mean, 3), round(lower, 3), round(upper, 3) FROM bglm_weights('fits') WHERE grp = 'clinic 0';
--     -- > (Intercept) | 0.754 | 0.204 | 1.304
--     -- > age | -0.245 | -0.375 | -0.114
--
-- bglm_score(rows, beliefs, link := 'logit', intercept := true, prior_mean := 0.0,
--   prior_variance := 1.0, intercept_variance := 10.0, dispersion := 1.0, family := NULL)
--   Predictions by a join, for belief tables of millions of weights that are too
--   long for one FIT value. rows names a table with the columns id and features
--   (LIST(STRUCT(feature, value)), or any other x of bglm_predict); beliefs names a
--   table with feature, mean and variance. The result has, for each row of rows,
--   its id, eta_mean and eta_variance (of the linear predictor) and prediction (the
--   expected response). bglm_score knows the beliefs and nothing else of a fit: the
--   result is that of bglm_predict and bglm_predict_dist with a FIT of
--   bglm_from_beliefs, to rounding. It is that of the original fit if its
--   covariance is 'diagonal', the options are the fit's and no value is missing.
--   With another covariance eta_mean is equal, but eta_variance, and with it
--   prediction, is not. Features without a belief, the intercept and levels never
--   seen included, have the prior that the arguments give (a fit that learnt prior
--   variances has another one for levels never seen). NULL features give NULL. A
--   column that is NULL or missing counts for nothing and is no error, because a
--   table of beliefs has no columns and no means; if values may be missing, score
--   with bglm_predict, which uses the mean or reports what is missing. Features
--   that a row names twice are summed first. ids may repeat. A feature with two
--   beliefs is an error, and so is a belief that is not a finite mean and a
--   variance >= 0. Cost: one pass over both tables and a hash join that spills; the
--   rows come in no fixed order.
--
--     CREATE OR REPLACE TEMP TABLE weights AS
--       FROM (VALUES ('(Intercept)', -1.0, 0.1), ('age', 0.5, 0.2)) t(feature, mean, variance);
--     CREATE OR REPLACE TEMP TABLE patients AS
--       FROM (VALUES (1, [{feature: 'age', value: 2.0}]), (2, [{feature: 'weight', value: 1.0}]), (3, [])) t(id, features);
--     SELECT id, eta_mean, round(eta_variance, 3), round(prediction, 6) FROM bglm_score('patients', 'weights', link := 'probit') ORDER BY id;
--     -- > 1 | 0 | 0.9 | 0.5
--     -- > 2 | -1 | 1.1 | 0.245076
--     -- > 3 | -1 | 0.1 | 0.170178
--
-- bglm_compare(a, b)
--   Compares two belief tables (feature, mean, variance), of which a is the older.
--   The result has mean_a, variance_a, mean_b, variance_b, difference = mean_b -
--   mean_a, z = difference / sqrt(variance_a + variance_b) and kl = KL(b || a) in
--   nats, the surprise of going from a to b (Infinity if one side is certain and
--   the other differs). Values are NULL if one side lacks the feature. Rows are in
--   belief order. Tables with a column class are compared class by class. Beliefs
--   that bglm_score refuses are errors here too.
--
--     CREATE OR REPLACE TEMP TABLE newer AS
--       FROM (VALUES ('(Intercept)', -1.0, 0.1), ('age', 1.0, 0.05), ('smoker', 0.3, 0.4)) t(feature, mean, variance);
--     SELECT feature, difference, z, round(kl, 4) FROM bglm_compare('weights', 'newer');
--     -- > (Intercept) | 0 | 0 | 0
--     -- > age | 0.5 | 1 | 0.9431
--     -- > smoker | NULL | NULL | NULL
--
-- bglm_compare_fits(fits, rows, y, x, opts := NULL)
--   Compares fits by how well each predicts the rows that it learnt from, with
--   every row left out in turn. The table fits has the name of each fit in the
--   column name. The result has a row for each fit, the best first, with the fields
--   of bglm_loo_compare. y and x are expressions over the table rows; x has the
--   columns of all the fits. opts are the weight, offset and trials that the fits
--   were given, which a FIT does not keep. Fits that are NULL are left out.
--   (bglm_compare(a, b) compares two tables of weights.)
--
--     CREATE OR REPLACE TEMP TABLE models AS
--       SELECT 'age' AS name, bglm_fit(cured, {age: age}) AS fit FROM visits
--       UNION ALL SELECT 'age and clinic', bglm_fit(cured, {age: age, clinic: clinic}) FROM visits;
--     SELECT name, round(elpd_diff, 1), round(se_diff, 1), n FROM bglm_compare_fits('models', 'visits', cured, {age: age, clinic: clinic});
--     -- > age | 0 | 0 | 60
--     -- > age and clinic | -0.6 | 0 | 60
--
-- bglm_contrasts(fits, x, column)
--   Compares all pairs of the levels of a column (bglm_pairs), for the fits in the
--   column fit of a table. The result has the other columns of the table, then a,
--   b, mean, sd, lower, upper, p_positive and response. x is a STRUCT with the
--   columns of the fits, which sets the values of all other columns.
--
--     SELECT name, a, b, round(p_positive, 2) FROM bglm_contrasts('models', {age: 4, clinic: 'clinic 0'}, 'clinic') WHERE name = 'age and clinic';
--     -- > age and clinic | clinic 0 | clinic 1 | 0.5
--
-- bglm_evaluate(tbl, y, p)
--   Measures the probabilities p of the outcomes y. The result has n (rows in which
--   neither is NULL), log_loss, auc and brier.
--
--     SELECT n, round(log_loss, 4), auc, round(brier, 4) FROM bglm_evaluate('visits', cured, 0.3 + age / 20);
--     -- > 60 | 0.7198 | 0.5 | 0.2629
--
-- bglm_belief_rank(feature)
--   A number that sorts features in belief order: ORDER BY
--   bglm_belief_rank(feature), feature. 0 for the intercept, k for dense position
--   k, the largest BIGINT for names.
--
--     SELECT list(f ORDER BY bglm_belief_rank(f), f) FROM (VALUES ('10'), ('9'), ('b'), ('(Intercept)'), ('Z')) t(f);
--     -- > [(Intercept), 9, 10, Z, b]
--
-- bglm_source(tbl)
--   How the other macros read a table: the query that its name or text stands for.
--
--     SELECT feature FROM bglm_weights($$SELECT fit FROM fits WHERE grp = 'clinic 1'$$);
--     -- > (Intercept)
--     -- > age
--
-- bglm_needs(fit, name)
--   The FIT, or an error of the macro name if its table has no column fit.
--
-- bglm_is_belief(feature, mean, variance, name)
--   Whether a row is a belief, or an error of the argument name if its table has
--   none.
--
-- bglm_bounded(x, least, name)
--   The number x of the argument name, or an error if it is not finite or is less
--   than least.

CREATE OR REPLACE MACRO bglm_source(tbl) AS
  CASE WHEN regexp_matches(tbl, '^\s*(\(|(select|from|with)\s)', 'i') THEN 'FROM (' || tbl || chr(10) || ')'
       ELSE 'FROM query_table(''' || replace(tbl, '''', '''''') || ''')' END;

-- A table without the column fit has that of the one row before it, of this type.
CREATE OR REPLACE MACRO bglm_needs(fit, name) AS
  CASE WHEN typeof(fit) LIKE 'STRUCT(bglm_none%'
       THEN error(name || ': fits has no column fit; allowed: a table with FITs in its column fit, such as CREATE TABLE fits AS SELECT bglm_fit(y, x) AS fit FROM rows (a table of beliefs is for bglm_score and bglm_compare)')
       ELSE fit END;

CREATE OR REPLACE MACRO bglm_is_belief(feature, mean, variance, name) AS
  CASE WHEN feature IS NOT NULL AND NOT coalesce(isfinite(mean::DOUBLE), false)
       THEN error(name || ': feature "' || feature || '" has the mean ' || coalesce(mean::VARCHAR, 'NULL') || '; a finite number is needed')::BOOLEAN
       WHEN feature IS NOT NULL AND NOT coalesce(isfinite(variance::DOUBLE) AND variance::DOUBLE >= 0, false)
       THEN error(name || ': feature "' || feature || '" has the variance ' || coalesce(variance::VARCHAR, 'NULL') || '; a finite number >= 0 is needed')::BOOLEAN
       WHEN feature IS NOT NULL THEN true
       WHEN mean IS NULL AND variance IS NULL
       THEN error(name || ' has neither feature nor mean nor variance; allowed: a table of beliefs with these columns, which bglm_weights makes of a table with FITs')::BOOLEAN
       ELSE false END;

CREATE OR REPLACE MACRO bglm_bounded(x, least, name) AS
  CASE WHEN x IS NULL OR isfinite(x::DOUBLE) AND x::DOUBLE >= least::DOUBLE THEN x::DOUBLE
       ELSE error(name || ': found ' || x::VARCHAR || '; allowed: a finite number' || CASE WHEN least::DOUBLE = 0 THEN ' >= 0' ELSE '' END)::DOUBLE END;

CREATE OR REPLACE MACRO bglm_fit_by(tbl, grp, y, x, opts := NULL) AS TABLE
  SELECT grp AS grp, bglm_fit(y, x, opts) AS fit
  FROM query(bglm_source(tbl))
  GROUP BY ALL;

CREATE OR REPLACE MACRO bglm_fit_by_ordered(tbl, grp, y, x, ord, opts := NULL) AS TABLE
  SELECT grp AS grp, bglm_fit(y, x, opts ORDER BY ord) AS fit
  FROM query(bglm_source(tbl))
  GROUP BY ALL;

-- Of a family only its own branch has rows, and that of responses of which no two rows can say
-- what all say. Squares are taken about the mean of all
-- responses, near which those of a group are.
CREATE OR REPLACE MACRO bglm_compress(tbl, y, x, family := 'bernoulli', weight := 1, offset_ := 0, trials := 1) AS TABLE
  WITH bglm_rows AS (
         SELECT x_, y_, o_, t_, f_,
                CASE WHEN isfinite(w_) AND w_ >= 0 THEN w_ ELSE error('bglm_compress: weight = ' || w_ || '; allowed: finite numbers >= 0')::DOUBLE END AS w_,
                CASE f_ WHEN 'gaussian' THEN isfinite(y_ - o_) WHEN 'gamma' THEN isfinite(y_ - o_) AND y_ > 0 ELSE false END AS two_
         FROM (SELECT x AS x_, y::DOUBLE AS y_, weight::DOUBLE AS w_, offset_::DOUBLE AS o_, trials::DOUBLE AS t_, coalesce(lower(family), '') AS f_
               FROM query(bglm_source(tbl)) WHERE y IS NOT NULL AND x IS NOT NULL AND weight IS NOT NULL AND offset_ IS NOT NULL AND trials IS NOT NULL)),
       bglm_center AS (
         SELECT avg(y_ - o_) AS c_ FROM bglm_rows WHERE f_ = 'gaussian' AND two_),
       bglm_two AS (
         SELECT x_, sum(w_) AS w_, count(*) AS n_, sum(w_ * (y_ - o_ - c_)) / sum(w_) AS m_,
                sqrt(greatest(sum(w_ * (y_ - o_ - c_) ** 2) / sum(w_) - (sum(w_ * (y_ - o_ - c_)) / sum(w_)) ** 2, 0)) AS d_
         FROM bglm_rows, bglm_center WHERE f_ = 'gaussian' AND two_ AND w_ > 0 GROUP BY x_
         UNION ALL
         SELECT x_, sum(w_), count(*), sum(w_ * (ln(y_) - o_)) / sum(w_),
                2 * asinh(sqrt(greatest(exp(ln(sum(w_ * (y_ * exp(-o_))) / sum(w_)) - sum(w_ * (ln(y_) - o_)) / sum(w_)) - 1, 0) / 2))
         FROM bglm_rows WHERE f_ = 'gamma' AND two_ AND w_ > 0 GROUP BY x_)
  SELECT x_ AS x, y_ AS y, sum(w_) AS weight, o_ AS offset_, t_ AS trials, count(*)::DOUBLE AS n
  FROM bglm_rows WHERE f_ IN ('bernoulli', 'binomial', 'poisson', 'negbinomial', 'gaussian', 'gamma') AND NOT two_ GROUP BY x_, y_, o_, t_
  UNION ALL
  SELECT x_, CASE lower(family) WHEN 'gamma' THEN exp(m_ + s_ * d_) ELSE c_ + m_ + s_ * d_ END, w_ / 2, 0.0, 1, n_ / 2
  FROM bglm_two, bglm_center, (VALUES (-1), (1)) t(s_)
  UNION ALL
  SELECT x_, error('bglm_compress: family = ' || coalesce('''' || family || '''', 'NULL') || '; allowed: bernoulli, binomial, poisson, negbinomial, gaussian, gamma: those of which few rows say what all say'), 1.0, 0.0, 1, 0
  FROM bglm_rows WHERE f_ NOT IN ('bernoulli', 'binomial', 'poisson', 'negbinomial', 'gaussian', 'gamma');

CREATE OR REPLACE MACRO bglm_belief_rank(feature) AS
  CASE WHEN feature = '(Intercept)' THEN 0
       WHEN regexp_full_match(feature, '[1-9][0-9]{0,17}') THEN TRY_CAST(feature AS BIGINT)
       ELSE 9223372036854775807 END;

CREATE OR REPLACE MACRO bglm_weights(fits, sd := 1.959963984540054) AS TABLE
  SELECT COLUMNS(lambda c: lower(c) NOT IN ('fit', 'bglm_f_', 'bglm_b_'))
  FROM (SELECT *, unnest(bglm_b_),
               bglm_b_.mean - bglm_bounded(sd, 0, 'bglm_weights: sd') * sqrt(bglm_b_.variance) AS lower,
               bglm_b_.mean + bglm_bounded(sd, 0, 'bglm_weights: sd') * sqrt(bglm_b_.variance) AS upper,
               CASE WHEN bglm_b_.variance > 0 THEN bglm_b_.mean / sqrt(bglm_b_.variance) END AS z
        FROM (SELECT bglm_1.*, unnest(bglm_needs(bglm_f_, 'bglm_weights').beliefs) AS bglm_b_
              FROM (SELECT NULL::STRUCT(bglm_none BOOLEAN, beliefs STRUCT(feature VARCHAR, mean DOUBLE, variance DOUBLE)[]) AS fit) bglm_0,
                   LATERAL (SELECT *, fit AS bglm_f_ FROM query(bglm_source(fits))) bglm_1));

-- The prediction for a linear predictor N(m, v) asks a fit of two weights, one
-- known to be 1 and one N(0, 1), about the row [m, sqrt(v)]: the fit is the same
-- for all rows and is made once.
CREATE OR REPLACE MACRO bglm_score(rows, beliefs, link := 'logit', intercept := true, prior_mean := 0.0, prior_variance := 1.0,
                                   intercept_variance := 10.0, dispersion := 1.0, family := NULL) AS TABLE
  WITH bglm_rows AS (
         SELECT row_number() OVER () AS k, id AS id, features AS features FROM query(bglm_source(rows))),
       bglm_pairs AS (
         -- every row has at least one entry, so that none is lost
         SELECT k, id, unnest(CASE
             WHEN features IS NULL THEN [{feature: NULL::VARCHAR, value: NULL::DOUBLE}]
             WHEN intercept THEN bglm_features(list_append(bglm_features(features, {missing: 'absent'}), {feature: '(Intercept)', value: 1.0::DOUBLE}))
             ELSE list_append(bglm_features(features, {missing: 'absent'}), {feature: NULL::VARCHAR, value: 0.0::DOUBLE}) END) AS e
         FROM bglm_rows),
       bglm_known AS (
         SELECT feature, CASE WHEN count(*) > 1 THEN error('bglm_score: beliefs: feature "' || feature || '" has more than one belief')
                              ELSE any_value(mean::DOUBLE) END AS mean, any_value(variance::DOUBLE) AS variance
         FROM (FROM query(bglm_source(beliefs)) UNION ALL BY NAME SELECT NULL::VARCHAR AS feature, NULL::DOUBLE AS mean, NULL::DOUBLE AS variance WHERE false)
         WHERE bglm_is_belief(feature, mean, variance, 'bglm_score: beliefs') GROUP BY feature),
       bglm_prior AS MATERIALIZED ( -- of features without a belief, and checked if all have one
         SELECT bglm_bounded(prior_mean, '-inf', 'bglm_score: prior_mean') AS mean, bglm_bounded(prior_variance, 0, 'bglm_score: prior_variance') AS variance,
                bglm_bounded(intercept_variance, 0, 'bglm_score: intercept_variance') AS intercept_variance),
       bglm_eta AS (
         SELECT any_value(p.id) AS id,
                sum(p.e.value * coalesce(b.mean, o.mean)) AS eta_mean,
                sum(p.e.value * p.e.value * coalesce(b.variance,
                    CASE WHEN p.e.feature = '(Intercept)' THEN o.intercept_variance ELSE o.variance END)) AS eta_variance
         FROM bglm_pairs p CROSS JOIN bglm_prior o LEFT JOIN bglm_known b ON p.e.feature = b.feature
         GROUP BY p.k)
  SELECT id, eta_mean, eta_variance,
         bglm_predict(
           bglm_from_beliefs([{feature: '1', mean: 1.0, variance: 0.0}, {feature: '2', mean: 0.0, variance: 1.0}],
             {link: link, family: family, intercept: false, dispersion: CASE WHEN lower(link) = 'identity' THEN dispersion::DOUBLE END}),
           CASE WHEN eta_mean IS NOT NULL THEN [eta_mean, sqrt(eta_variance)] END) AS prediction
  FROM bglm_eta;

CREATE OR REPLACE MACRO bglm_compare(a, b) AS TABLE
  SELECT COLUMNS(lambda c: lower(c) IN ('feature', 'class')), mean_a, variance_a, mean_b, variance_b, mean_b - mean_a AS difference,
         CASE WHEN mean_a = mean_b THEN 0.0::DOUBLE
              WHEN variance_a + variance_b > 0 THEN (mean_b - mean_a) / sqrt(variance_a + variance_b)
              WHEN variance_a + variance_b = 0 THEN sign(mean_b - mean_a) * 'Infinity'::DOUBLE END AS z,
         CASE WHEN mean_a = mean_b AND variance_a = variance_b THEN 0.0::DOUBLE
              WHEN variance_a > 0 AND variance_b > 0
                THEN greatest(0.5 * (variance_b / variance_a - 1 - ln(variance_b / variance_a) + (mean_b - mean_a) * ((mean_b - mean_a) / variance_a)), 0)
              WHEN variance_a IS NOT NULL AND variance_b IS NOT NULL THEN 'Infinity'::DOUBLE END AS kl
  FROM (SELECT COLUMNS(lambda c: lower(c) IN ('feature', 'class')),
               CASE WHEN count(mean_a) > 1 THEN error('bglm_compare: a: feature "' || any_value(feature) || '" has more than one belief')
                    WHEN count(mean_b) > 1 THEN error('bglm_compare: b: feature "' || any_value(feature) || '" has more than one belief')
                    ELSE any_value(mean_a) END AS mean_a, any_value(variance_a) AS variance_a, any_value(mean_b) AS mean_b, any_value(variance_b) AS variance_b
        FROM (SELECT COLUMNS(lambda c: lower(c) IN ('feature', 'class')), mean::DOUBLE AS mean_a, variance::DOUBLE AS variance_a
              FROM (FROM query(bglm_source(a)) UNION ALL BY NAME SELECT NULL::VARCHAR AS feature, NULL::DOUBLE AS mean, NULL::DOUBLE AS variance WHERE false)
              WHERE bglm_is_belief(feature, mean, variance, 'bglm_compare: a')
              UNION ALL BY NAME
              SELECT COLUMNS(lambda c: lower(c) IN ('feature', 'class')), mean::DOUBLE AS mean_b, variance::DOUBLE AS variance_b
              FROM (FROM query(bglm_source(b)) UNION ALL BY NAME SELECT NULL::VARCHAR AS feature, NULL::DOUBLE AS mean, NULL::DOUBLE AS variance WHERE false)
              WHERE bglm_is_belief(feature, mean, variance, 'bglm_compare: b'))
        GROUP BY ALL)
  ORDER BY bglm_belief_rank(feature), COLUMNS(lambda c: lower(c) IN ('feature', 'class'));

CREATE OR REPLACE MACRO bglm_compare_fits(fits, rows, y, x, opts := NULL) AS TABLE
  SELECT unnest(bglm_c_, recursive := true)
  FROM (SELECT unnest(bglm_loo_compare(bglm_m_, y, x, opts)) AS bglm_c_
        FROM query(bglm_source(rows)), 
             (SELECT CASE WHEN count(DISTINCT bglm_n_::VARCHAR) < count(*)
                          THEN error('bglm_compare_fits: fits: ' || CASE WHEN count(bglm_n_) < count(*) THEN 'a name is NULL'
                                     WHEN mode(bglm_n_::VARCHAR) = '' THEN 'several fits have no name'
                                     ELSE 'several fits have the name "' || mode(bglm_n_::VARCHAR) || '"' END || '; allowed: a name of its own for each, in the column name')
                          ELSE map(list(bglm_n_::VARCHAR), list(bglm_needs(bglm_f_, 'bglm_compare_fits'))) END AS bglm_m_
              FROM (SELECT NULL::STRUCT(bglm_none BOOLEAN) AS fit, '' AS name) bglm_0, LATERAL (SELECT name AS bglm_n_, fit AS bglm_f_ FROM query(bglm_source(fits))) bglm_1));

CREATE OR REPLACE MACRO bglm_contrasts(fits, x, "column") AS TABLE
  SELECT COLUMNS(lambda c: lower(c) NOT IN ('fit', 'bglm_f_', 'bglm_p_'))
  FROM (SELECT *, unnest(bglm_p_)
        FROM (SELECT bglm_1.*, unnest(bglm_pairs(bglm_needs(bglm_f_, 'bglm_contrasts'), x, "column")) AS bglm_p_
              FROM (SELECT NULL::STRUCT(bglm_none BOOLEAN) AS fit) bglm_0, LATERAL (SELECT *, fit AS bglm_f_ FROM query(bglm_source(fits))) bglm_1));

CREATE OR REPLACE MACRO bglm_evaluate(tbl, y, p) AS TABLE
  SELECT count(*) FILTER (y IS NOT NULL AND p IS NOT NULL) AS n,
         bglm_log_loss(y, p) AS log_loss, bglm_auc(y, p) AS auc, bglm_brier(y, p) AS brier
  FROM query(bglm_source(tbl));

COMMENT ON MACRO TABLE bglm_fit_by IS 'bglm_fit_by(tbl, grp, y, x, opts := NULL): a fit for each value of grp';
COMMENT ON MACRO TABLE bglm_fit_by_ordered IS 'bglm_fit_by_ordered(tbl, grp, y, x, ord, opts := NULL): a fit for each value of grp, rows in the order of ord';
COMMENT ON MACRO TABLE bglm_compress IS 'bglm_compress(tbl, y, x, family := ''bernoulli'', weight := 1, offset_ := 0, trials := 1): rows with equal x pooled into few, without loss';
COMMENT ON MACRO TABLE bglm_weights IS 'bglm_weights(fits, sd := 1.959963984540054): the weights of a table with FITs, with intervals';
COMMENT ON MACRO TABLE bglm_score IS 'bglm_score(rows, beliefs, link := ''logit'', ...): predictions by a join, for millions of weights';
COMMENT ON MACRO TABLE bglm_compare IS 'bglm_compare(a, b): compares two tables of beliefs, the older one first';
COMMENT ON MACRO TABLE bglm_compare_fits IS 'bglm_compare_fits(fits, rows, y, x, opts := NULL): compares fits of the same rows by leave-one-out, the best first';
COMMENT ON MACRO TABLE bglm_contrasts IS 'bglm_contrasts(fits, x, column): compares all pairs of the levels of a column';
COMMENT ON MACRO TABLE bglm_evaluate IS 'bglm_evaluate(tbl, y, p): log loss, AUC and Brier score of probabilities';
COMMENT ON MACRO bglm_belief_rank IS 'bglm_belief_rank(feature): a number that sorts features in belief order';
COMMENT ON MACRO bglm_source IS 'bglm_source(tbl): the query that a table''s name or text stands for; for the other macros';
COMMENT ON MACRO bglm_needs IS 'bglm_needs(fit, name): the FIT, or an error if the table has none; for the other macros';
COMMENT ON MACRO bglm_is_belief IS 'bglm_is_belief(feature, mean, variance, name): whether a row is a belief, or an error if the table has none; for the other macros';
COMMENT ON MACRO bglm_bounded IS 'bglm_bounded(x, least, name): a number, or an error if it is out of bounds; for the other macros';
