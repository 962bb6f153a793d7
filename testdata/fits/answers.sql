-- What the FITs of the tables fits, softmaxes and processes answer: name, what, answer
-- (numbers) and text. One statement: tests run it over every way to store a FIT.
WITH p AS (SELECT j, x FROM (VALUES (1, {a: 0.5, s: 'k1', q: 0}), (2, {a: -1.25, s: 'k9', q: 0}), (3, {a: 3.0, s: 'k0', q: 2})) t(j, x)),
  f AS (SELECT name, fit FROM fits WHERE name <> 'adf_dense'),
  dense AS (SELECT name, fit FROM fits WHERE name = 'adf_dense'),
  dist AS (SELECT name, j, bglm_predict_dist(fit, x) AS r FROM f, p UNION ALL SELECT name, j, bglm_predict_dist(fit, [x.a, x.q, 1.5]) FROM dense, p
    UNION ALL SELECT name, j, bglm_predict_dist(fit, [x.a, 0.5]) FROM processes, p WHERE name = 'gp' UNION ALL SELECT name, j, bglm_predict_dist(fit, [x.a]) FROM processes, p WHERE name <> 'gp'),
  influence AS (SELECT name, j, bglm_influence(fit, 1, x) AS r FROM f, p WHERE name <> 'adf_binomial' UNION ALL SELECT name, j, bglm_influence(fit, 1, x, {trials: 2}) FROM f, p WHERE name = 'adf_binomial'),
  updated AS (SELECT name, bglm_update(fit, [{y: 1, x: {a: 0.5, s: 'k1'}}, {y: 1, x: {a: -0.5, s: 'k7'}}]) AS r FROM f WHERE name <> 'adf_binomial'
    UNION ALL SELECT name, bglm_update(fit, [{y: 1, x: {a: 0.5, s: 'k1'}, trials: 3}, {y: 1, x: {a: -0.5, s: 'k7'}, trials: 2}]) FROM f WHERE name = 'adf_binomial'),
  merged AS (SELECT name, bglm_merge(fit) AS r FROM (FROM f UNION ALL FROM f) WHERE name IN ('adf_diagonal', 'adf_full', 'adf_lowrank', 'adf_time', 'adf_plain', 'laplace_full', 'merged', 'ekf') GROUP BY name)
SELECT name, 'head' AS what, [fit.shape, fit.dispersion, fit.intercept::INT, fit.hash_bits, fit.prior.mean, fit.prior.variance, fit.prior.intercept_variance, fit."time", fit.covariance.rank,
    fit.n, fit.n_skipped, fit.log_evidence, fit.iterations, fit.converged::INT] AS answer, concat_ws('|', fit.method, fit.family, fit.link, fit.covariance.kind, fit.status) AS text FROM fits
UNION ALL SELECT name, 'beliefs', flatten([[b.mean, b.variance] FOR b IN bglm_beliefs(fit)]), array_to_string([b.feature FOR b IN fit.beliefs], '|') FROM fits
UNION ALL SELECT name, 'covariance', fit.covariance.values, NULL FROM fits
UNION ALL SELECT name, 'predict', list(bglm_predict(fit, x) ORDER BY j), NULL FROM f, p GROUP BY name
UNION ALL SELECT name, 'predict', list(bglm_predict(fit, [x.a, x.q, 1.5]) ORDER BY j), NULL FROM dense, p GROUP BY name
UNION ALL SELECT name, 'predict_dist', flatten(list([r.eta_mean, r.eta_variance, r.mean, r.variance, r.lower, r.upper] ORDER BY j)), NULL FROM dist GROUP BY name
UNION ALL SELECT name, 'sample', list(bglm_sample(fit, x, 7, 1) ORDER BY j), NULL FROM f, p GROUP BY name
UNION ALL SELECT name, 'influence', flatten(list([r.residual, r.curvature, r.leverage, r.loo_log_density] ORDER BY j)), NULL FROM influence GROUP BY name
UNION ALL SELECT name, 'update', flatten([[b.mean, b.variance] FOR b IN r.beliefs]) || [r.n, r.log_evidence, r."time"], array_to_string([b.feature FOR b IN r.beliefs], '|') FROM updated
UNION ALL SELECT name, 'merge', flatten([[b.mean, b.variance] FOR b IN r.beliefs]) || [r.n, r.log_evidence, r."time"], NULL FROM merged
UNION ALL SELECT name, 'head', [fit.prior.mean, fit.prior.variance, fit.prior.intercept_variance, fit.n, fit.n_skipped, fit.log_evidence, fit.iterations, fit.converged::INT], concat_ws('|', fit.method, fit.family, fit.link, fit.covariance.kind, fit.status) FROM softmaxes
UNION ALL SELECT name, 'beliefs', flatten([[b.mean, b.variance] FOR b IN bglm_beliefs(fit)]), array_to_string([b.class || ':' || b.feature FOR b IN bglm_beliefs(fit)], '|') FROM softmaxes
UNION ALL SELECT name, 'covariance', fit.covariance.values, NULL FROM softmaxes
UNION ALL SELECT name, 'predict', flatten(list(map_values(bglm_predict(fit, x)) ORDER BY j)), array_to_string(map_keys(any_value(bglm_predict(fit, x))), '|') FROM softmaxes, p GROUP BY name
UNION ALL SELECT name, 'head', [fit.lengthscale, fit.signal_variance, fit.mean, fit.n, fit.log_evidence, fit.shape, fit.dispersion], concat_ws('|', fit.family, fit.link, fit.kernel, fit.status) FROM processes
ORDER BY ALL;
