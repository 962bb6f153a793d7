package engine_test

import (
	"slices"
	"testing"

	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/rows"
)

// Lists among fields have the name that Named gives them, Fields among them are an interaction, as
// in SQL.
func TestNamedLists(t *testing.T) {
	tags := rows.Lists([][]string{{"a"}, {"b"}, {"a", "b"}, nil})
	site := rows.Texts("site", []string{"x", "y", "x", "y"})
	u := rows.Numbers("u", []float64{1, 2, 3, 5})
	r, err := engine.Fit(t.Context(), "laplace", nil, &rows.Table{
		X: rows.Fields(tags.Named("tag"), tags.Named("other"), rows.Fields(site, u).Named("both")),
		Y: rows.Bools("y", []bool{true, false, true, false})})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range r.Beliefs {
		names = append(names, b.Feature)
	}
	if want := []string{"(Intercept)", "both=x", "both=y", "other=a", "other=b", "tag=a", "tag=b"}; !slices.Equal(names, want) {
		t.Errorf("features %q, want %q", names, want)
	}
	if tags.Name() != "" {
		t.Errorf("Named named its receiver %q", tags.Name())
	}
}
