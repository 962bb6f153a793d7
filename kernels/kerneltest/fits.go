package kerneltest

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// FitFolders are the folders of testdata/fits, one for each layout of a FIT.
func FitFolders(t testing.TB) []string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(here), "..", "..", "testdata", "fits", "[0-9]*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no folders of fits: %v", err)
	}
	return found
}

// FitAnswers is the table answers.csv of such a folder, by name and what, joined by a
// blank: what each fit must answer for ever.
func FitAnswers(t testing.TB, folder string) map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, "answers.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range rows[1:] {
		out[r[0]+" "+r[1]] = r[2] + " " + r[3]
	}
	return out
}

var numeral = regexp.MustCompile(`-?\d+(\.\d+)?(e[-+]?\d+)?`)

// SameAnswer compares two texts, the numbers in them to tol relative to the larger of
// the number and 1e-3: instructions that round once for two operations differ so much.
func SameAnswer(got, want string, tol float64) error {
	if a, b := numeral.ReplaceAllString(got, "#"), numeral.ReplaceAllString(want, "#"); a != b {
		return fmt.Errorf("got %.300s, want %.300s", got, want)
	}
	a, b := numeral.FindAllString(got, -1), numeral.FindAllString(want, -1)
	for k := range b {
		x, _ := strconv.ParseFloat(a[k], 64)
		y, err := strconv.ParseFloat(b[k], 64)
		if err != nil || math.Abs(x-y) > tol*math.Max(math.Abs(y), 1e-3) {
			return fmt.Errorf("number %d is %s, want %s, of %.300s", k+1, a[k], b[k], want)
		}
	}
	return nil
}

// Answer is a row of FitAnswers as text.
func Answer(numbers []float64, text string) string {
	parts := make([]string, len(numbers))
	for k, x := range numbers {
		parts[k] = strconv.FormatFloat(x, 'g', -1, 64)
		switch {
		case math.IsNaN(x):
			parts[k] = "NULL"
		case !strings.ContainsAny(parts[k], ".e"):
			parts[k] += ".0"
		}
	}
	return "[" + strings.Join(parts, ", ") + "] " + text
}
