package udf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/gp"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/udf/internal/capi"
)

// optionDoc describes a key of the trailing options STRUCT.
type optionDoc struct {
	name, def, allowed, doc string
}

// optionDocs lists every key; methods name those they use.
var optionDocs = []optionDoc{
	{"method", "'adf'", "the name of a fitting function without bglm_, such as 'ep'", "bglm_fit: the engine"},
	{"family", "from link: bernoulli", "a name listed by bglm_families()", "distribution of y"},
	{"link", "the family's first: logit", "a name listed by bglm_families(), such as 'probit'", "link of mean and linear predictor"},
	{"prior_mean", "0", "a finite number", "prior mean of every weight"},
	{"prior_variance", "1", "a finite number >= 0, or 'auto' (methods that keep the rows)", "prior variance of every weight but the intercept; 0 = a known weight that never moves, 'auto' = the one that maximises the evidence"},
	{"intercept", "true", "BOOLEAN", "whether every row has the feature (Intercept) = 1"},
	{"intercept_variance", "10", "a finite number >= 0", "prior variance of the intercept"},
	{"priors", "none", "MAP(VARCHAR, STRUCT(mean, variance)) or LIST(STRUCT(feature, mean, variance))", "priors of single features by name"},
	{"prior", "none", "a FIT", "posterior to start from (warm start), its covariance included"},
	{"dispersion", "1", "a finite number > 0, or 'auto' (filters: gaussian with link identity)", "noise variance of gaussian, squared scale of studentt; 'auto' = by the evidence, in filters from the innovations"},
	{"shape", "1 (studentt 4)", "a finite number > 0, or 'auto' (methods that keep the rows)", "negbinomial size, gamma shape, student-t degrees of freedom; 'auto' = by the evidence"},
	{"process_noise", "0", "a finite number >= 0, MAP(VARCHAR, number) or 'auto'", "random-walk variance per unit of time (per row without time); 'auto' = by innovation likelihood"},
	{"forgetting", "1", "a number in (0, 1]", "discount per unit of time towards the prior"},
	{"quadrature", "'auto'", "'auto' or a whole number from 2 to 512", "closed forms and adaptive nodes, or the plain k-point Gauss-Hermite rule"},
	{"covariance", "'diagonal', or that of prior", "'diagonal', 'full' or 'lowrank'", "form of the posterior covariance; in bglm_from_beliefs the matrix, DOUBLE[][]"},
	{"max_iter", "ep, laplace, lowrank, softmax, gp 100, variational 50, ekf 1", "a whole number from 1 to 1000000", "EP sweeps, Newton steps, EM steps a row, or the EKF's iterations a row"},
	{"tol", "1e-8", "a number in (0, 1)", "relative change at which an iteration has converged"},
	{"damping", "1", "a number in (0, 1]", "share of an EP site's change that is taken; lowered by itself where the sweeps oscillate"},
	{"measurement_noise", "'bernoulli'", "'bernoulli', a finite number > 0 or 'auto'", "the EKF's R: the variance of y at the predicted mean, a number, or inferred from the innovation"},
	{"noise_floor", "1e-3", "a finite number > 0", "least R that measurement_noise 'auto' gives; by default times what measures y: 1 for shares and counts, the dispersion of gaussian and studentt, the variance of gamma"},
	{"hessian", "'auto'", "'auto', 'full', 'diagonal', 'block' or 'lowrank'", "form of the Hessian; auto = full up to 2,000 weights, then lowrank"},
	{"rank", "50", "a whole number from 1 to 10000", "rank of low-rank methods and forms"},
	{"oversample", "10", "a whole number from 0 to 10000", "extra columns of the randomised SVD"},
	{"power_iterations", "2", "a whole number from 0 to 100", "power iterations of the randomised SVD"},
	{"samples", "1000", "a whole number from 1 to 1000000", "draws a chain"},
	{"warmup", "1000", "a whole number from 1 to 1000000", "adaptation steps a chain"},
	{"chains", "4", "a whole number from 1 to 64", "chains"},
	{"at", "none", "LIST(STRUCT(feature, mean, variance)) or MAP(VARCHAR, number)", "weights at which the Gaussian is taken, without optimising; AT is a word of SQL, so write {'at': ...}"},
	{"reference", "none", "a class", "class whose weights are pinned at 0"},
	{"kernel", "'rbf'", "'rbf', 'matern32', 'matern52' or 'linear'", "covariance function"},
	{"lengthscale", "1", "a finite number > 0 or 'auto'", "distance at which the kernel falls; 'auto' = by the evidence"},
	{"signal_variance", "1", "a finite number > 0 or 'auto'", "prior variance of the latent function; 'auto' = by the evidence"},
	{"mean", "0", "a finite number or 'auto'", "prior mean of the latent function; 'auto' = by the evidence"},
	{"standardize", "false", "BOOLEAN", "centre and scale numeric features inside; beliefs are on the original scale"},
	{"seed", "0", "a whole number from 0 to 9007199254740992", "every random step is a function of it"},
	{"time_limit", "none", "a number of seconds > 0", "seconds after which an iterative fit stops, its status saying so"},
	{"hash_bits", "none", "a whole number from 1 to 30", "hash features into 2^bits slots named #slot"},
	{"max_features", "50000000", "a whole number from 1 to 4294967294", "limit of the dictionary"},
	{"on_error", "'fail'", "'fail', 'skip' or 'null'", "what a bad row does: fail, be skipped and counted, or make its group NULL; 'null' also makes NULL of a group that cannot be fitted"},
	{"weight", "1", "a number >= 0, may be a column", "exponent of the row's likelihood"},
	{"offset", "0", "a number, may be a column", "added to the linear predictor"},
	{"trials", "none", "a whole number >= 1, may be a column", "binomial trials: y counts the successes among them; the family is then binomial"},
	{"time", "none", "a number, DATE or TIMESTAMP, may be a column", "time of the row; dates count in days"},
}

var (
	rowKeys  = []string{"weight", "offset", "trials", "time"}
	makeKeys = []string{"family", "link", "dispersion", "shape", "intercept", "prior_mean", "prior_variance", "intercept_variance", "hash_bits", "covariance"}
)

// methodKeys are the options of an aggregate that fits by m, in the order of
// optionDocs.
func methodKeys(m *engine.Method) []string {
	var keys []string
	for _, d := range optionDocs {
		if m.Name != "softmax" && slices.Contains(engine.Common, d.name) || slices.Contains(m.Keys, d.name) {
			keys = append(keys, d.name)
		}
	}
	return keys
}

// updateKeys are the options of bglm_update for a fit by m: the rows carry their
// own columns, and the FIT is the prior.
func updateKeys(m *engine.Method) []string {
	return slices.DeleteFunc(methodKeys(m), func(k string) bool { return k == "prior" || slices.Contains(rowKeys, k) })
}

func optionDocOf(key string) *optionDoc {
	for i := range optionDocs {
		if optionDocs[i].name == key {
			return &optionDocs[i]
		}
	}
	return nil
}

// nearest is the known word closest to the one found, or "".
func nearest(word string, known []string) string {
	best, bd := "", 1<<30
	for _, k := range known {
		if d := editDistance(word, k); d < bd {
			best, bd = k, d
		}
	}
	if bd > max(2, len(word)/2) {
		return ""
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diag
			if a[i] != b[j] {
				d++
			}
			diag = row[j+1]
			row[j+1] = min(d, row[j]+1, diag+1)
		}
	}
	return row[len(b)]
}

func checkKey(key string, allowed []string) error {
	if slices.Contains(allowed, key) {
		return nil
	}
	if optionDocOf(key) != nil {
		return fmt.Errorf("option %s is not used here; allowed: %s", key, strings.Join(allowed, ", "))
	}
	if n := nearest(key, allowed); n != "" {
		return fmt.Errorf("unknown option %q; the nearest is %s", key, n)
	}
	return fmt.Errorf("unknown option %q; allowed: %s", key, strings.Join(allowed, ", "))
}

type errorMode int

const (
	onErrorFail errorMode = iota
	onErrorSkip
	onErrorNull
)

var onErrorWords = []string{"fail", "skip", "null"}

// options are the parsed constant options of a call.
type options struct {
	has          map[string]bool // keys given and not NULL
	method       string
	family, link string
	prior        kernels.Prior
	intercept    bool
	priors       []kernels.Belief
	from         *kernels.Fit
	dispersion   float64
	shape        float64
	noise        float64
	noiseBy      map[string]float64
	forgetting   float64
	quadrature   int
	hashBits     int
	maxFeatures  int
	onError      errorMode
	kernels.Options
	process gp.Options // bglm_gp
	matrix  *capi.Vec  // bglm_from_beliefs: covariance
}

func defaultOptions() *options {
	return &options{has: map[string]bool{}, prior: kernels.DefaultPrior, intercept: true, dispersion: 1, shape: math.NaN(),
		forgetting: 1, maxFeatures: 50_000_000}
}

func badOption(key, found string) error {
	return fmt.Errorf("option %s: found %s; allowed: %s", key, found, optionDocOf(key).allowed)
}

// show prints a constant for an error message.
func show(v *capi.Vec, i int) string {
	switch {
	case v.Null(i):
		return "NULL"
	case v.Type == capi.Varchar:
		s := v.Str(i)
		if len(s) > 60 {
			s = strings.ToValidUTF8(s[:60], "") + "..."
		}
		return "'" + s + "'"
	case v.Type == capi.Boolean:
		return fmt.Sprint(v.Bool(i))
	case v.IsNumber():
		return number(v.Float(i))
	}
	return "a value of type " + v.TypeName()
}

// number prints whole numbers in full.
func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(x)
}

func bitsText(bits int) string {
	if bits == 0 {
		return "none"
	}
	return strconv.Itoa(bits)
}

func wantNumber(key string, v *capi.Vec, i int, ok func(float64) bool) (float64, error) {
	if !v.IsNumber() {
		return 0, badOption(key, show(v, i)+" ("+v.TypeName()+")")
	}
	x := v.Float(i)
	if !finite(x) || !ok(x) {
		return 0, badOption(key, show(v, i))
	}
	return x, nil
}

func wantWord(key string, v *capi.Vec, i int) (string, error) {
	if v.Type != capi.Varchar {
		return "", badOption(key, show(v, i)+" ("+v.TypeName()+")")
	}
	return strings.ToLower(strings.Clone(v.Str(i))), nil
}

func anyNumber(float64) bool     { return true }
func nonNegative(x float64) bool { return x >= 0 }
func positive(x float64) bool    { return x > 0 }

// isAuto reports the word 'auto'; other words fall to the number's own error.
func isAuto(v *capi.Vec, i int) bool {
	return v.Type == capi.Varchar && strings.EqualFold(v.Str(i), "auto")
}

// wantWhole reads a whole number; the engines' zero values mean their defaults,
// so that a wanted 0 is -1.
func wantWhole(key string, v *capi.Vec, i int, lo, hi float64) (int, error) {
	x, err := wantNumber(key, v, i, whole(lo, hi))
	if err == nil && x == 0 {
		x = -1
	}
	return int(x), err
}

func wantOneOf(key string, v *capi.Vec, i int, words ...string) (string, error) {
	w, err := wantWord(key, v, i)
	if err == nil && !slices.Contains(words, w) {
		err = badOption(key, show(v, i))
	}
	return w, err
}

func wantBool(key string, v *capi.Vec, i int) (bool, error) {
	if v.Type != capi.Boolean {
		return false, badOption(key, show(v, i)+" ("+v.TypeName()+")")
	}
	return v.Bool(i), nil
}
func whole(lo, hi float64) func(float64) bool {
	return func(x float64) bool { return x == math.Trunc(x) && x >= lo && x <= hi }
}

// parseOptions reads the constants of the options STRUCT at row i; columns that
// may vary (weight, offset, trials, time) are checked by rowColumns.
func parseOptions(v *capi.Vec, i int, allowed []string) (*options, error) {
	o := defaultOptions()
	if v == nil || v.Type == capi.SQLNull || v.Null(i) {
		return o, nil
	}
	for k := range v.Kids {
		f := &v.Kids[k]
		key := strings.ToLower(strings.Clone(f.Name))
		if err := checkKey(key, allowed); err != nil {
			return nil, err
		}
		if f.Null(i) {
			continue
		}
		o.has[key] = true
		var err error
		var x float64
		switch key {
		case "family":
			o.family, err = wantWord(key, f, i)
		case "link":
			o.link, err = wantWord(key, f, i)
		case "prior_mean":
			o.prior.Mean, err = wantNumber(key, f, i, anyNumber)
		case "prior_variance":
			if o.AutoPrior = isAuto(f, i); !o.AutoPrior {
				o.prior.Variance, err = wantNumber(key, f, i, nonNegative)
			}
		case "intercept_variance":
			o.prior.InterceptVariance, err = wantNumber(key, f, i, nonNegative)
		case "intercept":
			o.intercept, err = wantBool(key, f, i)
		case "priors":
			o.priors, err = readBeliefs(f, i)
			if err != nil {
				err = fmt.Errorf("option priors: %w", err)
			}
		case "prior":
			o.from, err = readFitAt(f, i, slices.Contains(allowed, "reference"))
			if err != nil {
				err = fmt.Errorf("option prior: %w", err)
			}
		case "dispersion":
			if o.AutoDispersion = isAuto(f, i); !o.AutoDispersion {
				o.dispersion, err = wantNumber(key, f, i, positive)
			}
		case "shape":
			if o.AutoShape = isAuto(f, i); !o.AutoShape {
				o.shape, err = wantNumber(key, f, i, positive)
			}
		case "process_noise":
			if f.Type == capi.Map {
				o.noiseBy, err = readNoise(f, i)
			} else if o.AutoNoise = isAuto(f, i); !o.AutoNoise {
				o.noise, err = wantNumber(key, f, i, nonNegative)
			}
		case "forgetting":
			o.forgetting, err = wantNumber(key, f, i, func(x float64) bool { return x > 0 && x <= 1 })
		case "quadrature":
			if f.Type == capi.Varchar {
				if strings.ToLower(f.Str(i)) != "auto" {
					return nil, badOption(key, show(f, i))
				}
				break
			}
			x, err = wantNumber(key, f, i, whole(2, 512))
			o.quadrature = int(x)
		case "method":
			o.method, err = wantWord(key, f, i)
		case "covariance":
			if f.Type == capi.List || f.Type == capi.Array {
				o.matrix = f
				break
			}
			o.Covariance, err = wantOneOf(key, f, i, "diagonal", "full", "lowrank")
		case "max_iter":
			o.MaxIter, err = wantWhole(key, f, i, 1, 1e6)
		case "tol":
			o.Tol, err = wantNumber(key, f, i, func(x float64) bool { return x > 0 && x < 1 })
		case "damping":
			o.Damping, err = wantNumber(key, f, i, func(x float64) bool { return x > 0 && x <= 1 })
		case "measurement_noise":
			switch {
			case isAuto(f, i):
				o.MeasurementNoise = nan
			case f.Type == capi.Varchar:
				_, err = wantOneOf(key, f, i, "bernoulli")
			default:
				o.MeasurementNoise, err = wantNumber(key, f, i, positive)
			}
		case "noise_floor":
			o.NoiseFloor, err = wantNumber(key, f, i, positive)
		case "hessian":
			o.Hessian, err = wantOneOf(key, f, i, "auto", "full", "diagonal", "block", "lowrank")
		case "rank":
			o.Rank, err = wantWhole(key, f, i, 1, 10_000)
		case "oversample":
			o.Oversample, err = wantWhole(key, f, i, 0, 10_000)
		case "power_iterations":
			o.PowerIterations, err = wantWhole(key, f, i, 0, 100)
		case "samples":
			o.Samples, err = wantWhole(key, f, i, 1, 1e6)
		case "warmup":
			o.Warmup, err = wantWhole(key, f, i, 1, 1e6)
		case "chains":
			o.Chains, err = wantWhole(key, f, i, 1, 64)
		case "at":
			o.At, err = readAt(f, i)
		case "reference":
			o.Reference, err = label(f, i)
		case "kernel":
			o.process.Kernel, err = wantOneOf(key, f, i, gp.Kernels...)
		case "lengthscale":
			if o.process.AutoLengthscale = isAuto(f, i); !o.process.AutoLengthscale {
				o.process.Lengthscale, err = wantNumber(key, f, i, positive)
			}
		case "signal_variance":
			if o.process.AutoSignalVariance = isAuto(f, i); !o.process.AutoSignalVariance {
				o.process.SignalVariance, err = wantNumber(key, f, i, positive)
			}
		case "mean":
			if o.process.AutoMean = isAuto(f, i); !o.process.AutoMean {
				o.process.Mean, err = wantNumber(key, f, i, anyNumber)
			}
		case "standardize":
			o.Standardize, err = wantBool(key, f, i)
		case "seed":
			x, err = wantNumber(key, f, i, whole(0, 1<<53))
			o.Seed = uint64(x)
		case "time_limit":
			x, err = wantNumber(key, f, i, positive)
			o.TimeLimit = time.Duration(min(x, 1e9) * float64(time.Second))
		case "hash_bits":
			x, err = wantNumber(key, f, i, whole(1, 30))
			o.hashBits = int(x)
		case "max_features":
			x, err = wantNumber(key, f, i, whole(1, math.MaxUint32-1))
			o.maxFeatures = int(x)
		case "on_error":
			var w string
			w, err = wantOneOf(key, f, i, onErrorWords...)
			o.onError = errorMode(slices.Index(onErrorWords, w))
		}
		if err != nil {
			return nil, err
		}
	}
	if o.forgetting < 1 && (o.noise > 0 || o.noiseBy != nil || o.AutoNoise) {
		return nil, fmt.Errorf("options process_noise and forgetting are two models of drift; give one of them")
	}
	return o, o.adopt()
}

// adopt takes from the FIT to start from what was not given, and checks that
// what was given agrees with it.
func (o *options) adopt() error {
	f := o.from
	if f == nil {
		return nil
	}
	clash := func(key, found, want string) error {
		return fmt.Errorf("option %s: found %s, but the prior FIT has %s", key, found, want)
	}
	if len(f.Classes) == 0 {
		if o.family == "" && o.link == "" {
			o.family, o.link = f.Family, f.Link
		}
		l, err := o.likelihood()
		if err != nil {
			return err
		}
		if l.Family() != f.Family {
			return clash("family", l.Family(), f.Family+" "+f.Link)
		}
		if l.Link() != f.Link {
			return clash("link", l.Link(), f.Family+" "+f.Link)
		}
	}
	if !o.has["intercept"] {
		o.intercept = f.Intercept
	} else if o.intercept != f.Intercept {
		return clash("intercept", fmt.Sprint(o.intercept), fmt.Sprint(f.Intercept))
	}
	if !o.has["hash_bits"] {
		o.hashBits = f.HashBits
	} else if o.hashBits != f.HashBits {
		return clash("hash_bits", bitsText(o.hashBits), bitsText(f.HashBits))
	}
	if !o.has["dispersion"] || o.AutoDispersion {
		o.dispersion = f.Dispersion
	}
	if !o.has["shape"] || o.AutoShape {
		o.shape = f.Shape
	}
	if !o.has["prior_mean"] {
		o.prior.Mean = f.Prior.Mean
	}
	if !o.has["prior_variance"] || o.AutoPrior {
		o.prior.Variance = f.Prior.Variance
	}
	if !o.has["intercept_variance"] {
		o.prior.InterceptVariance = f.Prior.InterceptVariance
	}
	return nil
}

func (o *options) params() lik.Params {
	return lik.Params{Dispersion: o.dispersion, Shape: o.shape, Quadrature: o.quadrature}
}

// likelihood makes the likelihood; unknown names get the nearest known one.
func (o *options) likelihood() (lik.Likelihood, error) {
	var families, links []string
	for _, f := range lik.Families() {
		families = append(families, f.Family)
		if o.family == "" || o.family == f.Family {
			for _, l := range f.Links {
				if !slices.Contains(links, l) {
					links = append(links, l)
				}
			}
		}
	}
	check := func(key, found string, known []string) error {
		if found == "" || slices.Contains(known, found) {
			return nil
		}
		where := ""
		if key == "link" && o.family != "" {
			where = " for " + o.family
		}
		msg := fmt.Sprintf("option %s: found '%s'; allowed%s: %s", key, found, where, strings.Join(known, ", "))
		if n := nearest(found, known); n != "" {
			msg += "; the nearest is " + n
		}
		return errors.New(msg)
	}
	if err := check("family", o.family, families); err != nil {
		return nil, err
	}
	if err := check("link", o.link, links); err != nil {
		return nil, err
	}
	l, err := lik.New(o.family, o.link, o.params())
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"dispersion", "shape"} {
		if o.has[key] && !familyHas(l.Family(), key) {
			return nil, fmt.Errorf("option %s is not used by %s; it belongs to: %s", key, l.Family(), strings.Join(familiesWith(key), ", "))
		}
	}
	if math.IsNaN(o.shape) && familyHas(l.Family(), "shape") {
		o.shape = 1
		if l.Family() == "studentt" {
			o.shape = 4
		}
	}
	return l, nil
}

func familiesWith(parameter string) []string {
	var out []string
	for _, f := range lik.Families() {
		if slices.Contains(f.Parameters, parameter) {
			out = append(out, f.Family)
		}
	}
	return out
}

func familyHas(family, parameter string) bool {
	return slices.Contains(familiesWith(parameter), family)
}

// readAt reads LIST(BELIEF) or MAP(VARCHAR, number).
func readAt(v *capi.Vec, i int) ([]kernels.Belief, error) {
	if v.Type == capi.Map && len(v.Kids[0].Kids) == 2 && v.Kids[0].Kids[0].Type == capi.Varchar && v.Kids[0].Kids[1].IsNumber() {
		key, val := &v.Kids[0].Kids[0], &v.Kids[0].Kids[1]
		var out []kernels.Belief
		for j, hi := v.Span(i); j < hi; j++ {
			b := kernels.Belief{Feature: strings.Clone(key.Str(j))}
			if b.Mean = nan; !val.Null(j) {
				b.Mean = val.Float(j)
			}
			if !finite(b.Mean) {
				return nil, fmt.Errorf("option at: feature %q has %s; allowed: a finite number", b.Feature, show(val, j))
			}
			out = append(out, b)
		}
		return out, nil
	}
	if _, err := newBeliefReader(v); err != nil {
		return nil, badOption("at", show(v, i))
	}
	out, err := readBeliefs(v, i)
	if err != nil {
		return nil, fmt.Errorf("option at: %w", err)
	}
	return out, nil
}

// label is a class as text: numbers as they print, BOOLEAN as true and false.
func label(v *capi.Vec, i int) (string, error) {
	switch {
	case v.Type == capi.Varchar:
		return strings.Clone(v.Str(i)), nil
	case v.Type == capi.Boolean:
		return strconv.FormatBool(v.Bool(i)), nil
	case v.Type == capi.Enum:
		return strings.Clone(v.EnumText(v.EnumCode(i))), nil
	case v.IsInteger():
		return string(v.AppendInt(nil, i)), nil
	case v.IsNumber():
		if x := v.Float(i); finite(x) {
			return number(x), nil
		}
		return "", badValue{fmt.Errorf("class = %v; allowed: finite numbers, text, BOOLEAN", v.Float(i))}
	}
	return "", fmt.Errorf("a class is %s; allowed: VARCHAR, ENUM, BOOLEAN or a number", v.TypeName())
}

func readNoise(v *capi.Vec, i int) (map[string]float64, error) {
	kv := v.Kids[0].Kids
	if len(kv) != 2 || kv[0].Type != capi.Varchar || !kv[1].IsNumber() {
		return nil, badOption("process_noise", v.TypeName())
	}
	out := map[string]float64{}
	for j, hi := v.Span(i); j < hi; j++ {
		if kv[1].Null(j) {
			continue
		}
		q := kv[1].Float(j)
		name := strings.Clone(kv[0].Str(j))
		if !finite(q) || q < 0 {
			return nil, fmt.Errorf("option process_noise: feature %q has %v; allowed: a finite number >= 0", name, q)
		}
		out[name] = q
	}
	return out, nil
}

// ---- columns that vary by row ---------------------------------------------------

type rowColumns struct{ weight, offset, trials, time *capi.Vec }

// findRowColumns looks for weight, offset, trials and time among the fields of a
// STRUCT: the options, or the rows of bglm_update; what names which.
func findRowColumns(v *capi.Vec, what string) (rowColumns, error) {
	var c rowColumns
	if v == nil || v.Type != capi.Struct {
		return c, nil
	}
	for k := range v.Kids {
		f := &v.Kids[k]
		if f.Type == capi.SQLNull {
			continue // a NULL literal: the default
		}
		number := f.IsNumber()
		var to **capi.Vec
		switch strings.ToLower(f.Name) {
		case "weight":
			to = &c.weight
		case "offset":
			to = &c.offset
		case "trials":
			to = &c.trials
		case "time":
			to = &c.time
			switch f.Type {
			case capi.Date, capi.Timestamp, capi.TimestampS, capi.TimestampMS, capi.TimestampNS, capi.TimestampTZ:
				number = true
			}
		default:
			continue
		}
		if !number {
			key := strings.ToLower(f.Name)
			return c, fmt.Errorf("%s %s: found %s; allowed: %s", what, key, f.TypeName(), optionDocOf(key).allowed)
		}
		*to = f
	}
	return c, nil
}

// null reports whether a column that decides about row i is NULL there.
func (c *rowColumns) null(i int) bool {
	return c.weight != nil && c.weight.Null(i) || c.offset != nil && c.offset.Null(i) ||
		c.trials != nil && c.trials.Null(i) || c.time != nil && c.time.Null(i)
}

// days is entry i of a time column: a number as it stands, dates and timestamps
// in days since 1970.
func days(v *capi.Vec, i int) float64 {
	unit := 0.0
	switch v.Type {
	case capi.Date:
		if d := v.Int64(i); d == math.MaxInt32 || d == -math.MaxInt32 {
			return math.Inf(int(d))
		}
		return float64(v.Int64(i))
	case capi.TimestampS:
		unit = 86400
	case capi.TimestampMS:
		unit = 86400e3
	case capi.Timestamp, capi.TimestampTZ:
		unit = 86400e6
	case capi.TimestampNS:
		unit = 86400e9
	default:
		return v.Float(i)
	}
	t := v.Int64(i)
	if t == math.MaxInt64 || t == -math.MaxInt64 {
		return math.Inf(1)
	}
	return float64(t) / unit
}

// add appends row i's values to the batch. Errors concern the row only.
func (c *rowColumns) add(i int, b *kernels.Batch) error {
	w, o, t := 1.0, 0.0, 0.0
	if c.weight != nil {
		if w = c.weight.Float(i); !finite(w) || w < 0 {
			return badValue{fmt.Errorf("weight = %v; allowed: a finite number >= 0", w)}
		}
	}
	if c.offset != nil {
		if o = c.offset.Float(i); !finite(o) {
			return badValue{fmt.Errorf("offset = %v; allowed: a finite number", o)}
		}
	}
	if c.time != nil {
		if t = days(c.time, i); !finite(t) {
			return badValue{fmt.Errorf("time = %v; allowed: a finite number, DATE or TIMESTAMP", t)}
		}
	}
	if c.weight != nil {
		b.Weight = append(b.Weight, w)
	}
	if c.offset != nil {
		b.Offset = append(b.Offset, o)
	}
	if c.trials != nil {
		b.Trials = append(b.Trials, c.trials.Float(i)) // the likelihood checks it
	}
	if c.time != nil {
		b.Time = append(b.Time, t)
	}
	return nil
}

// ---- one parse for equal options -------------------------------------------------

// optionCache spares parsing the same options for each of a million groups.
// Options of plain values are kept process-wide under their bytes; those that
// hold lists are kept for one call under the place the lists lie at.
type optionCache[T any] struct {
	all  sync.Map // string -> T
	size atomic.Int64
}

const optionCacheLimit = 1024

type callCache[T any] struct {
	shared *optionCache[T]
	prefix int // of key: the function's name
	key    []byte
	local  map[string]T
	last   string
	value  T
	ok     bool
}

// call returns the cache as one call of the function name sees it.
func (c *optionCache[T]) call(name string) *callCache[T] {
	return &callCache[T]{shared: c, prefix: len(name) + 1, key: append([]byte(name), 0)}
}

// get returns the parsed form of the options at row i.
func (c *callCache[T]) get(v *capi.Vec, i int, parse func() (T, error)) (T, error) {
	c.key = c.key[:c.prefix]
	plain := true
	if v != nil && v.Type == capi.Struct && !v.Null(i) {
		for k := range v.Kids {
			f := &v.Kids[k]
			c.key = append(append(c.key, f.Name...), 0)
			switch strings.ToLower(f.Name) {
			case "weight", "offset", "trials", "time": // vary by row; only their presence counts
				c.key = append(c.key, byte(f.Type))
				continue
			}
			c.key, plain = appendKey(c.key, f, i, plain)
		}
	} else if v != nil && v.Type != capi.SQLNull && !v.Null(i) {
		var zero T
		return zero, fmt.Errorf("options are %s; allowed: a STRUCT such as {link: 'probit'}", v.TypeName())
	}
	if c.ok && string(c.key) == c.last {
		return c.value, nil
	}
	key := string(c.key)
	if plain {
		if got, ok := c.shared.all.Load(key); ok {
			c.last, c.value, c.ok = key, got.(T), true
			return c.value, nil
		}
	} else if got, ok := c.local[key]; ok {
		c.last, c.value, c.ok = key, got, true
		return got, nil
	}
	got, err := parse()
	if err != nil {
		return got, err
	}
	if plain {
		if c.shared.size.Add(1) > optionCacheLimit {
			c.shared.all.Clear()
			c.shared.size.Store(1)
		}
		c.shared.all.Store(key, got)
	} else {
		if c.local == nil {
			c.local = map[string]T{}
		}
		c.local[key] = got
	}
	c.last, c.value, c.ok = key, got, true
	return got, nil
}

func appendKey(dst []byte, v *capi.Vec, i int, plain bool) ([]byte, bool) {
	dst = append(dst, byte(v.Type))
	if v.Null(i) {
		return append(dst, 0), plain
	}
	dst = append(dst, 1)
	switch {
	case v.Type == capi.Varchar:
		s := v.Str(i)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(s)))
		return append(dst, s...), plain
	case v.IsNumber() || v.Type == capi.Boolean:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float(i))), plain
	case v.Type == capi.Struct:
		for k := range v.Kids {
			dst = append(append(dst, v.Kids[k].Name...), 0)
			dst, plain = appendKey(dst, &v.Kids[k], i, plain)
		}
		return dst, plain
	case v.Type == capi.List || v.Type == capi.Map || v.Type == capi.Array:
		lo, hi := v.Span(i)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(uintptr(unsafe.Pointer(v))))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(lo))
		return binary.LittleEndian.AppendUint64(dst, uint64(hi)), false
	}
	return dst, false
}
