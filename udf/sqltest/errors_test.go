package sqltest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

var update = flag.Bool("update", false, "write docs/errors.md")

const errorsDoc = "../../docs/errors.md"

// wrongInputs are the statements of docs/errors.md by section.
var wrongInputs = []struct {
	title string
	sql   []string
}{
	{"Types of y and x", []string{
		"SELECT bglm_adf('yes', {a: 1})",
		"SELECT bglm_adf(y, {a: 1}) FROM (VALUES ('yes'), (NULL), ('no')) t(y)",
		"SELECT bglm_adf(y, {a: 1}) FROM (VALUES ('0'), ('1')) t(y)",
		"SELECT bglm_adf(y, {a: 1}) FROM (VALUES ('red'), ('green'), ('blue')) t(y)",
		"SELECT bglm_adf(y::ENUM ('ham', 'spam'), {a: 1}) FROM (VALUES ('ham'), ('spam')) t(y)",
		"SELECT bglm_adf(DATE '2024-01-01', {a: 1})",
		"SELECT bglm_adf([1], {a: 1})",
		"SELECT bglm_adf(true, 'a')",
		"SELECT bglm_adf(true, 1.5)",
		"SELECT bglm_adf(true, {a: TIMESTAMP '2024-01-01'})",
		"SELECT bglm_adf(true, {a: TIME '12:00:00'})",
		"SELECT bglm_adf(true, {a: INTERVAL 1 DAY})",
		"SELECT bglm_adf(true, {a: uuid()})",
		"SELECT bglm_adf({a: 1}, true)",
		"SELECT bglm_adf(true, {a: {b: 1}})",
		"SELECT bglm_adf(true, {a: [true, false]})",
		"SELECT bglm_adf(true, row(1, 2))",
		"SELECT bglm_adf(true, MAP {1.5: 1})",
		"SELECT bglm_adf(true, MAP {'a': 'b'})",
		"SELECT bglm_adf(true, MAP {true: 1})",
		"SELECT bglm_adf(true, [{name: 'a', value: 1}])",
		"SELECT bglm_adf(true, [{feature: 'a', value: 'b'}])",
		"SELECT bglm_adf(true, [true, false])",
		"SELECT bglm_adf(true, [[1.0]])",
		"SELECT bglm_adf(true)",
		"SELECT bglm_adf(true, {a: 1}, {link: 'probit'}, 1)",
		"SELECT bglm_features(1)",
	}},
	{"Options", []string{
		"SELECT bglm_adf(true, {a: 1}, {prior_varience: 1})",
		"SELECT bglm_adf(true, {a: 1}, {offzet: 1})",
		"SELECT bglm_adf(true, {a: 1}, {offset_: 1, \"offset\": 2})",
		"SELECT bglm_adf(true, {a: 1}, {family: 'logistic'})",
		"SELECT bglm_adf(true, {a: 1}, {family: 'normal'})",
		"SELECT bglm_adf(true, {a: 1}, {family: 'binary'})",
		"SELECT bglm_fit(true, {a: 1}, {method: 'bglm_laplace'})",
		"SELECT bglm_fit(true, {a: 1}, {method: 'bglm_softmax'})",
		"SELECT bglm_adf(true, {a: 1}, {covariance: [[1.0]]})",
		"SELECT bglm_adf(true, {a: 1}, {foo: 1})",
		"SELECT bglm_adf(true, {a: 1}, {max_iter: 5})",
		"SELECT bglm_adf(true, {a: 1}, {trials: 5})",
		"SELECT bglm_adf(true, {a: 1}, 'probit')",
		"SELECT bglm_adf(true, {a: 1}, {link: 'probti'})",
		"SELECT bglm_adf(true, {a: 1}, {link: 3})",
		"SELECT bglm_adf(true, {a: 1}, {family: 'binomial'})",
		"SELECT bglm_adf(true, {a: 1}, {family: 'poisson', link: 'logit'})",
		"SELECT bglm_adf(true, {a: 1}, {prior_variance: -1})",
		"SELECT bglm_ekf(true, {a: 1}, {prior_variance: 'auto'})",
		"SELECT bglm_adf(true, {a: 1}, {prior_mean: 'nan'::DOUBLE})",
		"SELECT bglm_adf(true, {a: 1}, {intercept: 'no'})",
		"SELECT bglm_adf(true, {a: 1}, {intercept_variance: -1})",
		"SELECT bglm_adf(1, {a: 1}, {family: 'gaussian', dispersion: 0})",
		"SELECT bglm_adf(1, {a: 1}, {family: 'gaussian', dispersion: 'auto'})",
		"SELECT bglm_adf(true, {a: 1}, {dispersion: 2})",
		"SELECT bglm_laplace(true, {a: 1}, {sd_scale: 2})",
		"SELECT bglm_laplace(1.0, {a: 1}, {family: 'gaussian', dispersion: 1, dispersion_scale: 2})",
		"SELECT bglm_ekf(true, {a: 1}, {noise_floor: 0.1})",
		"SELECT bglm_adf(true, {a: 1}, {process_noise: -1})",
		"SELECT bglm_adf(true, {a: 1}, {process_noise: 'auto'})",
		"SELECT bglm_adf(true, {a: 1}, {process_noise: MAP {'a': -1}})",
		"SELECT bglm_adf(true, {a: 1}, {process_noise: MAP {1: 0.5}})",
		"SELECT bglm_adf(true, {a: 1}, {forgetting: 0})",
		"SELECT bglm_adf(true, {a: 1}, {forgetting: 0.9, process_noise: 0.1})",
		"SELECT bglm_adf(true, {a: 1}, {quadrature: 1})",
		"SELECT bglm_adf(true, {a: 1}, {quadrature: 'plain'})",
		"SELECT bglm_adf(true, {a: 1}, {covariance: 'full'})",
		"SELECT bglm_adf(true, {a: 1}, {on_error: 'ignore'})",
		"SELECT bglm_adf(true, {a: 1}, {priors: MAP {'a': {mean: 0, variance: -1}}})",
		"SELECT bglm_adf(true, {a: 1}, {priors: MAP {'a': 1}})",
		"SELECT bglm_adf(true, {a: 1}, {priors: [{feature: 'a', mean: 0, variance: 1}, {feature: 'a', mean: 1, variance: 1}]})",
		"SELECT bglm_adf(true, {a: 1}, {prior: 1})",
		"SELECT bglm_adf(true, {a: 1}, {prior: {beliefs: [{feature: 'a', mean: 0, variance: 1}]}})",
		"SELECT bglm_adf(true, {a: 1}, {weight: 'heavy'})",
		"SELECT bglm_adf(true, {a: 1}, {time: TIME '12:00:00'})",
	}},
	{"y outside the support", []string{
		"SELECT bglm_adf(3, {a: 1})",
		"SELECT bglm_adf(0.5, {a: 1}, {link: 'probit'})",
		"SELECT bglm_adf(-1, {a: 1}, {family: 'poisson'})",
		"SELECT bglm_adf(2.5, {a: 1}, {family: 'poisson'})",
		"SELECT bglm_adf(3, {a: 1}, {on_error: 'skip'}).n_skipped",
		"SELECT bglm_adf(3, {a: 1}, {on_error: 'null'})",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: 3, x: {a: 1}}])",
	}},
	{"NaN and infinite numbers", []string{
		"SELECT bglm_adf('nan'::DOUBLE, {a: 1}, {family: 'gaussian'})",
		"SELECT bglm_adf('inf'::DOUBLE, {a: 1}, {family: 'gaussian'})",
		"SELECT bglm_adf(true, {a: 'nan'::DOUBLE})",
		"SELECT bglm_adf(true, [1.0, '-inf'::DOUBLE])",
		"SELECT bglm_adf(true, MAP {'a': 'inf'::FLOAT})",
		"SELECT bglm_adf(true, [{feature: 'a', value: 'nan'::DOUBLE}])",
		"SELECT bglm_adf(true, {a: 1}, {weight: 'nan'::DOUBLE})",
		"SELECT bglm_adf(true, {a: 1}, {weight: -1})",
		"SELECT bglm_adf(true, {a: 1}, {\"offset\": 'inf'::DOUBLE})",
		"SELECT bglm_adf(true, {a: 1}, {time: 'nan'::DOUBLE})",
		"SELECT bglm_adf(true, {a: 1}, {time: 'infinity'::TIMESTAMP})",
		"SELECT bglm_adf(true, {a: 1}, {time: 'infinity'::DATE})",
		"SELECT bglm_adf(true, {a: 1e308, b: 1e308})",
		"SELECT bglm_adf(true, {a: 'nan'::DOUBLE}, {on_error: 'skip'}).n_skipped",
		"SELECT bglm_predict(bglm_from_beliefs([]), {a: 'nan'::DOUBLE})",
		"SELECT bglm_predict(bglm_from_beliefs([]), {a: 1e200})",
	}},
	{"NULL at every level", []string{
		"SELECT bglm_adf(NULL, NULL).n_skipped",
		"SELECT bglm_adf(NULL, {a: 1}).n_skipped",
		"SELECT bglm_adf(true, NULL).n_skipped",
		"SELECT bglm_adf(true, {a: NULL}).n",
		"SELECT bglm_adf(true, [NULL, 1.0]).n",
		"SELECT bglm_adf(true, MAP {'a': NULL}).n",
		"SELECT bglm_adf(true, [NULL, {feature: NULL, value: 1}, {feature: 'a', value: NULL}]).n",
		"SELECT bglm_adf(true, {a: 1}, NULL).n",
		"SELECT bglm_adf(true, {a: 1}, {link: NULL}).link",
		"SELECT bglm_adf(true, {a: 1}, {weight: NULL}).n",
		"SELECT bglm_adf(true, {a: 1}, {weight: NULL::DOUBLE}).n_skipped",
		"SELECT bglm_adf(true, {a: 1}, {time: NULL::DATE}).n_skipped",
		"SELECT bglm_predict(NULL, {a: 1})",
		"SELECT bglm_predict(bglm_from_beliefs([]), NULL)",
		"SELECT bglm_predict(bglm_from_beliefs([], {link: 'probit'}), {a: 1}, NULL)",
		"SELECT bglm_from_beliefs([NULL])",
		"SELECT bglm_from_beliefs([{feature: NULL, mean: 0.0, variance: 1.0}])",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: NULL, variance: 1.0}])",
		"SELECT bglm_update(bglm_from_beliefs([]), NULL).n",
		"SELECT bglm_update(bglm_from_beliefs([]), [NULL]).n_skipped",
		"SELECT bglm_merge(NULL)",
		"SELECT bglm_rmse(NULL, 1.0)",
	}},
	{"Nothing at all", []string{
		"SELECT bglm_adf(true, {a: 1}) FROM range(0)",
		"SELECT bglm_auc(true, 0.5) FROM range(0)",
		"SELECT bglm_auc(true, 0.5)",
		"SELECT bglm_adf(true, []).n",
		"SELECT bglm_adf(true, []::VARCHAR[], {intercept: false}).beliefs::VARCHAR",
		"SELECT bglm_adf(true, MAP {}).n",
		"SELECT bglm_features([])::VARCHAR",
		"SELECT bglm_from_beliefs([]).beliefs::VARCHAR",
		"SELECT bglm_predict(bglm_from_beliefs([]), [])",
		"SELECT bglm_update(bglm_from_beliefs([]), []).n",
	}},
	{"Duplicate features", []string{
		"SELECT bglm_features(['a', 'b', 'a'])::VARCHAR",
		"SELECT bglm_features([{feature: 'a', value: 1}, {feature: 'a', value: 2}])::VARCHAR",
		"SELECT bglm_features({a: 1, A: 2})",
		"SELECT bglm_features(MAP {'a': 1, 'a': 2})",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}, {feature: 'a', mean: 0, variance: 1}])",
	}},
	{"Beliefs and fits", []string{
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0.0, variance: -1.0}])",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 'inf'::DOUBLE, variance: 1.0}])",
		"SELECT bglm_from_beliefs([{name: 'a', mean: 0.0, variance: 1.0}])",
		"SELECT bglm_from_beliefs('a')",
		"SELECT bglm_from_beliefs([], {n: 3})",
		"SELECT bglm_from_beliefs([], {shape: 2})",
		"SELECT bglm_from_beliefs([], {covariance: [[1.0]]})",
		"SELECT bglm_from_beliefs([], 'probit')",
		"SELECT bglm_beliefs(3)",
		"SELECT bglm_predict('fit', {a: 1})",
		"SELECT bglm_predict(t, {a: 1}) FROM (SELECT bglm_adf(true, {a: 1}) AS fit) t",
		"SELECT bglm_predict({beliefs: [{feature: 'a', mean: 0.0, variance: 1.0}]}, {a: 1})",
		"SELECT bglm_predict({family: 'bernoulli', link: 'logit', intercept: false, prior: {mean: 0.0, variance: 1.0, intercept_variance: 10.0}, beliefs: [{feature: 'b', mean: 0.0, variance: 1.0}, {feature: 'a', mean: 0.0, variance: 1.0}]}, {a: 1})",
		"SELECT bglm_predict({family: 'bernoulli', link: 'logit', intercept: false, prior: {mean: 0.0, variance: 1.0, intercept_variance: 10.0}, beliefs: [{feature: 'a', mean: 0.0, variance: -1.0}]}, {a: 1})",
		"SELECT bglm_predict({family: 'bernoulli', link: 'logit', intercept: false, prior: {mean: 0.0, variance: -1.0, intercept_variance: 10.0}, beliefs: [{feature: 'a', mean: 0.0, variance: 1.0}]}, {b: 1})",
		"SELECT bglm_predict({family: 'bernoulli', link: 'square', intercept: false, prior: {mean: 0.0, variance: 1.0, intercept_variance: 10.0}, beliefs: [{feature: 'a', mean: 0.0, variance: 1.0}]}, {a: 1})",
		"SELECT bglm_adf(true, {a: 1}, {link: 'logit', prior: bglm_from_beliefs([], {link: 'probit'})})",
		"SELECT bglm_adf(true, {a: 1}, {family: 'poisson', prior: bglm_from_beliefs([])})",
		"SELECT bglm_adf(true, {a: 1}, {intercept: true, prior: bglm_from_beliefs([])})",
		"SELECT bglm_adf(true, {a: 1}, {hash_bits: 8, prior: bglm_from_beliefs([])})",
		"SELECT bglm_adf(true, {a: 1}, {process_noise: 1, prior: f}) FROM (SELECT bglm_adf(true, {a: 1}, {time: 3}) AS f)",
		"SELECT bglm_update(f, [{y: true, x: {a: 1}}], {process_noise: 1}) FROM (SELECT bglm_adf(true, {a: 1}, {time: 3}) AS f)",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: {a: 1}}], {link: 'probit'})",
		"SELECT bglm_merge(3)",
		"SELECT bglm_merge(f) FROM (VALUES (bglm_from_beliefs([])), (bglm_from_beliefs([], {link: 'probit'}))) t(f)",
		"SELECT bglm_merge(f) FROM (VALUES (bglm_from_beliefs([])), (bglm_from_beliefs([], {prior_variance: 2}))) t(f)",
		"SELECT bglm_merge(bglm_from_beliefs([]), bglm_from_beliefs([], {link: 'probit'}))",
		"SELECT bglm_merge(f) FROM (SELECT bglm_adf(true, {a: 1, b: 2}) AS f UNION ALL SELECT bglm_adf(true, {a: 1}))",
		"SELECT bglm_merge(f) FROM (SELECT bglm_from_beliefs([{feature: 'a', mean: 0.0, variance: 1.9}]) AS f FROM range(3))",
	}},
	{"Absurd dimensions", []string{
		"SELECT bglm_adf(true, {k: i}::STRUCT(k VARCHAR), {max_features: 10}) FROM range(100) t(i)",
		"SELECT bglm_adf(true, range(1000000), {max_features: 1000})",
		"SELECT bglm_adf(true, {a: 1}, {max_features: 0})",
		"SELECT bglm_adf(true, {a: 1}, {max_features: 1e12})",
		"SELECT bglm_adf(true, {a: 1}, {hash_bits: 0})",
		"SELECT bglm_adf(true, {a: 1}, {hash_bits: 64})",
		"SELECT len(bglm_adf(true, [x * 0.0 FOR x IN range(200000)]).beliefs)",
		"SELECT bglm_calibration(true, 0.5, 0)",
		"SELECT bglm_calibration(true, 0.5, 1000000000)",
	}},
	{"Arguments of scalars and metrics", []string{
		"SELECT bglm_predict(bglm_from_beliefs([]), {a: 1}, 'exakt')",
		"SELECT bglm_predict(bglm_from_beliefs([]), {a: 1}, 3)",
		"SELECT bglm_predict(bglm_from_beliefs([]), 'a')",
		"SELECT bglm_predict_dist(bglm_from_beliefs([]), {a: 1}, 1)",
		"SELECT bglm_predict_dist(bglm_from_beliefs([]), {a: 1}, 95)",
		"SELECT bglm_predict_dist(bglm_from_beliefs([]), {a: 1}, 'high')",
		"SELECT bglm_auc(2, 0.5)",
		"SELECT bglm_auc('yes', 0.5)",
		"SELECT bglm_auc(true, 'nan'::DOUBLE)",
		"SELECT bglm_log_loss(true, 1.5)",
		"SELECT bglm_brier(0.5, 0.5)",
		"SELECT bglm_rmse(1.0, 'inf'::DOUBLE)",
		"SELECT bglm_coverage(1.0, 'nan'::DOUBLE, 2.0)",
		"SELECT bglm_coverage(1.0, 2.0, 0.5)",
		"SELECT bglm_coverage(1.0, 2.0)",
		"SELECT bglm_calibration(true, -0.1)",
		"SELECT bglm_calibration(true, 0.5, 2.5)",
		"SELECT bglm_calibration(true, 0.5, 'ten')",
		"SELECT bglm_purge(-1)",
		"SELECT bglm_purge('all')",
	}},
	{"Options of single methods", []string{
		"SELECT bglm_fit(true, {a: 1}, {method: 'newton'})",
		"SELECT bglm_fit(true, {a: 1}, {method: 'adf', hessian: 'full'})",
		"SELECT bglm_ep(true, {a: 1}, {covariance: 'half'})",
		"SELECT bglm_ep(true, {a: 1}, {damping: 0})",
		"SELECT bglm_ep(true, {a: 1}, {damping: 1.5})",
		"SELECT bglm_ep(true, {a: 1}, {max_iter: 0})",
		"SELECT bglm_ep(true, {a: 1}, {tol: 1})",
		"SELECT bglm_ep(true, {a: 1}, {forgetting: 0.9})",
		"SELECT bglm_ep(true, {a: 1}, {time_limit: 0})",
		"SELECT bglm_ep(true, {a: 1}, {standardize: 1})",
		"SELECT bglm_smooth(true, {a: 1}, {standardize: true})",
		"SELECT bglm_laplace(true, {a: 1}, {hessian: 'lowrnak'})",
		"SELECT bglm_laplace(true, {a: 1}, {process_noise: 0.1})",
		"SELECT bglm_laplace(true, {a: 1}, {\"at\": 3})",
		"SELECT bglm_laplace(true, {a: 1}, {\"at\": MAP {'a': 'nan'::DOUBLE}})",
		"SELECT bglm_laplace(true, {a: 1}, {prior_variance: 'best'})",
		"SELECT bglm_laplace(true, {a: 1}, {dispersion: 'auto'})",
		"SELECT bglm_laplace(true, {a: 1}, {shape: 'auto'})",
		"SELECT bglm_lowrank(true, {a: 1}, {rank: 0})",
		"SELECT bglm_lowrank(true, {a: 1}, {rank: 2.5})",
		"SELECT bglm_lowrank(true, {a: 1}, {oversample: -1})",
		"SELECT bglm_lowrank(true, {a: 1}, {power_iterations: 1000})",
		"SELECT bglm_lowrank(true, {a: 1}, {seed: -1})",
		"SELECT bglm_sequential_laplace(true, {a: 1}, {covariance: 'diagonal'})",
		"SELECT bglm_sequential_laplace(true, {a: 1}, {quadrature: 20})",
		"SELECT bglm_variational(true, {a: 1}, {link: 'probit'})",
		"SELECT bglm_variational(1, {a: 1}, {family: 'poisson'})",
		"SELECT bglm_ekf(true, {a: 1}, {measurement_noise: 0})",
		"SELECT bglm_ekf(true, {a: 1}, {measurement_noise: 'none'})",
		"SELECT bglm_ekf(true, {a: 1}, {noise_floor: 0})",
		"SELECT bglm_hmc(true, {a: 1}, {samples: 0})",
		"SELECT bglm_hmc(true, {a: 1}, {chains: 100})",
		"SELECT bglm_softmax('a', {a: 1}, {link: 'logit'})",
		"SELECT bglm_softmax('a', {a: 1}, {reference: 'b'})",
		"SELECT bglm_softmax([1], {a: 1})",
		"SELECT bglm_softmax('nan'::DOUBLE, {a: 1})",
		"SELECT bglm_gp(true, {a: 1})",
		"SELECT bglm_gp(true, [1.0, NULL])",
		"SELECT bglm_gp(true, [1.0], {kernel: 'rbff'})",
		"SELECT bglm_gp(true, [1.0], {lengthscale: 0})",
		"SELECT bglm_gp(true, [1.0], {prior_variance: 2})",
		"SELECT bglm_gp(true, x) FROM (VALUES ([1.0]), ([1.0, 2.0])) t(x)",
	}},
	{"Predictions, draws and influences of other fits", []string{
		"SELECT bglm_predict(bglm_adf(true, {'a:g': {a: 1, g: 'u'}}), {'a:g': {a: '1', g: 'u'}})",
		"SELECT bglm_predict(bglm_adf(true, {'a:g': {a: 1, g: 'u'}}), {'a:g': {b: 1, g: 'u'}})",
		"SELECT bglm_predict(bglm_gp(true, [1.0]), [1.0, 2.0])",
		"SELECT bglm_predict(bglm_gp(true, [1.0]), {a: 1})",
		"SELECT bglm_predict_dist(bglm_softmax('a', {a: 1}), {a: 1})",
		"SELECT bglm_sample(bglm_softmax('a', {a: 1}), {a: 1}, 1, 1)",
		"SELECT bglm_update(bglm_softmax('a', {a: 1}), [{y: true, x: {a: 1}}])",
		"SELECT bglm_merge(bglm_softmax('a', {a: 1}))",
		"SELECT bglm_adf(true, {a: 1}, {prior: bglm_softmax('a', {a: 1})})",
		"SELECT bglm_softmax('a', {a: 1}, {prior: bglm_from_beliefs([])})",
		"SELECT bglm_sample(bglm_from_beliefs([]), {a: 1}, 0.5, 1)",
		"SELECT bglm_sample(bglm_from_beliefs([]), {a: 1}, 1)",
		"SELECT bglm_influence(bglm_from_beliefs([]), 3, {a: 1})",
		"SELECT bglm_influence(bglm_from_beliefs([]), 'yes', {a: 1})",
		"SELECT bglm_influence(bglm_from_beliefs([]), true, {a: 1}, {time: 1})",
	}},
	{"Answers of a fit", []string{
		"SELECT bglm_loo(3, true, {a: 1})",
		"SELECT bglm_loo(bglm_from_beliefs([]), 3, {a: 1})",
		"SELECT bglm_loo(bglm_from_beliefs([]), true, 'a')",
		"SELECT bglm_loo(bglm_from_beliefs([]), true, {a: 1}, {level: 0.9})",
		"SELECT bglm_loo(bglm_from_beliefs([]), true, {a: 1}, {weight: -1})",
		"SELECT bglm_loo(f, 'a', {a: 1}) FROM (SELECT bglm_softmax('a', {a: 1}) AS f)",
		"SELECT bglm_loo(f, true, {a: 1}) FROM (VALUES (bglm_from_beliefs([])), (bglm_from_beliefs([{feature: 'a', mean: 0, variance: 2}]))) t(f)",
		"SELECT bglm_loo_compare(bglm_from_beliefs([]), true, {a: 1})",
		"SELECT bglm_loo_compare(MAP {1: bglm_from_beliefs([])}, true, {a: 1})",
		"SELECT bglm_loo_compare({a: 3}, true, {a: 1})",
		"SELECT bglm_effects(bglm_from_beliefs([]), {a: 1}, 'b')",
		"SELECT bglm_effects(bglm_from_beliefs([]), {a: 1}, 3)",
		"SELECT bglm_effects(bglm_from_beliefs([]), [1.0], '1')",
		"SELECT bglm_effects(bglm_from_beliefs([]), {a: 1}, 'a', {step: 0})",
		"SELECT bglm_effects(bglm_from_beliefs([]), {a: 1}, 'a', {level: 95})",
		"SELECT bglm_effects(bglm_from_beliefs([]), {a: 1}, 'a', {draws: -1})",
		"SELECT bglm_effects(bglm_from_beliefs([]), {a: 'x'}, 'a', {reference: 'y'})",
		"SELECT bglm_effects(bglm_from_beliefs([]), {a: 1}, 'a', {prediction: 'mackay'})",
		"SELECT bglm_robust(bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}]), true, {a: 1})",
		"SELECT bglm_robust(f, true, {a: 1}, {cluster: 'a'}) FROM (SELECT bglm_laplace(true, {a: 1}) AS f)",
		"SELECT bglm_robust(f, true, {a: 1}, {type: 'hc9'}) FROM (SELECT bglm_laplace(true, {a: 1}) AS f)",
		"SELECT bglm_robust(f, true, {a: 1}, 3, {type: 'hc3'}) FROM (SELECT bglm_laplace(true, {a: 1}) AS f)",
		"SELECT bglm_ppc(bglm_from_beliefs([]), true, {a: 1}, 'median')",
		"SELECT bglm_ppc(bglm_from_beliefs([]), true, {a: 1}, 3)",
		"SELECT bglm_ppc(bglm_from_beliefs([]), true, {a: 1}, 'mean', {draws: 0.5})",
		"SELECT bglm_drivers(bglm_from_beliefs([]), {a: 1}, 2)",
		"SELECT bglm_drivers(bglm_from_beliefs([]), 'a')",
		"SELECT bglm_pit(bglm_from_beliefs([]), 3, {a: 1})",
		"SELECT bglm_pit(bglm_from_beliefs([]), true, {a: 1}, {weight: 1})",
		"SELECT bglm_summary(bglm_from_beliefs([]), 95)",
		"SELECT bglm_summary(bglm_from_beliefs([]), {rope: -1})",
		"SELECT bglm_summary(bglm_from_beliefs([]), {ropes: 1})",
		"SELECT bglm_contrast(bglm_from_beliefs([]), {a: 1}, 'a')",
		"SELECT bglm_contrast(bglm_from_beliefs([]), {a: 1}, {a: 2}, 1)",
		"SELECT bglm_pairs(bglm_from_beliefs([]), {a: 1}, 'a')",
		"SELECT bglm_pairs(bglm_from_beliefs([]), {a: 'x'}, 'b')",
		"SELECT bglm_pairs(bglm_from_beliefs([]), [1.0], 'a')",
		"SELECT bglm_sql(bglm_from_beliefs([]), 'oracle')",
		"SELECT bglm_sql(bglm_from_beliefs([]), 'sqlite', {form: 'long'})",
		"SELECT bglm_sql(bglm_from_beliefs([]), 'sqlite', {tables: 'x'})",
		"SELECT bglm_sql(bglm_softmax('a', {a: 1}), 'sqlite', {prediction: 'exact'})",
		"SELECT bglm_sql(bglm_adf(true, {a: 1}, {hash_bits: 3}), 'sqlite')",
		"SELECT bglm_sql(bglm_laplace(true, {n: 1, g: 'x', 'n:g': {n: 1, g: 'x'}}), 'sqlite')",
		"SELECT bglm_pmml(bglm_softmax('a', {a: 1}))",
		"SELECT bglm_pmml(bglm_softmax('a' || chr(1 + i::INT), {a: 1})) FROM range(2) t(i)",
		"SELECT bglm_pmml(bglm_from_beliefs([{feature: 'a' || chr(1), mean: 0, variance: 1}]))",
		"SELECT bglm_pmml(bglm_from_beliefs([]), 3)",
		"SELECT bglm_features({a: NULL}, {missing: 'none'})",
		"SELECT bglm_help('laplac')",
		"SELECT bglm_macros('score_by')",
	}},
	{"Passes and compression", []string{
		"SELECT bglm_newton_state(true, {a: 1}, {around: 3})",
		"SELECT bglm_newton_state(true, {a: 1}, {prior_variance: -1})",
		"SELECT bglm_newton_merge(3)",
		"SELECT bglm_newton_merge('abc'::BLOB)",
		"SELECT bglm_newton_merge(s ORDER BY i) FROM (SELECT 1 AS i, bglm_newton_state(true, {a: 1}) AS s UNION ALL SELECT 2, bglm_newton_state(true, {a: 1}, {link: 'probit'}))",
		"SELECT bglm_newton_merge(s) FROM (SELECT bglm_newton_state(true, {a: 1}) AS s UNION ALL SELECT bglm_newton_state(true, {a: 1, b: 2}))",
		"SELECT bglm_newton_state(true, {a: 1}, {around: (SELECT bglm_laplace(true, {a: 1, b: 2}))})",
		"SELECT bglm_newton_solve(3)",
		"SELECT bglm_newton_solve('abc'::BLOB)",
		"SELECT bglm_newton_solve(bglm_newton_state(true, {a: 1}), {family: 'poisson'})",
		"SELECT bglm_newton_solve(bglm_newton_state(true, {a: 1}), {weight: 2})",
		"SELECT bglm_laplace(true, {a: 1}, {compress: 'yes'})",
		"SELECT bglm_laplace(0.5, {a: 1}, {family: 'studentt', compress: true}).n",
		"SELECT bglm_adf(true, {a: 1}, {compress: true})",
	}},
	{"Covariances", []string{
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}], {covariance: [[1.0, 0.0]]})",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}], {covariance: 'full'})",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}], {covariance: [['x']]})",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}, {feature: 'b', mean: 0, variance: 1}], {covariance: [[1.0, 2.0], [2.0, 1.0]]})",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}, {feature: 'b', mean: 0, variance: 1}], {covariance: [[1.0, 0.5], [0.4, 1.0]]})",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}], {covariance: [['nan'::DOUBLE]]})",
		"SELECT bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}], {covariance: [NULL::DOUBLE[]]})",
		"SELECT bglm_predict(struct_update(bglm_from_beliefs([{feature: 'a', mean: 0, variance: 1}], {covariance: [[1.0]]}), covariance := {kind: 'full', rank: 0, \"values\": [1.0]}), {a: 1})",
		"SELECT bglm_predict({family: 'bernoulli', link: 'logit', intercept: false, prior: {mean: 0.0, variance: 1.0, intercept_variance: 10.0}, beliefs: [{feature: 'a', mean: 0.0, variance: 1.0}], covariance: {kind: 'full', rank: 0, \"values\": [1.0, 2.0]}}, {a: 1})",
		"SELECT bglm_predict({family: 'bernoulli', link: 'logit', intercept: false, prior: {mean: 0.0, variance: 1.0, intercept_variance: 10.0}, beliefs: [{feature: 'a', mean: 0.0, variance: 1.0}], covariance: {kind: 'banded', rank: 0, \"values\": [1.0]}}, {a: 1})",
		"SELECT bglm_merge(f) FROM (SELECT bglm_from_beliefs([{feature: 'a', mean: 0.0, variance: 1.9}], {intercept: false, covariance: [[1.9]]}) AS f FROM range(3))",
	}},
	{"Rows of bglm_update", []string{
		"SELECT bglm_update(bglm_from_beliefs([]), 3)",
		"SELECT bglm_update(bglm_from_beliefs([]), [1, 2])",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true}])",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: {a: 1}, z: 1}])",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: 'yes', x: {a: 1}}])",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: 'a'}])",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: {a: 1}, weight: -1}])",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: {a: 1}, weight: 'heavy'}])",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: {a: 1}}], 'probit')",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: {a: 1}}], {prior: 1})",
		"SELECT bglm_update(bglm_from_beliefs([]), [{y: true, x: {a: 1}}], {weight: 2})",
		"SELECT bglm_update(3, [{y: true, x: {a: 1}}])",
	}},
}

const errorsHead = `# What wrong inputs print

This table is made by running the statements: ` + "`go test ./udf/sqltest -run TestErrorsDoc -update`" + `. The same test fails
when a message or a result changes. Messages of bglm name the function and the argument or option, what was found
and what is allowed; those that start with Binder Error or the like are DuckDB's own.
`

// tail is what DuckDB adds below its own messages: the candidates with their whole
// types, and a drawing of the place.
var tail = regexp.MustCompile(`(?s)\n+(\s*Candidate functions:|LINE \d+:).*`)

// TestErrorsDoc runs wrongInputs and compares docs/errors.md with what they give.
//
// covers: options.bad
func TestErrorsDoc(t *testing.T) {
	kerneltest.Slow(t)
	con := connect(t, open(t))
	var b bytes.Buffer
	b.WriteString(errorsHead)
	for _, s := range wrongInputs {
		fmt.Fprintf(&b, "\n## %s\n\n| statement | prints |\n|---|---|\n", s.title)
		for _, q := range s.sql {
			show := q
			if strings.HasPrefix(q, "SELECT bglm_") && !regexp.MustCompile(`\.\w+(::VARCHAR)?$`).MatchString(q) && !strings.Contains(q, " FROM ") {
				q = "SELECT (" + strings.TrimPrefix(q, "SELECT ") + ")::VARCHAR"
			}
			got, err := rowsOf(t.Context(), con, q)
			text := strings.Join(got, " / ")
			if err != nil {
				text = strings.TrimSpace(tail.ReplaceAllString(err.Error(), ""))
			}
			cell := strings.NewReplacer("|", "\\|", "\n", "<br>", "<", "&lt;", ">", "&gt;")
			text = cell.Replace(text)
			text = strings.ReplaceAll(text, "&lt;br&gt;", "<br>")
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(show, "|", "\\|"), text)
			if err != nil && strings.Contains(text, "internal error") {
				t.Errorf("%s\n%v", q, err)
			}
		}
	}
	if *update {
		if err := os.WriteFile(errorsDoc, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(errorsDoc)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		h, w := strings.Split(string(have), "\n"), strings.Split(b.String(), "\n")
		for i := range max(len(h), len(w)) {
			a, c := "", ""
			if i < len(h) {
				a = h[i]
			}
			if i < len(w) {
				c = w[i]
			}
			if a != c {
				t.Fatalf("docs/errors.md, line %d; if the change is right, run go test ./udf/sqltest -run TestErrorsDoc -update\n file %s\n now  %s", i+1, a, c)
			}
		}
	}
}
