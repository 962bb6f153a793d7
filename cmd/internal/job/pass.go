package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/laplace"
	"github.com/bglm/bglm/kernels/option"
)

// sampleRows is the least number of rows in the sample whose fit the first pass expands around:
// more if these have fewer than sampleEntries entries, up to three times as many.
const sampleRows, sampleEntries = 100_000, 2_000_000

// priorKeys are options that give a prior, so that none is learnt unasked (Settings.PriorGiven).
var priorKeys = []string{"prior_mean", "prior_variance", "intercept_variance", "priors", "prior"}

// integrating are options about what is integrated out.
var integrating = []string{"integrate", "sd_scale", "sd_freedom", "dispersion_scale", "dispersion_freedom"}

// Chained reports whether a pass continues from the merged state of the one before, which is then
// in the table around, instead of from its fit.
func (j *Job) Chained() bool {
	p := j.passes()
	return p != nil && p.Chained
}

// passes describes the passes of the method, nil if it has none.
func (j *Job) passes() *engine.Passes {
	if m, err := engine.Find(j.Method); err == nil {
		return m.Passes
	}
	return nil
}

// sites is the option of passes that names their method.
const sites = "method"

// CheckPasses reports a job that cannot be fitted by passes over rows that are not kept, and sets
// what method 'auto' asks of laplace: to learn prior variances if no prior is given.
func (j *Job) CheckPasses() error {
	var names []string
	for _, m := range engine.Passing() {
		names = append(names, m.Name)
	}
	asked := j.Method
	if asked == engine.Auto {
		j.Method = names[0]
	}
	p := j.passes()
	if p == nil {
		last := len(names) - 1
		return cli.Usage(fmt.Errorf("--method %s: passes are %s's and %s's; allowed: %s", j.Method, strings.Join(names[:last], "'s, "), names[last], strings.Join(names, ", ")))
	}
	full := func(o Setting) bool {
		return o.Key == "covariance" && strings.Trim(strings.ToLower(o.SQL), "'") == p.Covariance
	}
	if p.Covariance != "" { // there is no other form here
		j.Options = slices.DeleteFunc(j.Options, full)
	}
	allowed := option.For("newton_state").Without("around", sites)
	for _, o := range j.Options {
		if _, err := allowed.Find(o.Key); err != nil {
			if err := j.termError(o.Key, " is not used here"); err != nil {
				return err
			}
			return cli.Usage(err)
		}
	}
	if !p.Default {
		j.set(sites, "'"+j.Method+"'")
		j.Meta = append(j.Meta, sites, j.Method)
		return nil
	}
	given := func(o Setting) bool { return slices.Contains(priorKeys, o.Key) }
	if asked == engine.Auto && !slices.ContainsFunc(j.Options, given) {
		j.set("prior_variance", "'auto'")
		j.Meta = append(j.Meta, "option.prior_variance", "auto")
	}
	return nil
}

// Constants is the STRUCT of the options that do not vary by row.
func (j *Job) Constants() string {
	return j.OptionsOf(func(key string) bool { return !slices.Contains(RowKeys, key) })
}

// Sample creates the table sample with rows drawn from those of src, and the table around with its
// fit at the mode.
func (j *Job) Sample(src *Source) error {
	k, err := j.entries(src)
	if err != nil {
		return err
	}
	rows := int(min(max(sampleRows, sampleEntries/k), 3*sampleRows))
	err = j.s.Long("drawing a sample", fmt.Sprintf("CREATE OR REPLACE TEMP TABLE sample AS FROM (FROM (%s) USING SAMPLE reservoir(%d ROWS) REPEATABLE (1)) q", j.Inner(src.Rows()), rows))
	if err == nil {
		err = j.s.Long("fitting a sample", fmt.Sprintf("CREATE OR REPLACE TEMP TABLE around AS SELECT bglm_laplace(bglm_y, bglm_x, %s) AS fit FROM sample",
			j.sampling()))
	}
	if err != nil {
		return j.locate(src, err)
	}
	return nil
}

// sampling are the options of a sample's fit, Laplace's at the mode.
func (j *Job) sampling() string {
	return j.OptionsOf(func(key string) bool { return !slices.Contains(integrating, key) && key != sites }, Setting{Key: "integrate", SQL: "false"})
}

// passCost and solveCost are the nanoseconds for a row in a pass, and for a step per cubed number
// of weights: a step on a sample must be cheaper, worth times, than the pass that it may save.
const (
	passCost, solveCost = 400, 0.1
	worth               = 8
)

// RefineOnSample moves the table fits, the step after a pass around the fit in the table around,
// nearer to the mode: by steps that take from the table sample what the likelihood has beyond the
// parabola of the pass, if these are cheap compared to a pass. A step that fails is ignored. There
// are none if prior variances are learnt, which a sample's curvature would mislead, nor for sites
// of ep.
func (j *Job) RefineOnSample(steps int, solve func() error) error {
	all, err := j.state("FROM pass")
	if err != nil {
		return err
	}
	rows, _ := all.Counts()
	p := float64(all.Weights())
	if all.Learns() || all.Sites() || float64(rows)*passCost < worth*solveCost*p*p*p {
		return nil
	}
	sampled := func(around string) (*laplace.Pass, error) {
		return j.state("SELECT bglm_newton_state(bglm_y, bglm_x, " + j.OptionsText(Setting{Key: "around", SQL: "(SELECT fit FROM " + around + ")"}) + ") AS state FROM sample")
	}
	here, err := sampled("around")
	if err != nil {
		return err
	}
	some, _ := here.Counts()
	for range steps {
		there, err := sampled("fits")
		if err == nil {
			there, err = all.Toward(j.s.Ctx, there, here, float64(rows)/float64(max(some, 1)))
		}
		if err == nil {
			if err = j.s.Exec("CREATE OR REPLACE TEMP TABLE pass (state BLOB)"); err == nil {
				err = j.s.Exec("INSERT INTO pass VALUES (?)", there.Bytes())
			}
		}
		if err == nil {
			err = solve()
		}
		if err != nil {
			return j.s.Ctx.Err() // the step before is still valid
		}
	}
	return nil
}

// state is the state that a query returns.
func (j *Job) state(query string) (*laplace.Pass, error) {
	var b []byte
	if err := j.s.Row(query, &b); err != nil {
		return nil, err
	}
	return laplace.DecodePass(b)
}

// Pass creates the table pass: the state of a pass over the rows of src, around the fit (if
// Chained, the state) in the table around if that exists, and the options to solve it.
func (j *Job) Pass(src *Source, what string, around bool) error {
	var more []Setting
	if around {
		from := "fit"
		if j.Chained() {
			from = "[state]" // a list is not copied for each chunk of rows
		}
		more = append(more, Setting{Key: "around", SQL: "(SELECT " + from + " FROM around)"})
	}
	err := j.s.Long(what, "CREATE OR REPLACE TEMP TABLE pass AS SELECT bglm_newton_state(bglm_y, bglm_x, "+j.OptionsText(more...)+") AS state FROM ("+j.Inner(src.Rows())+") q")
	if err != nil {
		return j.locate(src, err)
	}
	return nil
}
