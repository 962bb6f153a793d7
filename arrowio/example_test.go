package arrowio_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/kernels/score"
)

// Records of a site and an answer become a posterior, by adf unless another method is
// named.
func ExampleFit() {
	schema := arrow.NewSchema([]arrow.Field{{Name: "click", Type: arrow.FixedWidthTypes.Boolean}, {Name: "site", Type: arrow.BinaryTypes.String}}, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema,
		strings.NewReader(`[{"click": true, "site": "a"}, {"click": false, "site": "b"}, {"click": true, "site": "a"}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rec.Release()
	r, err := array.NewRecordReader(schema, []arrow.RecordBatch{rec})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Release()
	f, err := arrowio.Fit(context.Background(), r, arrowio.Job{Y: "click", Terms: []arrowio.Term{{"site"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range f.Beliefs {
		fmt.Printf("%-11s  N(%.3f, %.3f)\n", b.Feature, b.Mean, b.Variance)
	}
	// Output:
	// (Intercept)  N(0.791, 2.275)
	// site=a       N(0.493, 0.873)
	// site=b       N(-0.413, 0.923)
}

// A belief table in Parquet, read back and served.
func ExampleReadParquet() {
	f, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "site=a", Weight: kernels.Weight{Mean: 2, Variance: 0.3}}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var file bytes.Buffer
	if err := arrowio.WriteParquet(&file, f); err != nil {
		fmt.Println(err)
		return
	}
	if f, err = arrowio.ReadParquet(bytes.NewReader(file.Bytes()), int64(file.Len()), nil); err != nil {
		fmt.Println(err)
		return
	}
	s, err := score.New(f)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := s.Predict(score.Row{Names: []string{"site=a"}}, predict.Plugin)
	fmt.Printf("%.3f %v\n", p, err)
	// Output:
	// 0.881 <nil>
}
