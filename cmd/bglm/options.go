package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/udf"
)

// byFlag is an error about an option in terms of the flag that it came by, whose values
// are those of SQL.
func byFlag(err error) error {
	return argument.Reword(err, func(e *argument.Error) string {
		if option.Of(e.Name) == nil && e.Why != argument.Unknown {
			return e.Error()
		}
		c, name := option.InWords(*e, udf.OptionWords), "--option "+e.Name
		if own, _, ok := strings.Cut(job.OwnFlags[e.Name], " "); ok {
			name = own
		}
		return c.Named(name)
	})
}

// optionHelp lists the options of bglm fit, two lines each.
func optionHelp() string {
	var b strings.Builder
	methods := job.MethodNames()
	for _, p := range job.FitOptions() {
		var uses []string
		for _, m := range methods {
			if strings.Contains(p.Uses, " "+m+" ") {
				uses = append(uses, m)
			}
		}
		by := strings.Join(uses, ", ")
		without := slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return m == engine.Auto || slices.Contains(uses, m) })
		switch {
		case len(without) == 0:
			by = "every method"
		case len(without) < 3:
			by = "every method but " + strings.Join(without, ", ")
		}
		fmt.Fprintf(&b, "  %-18s %s\n%21s%s; default %s; %s\n", p.Key, p.Doc, "", p.Allowed(udf.OptionWords), p.Default, by)
		if not := job.NotByArrow; p.Key == not.Key {
			fmt.Fprintf(&b, "%21snot '%s' with --engine arrow: %s\n", "", not.Value, not.Why)
		}
	}
	return b.String()
}
