package job

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/kernels/engine"
)

// sampleRows is how many rows the fit is of that the first pass looks around.
const sampleRows = 100_000

// priorKeys are options that give a prior.
var priorKeys = []string{"prior_mean", "prior_variance", "intercept_variance"}

// CheckPasses reports a job that is not fitted by passes over rows that are not kept, and says
// what method 'auto' asks of laplace: prior variances that are learnt where no prior is given.
func (j *Job) CheckPasses() error {
	switch {
	case len(j.Group) > 0:
		return cli.Usage(errors.New("--group: one fit at a time goes by passes; groups fit memory one by one"))
	case j.Method != engine.Auto && j.Method != "laplace":
		return cli.Usage(fmt.Errorf("--method %s: passes are laplace's; allowed: laplace", j.Method))
	}
	given := func(o Setting) bool { return slices.Contains(priorKeys, o.Key) }
	if j.Method == engine.Auto && !slices.ContainsFunc(j.Options, given) {
		j.set("prior_variance", "'auto'")
		j.Meta = append(j.Meta, "option.prior_variance", "auto")
	}
	j.Method = "laplace"
	return nil
}

// Constants is the STRUCT of the options that are the same in all rows.
func (j *Job) Constants() string {
	return j.OptionsOf(func(key string) bool { return !slices.Contains(RowKeys, key) })
}

// Sample makes the table around, the fit of rows drawn from those of src, at the mode.
func (j *Job) Sample(src *Source) error {
	err := j.s.Long("fitting a sample", fmt.Sprintf("CREATE OR REPLACE TEMP TABLE around AS SELECT bglm_laplace(bglm_y, bglm_x, %s) AS fit FROM (FROM (%s) USING SAMPLE reservoir(%d ROWS) REPEATABLE (1)) q",
		j.OptionsOf(func(key string) bool { return key != "integrate" }, Setting{"integrate", "false"}), j.Inner(src.Rows()), sampleRows))
	if err != nil {
		return j.locate(src, err)
	}
	return nil
}

// Pass makes the table pass: the state of a pass over the rows of src around the fit of the
// table around, where that is there, and the options to solve it.
func (j *Job) Pass(src *Source, what string, around bool) error {
	var more []Setting
	if around {
		more = append(more, Setting{"around", "(SELECT fit FROM around)"})
	}
	err := j.s.Long(what, "CREATE OR REPLACE TEMP TABLE pass AS SELECT bglm_newton_state(bglm_y, bglm_x, "+j.OptionsText(more...)+") AS state FROM ("+j.Inner(src.Rows())+") q")
	if err != nil {
		return j.locate(src, err)
	}
	return nil
}
