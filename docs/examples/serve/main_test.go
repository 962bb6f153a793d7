package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bglm/bglm/arrowio"
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/engine"
	"github.com/bglm/bglm/kernels/rows"
	"github.com/bglm/bglm/kernels/score"
)

func post(t *testing.T, url, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return answer(t, r)
}

func answer(t *testing.T, r *http.Response) (int, map[string]any) {
	t.Helper()
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r.StatusCode, out
}

// What is learnt changes what is predicted, and what is wrong is said.
func TestServe(t *testing.T) {
	u, err := score.NewUpdater(&kernels.Model{MaxFeatures: 100}, score.Publishing{Rows: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler(u))
	defer s.Close()
	const red = `{"rows": [{"names": ["ad=red"]}]}`
	_, before := post(t, s.URL+"/score", red)
	code, out := post(t, s.URL+"/learn", `{"rows": [{"names": ["ad=red"], "y": 1}, {"names": ["ad=red", "hour"], "values": [1, 0.5], "y": 1}]}`)
	if code != 200 || out["learnt"] != 2.0 {
		t.Fatal(code, out)
	}
	_, after := post(t, s.URL+"/score", red)
	p, q := before["predictions"].([]any)[0].(float64), after["predictions"].([]any)[0].(float64)
	if math.Abs(p-0.5) > 1e-9 || !(q > 0.6 && q < 1) || after["n"] != 2.0 {
		t.Errorf("%v, then %v", before, after)
	}
	r, err := http.Get(s.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if code, out := answer(t, r); code != 200 || out["n"] != 2.0 || out["features"] != 3.0 {
		t.Error(code, out)
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("%q", fmt.Sprint("f", i))
	}
	for _, c := range []struct {
		path, body string
		code       int
		want       string
	}{
		{"/score", `{"rows": [`, 400, "EOF"},
		{"/score", `{"row": []}`, 400, "unknown field"},
		{"/score", `{"rows": [{"names": ["a"], "values": [1, 2]}]}`, 400, "row 1: 1 names and 2 values"},
		{"/score", `{"rows": [{"names": ["a"], "values": [1e300]}]}`, 400, "row 1: the linear predictor"},
		{"/score", `{"rows": [{"names": ["a"], "values": [null]}]}`, 400, "row 1: the linear predictor"},
		{"/score", `{"rows": []} {`, 400, "more after the JSON value"},
		{"/learn", `{"rows": [{"names": ["a"]}]}`, 400, "row 1 has no y"},
		{"/learn", `{"rows": [{"names": ["a"], "y": 1, "weight": 0}]}`, 400, "row 1 has weight 0"},
		{"/learn", `{"rows": [{"names": ["a"], "values": [null], "y": 1}]}`, 400, "row 1: its values"},
		{"/learn", `{"rows": [{"names": ["a"], "y": 3}]}`, 400, "row 1: y = 3"},
		{"/learn", `{"rows": [{"names": [` + strings.Join(many, ",") + `], "y": 1}]}`, 400, "more than max_features"},
		{"/learn", `{"rows": [{"names": ["` + strings.Repeat("a", bodyLimit) + `"], "y": 1}]}`, 413, "the body is over"},
	} {
		if code, out := post(t, s.URL+c.path, c.body); code != c.code || !strings.Contains(fmt.Sprint(out["error"]), c.want) {
			t.Errorf("%s %.60s: %d %v, want %d %q", c.path, c.body, code, out, c.code, c.want)
		}
	}
}

// A value that is null is missing, for scoring and for learning.
func TestNull(t *testing.T) {
	var year, y []float64
	for i := range 200 {
		year, y = append(year, float64(2000+i%7)), append(y, float64(i*i%7%2))
	}
	r, err := engine.Fit(t.Context(), "adf", nil, &rows.Table{X: rows.Fields(rows.Numbers("year", year)), Y: rows.Numbers("y", y)})
	if err != nil {
		t.Fatal(err)
	}
	u, err := score.NewUpdater(&kernels.Model{Start: r.Fit}, score.Publishing{Rows: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler(u))
	defer s.Close()
	predicted := func() (out [3]float64) {
		for k, row := range []string{`{"names": ["year"], "values": [null]}`, `{"names": ["year IS NULL"]}`, `{"names": ["year"], "values": [2000]}`} {
			code, answer := post(t, s.URL+"/score", `{"rows": [`+row+`]}`)
			if code != 200 {
				t.Fatal(code, answer)
			}
			out[k] = answer["predictions"].([]any)[0].(float64)
		}
		return out
	}
	before := predicted()
	if code, out := post(t, s.URL+"/learn", `{"rows": [{"names": ["year"], "values": [null], "y": 1, "weight": 100}]}`); code != 200 {
		t.Fatal(code, out)
	}
	after := predicted()
	if before[0] != before[1] || after[0] != after[1] {
		t.Errorf("null and IS NULL: %v, %v", before, after)
	}
	if !(after[0] > 0.9) || math.Abs(after[2]-before[2]) > 0.1 {
		t.Errorf("%v, after rows whose year is missing %v", before, after)
	}
}

// The server starts from a table in Parquet and ends with its context.
func TestRun(t *testing.T) {
	f, err := kernels.FromBeliefs([]kernels.Belief{{Feature: "ad=red", Weight: kernels.Weight{Mean: 2, Variance: 0.1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "beliefs.parquet")
	if err := arrowio.WriteParquetFile(path, f); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	go func() { done <- run(ctx, address, path, 1000, score.Publishing{}) }()
	var out map[string]any
	for end := time.Now().Add(20 * time.Second); out == nil; time.Sleep(5 * time.Millisecond) {
		r, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			_, out = answer(t, r)
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if out["features"] != 2.0 {
		t.Error(out)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server goes on")
	}
	if run(t.Context(), address, "missing.parquet", 1, score.Publishing{}) == nil {
		t.Error("no such table")
	}
}
