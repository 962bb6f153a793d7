package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/job"
)

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
		switch {
		case len(uses) == len(methods):
			by = "every method"
		case len(uses) > len(methods)-3:
			without := slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return slices.Contains(uses, m) })
			by = "every method but " + strings.Join(without, ", ")
		}
		fmt.Fprintf(&b, "  %-18s %s\n%21s%s; default %s; %s\n", p.Key, p.Doc, "", p.Allowed, p.Default, by)
		if p.ArrowRefuses != "" {
			fmt.Fprintf(&b, "%21snot '%s' with --engine arrow: %s\n", "", p.ArrowRefuses, p.ArrowReason)
		}
	}
	return b.String()
}
