-- Every kind of FIT of the layout of today, into the folder that the command line's
-- variable dir names; see testdata/README.md. Run by gen/fits.sh.

CREATE TABLE d AS
  SELECT i, i % 7 < 3 OR i % 11 = 0 AS y, (i * 37 % 100) / 25.0 - 2 AS u, 'k' || (i * 13 % 5) AS s, (i * 7 % 5)::INT AS c, 0.25 + (i * 29 % 40) / 10.0 AS w,
    ['low', 'mid', 'top'][1 + (i * 17 % 100 + i % 13 * 5) // 55] AS k, 1 + i * 3 % 4 AS m, DATE '2024-01-01' + i::INT AS day,
    i % 3 AS g1, CASE WHEN i % 5 > 0 THEN 'g' || i % 2 END AS g2, DATE '2024-05-01' + (i % 2)::INT AS g3
  FROM range(120) t(i);

CREATE OR REPLACE TABLE fits AS
          SELECT 'adf_diagonal' AS name, bglm_adf(y, {a: u, s: s}, {covariance: 'diagonal'} ORDER BY i) AS fit FROM d
UNION ALL SELECT 'adf_full', bglm_adf(y, {a: u, s: s}, {covariance: 'full'} ORDER BY i) FROM d
UNION ALL SELECT 'adf_lowrank', bglm_adf(y, {a: u, s: s}, {covariance: 'lowrank', rank: 3} ORDER BY i) FROM d
UNION ALL SELECT 'adf_time', bglm_adf(y, {a: u, s: s}, {covariance: 'diagonal', process_noise: 0.01, time: i / 4} ORDER BY i) FROM d
UNION ALL SELECT 'adf_days', bglm_adf(y, {a: u, s: s}, {covariance: 'full', process_noise: 0.01, time: day} ORDER BY i) FROM d
UNION ALL SELECT 'adf_hash', bglm_adf(y, {a: u, s: s}, {covariance: 'diagonal', hash_bits: 4} ORDER BY i) FROM d
UNION ALL SELECT 'adf_probit', bglm_adf(y, {a: u, s: s}, {covariance: 'diagonal', link: 'probit', prior_mean: 0.25, prior_variance: 2, intercept_variance: 3} ORDER BY i) FROM d
UNION ALL SELECT 'adf_plain', bglm_adf(y, {a: u, s: s}, {covariance: 'diagonal', intercept: false, priors: [{feature: 's=k1', mean: 0.5, variance: 0.0}, {feature: 'unseen', mean: -1.0, variance: 0.25}]} ORDER BY i) FROM d
UNION ALL SELECT 'adf_gaussian', bglm_adf(w, {a: u, s: s}, {family: 'gaussian', covariance: 'full', dispersion: 0.5} ORDER BY i) FROM d
UNION ALL SELECT 'adf_poisson', bglm_adf(c, {a: u, s: s}, {family: 'poisson', covariance: 'diagonal'} ORDER BY i) FROM d
UNION ALL SELECT 'adf_binomial', bglm_adf(least(c, m), {a: u, s: s}, {family: 'binomial', covariance: 'diagonal', trials: m} ORDER BY i) FROM d
UNION ALL SELECT 'adf_dense', bglm_adf(y, [u, u * u, 1.5], {covariance: 'diagonal'} ORDER BY i) FROM d
UNION ALL SELECT 'ep_full', bglm_ep(y, {a: u, s: s}, {link: 'probit', covariance: 'full'} ORDER BY i) FROM d
UNION ALL SELECT 'ep_diagonal', bglm_ep(y, {a: u, s: s}, {covariance: 'diagonal'} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_full', bglm_laplace(y, {a: u, s: s}, {hessian: 'full'} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_diagonal', bglm_laplace(y, {a: u, s: s}, {hessian: 'diagonal'} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_block', bglm_laplace(y, {a: u, s: s}, {hessian: 'block'} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_lowrank', bglm_laplace(y, {a: u, s: s}, {hessian: 'lowrank', rank: 2} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_negbinomial', bglm_laplace(c, {a: u, s: s}, {family: 'negbinomial', shape: 2.5} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_gamma', bglm_laplace(w, {a: u, s: s}, {family: 'gamma', shape: 1.75} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_studentt', bglm_laplace(w, {a: u, s: s}, {family: 'studentt', shape: 5, dispersion: 0.75} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_cloglog', bglm_laplace(y, {a: u, s: s}, {link: 'cloglog'} ORDER BY i) FROM d
UNION ALL SELECT 'lowrank', bglm_lowrank(y, {a: u, s: s}, {rank: 3} ORDER BY i) FROM d
UNION ALL SELECT 'sequential_laplace', bglm_sequential_laplace(y, {a: u, s: s} ORDER BY i) FROM d
UNION ALL SELECT 'variational', bglm_variational(y, {a: u, s: s} ORDER BY i) FROM d
UNION ALL SELECT 'ekf', bglm_ekf(y, {a: u, s: s} ORDER BY i) FROM d
UNION ALL SELECT 'hmc', bglm_hmc(y, {a: u, s: s}, {samples: 200, warmup: 200, chains: 2, seed: 1} ORDER BY i) FROM d
UNION ALL SELECT 'merged', bglm_merge(f) FROM (SELECT bglm_adf(y, {a: u, s: s}, {covariance: 'diagonal'} ORDER BY i) AS f FROM d GROUP BY i % 2)
UNION ALL SELECT 'merged_full', bglm_merge(f) FROM (SELECT bglm_adf(w, {a: u, s: s}, {family: 'gaussian', covariance: 'full'} ORDER BY i) AS f FROM d GROUP BY i % 2)
UNION ALL SELECT 'from_beliefs', bglm_from_beliefs([{feature: 'a', mean: 0.5, variance: 0.25}, {feature: 's=k1', mean: -1.0, variance: 0.0}], {link: 'probit', prior_variance: 4})
UNION ALL SELECT 'from_beliefs_full', bglm_from_beliefs([{feature: 's=k1', mean: -1.0, variance: 0.5}, {feature: 'a', mean: 0.5, variance: 0.25}], {family: 'poisson', intercept: false, covariance: [[0.5, 0.125], [0.125, 0.25]]})
UNION ALL SELECT 'adf_arrowhead', bglm_adf(y, {a: u, s: s} ORDER BY i) FROM d
UNION ALL SELECT 'adf_arrowhead_drift', bglm_adf(w, {a: CASE WHEN i % 9 > 0 THEN u END, s: s}, {family: 'gaussian', process_noise: 0.001, time: day} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_auto', bglm_laplace(w, {a: CASE WHEN i % 9 > 0 THEN u END, s: s}, {family: 'gaussian'} ORDER BY i) FROM d
UNION ALL SELECT 'laplace_correlated', bglm_laplace(w, {a: u, s: s, 'a:s': {a: u, s: s}}, {family: 'gaussian', correlated: [['s', 'a:s']], columns: 'any'} ORDER BY i) FROM d
UNION ALL SELECT 'fit', bglm_fit(y, {a: u, s: s} ORDER BY i) FROM d
UNION ALL SELECT 'skipped', bglm_adf(NULL::BOOLEAN, {a: u, s: s}, {covariance: 'diagonal', intercept: false} ORDER BY i) FROM d
UNION ALL SELECT 'status', bglm_laplace(y, {a: u, s: s}, {max_iter: 1} ORDER BY i) FROM d;

CREATE TABLE softmaxes AS
          SELECT 'softmax' AS name, bglm_softmax(k, {a: u, s: s} ORDER BY i) AS fit FROM d
UNION ALL SELECT 'softmax_reference', bglm_softmax(k, {a: u, s: s}, {reference: 'mid'} ORDER BY i) FROM d
UNION ALL SELECT 'softmax_diagonal', bglm_softmax(c, {a: u, s: s}, {hessian: 'diagonal'} ORDER BY i) FROM d;

CREATE TABLE processes AS
          SELECT 'gp' AS name, bglm_gp(y, [u, i / 60], {lengthscale: 0.5} ORDER BY i) AS fit FROM d WHERE i < 20
UNION ALL SELECT 'gp_poisson', bglm_gp(c, [u], {family: 'poisson', kernel: 'matern32', mean: 0.5, signal_variance: 2} ORDER BY i) FROM d WHERE i < 20
UNION ALL SELECT 'gp_studentt', bglm_gp(w, [u], {family: 'studentt', shape: 4, dispersion: 0.5, kernel: 'matern52'} ORDER BY i) FROM d WHERE i < 15;
