package export_test

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/export"
	"github.com/bglm/bglm/kernels/lik"
	"github.com/bglm/bglm/kernels/predict"
)

// A count of visits by weekday, to be predicted inside SQLite.
func ExampleSQL() {
	poisson, err := lik.New("poisson", "", lik.Params{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fit, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "rain", Weight: kernels.Weight{Mean: -0.5}}}, &kernels.Model{Lik: poisson, NoIntercept: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := export.SQL(fit, "sqlite", export.Options{Table: "days", Keep: []string{"day"}, Prediction: predict.Plugin})
	fmt.Println(text[:strings.Index(text, ",\n")], err)
	// Output:
	// SELECT "day", bglm_m AS eta_mean, bglm_v AS eta_variance <nil>
}
