package udf

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/memory"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/udf/internal/capi"
)

// hostSettings are the options of SET. They apply to the whole process, as what they control does;
// the default is 'auto'.
var hostSettings = []capi.Setting{
	{Name: "bglm_max_memory", Set: setMemory,
		Description: "bglm's memory budget, such as '4GB'; for the process. 'auto' is 3/8 of the memory, or BGLM_MAX_MEMORY of the environment"},
	{Name: "bglm_threads", Set: setThreads,
		Description: "how many processors bglm uses at once (Go's GOMAXPROCS); for the process. 'auto' is all of them, or GOMAXPROCS of the environment"},
	{Name: "bglm_row_budget", Set: setRowBudget,
		Description: "default of the option row_budget of bglm_fit; for the process. 'auto' is " + strconv.Itoa(engine.DefaultRowBudget)},
}

// auto reports whether text stands for the default.
func auto(text string) bool {
	return strings.EqualFold(strings.TrimSpace(text), "auto") || strings.EqualFold(strings.TrimSpace(text), "default")
}

func setMemory(text string) error {
	if auto(text) {
		memory.SetLimit(memory.Default())
		return nil
	}
	n, err := memory.Parse(text)
	if err != nil {
		return fmt.Errorf("%w, or 'auto'", err)
	}
	memory.SetLimit(n)
	return nil
}

// whole reads a whole number from 1 to most.
func whole(text string, most float64) (int, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(x >= 1 && x <= most) || x != float64(int(x)) {
		return 0, fmt.Errorf("found %q; allowed: a whole number from 1 to %.0f, or 'auto'", text, most)
	}
	return int(x), nil
}

// processors is GOMAXPROCS as it was when the process began.
var processors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

func setThreads(text string) error {
	n := processors()
	if !auto(text) {
		var err error
		if n, err = whole(text, 1024); err != nil {
			return err
		}
	}
	if n != runtime.GOMAXPROCS(0) { // a call stops the world
		runtime.GOMAXPROCS(n)
	}
	return nil
}

var givenRowBudget atomic.Int64 // 0 is engine.DefaultRowBudget

func rowBudget() int {
	if n := givenRowBudget.Load(); n > 0 {
		return int(n)
	}
	return engine.DefaultRowBudget
}

func setRowBudget(text string) error {
	if auto(text) {
		givenRowBudget.Store(0)
		return nil
	}
	n, err := whole(text, 1<<40)
	if err == nil {
		givenRowBudget.Store(int64(n))
	}
	return err
}

// ---- checks of constant arguments when a call is planned -----------------------------

func checkHow(v *capi.Vec) error {
	how, err := newHow([]capi.Vec{2: *v})
	if err == nil {
		_, err = how.kind(0)
	}
	return err
}

func checkLevel(v *capi.Vec) error {
	level, err := levelArgument([]capi.Vec{*v}, 0)
	if err == nil {
		err = predict.CheckLevel(level.at(0))
	}
	return err
}

// checkSummary checks the level of bglm_summary, or its options.
func checkSummary(v *capi.Vec) error {
	if v.Type == capi.Struct {
		_, err := optionsAt("summary", v, 0)
		return err
	}
	return checkLevel(v)
}

func checkFromBeliefs(v *capi.Vec) error {
	o, err := optionsAt("from_beliefs", v, 0)
	if err == nil {
		err = o.Likelihood()
	}
	return err
}

func checkFeatures(v *capi.Vec) error {
	_, err := optionsAt("features", v, 0)
	return err
}

func checkSolving(v *capi.Vec) error {
	_, err := solvingAt(v, 0)
	return err
}

// checkContinuing checks options that some method accepts for continuing a fit.
func checkContinuing(v *capi.Vec) error {
	if err := checkOptions(v, "{process_noise: 0.001}"); err != nil {
		return err
	}
	var first error
	for _, m := range engine.Methods() {
		if !m.Streams {
			continue
		}
		_, err := option.For(m.Name).Continuing().Decode(constants(v, 0, false))
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// moreMemory adds to an error of too little memory how to allow more.
func moreMemory(err error) error {
	if errors.Is(err, memory.ErrLimit) && capi.Settable() {
		return fmt.Errorf("%w; so does SET bglm_max_memory = 'SIZE'", err)
	}
	return err
}
