package answer_test

import (
	"context"
	"fmt"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/answer"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/rows"
)

// Does the site say anything beyond the hour? The two fits predict each row from the others.
func ExampleCompare() {
	hour := rows.Numbers("hour", []float64{1, 2, 3, 4, 5, 6, 7, 8})
	site := rows.Texts("site", []string{"a", "b", "a", "b", "a", "b", "b", "a"})
	click := rows.Bools("click", []bool{false, false, true, false, true, true, true, true})
	var fits []*answer.LOO
	for _, x := range []*rows.Slice{rows.Fields(hour), rows.Fields(hour, site)} {
		r, err := engine.Fit(context.Background(), "laplace", option.Defaults(), &rows.Table{X: x, Y: click})
		if err != nil {
			fmt.Println(err)
			return
		}
		l, err := answer.NewLOO(r.Fit, engine.FactorOf(r.Method), true)
		if err != nil {
			fmt.Println(err)
			return
		}
		e := rows.NewScoring(x, "x", rows.Words{})
		src := rows.Source{X: e, Y: click}
		var b kernels.Batch
		if _, err := src.Score(r.Fit, l.Features(), 0, click.Len(), &b); err != nil {
			fmt.Println(err)
			return
		}
		if err := l.Add(context.Background(), &b); err != nil {
			fmt.Println(err)
			return
		}
		fits = append(fits, l)
	}
	all, err := answer.Compare([]string{"hour", "hour and site"}, fits)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range all {
		fmt.Printf("%-13s  elpd %.2f  difference %.2f ± %.2f  weight %.2f\n", c.Name, c.ELPD, c.Diff, c.SEDiff, c.Weight)
	}
	// Output:
	// hour and site  elpd -4.44  difference 0.00 ± 0.00  weight 1.00
	// hour           elpd -4.52  difference -0.08 ± 0.38  weight 0.00
}
