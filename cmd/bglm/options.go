package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bglm/bglm/cmd/internal/job"
	"github.com/bglm/bglm/kernels/argument"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/udf"
)

// byFlag rewords an error about an option for the flag that gave it, whose values are those of SQL.
func byFlag(err error) error {
	return argument.Reword(err, func(e *argument.Error) string {
		if option.Of(e.Name) == nil && e.Why != argument.Unknown {
			return e.Error()
		}
		c, name := option.InWords(*e, udf.OptionWords), "--option "+e.Name
		if own, _, ok := strings.Cut(job.OptionFlags[e.Name], " "); ok {
			name = own
		}
		return c.Named(name)
	})
}

// wordsOf are the words allowed for an option of a function.
func wordsOf(function, key string) []string {
	p, err := option.For(function).Find(key)
	if err != nil {
		panic(err) // it is in the list
	}
	return p.Words()
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
		fmt.Fprintf(&b, "  %-18s %s\n%21s%s; default %s; %s\n", p.Key, udf.Told(p.Doc), "", p.Allowed(udf.OptionWords), udf.Told(p.Default), by)
		for _, value := range slices.Sorted(maps.Keys(p.NotByArrow)) {
			fmt.Fprintf(&b, "%21snot '%s' with --engine arrow: %s\n", "", value, p.NotByArrow[value])
		}
	}
	return b.String()
}
